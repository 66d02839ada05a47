//! The memories that devices lend, and why one does not serve.

use peerlane_fabric::gpu::ConsumerLine;
use peerlane_fabric::{Fabric, Function, Kind, Origin, P2pMem};
use peerlane_reach::kernel_refusal;
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};
use peerlane_units::Bytes;

use super::accelerator::{self, VENDOR_NVIDIA};
use super::{Chart, NoPermission, at, drives, kernel_parameters, lenders, saw};
use crate::plan::memory_name;

/// Less than this leaves no room for two requests in flight.
const LITTLE: Bytes = Bytes::mib(2);
/// Memory is registered in sections of this size (`memremap_compat_align` of x86 and arm64).
const SECTION: Bytes = Bytes::mib(2);
/// Queues that take less than this part of a memory are no matter.
const MUCH: u64 = 16;
const FIRMWARE: &str = "newer firmware of the drive may place it otherwise";

pub(super) fn examine(fabric: &Fabric, no_permission: NoPermission<'_>, chart: &mut Chart) {
    if leaves_pci_out(fabric) {
        return chart.unknown(
            "which devices the machine has: the tree shows no PCI function",
            "a tree with sys/devices/pci*: `sudo peerlane capture -o machine.tar.zst`",
        );
    }
    if fabric.origin == Origin::Text {
        return chart.unknown(
            "which drives lend memory: pasted text does not say",
            "a capture: `sudo peerlane capture -o machine.tar.zst`; `peerlane plan A B` judges any two devices",
        );
    }
    let lenders = lenders(fabric);
    if drives(fabric).is_empty() {
        chart.findings.push(no_drive(fabric));
    } else if lenders.is_empty()
        && !fabric.functions.iter().any(has_cmb)
        && !fabric.functions.iter().any(accelerator::lacks_xrt_window)
    {
        chart.findings.push(no_memory(fabric));
    }
    let useful =
        lenders.iter().filter(|&&id| fabric.function(id).p2pmem.is_some_and(|m| m.published));
    let cost = if useful.count() == 0 { Cost::Everything } else { Cost::Routes };
    for function in lenders.into_iter().map(|id| fabric.function(id)) {
        let Some(memory) = function.p2pmem else { continue };
        if !memory.published {
            chart.findings.push(not_published(function, cost));
        } else if memory.available < LITTLE {
            chart.findings.push(in_use(function, memory.available, memory.size));
        }
        chart.findings.extend(queues(fabric, function, memory));
        chart.findings.extend(not_permitted(function, no_permission, cost));
    }
    for (_, function) in fabric.iter().filter(|(_, function)| function.p2pmem.is_none()) {
        chart.findings.extend(not_registered(fabric, function, cost));
    }
}

fn not_permitted(
    function: &Function,
    no_permission: NoPermission<'_>,
    cost: Cost,
) -> Option<Finding> {
    let address = function.address?.to_string();
    let reason = no_permission(&address)?;
    Some(Finding {
        kind: FindingKind::MemoryNotPermitted,
        cost,
        object: memory_name(function),
        what: reason,
        evidence: vec![pool(function, "allocate", "permission denied")],
        fix: Some(Fix {
            what: "run as root, or give a group the memory, now or by the udev rule that comes with \
                   Peerlane (packaging/60-peerlane.rules)"
                .to_owned(),
            commands: vec![format!(
                "sudo chgrp \"$(id -gn)\" {file} && sudo chmod 660 {file}",
                file = format_args!("{}/p2pmem/allocate", at(function))
            )],
            weakens: Some(
                "whoever has the memory can read what its last user left there, unless that cleared it"
                    .to_owned(),
            ),
            needs: Needs::Nothing,
        }),
    })
}

/// A drive whose registers show a CMB that is not among the memories.
fn not_registered(fabric: &Fabric, function: &Function, cost: Cost) -> Option<Finding> {
    let cmb = function.nvme.as_ref()?.cmb?;
    let window = function.bars.iter().find(|bar| bar.index == cmb.bar()).map(|bar| bar.size);
    let (why, what_to_do, needs) = if kernel_refusal(&fabric.kernel).is_some() {
        ("the kernel does not take it".to_owned(), "first the kernel", Needs::Reboot)
    } else if window.is_some_and(|window| cmb.offset() >= window) {
        (format!("it begins beyond its window, BAR {}", cmb.bar()), FIRMWARE, Needs::Hardware)
    } else if !cmb.size().is_multiple_of(SECTION) {
        (format!("its size, {}, is no multiple of 2 MiB", cmb.size()), FIRMWARE, Needs::Hardware)
    } else {
        (
            "its window may begin at no multiple of 2 MiB, or may be out of reach of the kernel's map \
             of memory"
                .to_owned(),
            "the kernel's log may say which: `sudo dmesg | grep -i cmb`",
            Needs::Hardware,
        )
    };
    Some(Finding {
        kind: FindingKind::MemoryNotRegistered,
        cost,
        object: memory_name(function),
        what: format!(
            "{} has a memory buffer of {}, which the kernel does not lend: {why}",
            function.name,
            cmb.size()
        ),
        evidence: vec![
            saw(format!("/sys/class/nvme/{}/cmbsz", function.name), format!("{:#x}", cmb.size)),
            saw(
                format!("/sys/class/nvme/{}/cmbloc", function.name),
                format!("{:#x}", cmb.location),
            ),
        ],
        fix: Some(Fix { what: what_to_do.to_owned(), commands: Vec::new(), weakens: None, needs }),
    })
}

/// Submission queues that take a good part of a memory.
fn queues(fabric: &Fabric, function: &Function, memory: P2pMem) -> Option<Finding> {
    let cmb = function.nvme.as_ref()?.cmb?;
    let taken = Bytes(memory.size.0.saturating_sub(memory.available.0));
    let are_there = fabric.kernel.use_cmb_sqes == Some(true) && cmb.takes_submission_queues();
    (are_there && taken.0 > memory.size.0 / MUCH).then(|| Finding {
        kind: FindingKind::QueuesInMemory,
        cost: Cost::Speed,
        object: memory_name(function),
        what: format!(
            "{taken} of {} are taken, by the submission queues of {} at least in part",
            memory.size, function.name
        ),
        evidence: vec![
            saw("/sys/module/nvme/parameters/use_cmb_sqes", "Y"),
            pool(function, "available", memory.available.0),
        ],
        fix: Some(kernel_parameters(
            "leave the queues in host memory",
            "nvme.use_cmb_sqes=0",
            Some("the drive fetches its commands from host memory: 64 bytes a command"),
        )),
    })
}

fn pool(function: &Function, file: &str, showed: impl ToString) -> Evidence {
    saw(format!("{}/p2pmem/{file}", at(function)), showed.to_string())
}

/// Whether a tree shows no PCI function, as trees of other tools may that are about processors alone.
pub(super) fn leaves_pci_out(fabric: &Fabric) -> bool {
    fabric.functions.is_empty() && matches!(fabric.origin, Origin::Tree(_))
}

fn no_drive(fabric: &Fabric) -> Finding {
    Finding {
        kind: FindingKind::NoDrive,
        cost: Cost::Everything,
        object: format!("machine {}", fabric.name),
        what: "there is no NVMe drive on PCIe here to move data to or from".to_owned(),
        evidence: vec![saw(
            "/sys/bus/pci/devices",
            format!("{} functions, none an NVMe controller", fabric.functions.len()),
        )],
        fix: Some(Fix {
            what:
                "an NVMe drive; until then `peerlane copy` moves files through host memory, and an \
                 emulated machine shows the rest"
                    .to_owned(),
            commands: vec!["peerlane lab demo".to_owned()],
            weakens: None,
            needs: Needs::Hardware,
        }),
    }
}

/// Whether the registers of a drive show a memory buffer.
pub(super) fn has_cmb(function: &Function) -> bool {
    function.nvme.as_ref().is_some_and(|nvme| nvme.cmb.is_some())
}

/// Cards whose memory others reach by the driver of the maker alone.
pub(super) fn by_its_driver(fabric: &Fabric) -> Vec<&Function> {
    let cards = fabric.memories().into_iter().map(|memory| fabric.function(memory.function));
    let is_lent = |card: &&Function| {
        card.p2pmem.is_none()
            && card.fpga_p2p != Some(false)
            && ConsumerLine::from_function(card).is_none()
    };
    cards.filter(is_lent).collect()
}

/// How a copy names the memory of a card; `None` where no copy takes it.
fn as_named(card: &Function) -> Option<&'static str> {
    match (card.kind, card.vendor) {
        (Kind::Fpga, _) => Some("fpga:ADDRESS"),
        (Kind::Gpu, Some(VENDOR_NVIDIA)) => Some("gpu:0"),
        _ => None,
    }
}

/// Raises the cost of a missing memory where the driver of no card makes up for it.
pub(super) fn weigh(findings: &mut [Finding]) {
    let is_closed = findings.iter().any(|found| {
        matches!(
            found.kind,
            FindingKind::GpuStackMissing
                | FindingKind::FpgaStackMissing
                | FindingKind::FpgaKernel
                | FindingKind::FpgaWindowOff
        )
    });
    let missing = findings.iter_mut().filter(|found| found.kind == FindingKind::NoMemory);
    missing.filter(|_| is_closed).for_each(|found| found.cost = Cost::Everything);
}

fn no_memory(fabric: &Fabric) -> Finding {
    let cards = by_its_driver(fabric);
    let is_named = cards.first().is_some_and(|card| as_named(card).is_some());
    Finding {
        kind: FindingKind::NoMemory,
        cost: if is_named { Cost::Routes } else { Cost::Everything },
        object: format!("machine {}", fabric.name),
        what: match cards.as_slice() {
            [] => "no device here lends memory to its peers".to_owned(),
            [first, rest @ ..] => format!(
                "no device here lends memory through the kernel (p2pmem); that of {}{} is only to be \
                 had from its maker's driver, and `peerlane copy` {}",
                first.name,
                if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) },
                match as_named(first) {
                    Some(name) => format!(
                        "takes it where it is named, as in `--via {name}`, and not by itself"
                    ),
                    None => "does not take it".to_owned(),
                },
            ),
        },
        evidence: vec![saw("/sys/bus/pci/devices/*/p2pmem", "there is none")],
        fix: Some(Fix {
            what: "a drive with a controller memory buffer (CMB) that takes reads and writes of data, \
                   of 2 MiB at least, lends it to all; `peerlane copy` goes through host memory \
                   until then"
                .to_owned(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Hardware,
        }),
    }
}

/// The kernel offers a CMB that takes the data of reads and of writes (`nvme_map_cmb()` in
/// drivers/nvme/host/pci.c); which of the two is missing is in registers that may not be readable.
fn not_published(function: &Function, cost: Cost) -> Finding {
    let mut evidence = vec![pool(function, "published", 0)];
    let registers = function.nvme.as_ref().and_then(|nvme| nvme.cmb);
    let file = format!("/sys/class/nvme/{}/cmb", function.name);
    evidence.extend(registers.map(|cmb| saw(file, format!("cmbsz {:#x}", cmb.size))));
    let why = match registers.map(|cmb| (cmb.takes_read_data(), cmb.takes_write_data())) {
        Some((true, false)) => "its drive takes data of read commands there and not of writes",
        Some((false, true)) => "its drive takes data of write commands there and not of reads",
        Some((false, false)) => "its drive takes no data there, only queues or lists",
        Some((true, true)) => "its registers say that it could be; its driver decided otherwise",
        None => {
            "it takes the data of only reads or only writes, or of neither (its registers, which say \
             which, cannot be seen)"
        }
    };
    Finding {
        kind: FindingKind::MemoryNotPublished,
        cost,
        object: memory_name(function),
        what: format!("the memory of {} is not offered to peers: {why}", function.name),
        evidence,
        fix: Some(Fix {
            what: "newer firmware of the drive may support both (CMBSZ.RDS and CMBSZ.WDS)"
                .to_owned(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Hardware,
        }),
    }
}

fn in_use(function: &Function, available: Bytes, size: Bytes) -> Finding {
    Finding {
        kind: FindingKind::MemoryInUse,
        cost: Cost::Routes,
        object: memory_name(function),
        what: format!("the memory of {} has {available} of {size} free", function.name),
        evidence: vec![pool(function, "available", available.0)],
        fix: Some(Fix {
            what: "wait for whoever holds it, or name another memory with `--via`".to_owned(),
            commands: vec!["sudo grep -l p2pmem /proc/*/maps".to_owned()],
            weakens: None,
            needs: Needs::Nothing,
        }),
    }
}
