//! Windows of devices (BARs) for which there was no address space: nothing reaches them.

use peerlane_fabric::{Fabric, Function, Kind};
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs};

use super::{Chart, at, parameter_commands, saw};

/// What gets a window its address space.
pub(crate) const ADDRESS_SPACE_FIX: &str = "switch on \"Above 4G decoding\" in the firmware's settings, or give a \
     virtual machine a larger window for 64-bit devices; where the firmware has no such setting, `pci=realloc` \
     among the kernel's parameters lets Linux assign anew";

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    let devices = fabric.functions.iter().filter(|function| moves_payload(function.kind));
    chart.findings.extend(devices.filter_map(unassigned));
}

fn moves_payload(kind: Kind) -> bool {
    matches!(kind, Kind::Nvme | Kind::Gpu | Kind::Fpga | Kind::Nic)
}

fn unassigned(function: &Function) -> Option<Finding> {
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
        kind: FindingKind::WindowUnassigned,
        cost: Cost::Routes,
        object: function.name.clone(),
        what: format!(
            "{named} {have} no address space: neither a driver nor a peer reaches what lies behind"
        ),
        evidence: vec![saw(
            format!("{}/resource", at(function)),
            format!("{named}: none assigned"),
        )],
        fix: Some(Fix {
            what: ADDRESS_SPACE_FIX.to_owned(),
            commands: parameter_commands("pci=realloc"),
            weakens: None,
            needs: Needs::Reboot,
        }),
    })
}
