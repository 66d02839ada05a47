//! Boots a machine file and runs a command in it: `labrun MACHINE.toml COMMAND...`.

use std::process::ExitCode;

use peerlane_fabric::{
    Acs, BridgeId, Cpu, Fabric, Function, FunctionId, HostBridge, IommuMode, Kernel, Kind, LabBoot,
    LabDrive, Namespace, NvmeController, Origin, P2pMem, Parent, QueueLimits,
};
use peerlane_lab::{Options, find_kernel, find_qemu};
use peerlane_units::Bytes;

fn function(name: &str, parent: Parent, kind: Kind) -> Function {
    Function {
        name: name.to_owned(),
        address: None,
        parent,
        kind,
        vendor: None,
        device: None,
        class: None,
        link: None,
        acs: Acs::Unknown,
        numa_node: None,
        iommu_group: None,
        driver: None,
        p2pmem: None,
        nvme: None,
        lab: LabDrive::default(),
    }
}

fn machine() -> Fabric {
    let below = |index| Parent::Function(FunctionId(index));
    let mut functions = vec![
        function("root", Parent::Bridge(BridgeId(0)), Kind::RootPort),
        function("up", below(0), Kind::UpstreamPort),
    ];
    for (index, name) in ["a", "b", "c"].iter().enumerate() {
        functions.push(function(&format!("down-{name}"), below(1), Kind::DownstreamPort));
        let mut drive = function(name, below(2 + 2 * index), Kind::Nvme);
        let namespace = Namespace {
            name: None,
            nsid: None,
            size: Bytes::mib(64),
            limits: QueueLimits::default(),
            partitions: Vec::new(),
        };
        drive.nvme = Some(NvmeController { namespaces: vec![namespace], ..Default::default() });
        if *name == "c" {
            let size = Bytes::mib(64);
            drive.p2pmem = Some(P2pMem { size, available: size, published: true });
        }
        functions.push(drive);
    }
    Fabric {
        name: "switch".to_owned(),
        origin: Origin::Description,
        kernel: Kernel::default(),
        cpu: Cpu::default(),
        iommu: IommuMode::Off,
        bridges: vec![HostBridge { name: "pci0".to_owned(), numa_node: None }],
        functions,
        lab: Some(LabBoot::default()),
    }
}

fn main() -> ExitCode {
    if peerlane_lab::is_guest() {
        return peerlane_lab::guest_main();
    }
    let options = Options {
        machine: machine(),
        drives: std::env::var("DRIVE_A").map(|p| ("a".to_owned(), p.into())).into_iter().collect(),
        dma: std::env::var_os("DMA").map(Into::into),
        out: std::env::var_os("OUT_DIR").map(Into::into),
        command: std::env::args_os().skip(1).collect(),
        shell: std::env::args_os().len() == 1,
        kernel: find_kernel(None).expect("kernel"),
        qemu: find_qemu().expect("qemu"),
        program: std::env::current_exe().expect("program"),
        timeout: Options::DEFAULT_TIMEOUT,
        console: std::env::var_os("CONSOLE").map(Into::into),
        interrupt: Default::default(),
    };
    match peerlane_lab::run(&options, &mut std::io::stdout(), &mut std::io::stderr()) {
        Ok(outcome) => {
            eprintln!("status {}", outcome.status);
            if let Some(dma) = outcome.dma {
                eprintln!("{}", serde_json::to_string_pretty(&dma).expect("json"));
            }
            ExitCode::from(u8::try_from(outcome.status).unwrap_or(255))
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: {:?}", error.hint());
            ExitCode::from(2)
        }
    }
}
