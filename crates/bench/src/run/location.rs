//! Effect of the places of a matrix's drives, and of their roles as source or target.

use peerlane_engine::measure::PlannedFlow;
use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_results::{LocationEffect, Path, Summary, Workload, WorkloadKind};
use peerlane_units::Bytes;

use super::case::PlannedCase;
use crate::statistics::{Effect, effect_of_end, effect_of_location};

/// Effects of source, target and location for each route and block size; one of location is left out where
/// all drives are below one switch, or no two.
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
    let effects = |(path, block): (Path, Bytes)| {
        let (mut drives, mut pairs) = (Vec::new(), Vec::new());
        for case in cases {
            let [flow] = case.flows.as_slice() else { continue };
            if (flow.flow().path, flow.flow().block) != (path, block) {
                continue;
            }
            let summary = summaries.iter().find(|one| one.case == case.spec.name);
            let (Some(summary), Some((source, target))) = (summary, ends(fabric, flow)) else {
                return Vec::new();
            };
            let source = position(&mut drives, source);
            pairs.push((source, position(&mut drives, target), summary.rate.mean));
        }
        let mut switches = Vec::new();
        let place: Vec<usize> =
            drives.iter().map(|&id| position(&mut switches, switch(fabric, id))).collect();
        let turned: Vec<_> = pairs.iter().map(|&(from, to, rate)| (to, from, rate)).collect();
        let found = [
            ("source", effect_of_end(&pairs, workload.seed)),
            ("target", effect_of_end(&turned, workload.seed)),
            ("switch", effect_of_location(&pairs, &place, workload.seed)),
        ];
        let effect = |(what, found): (&str, Option<Effect>)| {
            let Effect { ratio, chance } = found?;
            let (cases, place) = (format!("{block} {path}"), what.to_owned());
            Some(LocationEffect { cases, place, near_over_far: ratio, chance })
        };
        found.into_iter().filter_map(effect).collect()
    };
    groups.into_iter().flat_map(effects).collect()
}

fn ends(fabric: &Fabric, flow: &PlannedFlow) -> Option<(FunctionId, FunctionId)> {
    let find = |address: &Option<String>| fabric.find(address.as_deref()?);
    Some((find(&flow.source()?.address)?, find(&flow.target()?.address)?))
}

/// The switch above a drive; `None` for one at a root port, which are then one place.
fn switch(fabric: &Fabric, drive: FunctionId) -> Option<FunctionId> {
    fabric.upward(drive).find(|&id| fabric.function(id).kind == FunctionKind::UpstreamPort)
}

/// The position of a value, which is added where it is new.
fn position<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}
