//! Drives that the driver `nvme` does not serve: bound to another driver, to none, or given up.

use peerlane_fabric::{Function, FunctionId};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{BearsOn, Examination, at, drives, finding, fix, saw};
use peerlane_reach::Unserved;

pub(super) fn examine(on: &mut Examination<'_>) {
    let fabric = on.fabric;
    let unserved = drives(fabric).into_iter().filter_map(|id| {
        let drive = fabric.function(id);
        Some((id, drive, Unserved::from_function(drive)?))
    });
    // Of windows without address space there is a finding for each device.
    let others = unserved.filter(|(_, _, reason)| *reason != Unserved::NoAddressSpace);
    for (id, drive, reason) in others.collect::<Vec<(FunctionId, &Function, Unserved)>>() {
        on.add(not_served(drive, &reason), BearsOn::functions([id]));
    }
}

fn not_served(drive: &Function, reason: &Unserved) -> Finding {
    let kind = match reason {
        Unserved::NotLive(_) => FindingKind::DriveNotLive,
        _ => FindingKind::DriveNotServed,
    };
    let weakens = match reason {
        Unserved::OtherDriver(driver) => {
            Some(format!("the virtual machine or program that has it by {driver} loses it"))
        }
        _ => None,
    };
    let needs = match kind {
        FindingKind::DriveNotServed => Needs::Rebind,
        _ => Needs::Nothing,
    };
    Finding {
        evidence: vec![evidence(drive, reason)],
        fix: Some(Fix {
            commands: reason.commands(drive),
            weakens,
            ..fix(reason.way_out(), needs)
        }),
        ..finding(kind, Cost::Routes, drive.name.clone(), reason.to_string())
    }
}

fn evidence(drive: &Function, reason: &Unserved) -> Evidence {
    match reason {
        Unserved::NotLive(state) => saw(format!("/sys/class/nvme/{}/state", drive.name), state),
        Unserved::OtherDriver(driver) => saw(format!("{}/driver", at(drive)), driver),
        _ => saw(format!("{}/driver", at(drive)), "there is none"),
    }
}
