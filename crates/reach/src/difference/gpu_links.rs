//! NVLinks and XGMI between GPUs that both machines have.

use std::collections::HashMap;

use peerlane_fabric::{Fabric, FunctionId, GpuLink};

use super::collector::Collector;
use super::{
    ChangeEffect, ChangeKind, ComparedFunction, MachineChange, Matching, UncomparedReason,
};

/// Number of links by pair, `None` where only their presence is known.
type Links = HashMap<(FunctionId, FunctionId), Option<u32>>;

/// Compares the number of links of each pair.
pub(super) fn compare(
    found: &mut Collector,
    (before, after): (&Fabric, &Fabric),
    matching: &Matching,
) {
    of_kind(found, ChangeKind::NvLink, (&before.nvlinks, &after.nvlinks), matching);
    of_kind(found, ChangeKind::Xgmi, (&before.xgmi, &after.xgmi), matching);
}

fn of_kind(
    found: &mut Collector,
    kind: ChangeKind,
    (before, after): (&Option<Vec<GpuLink>>, &Option<Vec<GpuLink>>),
    matching: &Matching,
) {
    let listed = |links: &Option<Vec<GpuLink>>| -> Option<Links> {
        Some(links.as_ref()?.iter().map(|link| (link.gpus, link.links)).collect())
    };
    match (listed(before), listed(after)) {
        (Some(before), Some(after)) => pairs(found, kind, (&before, &after), matching),
        (None, Some(links)) if !links.is_empty() => {
            found.uncompared(kind, UncomparedReason::UnknownBefore, None);
        }
        (Some(links), None) if !links.is_empty() => {
            found.uncompared(kind, UncomparedReason::UnknownAfter, None);
        }
        _ => {}
    }
}

fn pairs(
    found: &mut Collector,
    kind: ChangeKind,
    (before, after): (&Links, &Links),
    matching: &Matching,
) {
    let now: HashMap<FunctionId, FunctionId> = matching.both.iter().copied().collect();
    let then: HashMap<FunctionId, FunctionId> =
        matching.both.iter().map(|&(before, after)| (after, before)).collect();
    let ordered = |(one, other): (FunctionId, FunctionId)| (one.min(other), one.max(other));
    let other_side = |gpus: &(FunctionId, FunctionId), to: &HashMap<FunctionId, FunctionId>| {
        Some((*to.get(&gpus.0)?, *to.get(&gpus.1)?))
    };
    let mut all: Vec<(FunctionId, FunctionId)> = before.keys().copied().collect();
    all.extend(after.keys().filter_map(|gpus| other_side(gpus, &then)).map(ordered));
    all.sort_unstable();
    all.dedup();
    for gpus in all {
        let Some(gpus_now) = other_side(&gpus, &now) else { continue };
        // A pair that is not listed has no links.
        let links = before.get(&gpus).map_or(Some(0), |links| *links);
        let links_now = after.get(&ordered(gpus_now)).map_or(Some(0), |links| *links);
        let (Some(links), Some(links_now)) = (links, links_now) else { continue };
        if links == links_now {
            continue;
        }
        let words = |links: u32| if links == 0 { "none".to_owned() } else { links.to_string() };
        let ends = [(gpus.0, gpus_now.0), (gpus.1, gpus_now.1)];
        found.single(MachineChange {
            kind,
            effect: ChangeEffect::of_growth(&links, &links_now),
            before: Some(words(links)),
            after: Some(words(links_now)),
            functions: ends.map(|(one, other)| ComparedFunction::in_both(one, other)).into(),
            pairs: None,
        });
    }
}
