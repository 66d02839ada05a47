//! Downgraded links: trained to less than both their ends support.

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, Parent};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{BearsOn, Examination, at, finding, fix, saw};

/// Examines the links above functions that move or hold payload, and above every port on their way.
pub(super) fn examine(on: &mut Examination<'_>, of_interest: &[FunctionId]) {
    let fabric = on.fabric;
    let is_fault = |id: FunctionId| fabric.is_downgraded(id) && !fabric.may_save_power(id);
    for (id, function) in fabric.iter().filter(|(id, _)| is_fault(*id)) {
        let is_below = |&&below: &&FunctionId| fabric.upward(below).any(|above| above == id);
        let below: Vec<FunctionId> = of_interest.iter().filter(is_below).copied().collect();
        if below.is_empty() {
            continue;
        }
        if let Some(found) = trained_low(fabric, id, function) {
            on.add(found, BearsOn::functions(below));
        }
    }
}

/// The functions whose links carry payload, or could.
pub(super) fn of_the_machine(fabric: &Fabric) -> Vec<FunctionId> {
    let kinds = [FunctionKind::Nvme, FunctionKind::Gpu, FunctionKind::Fpga, FunctionKind::Nic];
    let all = fabric
        .iter()
        .filter(|(_, function)| kinds.contains(&function.kind) || function.p2pmem.is_some());
    all.map(|(id, _)| id).collect()
}

fn trained_low(fabric: &Fabric, id: FunctionId, function: &Function) -> Option<Finding> {
    let link = function.link?;
    let (current, most) = (link.current?, fabric.trainable(id)?);
    let mut evidence: Vec<Evidence> = vec![saw(
        format!("{}/current_link_speed, current_link_width", at(function)),
        current.to_string(),
    )];
    evidence.extend(link.maximum.map(|own| {
        saw(format!("{}/max_link_speed, max_link_width", at(function)), own.to_string())
    }));
    if let Parent::Function(port) = function.parent {
        let port = fabric.function(port);
        evidence.extend(port.link_below.map(|port_most| {
            saw(format!("{}/max_link_speed, max_link_width", at(port)), port_most.to_string())
        }));
    }
    let what = format!(
        "it runs at {current}, and both ends support {most}: {} of {} in one direction",
        current.raw_rate(),
        most.raw_rate()
    );
    Some(Finding {
        evidence,
        fix: Some(Fix {
            commands: vec!["sudo dmesg | grep -i aer".to_owned()],
            ..fix(
                "some devices lower an idle link, so look again under load; else seat the card or cable \
                 again, look for errors (AER) and for a limit in the firmware's settings",
                Needs::Hardware,
            )
        }),
        ..finding(
            FindingKind::LinkTrainedLow,
            Cost::Speed,
            format!("the link of {}", function.name),
            what,
        )
    })
}
