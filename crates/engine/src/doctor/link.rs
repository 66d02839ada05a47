//! Links that run below what both their ends support.

use peerlane_fabric::{Fabric, Function, FunctionId, Kind, Parent};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{Chart, at, saw};

/// Examines the links above functions that move or hold payload, and above every port on their way.
pub(super) fn examine(fabric: &Fabric, of_interest: &[FunctionId], chart: &mut Chart) {
    for (id, function) in fabric.iter() {
        let is_on_the_way =
            || of_interest.iter().any(|&below| fabric.upward(below).any(|above| above == id));
        if fabric.is_downgraded(id) && is_on_the_way() {
            chart.findings.extend(trained_low(fabric, id, function));
        }
    }
}

/// The functions whose links carry payload, or could.
pub(super) fn of_the_machine(fabric: &Fabric) -> Vec<FunctionId> {
    let kinds = [Kind::Nvme, Kind::Gpu, Kind::Fpga, Kind::Nic];
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
    Some(Finding {
        kind: FindingKind::LinkTrainedLow,
        cost: Cost::Speed,
        object: format!("the link of {}", function.name),
        what: format!(
            "it runs at {current}, and both ends support {most}: {} of {} one way",
            current.raw_rate(),
            most.raw_rate()
        ),
        evidence,
        fix: Some(Fix {
            what: "some devices lower an idle link: look again under load; else seat the card or cable \
                   anew, look for errors (AER) and for a limit in the firmware's settings"
                .to_owned(),
            commands: vec!["sudo dmesg | grep -i aer".to_owned()],
            weakens: None,
            needs: Needs::Hardware,
        }),
    })
}
