//! The memories that devices lend, and why one does not serve.

use peerlane_fabric::{Fabric, Function};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};
use peerlane_units::Bytes;

use super::{Chart, at, drives, lenders, saw};

/// Less than this leaves no room for two requests in flight.
const LITTLE: Bytes = Bytes::mib(2);

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    let lenders = lenders(fabric);
    if drives(fabric).is_empty() {
        chart.findings.push(no_drive(fabric));
    } else if lenders.is_empty() {
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
    }
}

fn pool(function: &Function, file: &str, showed: impl ToString) -> Evidence {
    saw(format!("{}/p2pmem/{file}", at(function)), showed.to_string())
}

fn no_drive(fabric: &Fabric) -> Finding {
    Finding {
        kind: FindingKind::NoDrive,
        cost: Cost::Everything,
        object: format!("machine {}", fabric.name),
        what: "there is no NVMe drive here to move data to or from".to_owned(),
        evidence: vec![saw(
            "/sys/bus/pci/devices",
            format!("{} functions, none an NVMe controller", fabric.functions.len()),
        )],
        fix: Some(Fix {
            what:
                "`peerlane copy` moves files through host memory here; an emulated machine shows \
                   the rest"
                    .to_owned(),
            commands: vec!["peerlane lab demo".to_owned()],
            weakens: None,
            needs: Needs::Hardware,
        }),
    }
}

fn no_memory(fabric: &Fabric) -> Finding {
    Finding {
        kind: FindingKind::NoMemory,
        cost: Cost::Everything,
        object: format!("machine {}", fabric.name),
        what: "no device here lends memory to its peers".to_owned(),
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

fn not_published(function: &Function, cost: Cost) -> Finding {
    Finding {
        kind: FindingKind::MemoryNotPublished,
        cost,
        object: format!("cmb:{}", function.name),
        what: format!(
            "the memory of {} is not offered to peers: its drive supports only reads or only writes \
             of data there",
            function.name
        ),
        evidence: vec![pool(function, "published", 0)],
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
        object: format!("cmb:{}", function.name),
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
