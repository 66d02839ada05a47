//! Whether it matters where the drives of a matrix are.

use peerlane_engine::measure::PlannedFlow;
use peerlane_fabric::{Fabric, FunctionId, Kind};
use peerlane_results::{LocationEffect, Path, Summary, Workload, WorkloadKind};
use peerlane_units::Bytes;

use super::case::PlannedCase;
use crate::statistics::effect_of_location;

/// One effect for each route and block size; none where all drives are below one switch, or no two.
pub(super) fn effects(
    fabric: &Fabric,
    workload: &Workload,
    cases: &[PlannedCase<'_>],
    summaries: &[Summary],
) -> Vec<LocationEffect> {
    if workload.kind != WorkloadKind::Matrix {
        return Vec::new();
    }
    let mut groups: Vec<(Path, Bytes)> = Vec::new();
    for flow in cases.iter().flat_map(|case| &case.flows) {
        let group = (flow.flow().path, flow.flow().block);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let effect = |(path, block): (Path, Bytes)| {
        let (mut drives, mut pairs) = (Vec::new(), Vec::new());
        for case in cases {
            let [flow] = case.flows.as_slice() else { continue };
            if (flow.flow().path, flow.flow().block) != (path, block) {
                continue;
            }
            let summary = summaries.iter().find(|one| one.case == case.spec.name)?;
            let (source, target) = ends(fabric, flow)?;
            let source = position(&mut drives, source);
            pairs.push((source, position(&mut drives, target), summary.rate.median));
        }
        let mut switches = Vec::new();
        let place: Vec<usize> =
            drives.iter().map(|&id| position(&mut switches, switch(fabric, id))).collect();
        let found = effect_of_location(&pairs, &place, workload.seed)?;
        Some(LocationEffect {
            cases: format!("{block} {path}"),
            place: "switch".to_owned(),
            near_over_far: found.ratio,
            chance: found.chance,
        })
    };
    groups.into_iter().filter_map(effect).collect()
}

fn ends(fabric: &Fabric, flow: &PlannedFlow) -> Option<(FunctionId, FunctionId)> {
    let find = |address: &Option<String>| fabric.find(address.as_deref()?);
    Some((find(&flow.source()?.address)?, find(&flow.target()?.address)?))
}

/// The switch above a drive; `None` for one at a root port, which are then one place.
fn switch(fabric: &Fabric, drive: FunctionId) -> Option<FunctionId> {
    fabric.upward(drive).find(|&id| fabric.function(id).kind == Kind::UpstreamPort)
}

/// The position of a value, which is added where it is new.
fn position<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}
