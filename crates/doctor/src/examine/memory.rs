//! Memory that devices lend, and obstacles to its use.

use peerlane_fabric::{Fabric, Function, FunctionId, Origin, P2pMem};
use peerlane_reach::{Use, kernel_refusal};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};
use peerlane_units::Bytes;

use super::{BearsOn, Examination, HostFacts, at, finding, fix, kernel_parameter, saw};

/// Less than this leaves no room for two requests in flight.
const LITTLE: Bytes = Bytes::mib(2);
/// Memory is registered in sections of this size (`memremap_compat_align` of x86 and arm64).
const SECTION: Bytes = Bytes::mib(2);
/// Queues that take less than this part of a memory do not matter.
const MUCH: u64 = 16;
const FIRMWARE: &str = "newer firmware of the drive may place it otherwise";

/// Uses of memory that drives lend.
const USES: [Use; 2] = [Use::DriveToDrive, Use::NetworkToDrive];

pub(super) fn examine(on: &mut Examination<'_>, facts: &HostFacts) {
    let fabric = on.fabric;
    if leaves_pci_out(fabric) {
        return on.unknown(
            "which devices the machine has: the tree shows no PCI function",
            "a tree with sys/devices/pci*: `sudo peerlane capture -o machine.tar.zst`",
        );
    }
    if fabric.origin == Origin::Text && on.has_use(&[Use::DriveToDrive]) {
        on.unknown(
            "which drives lend memory: the text does not say",
            "`sudo peerlane capture -o machine.tar.zst`",
        );
    }
    for (id, function) in fabric.iter() {
        let found = obstacles(fabric, id, facts);
        for one in found {
            on.add(one, bears_on(function, id));
        }
    }
}

/// A pool of the kernel serves every pair of drives; other memory the pairs of its owner.
fn bears_on(function: &Function, id: FunctionId) -> BearsOn {
    match function.kind {
        peerlane_fabric::FunctionKind::Nvme => BearsOn::Uses(USES.to_vec()),
        _ => BearsOn::functions([id]),
    }
}

fn obstacles(fabric: &Fabric, id: FunctionId, facts: &HostFacts) -> Vec<Finding> {
    let function = fabric.function(id);
    let Some(memory) = function.p2pmem else {
        return not_registered(fabric, function).into_iter().collect();
    };
    let mut found = Vec::new();
    if !memory.published {
        found.push(not_published(function));
    } else if memory.available < LITTLE {
        found.push(in_use(function, memory.available, memory.size));
    }
    found.extend(queues(fabric, function, memory));
    found.extend(facts.denied.get(&id).map(|reason| not_permitted(function, reason)));
    found
}

fn not_permitted(function: &Function, reason: &str) -> Finding {
    Finding {
        evidence: vec![pool(function, "allocate", "permission denied")],
        fix: Some(Fix {
            commands: vec![format!(
                "sudo chgrp \"$(id -gn)\" {file} && sudo chmod 660 {file}",
                file = format_args!("{}/p2pmem/allocate", at(function))
            )],
            weakens: Some(
                "the next user of the memory can read what its last user left there, unless that \
                 cleared it"
                    .to_owned(),
            ),
            ..fix(
                "run as root, or give a group the memory, now or by the udev rule that comes with \
                 Peerlane (packaging/60-peerlane.rules)",
                Needs::Nothing,
            )
        }),
        ..finding(FindingKind::MemoryNotPermitted, Cost::Routes, function.pool_word(), reason)
    }
}

/// A drive whose registers show a CMB that is not among the memories.
fn not_registered(fabric: &Fabric, function: &Function) -> Option<Finding> {
    let cmb = function.nvme.as_ref()?.cmb?;
    let window = function.bars.iter().find(|bar| bar.index == cmb.bar()).map(|bar| bar.size);
    let (why, what_to_do, needs) = if kernel_refusal(&fabric.kernel).is_some() {
        ("the kernel does not take it".to_owned(), "first the kernel", Needs::Reboot)
    } else if window.is_some_and(|window| cmb.offset() >= window) {
        (format!("it begins beyond its window, BAR {}", cmb.bar()), FIRMWARE, Needs::Hardware)
    } else if !cmb.size().is_multiple_of(SECTION) {
        (format!("its size, {}, is not a multiple of 2 MiB", cmb.size()), FIRMWARE, Needs::Hardware)
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
        evidence: vec![
            saw(format!("/sys/class/nvme/{}/cmbsz", function.name), format!("{:#x}", cmb.size)),
            saw(
                format!("/sys/class/nvme/{}/cmbloc", function.name),
                format!("{:#x}", cmb.location),
            ),
        ],
        fix: Some(fix(what_to_do.to_owned(), needs)),
        ..finding(
            FindingKind::MemoryNotRegistered,
            Cost::Routes,
            function.pool_word(),
            format!(
                "{} has a memory buffer of {}, which the kernel does not lend: {why}",
                function.name,
                cmb.size()
            ),
        )
    })
}

/// Submission queues that take a good part of a memory.
fn queues(fabric: &Fabric, function: &Function, memory: P2pMem) -> Option<Finding> {
    let cmb = function.nvme.as_ref()?.cmb?;
    let taken = Bytes(memory.size.0.saturating_sub(memory.available.0));
    let are_there = fabric.kernel.use_cmb_sqes == Some(true) && cmb.takes_submission_queues();
    (are_there && taken.0 > memory.size.0 / MUCH).then(|| Finding {
        evidence: vec![
            saw("/sys/module/nvme/parameters/use_cmb_sqes", "Y"),
            pool(function, "available", memory.available.0),
        ],
        fix: Some(kernel_parameter(
            fabric,
            "Keep the queues in host memory",
            "nvme.use_cmb_sqes=0",
            Some("the drive fetches its commands from host memory: 64 bytes a command"),
        )),
        ..finding(
            FindingKind::QueuesInMemory,
            Cost::Speed,
            function.pool_word(),
            format!(
                "{taken} of {} are taken, by the submission queues of {} at least in part",
                memory.size, function.name
            ),
        )
    })
}

fn pool(function: &Function, file: &str, showed: impl ToString) -> Evidence {
    saw(format!("{}/p2pmem/{file}", at(function)), showed.to_string())
}

/// True when a tree shows no PCI function. Trees of other tools may cover processors alone.
pub(super) fn leaves_pci_out(fabric: &Fabric) -> bool {
    fabric.functions.is_empty() && matches!(fabric.origin, Origin::Tree(_))
}

/// True when the registers of a drive show a memory buffer.
pub(super) fn has_cmb(function: &Function) -> bool {
    function.nvme.as_ref().is_some_and(|nvme| nvme.cmb.is_some())
}

/// The kernel offers a CMB that takes the data of reads and of writes (`nvme_map_cmb()` in
/// drivers/nvme/host/pci.c); which of the two is missing is in registers that may not be readable.
fn not_published(function: &Function) -> Finding {
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
        evidence,
        fix: Some(fix(
            "newer firmware of the drive may support both (CMBSZ.RDS and CMBSZ.WDS)",
            Needs::Hardware,
        )),
        ..finding(
            FindingKind::MemoryNotPublished,
            Cost::Routes,
            function.pool_word(),
            format!("the memory of {} is not offered to peers: {why}", function.name),
        )
    }
}

fn in_use(function: &Function, available: Bytes, size: Bytes) -> Finding {
    Finding {
        evidence: vec![pool(function, "available", available.0)],
        fix: Some(Fix {
            commands: vec!["sudo grep -l p2pmem /proc/*/maps".to_owned()],
            ..fix(
                "Wait for the program that holds it, or name another memory with `--via`",
                Needs::Nothing,
            )
        }),
        ..finding(
            FindingKind::MemoryInUse,
            Cost::Routes,
            function.pool_word(),
            format!("the memory of {} has {available} of {size} free", function.name),
        )
    }
}
