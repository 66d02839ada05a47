//! A fabric as QEMU arguments and kernel parameters.
//!
//! Every function gets an explicit place (slot and function number), so kernel parameters can name
//! it by its path. A function that QEMU cannot emulate is refused, never left out, except for those
//! that are neither bridge nor endpoint of interest (the host bridge's own functions), which QEMU
//! has in its own form. Bus numbers are the firmware's.

mod acs;
mod addresses;

use peerlane_fabric::{
    Acs, Fabric, FailingRequest, FailureCount, Function, FunctionId, FunctionKind, InjectedError,
    IommuMode, LabBoot, Parent,
};

use crate::cards::{self, LabCard};
use crate::drives::{Drive, NamespaceImage};
use crate::protocol::GuestPort;
use crate::tools::QemuFeatures;
use crate::{KernelImage, LabError};
use addresses::FunctionAddress;

/// A machine as QEMU boots it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VirtualMachine {
    /// Arguments of QEMU, without kernel, console and sockets' folder.
    pub(crate) arguments: Vec<String>,
    /// QEMU's name of each drive, by the drive's name.
    pub(crate) devices: Vec<(String, String)>,
    /// Path of each card from the root bus, as in kernel parameters, by the card's name.
    pub(crate) cards: Vec<(String, String)>,
    /// Parameters of the guest's kernel.
    pub(crate) kernel_parameters: Vec<String>,
}

/// Slot of the ports' controller on the root bus, out of the way of the machine's functions.
pub(crate) const PORTS_SLOT: u8 = 0x1d;

/// Processor features that cost time under QEMU's emulation: copies byte by byte (`erms`, `fsrm`),
/// a fifth level of page tables, two more instructions around each access to memory of a program.
const SLOW_FEATURES: &str = "erms=off,fsrm=off,la57=off,smap=off";

/// Says whether the lab can boot a machine, without booting it.
///
/// # Errors
/// [`LabError::NotEmulated`] or [`LabError::Usage`] with the first thing that stands in the way.
pub fn can_boot(machine: &Fabric) -> Result<(), LabError> {
    let newest = KernelImage {
        image: std::path::PathBuf::new(),
        release: u32::MAX.to_string(),
        modules: None,
    };
    build(machine, &[], &[], &newest, QemuFeatures::default()).map(drop)
}

/// Turns `machine` into QEMU arguments.
pub(crate) fn build(
    machine: &Fabric,
    drives: &[Drive],
    cards: &[LabCard],
    kernel: &KernelImage,
    features: QemuFeatures,
) -> Result<VirtualMachine, LabError> {
    let boot = machine.lab.clone().unwrap_or_default();
    let addresses = addresses::all(machine)?;
    let mut arguments = base(machine, &boot)?;
    let mut devices = Vec::new();
    let mut card_paths = Vec::new();
    for index in 1..machine.bridges.len() {
        let bus = addresses::bridge_bus_number(index, machine)?;
        device(
            &mut arguments,
            format!(
                "pxb-pcie,id={},bus=pcie.0,addr={:02x}.0,bus_nr={bus}",
                addresses::bridge_bus(index),
                addresses::bridge_slot(index)
            ),
        );
    }
    for (id, function) in machine.iter() {
        match function.kind {
            FunctionKind::Other if function.lab.is_ram_bar => {
                let card = cards.iter().find(|card| card.function == id);
                ram_bar(machine, function, &addresses[id.0], card, &mut arguments)?;
                card_paths.push((function.name.clone(), addresses[id.0].path.clone()));
            }
            FunctionKind::Other => {}
            FunctionKind::RootPort | FunctionKind::UpstreamPort | FunctionKind::DownstreamPort => {
                let port = port(machine, id, &addresses, features)?;
                device(&mut arguments, port);
            }
            FunctionKind::Nvme if matches!(function.parent, Parent::Bridge(bridge) if bridge.0 > 0) =>
            {
                let reason = "QEMU's further host bridges take ports alone";
                return Err(refuse(machine, function, reason));
            }
            FunctionKind::Nvme => {
                let drive = drives.iter().find(|drive| drive.function == id);
                nvme(machine, function, &addresses[id.0], drive, features, &mut arguments)?;
                devices.push((function.name.clone(), addresses[id.0].id().to_owned()));
            }
            FunctionKind::OtherBridge
            | FunctionKind::Gpu
            | FunctionKind::Fpga
            | FunctionKind::Nic => {
                return Err(refuse(
                    machine,
                    function,
                    "QEMU has no emulation of it that the lab uses",
                ));
            }
        }
    }
    ports(&mut arguments);
    let kernel_parameters = kernel_parameters(machine, &boot, &addresses, kernel)?;
    Ok(VirtualMachine { arguments, devices, cards: card_paths, kernel_parameters })
}

fn base(machine: &Fabric, boot: &LabBoot) -> Result<Vec<String>, LabError> {
    let usage =
        |what: &str| LabError::Usage(format!("cannot boot machine {}: {what}", machine.name));
    let mebibytes = boot.memory.0 >> 20;
    if boot.memory.0 % (1 << 20) != 0 || mebibytes < 128 {
        return Err(usage("guest memory must be whole MiB, at least 128"));
    }
    if boot.cpus == 0 || boot.cpus > 64 {
        return Err(usage("virtual CPUs must be 1 to 64"));
    }
    let has_iommu = has_iommu(machine);
    // Virtual CPUs take turns: run at once (`thread=multi`), QEMU 7.2 sometimes executes a breakpoint
    // that the kernel's code patching has already taken back, and the guest dies of it. Booting is
    // about a second slower.
    let mut arguments: Vec<String> = [
        "-machine",
        if has_iommu { "q35,kernel-irqchip=split" } else { "q35" },
        "-accel",
        "tcg,thread=single",
        "-cpu",
        &format!("{},{SLOW_FEATURES}", boot.cpu),
        "-smp",
        &boot.cpus.to_string(),
        "-m",
        &format!("{mebibytes}M"),
        "-no-user-config",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
    ]
    .map(str::to_owned)
    .to_vec();
    if has_iommu {
        device(&mut arguments, "intel-iommu,intremap=off".to_owned());
    }
    Ok(arguments)
}

fn has_iommu(machine: &Fabric) -> bool {
    matches!(machine.iommu, IommuMode::Passthrough | IommuMode::Translating)
}

fn device(arguments: &mut Vec<String>, device: String) {
    arguments.extend(["-device".to_owned(), device]);
}

/// Doubles commas, which separate options in QEMU's syntax.
fn escape(text: &str) -> String {
    text.replace(',', ",,")
}

fn refuse(machine: &Fabric, function: &Function, reason: &str) -> LabError {
    LabError::NotEmulated {
        machine: machine.name.clone(),
        function: function.name.clone(),
        reason: reason.to_owned(),
    }
}

/// A port of the root complex or of a switch.
///
/// QEMU's switch ports have no ACS; its root port has, and works in a downstream port's address.
fn port(
    machine: &Fabric,
    id: FunctionId,
    addresses: &[FunctionAddress],
    features: QemuFeatures,
) -> Result<String, LabError> {
    let function = machine.function(id);
    let above = match function.parent {
        Parent::Bridge(_) => None,
        Parent::Function(parent) => Some(machine.function(parent).kind),
    };
    if function.acs == Acs::Unknown {
        let reason = "its ACS is unknown: state `acs` in a machine file";
        return Err(refuse(machine, function, reason));
    }
    let address = &addresses[id.0];
    let model = match (function.kind, above) {
        (FunctionKind::RootPort, None) => "pcie-root-port",
        (
            FunctionKind::UpstreamPort,
            Some(FunctionKind::RootPort | FunctionKind::DownstreamPort),
        ) => "x3130-upstream",
        (FunctionKind::DownstreamPort, Some(FunctionKind::UpstreamPort)) => match function.acs {
            Acs::Present { .. } => "pcie-root-port",
            Acs::Absent | Acs::NotRedirecting | Acs::Unknown => "xio3130-downstream",
        },
        _ => return Err(refuse(machine, function, "a port of this kind cannot hang there")),
    };
    let mut text = format!("{model},id={},{}", address.id(), address.options());
    if function.kind == FunctionKind::UpstreamPort {
        if matches!(function.acs, Acs::Present { .. }) {
            return Err(refuse(machine, function, "QEMU's upstream port has no ACS"));
        }
        return Ok(text);
    }
    // Slot and chassis number together must be unique; position in the list is.
    let number = id.0 + 1;
    if number > usize::from(u8::MAX) {
        return Err(refuse(machine, function, "the lab numbers at most 255 functions"));
    }
    text.push_str(&format!(",slot={number},chassis={number}"));
    if function.kind == FunctionKind::RootPort
        && function.acs == Acs::Absent
        && features.root_port_disable_acs
    {
        text.push_str(",disable-acs=on");
    }
    Ok(text)
}

fn nvme(
    machine: &Fabric,
    function: &Function,
    address: &FunctionAddress,
    drive: Option<&Drive>,
    features: QemuFeatures,
    arguments: &mut Vec<String>,
) -> Result<(), LabError> {
    let mut text =
        format!("nvme,id={},{},serial={}", address.id(), address.options(), escape(&function.name));
    if function.lab.multipath {
        let subsystem = format!("subsystem-{}", address.id());
        device(arguments, format!("nvme-subsys,id={subsystem},nqn={}", escape(&function.name)));
        text.push_str(&format!(",subsys={subsystem}"));
    }
    if let Some(memory) = function.p2pmem {
        if !memory.size.0.is_power_of_two() || memory.size.0 < 1 << 20 {
            return Err(refuse(machine, function, "a CMB is a power of two, at least 1 MiB"));
        }
        text.push_str(&format!(",cmb_size_mb={}", memory.size.0 >> 20));
    }
    if let Some(mdts) = function.lab.mdts {
        text.push_str(&format!(",mdts={mdts}"));
    }
    if features.nvme_bounce_buffer {
        // With the default of 4096 bytes peer-to-peer transfers wait for each other.
        text.push_str(",x-max-bounce-buffer-size=16M");
    }
    device(arguments, text);
    if let Some(backing) = drive.and_then(|drive| drive.namespace.as_ref()) {
        namespace(function, address, backing, arguments)?;
    }
    Ok(())
}

fn namespace(
    function: &Function,
    address: &FunctionAddress,
    backing: &NamespaceImage,
    arguments: &mut Vec<String>,
) -> Result<(), LabError> {
    let image = backing.image.to_str().ok_or_else(|| LabError::BadDrive {
        drive: function.name.clone(),
        image: backing.image.clone(),
        reason: "its path is not UTF-8".to_owned(),
    })?;
    let id = format!("drive{}", backing.nsid);
    // The driver for files takes nothing else, whatever has come to lie at the path since.
    let mut text = match function.lab.errors.as_slice() {
        [] => format!("file.driver=file,file.filename={}", escape(image)),
        errors => failing_file(function, backing, errors, image)?,
    };
    text.push_str(&format!(",format=raw,if=none,id={id}"));
    if backing.is_scratch {
        text.push_str(",cache=unsafe");
    }
    if let Some(rate) = function.lab.throttle {
        text.push_str(&format!(",throttling.bps-total={}", rate.0));
    }
    arguments.extend(["-drive".to_owned(), text]);
    if function.lab.protection.is_some_and(|kind| !(1..=3).contains(&kind)) {
        return Err(LabError::Usage(format!(
            "cannot emulate {}: protection information is of type 1, 2 or 3",
            function.name
        )));
    }
    let protection = function.lab.protection.map(|kind| format!(",ms=8,pi={kind}"));
    device(
        arguments,
        format!(
            "nvme-ns,drive={id},bus={},nsid={},logical_block_size={},physical_block_size={}{}",
            address.id(),
            backing.nsid,
            backing.logical_block.0,
            backing.physical_block.0.max(backing.logical_block.0),
            protection.unwrap_or_default(),
        ),
    );
    Ok(())
}

/// A card: ivshmem, whose BAR 2 is memory of the host.
fn ram_bar(
    machine: &Fabric,
    function: &Function,
    address: &FunctionAddress,
    card: Option<&LabCard>,
    arguments: &mut Vec<String>,
) -> Result<(), LabError> {
    let size = cards::size(function);
    // A BAR is a power of two; P2PDMA takes whole sections of 2 MiB (`memremap_compat_align`).
    if !size.0.is_power_of_two() || size.0 < 2 << 20 {
        let reason = "memory of a card is a power of two, at least 2 MiB";
        return Err(refuse(machine, function, reason));
    }
    let memory = match card.map(|card| (card, card.memory.to_str())) {
        None => "",
        Some((_, Some(path))) => path,
        Some((card, None)) => {
            return Err(LabError::BadDrive {
                drive: function.name.clone(),
                image: card.memory.clone(),
                reason: "its path is not UTF-8".to_owned(),
            });
        }
    };
    let id = address.id();
    arguments.extend([
        "-object".to_owned(),
        format!(
            "memory-backend-file,id=memory-{id},size={},share=on,mem-path={}",
            size.0,
            escape(memory)
        ),
    ]);
    device(arguments, format!("ivshmem-plain,id={id},{},memdev=memory-{id}", address.options()));
    Ok(())
}

/// A file behind QEMU's `blkdebug`, which fails requests that touch a given byte.
fn failing_file(
    function: &Function,
    backing: &NamespaceImage,
    errors: &[InjectedError],
    image: &str,
) -> Result<String, LabError> {
    /// Unit of `sector`, in a machine file and in QEMU alike.
    const SECTOR: u64 = 512;
    /// EIO: the drive then reports an unrecovered read, or a write fault.
    const ERRNO: i32 = 5;
    let bad = |reason| LabError::BadDrive {
        drive: function.name.clone(),
        image: backing.image.clone(),
        reason,
    };
    let size = backing.image.metadata().map_err(|error| bad(error.to_string()))?.len();
    let mut text = format!(
        "file.driver=blkdebug,file.image.driver=file,file.image.filename={}",
        escape(image)
    );
    for (index, InjectedError { on, sector, times }) in errors.iter().enumerate() {
        if u64::from(*sector) >= size / SECTOR {
            return Err(bad(format!("it has no sector {sector}, which is to fail")));
        }
        let on = match on {
            FailingRequest::Read => "read",
            FailingRequest::Write => "write",
        };
        let once = match times {
            FailureCount::Once => "on",
            FailureCount::Always => "off",
        };
        let rule = format!("file.inject-error.{index}");
        text.push_str(&format!(
            ",{rule}.event=none,{rule}.iotype={on},{rule}.sector={sector},{rule}.once={once},\
             {rule}.errno={ERRNO}"
        ));
    }
    Ok(text)
}

/// The streams from guest to host; sockets lie in QEMU's working folder.
fn ports(arguments: &mut Vec<String>) {
    device(arguments, format!("virtio-serial-pci,id=ports,bus=pcie.0,addr={PORTS_SLOT:02x}.0"));
    for port in GuestPort::ALL {
        let name = port.name();
        arguments.extend(["-chardev".to_owned(), format!("socket,id={name},path={name}")]);
        device(arguments, format!("virtserialport,bus=ports.0,chardev={name},name={name}"));
    }
}

fn kernel_parameters(
    machine: &Fabric,
    boot: &LabBoot,
    addresses: &[FunctionAddress],
    kernel: &KernelImage,
) -> Result<Vec<String>, LabError> {
    /// COMMAND_LINE_SIZE of arch/x86/include/asm/setup.h.
    const LONGEST: usize = 2048;
    // Where the host is busy, the emulated timer may miss the few ticks in which the kernel wants to
    // see it work; without no_timer_check that is a panic.
    // Loading certificates and testing algorithms takes a quarter of an emulated boot. Without certificates, modules load
    // unverified, and the kernel's log says so.
    let mut parameters: Vec<String> = [
        "console=ttyS0",
        "quiet",
        "panic=-1",
        "no_timer_check",
        "cryptomgr.notests",
        "initcall_blacklist=load_system_certificate_list",
        "rdinit=/init",
    ]
    .map(str::to_owned)
    .to_vec();
    let wants_heads = machine.functions.iter().any(|function| function.lab.multipath);
    if !kernel.is_at_least(7, 2) && !wants_heads {
        // Multipath heads of older kernels do not pass peer-to-peer pages.
        parameters.push("nvme_core.multipath=N".to_owned());
    }
    if has_iommu(machine) {
        parameters.push("intel_iommu=on".to_owned());
    }
    if machine.iommu == IommuMode::Passthrough {
        parameters.push("iommu=pt".to_owned());
    }
    let sets_acs = |argument: &String| {
        ["config_acs=", "disable_acs_redir="].iter().any(|name| argument.contains(name))
    };
    if !acs::can_be_set(kernel) && boot.kernel_args.iter().any(|one| one.contains("config_acs=")) {
        return Err(LabError::Usage(format!(
            "cannot boot machine {}: its kernel_args set ACS control registers, which kernel {} cannot",
            machine.name, kernel.release
        )));
    }
    if !boot.kernel_args.iter().any(sets_acs) {
        parameters.extend(acs::parameter(machine, addresses, kernel, has_iommu(machine))?);
    }
    parameters.extend(boot.kernel_args.iter().cloned());
    if parameters.join(" ").len() >= LONGEST {
        return Err(LabError::Usage(format!(
            "cannot boot machine {}: its kernel parameters exceed {LONGEST} characters",
            machine.name
        )));
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests;
