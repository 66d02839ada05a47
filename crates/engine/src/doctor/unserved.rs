//! Drives that the driver `nvme` does not serve: held by others, held by nobody, or given up.

use peerlane_fabric::{Fabric, Function};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{Chart, at, drives, saw};
use crate::endpoint::Unserved;

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    let drives = drives(fabric);
    let unserved = drives.iter().map(|&id| fabric.function(id));
    let unserved: Vec<_> =
        unserved.filter_map(|drive| Some((drive, Unserved::from_function(drive)?))).collect();
    let cost = if unserved.len() == drives.len() { Cost::Everything } else { Cost::Routes };
    // Of windows without address space there is a finding for each device.
    let others = unserved.iter().filter(|(_, reason)| *reason != Unserved::NoAddressSpace);
    chart.findings.extend(others.map(|(drive, reason)| finding(drive, reason, cost)));
}

fn finding(drive: &Function, reason: &Unserved, cost: Cost) -> Finding {
    let kind = match reason {
        Unserved::NotLive(_) => FindingKind::DriveNotLive,
        _ => FindingKind::DriveNotServed,
    };
    let weakens = match reason {
        Unserved::OtherDriver(driver) => {
            Some(format!("whoever has it by {driver} loses it: a virtual machine, a program"))
        }
        _ => None,
    };
    let needs = match kind {
        FindingKind::DriveNotServed => Needs::Rebind,
        _ => Needs::Nothing,
    };
    Finding {
        kind,
        cost,
        object: drive.name.clone(),
        what: reason.to_string(),
        evidence: vec![evidence(drive, reason)],
        fix: Some(Fix {
            what: reason.way_out().to_owned(),
            commands: reason.commands(drive),
            weakens,
            needs,
        }),
    }
}

fn evidence(drive: &Function, reason: &Unserved) -> Evidence {
    match reason {
        Unserved::NotLive(state) => saw(format!("/sys/class/nvme/{}/state", drive.name), state),
        Unserved::OtherDriver(driver) => saw(format!("{}/driver", at(drive)), driver),
        _ => saw(format!("{}/driver", at(drive)), "there is none"),
    }
}
