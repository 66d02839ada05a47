//! Windows of devices (BARs) that got no address space: nothing reaches them.

use peerlane_fabric::{Fabric, Function, FunctionId};
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs, Setting};

use super::{BearsOn, Examination, at, boot_loader, finding, fix, saw};
use peerlane_reach::ADDRESS_SPACE_FIX;

/// Lets Linux assign the windows of bridges and devices itself (Documentation/admin-guide/kernel-parameters.txt).
const REASSIGN: &str = "pci=realloc";

/// Examines every function that moves payload.
pub(super) fn examine(on: &mut Examination<'_>) {
    examine_those(on, &super::link::of_the_machine(on.fabric));
}

/// Examines these functions.
pub(super) fn examine_those(on: &mut Examination<'_>, functions: &[FunctionId]) {
    for &id in functions {
        if let Some(found) = unassigned(on.fabric, on.fabric.function(id)) {
            on.add(found, BearsOn::functions([id]));
        }
    }
}

fn unassigned(fabric: &Fabric, function: &Function) -> Option<Finding> {
    let windows: Vec<String> = function
        .unassigned_bars
        .iter()
        .map(|bar| match bar.size {
            Some(size) => format!("BAR {} ({size})", bar.index),
            None => format!("BAR {}", bar.index),
        })
        .collect();
    let (last, others) = windows.split_last()?;
    let (named, have) = match others {
        [] => (last.clone(), "has"),
        others => (format!("{} and {last}", others.join(", ")), "have"),
    };
    Some(Finding {
        evidence: vec![saw(
            format!("{}/resource", at(function)),
            format!("{named}: none assigned"),
        )],
        fix: Some(Fix {
            commands: boot_loader::commands(fabric, REASSIGN),
            settings: vec![Setting::KernelParameter(REASSIGN.to_owned())],
            ..fix(ADDRESS_SPACE_FIX, Needs::Reboot)
        }),
        ..finding(
            FindingKind::WindowUnassigned,
            Cost::Routes,
            function.name.clone(),
            format!(
                "{named} {have} no address space: neither a driver nor a peer reaches what lies behind"
            ),
        )
    })
}
