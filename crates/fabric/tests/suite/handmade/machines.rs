//! Machines made by hand after public descriptions. What is invented says so.

use peerlane_fabric::{
    Acs, Bdf, DriverBinding, Fabric, FunctionKind, Integrity, IommuMode, Parent, cufile,
};
use peerlane_units::Bytes;

use super::builder::{Ids, MachineBuilder, bar};

const ZEN_COMPLEX: Ids = Ids(0x1022, 0x1480);
const ZEN_PORT: Ids = Ids(0x1022, 0x1483);
const ICE_LAKE: Ids = Ids(0x8086, 0x09a2);
const ICE_LAKE_PORT: Ids = Ids(0x8086, 0x347a);
const PM9A3: Ids = Ids(0x144d, 0xa80a);
const PM9A3_NAME: &str = "SAMSUNG MZQL23T8HCLS-00A07";

/// Settings of the file that NVIDIA installs, those that bear on the route.
const CUFILE: &str = r#"{
    "execution": { "parallel_io": true },
    "properties": { "use_pci_p2pdma": false, "allow_compat_mode": true, "gds_rdma_write_support": true,
        "rdma_dev_addr_list": [], "rdma_dynamic_routing": false,
        "rdma_dynamic_routing_order": [ "GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P" ] },
    "fs": { "generic": { "posix_unaligned_writes": false }, "lustre": { "posix_gds_min_kb": 0 },
        "beegfs": { "posix_gds_min_kb": 0 }, "weka": { "rdma_write_support": false } },
    "denylist": { "drivers": [], "devices": [], "mounts": [], "filesystems": [] }
}"#;

const GIB: u64 = 1 << 30;
/// 3.84 TB as drives of that capacity state it.
const TB_3_84: Bytes = Bytes(3_840_755_982_336);

/// Every machine, with a description and its source.
pub(crate) fn all() -> Vec<(Fabric, &'static str)> {
    vec![
        (
            dell_r7515(),
            "A Dell R7515 with ten SmartSSDs, after source document 000. The functions, identifiers and windows \
          of a drive are those that AMD UG1382 and a published set-up log state. The processor, which bay hangs from which \
          host bridge, the kernel, the link that trained at half its speed and the card that does not lend its memory \
          are invented.",
        ),
        (
            lenovo_sr635(),
            "A Lenovo SR635 with four Samsung Gen4 drives and an Eideticom NoLoad on a BittWare IA-440i that \
          lends 512 MiB, after source document 002. Processor, drives, kernel and size of the memory are stated there; which \
          slot hangs from which host bridge is invented.",
        ),
        (
            donard(),
            "A server like that of source document 004: Xeon E5, one NVMe drive, a Tesla K20c and a NIC, Linux 3.13. \
          The document names neither processor nor drive nor NIC; those here are of the time.",
        ),
        (
            eight_gpus(),
            "Eight H100 below four PCIe 5.0 switches of two Sapphire Rapids sockets, two drives and a ConnectX-7 \
          at each switch, IOMMU on: the usual build of such servers, no particular one.",
        ),
        (
            two_sockets(),
            "Two Ice Lake sockets with four drives each, one of each four with a CMB, mirrored system drives, \
          encryption and LVM, IOMMU in passthrough. Invented.",
        ),
        (
            arm_server(),
            "An Ampere Altra with two Switchtec switches of three drives each, and a drive at a root port. The \
          kernel lists no Arm host bridge, so that peers meet below a switch or not at all. Invented.",
        ),
        (
            laptop(),
            "A laptop of 2022 as an unprivileged user sees it: configuration spaces end after 64 bytes. Invented.",
        ),
        (
            cloud_vm(),
            "A virtual machine of a cloud: paravirtual devices and a kernel without P2PDMA. Invented.",
        ),
    ]
}

fn dell_r7515() -> Fabric {
    let mut machine = MachineBuilder::new("r7515", "Dell Inc. PowerEdge R7515", "6.8.0-60-generic");
    machine.cpu("AuthenticAMD", Some(23), "AMD EPYC 7502P 32-Core Processor");
    machine.modules(&[
        ("nvme", None),
        ("nvme_core", None),
        ("xclmgmt", Some("2.16.204")),
        ("xocl", Some("2.16.204")),
    ]);
    machine.fabric.libraries = Some(vec!["libxrt_coreutil.so.2".to_owned()]);
    let mut slot = 0;
    for (bus, slots) in [(0x00, 1), (0x40, 3), (0x80, 3), (0xc0, 3)] {
        let bridge = machine.bridge(0, bus, Some(0), ZEN_COMPLEX);
        for _ in 0..slots {
            let root =
                machine.port(bridge, FunctionKind::RootPort, ZEN_PORT, None, Some("16GT/s x4"));
            smart_ssd(&mut machine, root, slot);
            slot += 1;
        }
    }
    machine.fabric
}

/// UG1382: a switch, the drive and the FPGA with its two functions.
fn smart_ssd(machine: &mut MachineBuilder, root: Parent, slot: u32) {
    let above = if slot == 6 { "2.5GT/s x4 of 8GT/s x4" } else { "8GT/s x4" };
    let up = machine.port(root, FunctionKind::UpstreamPort, Ids(0x10ee, 0x9134), Some(above), None);
    let inner = Some("8GT/s x4");
    let drive = machine.port(up, FunctionKind::DownstreamPort, Ids(0x10ee, 0x9234), None, inner);
    machine.drive(drive, Ids(0x144d, 0xa824), "8GT/s x4", "SAMSUNG MZWLJ3T8HBLS-0SMS", TB_3_84);
    machine.nvme().namespaces[0].limits.max_request = Some(Bytes(128 << 10));
    machine.nvme().namespaces[0].limits.max_hw_request = Some(Bytes(128 << 10));
    let card = machine.port(up, FunctionKind::DownstreamPort, Ids(0x10ee, 0x9434), None, inner);
    let ids = Ids(0x10ee, 0x6987);
    let manager =
        machine.endpoint(card, FunctionKind::Fpga, ids, 0x12_00_00, "8GT/s x4", "xclmgmt");
    manager.bars = vec![bar(0, Bytes(32 << 20), true), bar(2, Bytes(64 << 10), true)];
    let address = manager.address.unwrap();
    let (link, node) = (manager.link, manager.numa_node);
    let address = Bdf::new(address.domain(), address.bus(), address.device(), 1).unwrap();
    machine.at(card, FunctionKind::Fpga, Ids(0x10ee, 0x6988), 0x12_00_00, node, address);
    let user = machine.last();
    user.link = link;
    user.driver = DriverBinding::Bound("xocl".to_owned());
    user.bars = vec![
        bar(0, Bytes(32 << 20), true),
        bar(2, Bytes(64 << 10), true),
        bar(4, Bytes(8 * GIB), true),
    ];
    user.fpga_p2p = Some(slot != 9);
}

fn lenovo_sr635() -> Fabric {
    let mut machine = MachineBuilder::new("sr635", "Lenovo ThinkSystem SR635", "6.8.0-31-generic");
    machine.cpu("AuthenticAMD", Some(23), "AMD EPYC 7302P 16-Core Processor");
    let first = machine.bridge(0, 0x00, Some(0), ZEN_COMPLEX);
    for _ in 0..2 {
        let root = machine.port(first, FunctionKind::RootPort, ZEN_PORT, None, Some("16GT/s x4"));
        machine.drive(root, PM9A3, "16GT/s x4", PM9A3_NAME, TB_3_84);
    }
    let second = machine.bridge(0, 0x40, Some(0), ZEN_COMPLEX);
    for _ in 0..2 {
        let root = machine.port(second, FunctionKind::RootPort, ZEN_PORT, None, Some("16GT/s x4"));
        machine.drive(root, PM9A3, "16GT/s x4", PM9A3_NAME, TB_3_84);
    }
    let third = machine.bridge(0, 0x80, Some(0), ZEN_COMPLEX);
    let root = machine.port(third, FunctionKind::RootPort, ZEN_PORT, None, Some("16GT/s x16"));
    let noload = Ids(0x1de5, 0x2000);
    machine.drive(root, noload, "16GT/s x16", "Eideticom NoLoad", Bytes(GIB));
    machine.cmb(512);
    let root = machine.port(third, FunctionKind::RootPort, ZEN_PORT, None, Some("8GT/s x4"));
    let nic = machine.endpoint(
        root,
        FunctionKind::Nic,
        Ids(0x8086, 0x1521),
        0x02_00_00,
        "5GT/s x4",
        "igb",
    );
    nic.kernel_names = vec!["eno1".to_owned()];
    machine.fabric
}

fn donard() -> Fabric {
    let mut machine = MachineBuilder::new("donard", "Supermicro X9DRH-iF", "3.13.0-24-generic");
    machine.cpu("GenuineIntel", Some(6), "Intel(R) Xeon(R) CPU E5-2660 0 @ 2.20GHz");
    machine.fabric.kernel.has_p2pdma = Some(false);
    machine.fabric.kernel.use_cmb_sqes = None;
    machine.fabric.kernel.nvme_multipath = None;
    machine.modules(&[("ib_core", None), ("nvidia", Some("331.62")), ("nvme", None)]);
    machine.nvidia(false, "331.62", "");
    machine.fabric.libraries = Some(vec!["libcuda.so.1".to_owned()]);
    let bridge = machine.bridge(0, 0x00, Some(0), Ids(0x8086, 0x3c00));
    let ports = [0x3c02, 0x3c04, 0x3c08].map(|device| Ids(0x8086, device));
    let root = machine.port(bridge, FunctionKind::RootPort, ports[0], None, Some("8GT/s x8"));
    machine.drive(
        root,
        Ids(0x144d, 0xa820),
        "8GT/s x4",
        "SAMSUNG MZWEI400HAGM-00003",
        Bytes(400_088_457_216),
    );
    machine.nvme().temperature = None;
    machine.nvme().state = None;
    machine.mount("nvme0n1", "ext4", "/data");
    let root = machine.port(bridge, FunctionKind::RootPort, ports[1], None, Some("8GT/s x16"));
    let k20 = Ids(0x10de, 0x1022);
    let gpu = machine.endpoint(root, FunctionKind::Gpu, k20, 0x03_02_00, "5GT/s x16", "nvidia");
    gpu.bars = vec![bar(0, Bytes(16 << 20), false), bar(1, Bytes(256 << 20), true)];
    let root = machine.port(bridge, FunctionKind::RootPort, ports[2], None, Some("8GT/s x8"));
    let nic = machine.endpoint(
        root,
        FunctionKind::Nic,
        Ids(0x15b3, 0x1003),
        0x02_80_00,
        "8GT/s x8",
        "mlx4_core",
    );
    nic.kernel_names = vec!["ib0".to_owned(), "mlx4_0".to_owned()];
    machine.fabric
}

fn eight_gpus() -> Fabric {
    let mut machine =
        MachineBuilder::new("eight-gpus", "Supermicro SYS-821GE-TNHR", "6.8.0-60-generic");
    machine.cpu("GenuineIntel", Some(6), "Intel(R) Xeon(R) Platinum 8480+");
    machine.fabric.iommu = IommuMode::Translating;
    machine.fabric.kernel.parameters = Some(vec!["intel_iommu=on".to_owned()]);
    machine.modules(&[
        ("ib_core", None),
        ("mlx5_core", None),
        ("mlx5_ib", None),
        ("nvidia", Some("570.133.20")),
        ("nvidia_uvm", None),
        ("nvme", None),
        ("nvme_core", None),
    ]);
    machine.nvidia(true, "570.133.20", "");
    let installed = ["libcuda.so.1", "libcufile.so.0", "libcufile.so.1.13.1"].map(str::to_owned);
    machine.fabric.cufile = Some(cufile::read(CUFILE));
    machine.fabric.libraries = Some(installed.into());
    let switch = Ids(0x1000, 0xc030);
    for (index, bus) in [0x15, 0x37, 0x97, 0xb7].into_iter().enumerate() {
        let node = Some(u32::from(index > 1));
        let bridge = machine.bridge(0, bus, node, ICE_LAKE);
        let root = Ids(0x8086, 0x352a);
        let root = machine.port(bridge, FunctionKind::RootPort, root, None, Some("32GT/s x16"));
        let up = machine.port(root, FunctionKind::UpstreamPort, switch, Some("32GT/s x16"), None);
        let down = |machine: &mut MachineBuilder, most: &str| {
            machine.port(up, FunctionKind::DownstreamPort, switch, None, Some(most))
        };
        for _ in 0..2 {
            let port = down(&mut machine, "32GT/s x16");
            let ids = Ids(0x10de, 0x2330);
            let gpu =
                machine.endpoint(port, FunctionKind::Gpu, ids, 0x03_02_00, "32GT/s x16", "nvidia");
            gpu.bars = vec![bar(0, Bytes(16 << 20), false), bar(2, Bytes(128 * GIB), true)];
        }
        for _ in 0..2 {
            let port = down(&mut machine, "32GT/s x4");
            machine.drive(port, PM9A3, "16GT/s x4", PM9A3_NAME, TB_3_84);
        }
        let port = down(&mut machine, "32GT/s x16");
        let ids = Ids(0x15b3, 0x1021);
        let nic =
            machine.endpoint(port, FunctionKind::Nic, ids, 0x02_07_00, "32GT/s x16", "mlx5_core");
        nic.kernel_names = vec![format!("ib{index}"), format!("mlx5_{index}")];
    }
    machine.fabric
}

fn two_sockets() -> Fabric {
    let mut machine =
        MachineBuilder::new("two-sockets", "Dell Inc. PowerEdge R750", "7.2.13-amd64");
    machine.cpu("GenuineIntel", Some(6), "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz");
    machine.fabric.iommu = IommuMode::Passthrough;
    machine.fabric.kernel.parameters =
        Some(vec!["intel_iommu=on".to_owned(), "iommu=pt".to_owned()]);
    for (node, bus) in [(0, 0x30), (1, 0xb0)] {
        let bridge = machine.bridge(0, bus, Some(node), ICE_LAKE);
        for index in 0..4 {
            let most = Some("16GT/s x4");
            let root = machine.port(bridge, FunctionKind::RootPort, ICE_LAKE_PORT, None, most);
            let link = if (node, index) == (1, 1) { "16GT/s x2 of 16GT/s x4" } else { "16GT/s x4" };
            machine.drive(root, PM9A3, link, PM9A3_NAME, TB_3_84);
            match (node, index) {
                (0, 0) => machine.partitions(&[512, 1024, 900_000]),
                (0, 3) | (1, 3) => machine.cmb(64),
                (1, 2) => {
                    let namespace = &mut machine.nvme().namespaces[0];
                    namespace.integrity =
                        Some(Integrity { write_generate: true, read_verify: true });
                    namespace.stable_writes = Some(true);
                }
                (1, 0) => {
                    machine.partitions(&[512, 1024, 900_000]);
                    machine.nvme().temperature.as_mut().unwrap().current = 81_850;
                }
                _ => {}
            }
        }
    }
    machine.mount("nvme0n1p1", "vfat", "/boot/efi");
    machine.stack("dm-0", "crypt", &["md127"]);
    machine.stack("dm-1", "lvm", &["dm-0"]);
    machine.stack("md127", "raid1", &["nvme0n1p3", "nvme4n1p3"]);
    machine.mount("dm-1", "ext4", "/");
    machine.mount("nvme1n1", "xfs", "/data");
    machine.fabric
}

fn arm_server() -> Fabric {
    let mut machine = MachineBuilder::new("arm-server", "GIGABYTE R272-P30", "7.2.13-arm64");
    machine.cpu("CPU implementer 0x41", None, "");
    let (complex, port) = (Ids(0x1def, 0xe100), Ids(0x1def, 0xe101));
    let switch = Ids(0x11f8, 0x4052);
    for (domain, has_switch) in [(0x04, false), (0x0c, true), (0x0d, true)] {
        let bridge = machine.bridge(domain, 0, Some(0), complex);
        let root = machine.port(bridge, FunctionKind::RootPort, port, None, Some("16GT/s x16"));
        if !has_switch {
            machine.drive(root, PM9A3, "16GT/s x4", PM9A3_NAME, TB_3_84);
            continue;
        }
        let up = machine.port(root, FunctionKind::UpstreamPort, switch, Some("16GT/s x16"), None);
        for index in 0..3 {
            let down =
                machine.port(up, FunctionKind::DownstreamPort, switch, None, Some("16GT/s x4"));
            machine.drive(down, PM9A3, "16GT/s x4", PM9A3_NAME, TB_3_84);
            if index == 0 {
                machine.cmb(128);
            }
        }
    }
    machine.fabric
}

fn laptop() -> Fabric {
    let mut machine = MachineBuilder::new("laptop", "LENOVO 21CB000JGE", "7.2.13-200.fc45.x86_64");
    machine.cpu("GenuineIntel", Some(6), "12th Gen Intel(R) Core(TM) i7-1260P");
    machine.fabric.iommu = IommuMode::Translating;
    let bridge = machine.bridge(0, 0, None, Ids(0x8086, 0x4621));
    let display = machine.endpoint(
        bridge,
        FunctionKind::Gpu,
        Ids(0x8086, 0x46a6),
        0x03_00_00,
        "2.5GT/s x1",
        "i915",
    );
    display.link = None;
    display.bars = vec![bar(0, Bytes(16 << 20), false), bar(2, Bytes(256 << 20), true)];
    display.kernel_names = vec!["card1".to_owned(), "renderD128".to_owned()];
    let root =
        machine.port(bridge, FunctionKind::RootPort, Ids(0x8086, 0x464d), None, Some("16GT/s x4"));
    machine.drive(
        root,
        Ids(0x15b7, 0x5030),
        "16GT/s x4",
        "WD_BLACK SN850X 1000GB",
        Bytes(1_000_204_886_016),
    );
    machine.partitions(&[600, 1024, 950_000]);
    let root =
        machine.port(bridge, FunctionKind::RootPort, Ids(0x8086, 0x51b0), None, Some("8GT/s x1"));
    let wifi = machine.endpoint(
        root,
        FunctionKind::Nic,
        Ids(0x8086, 0x2725),
        0x02_80_00,
        "5GT/s x1",
        "iwlwifi",
    );
    wifi.kernel_names = vec!["wlp2s0".to_owned()];
    machine.mount("nvme0n1p2", "ext4", "/boot");
    machine.mount("nvme0n1p1", "vfat", "/boot/efi");
    machine.stack("dm-0", "crypt", &["nvme0n1p3"]);
    machine.mount("dm-0", "btrfs", "/");
    machine.mount("dm-0", "btrfs", "/home");
    for function in &mut machine.fabric.functions {
        function.acs = Acs::Unknown;
    }
    machine.fabric
}

fn cloud_vm() -> Fabric {
    let mut machine =
        MachineBuilder::new("cloud-vm", "Google Compute Engine", "6.1.0-30-cloud-amd64");
    machine.cpu("GenuineIntel", Some(6), "Intel(R) Xeon(R) CPU @ 2.20GHz");
    machine.fabric.environment.hypervisor = Some("Google Compute Engine".to_owned());
    machine.fabric.kernel.has_p2pdma = Some(false);
    machine.fabric.kernel.nvme_multipath = None;
    machine.fabric.kernel.use_cmb_sqes = None;
    machine.fabric.kernel.modules = Some(Vec::new());
    let bridge = machine.bridge(0, 0, None, Ids(0x8086, 0x1237));
    for (device, class) in [(0x1004, 0x01_00_00), (0x1000, 0x02_00_00), (0x1005, 0xff_00_00)] {
        let kind = if device == 0x1000 { FunctionKind::Nic } else { FunctionKind::Other };
        let one =
            machine.endpoint(bridge, kind, Ids(0x1af4, device), class, "2.5GT/s x1", "virtio-pci");
        one.link = None;
    }
    machine.fabric
}
