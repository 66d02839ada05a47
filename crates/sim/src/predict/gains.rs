//! What a tenth more of each thing that limits a case would gain.
//!
//! Leaves out what limits nothing: to first order more of it gains nothing. The one thing to know: where
//! several resources of one kind limit, each is raised alone and all of them together, since ten drives
//! that are alike are bought together.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_results::{CaseSpec, Gain};

use super::case::{Found, Model};
use super::{PredictError, names};
use crate::flow::build::Built;

/// By how much a resource is raised.
const MORE: f64 = 1.1;
/// Resources that are raised alone.
const MOST_ALONE: usize = 8;

/// The gains, most first.
pub(super) fn gains(
    model: &Model,
    found: &Found,
    case: &CaseSpec,
) -> Result<Vec<Gain>, PredictError> {
    let start = found.flows.iter().map(|flow| flow.start).fold(f64::INFINITY, f64::min);
    let before = found.rate();
    let mut gains = Vec::new();
    for (resource, built) in raised(model, found) {
        let run = model.run(&built, case)?;
        let bytes: f64 = run.outcomes.iter().map(|outcome| outcome.bytes).sum();
        let rate = bytes / (run.end - start).max(1.0);
        gains.push(Gain { resource, ratio: rate / before });
    }
    gains.sort_by(|a, b| b.ratio.total_cmp(&a.ratio).then(a.resource.cmp(&b.resource)));
    Ok(gains)
}

/// The network with more of each, and of what.
fn raised(model: &Model, found: &Found) -> Vec<(String, Built)> {
    let limiting: BTreeSet<&str> =
        found.flows.iter().map(|flow| flow.limited_by.as_str()).collect();
    let mut alone = Vec::new();
    let mut kinds: BTreeMap<String, (Vec<usize>, usize)> = BTreeMap::new();
    for (at, &what) in model.built.what.iter().enumerate() {
        let what = model.seen(what);
        let name = names::of(&model.topology, what);
        if limiting.contains(name.as_str()) {
            alone.push((name, vec![at]));
            let kind = names::several(what, usize::MAX).unwrap_or_default();
            kinds.entry(kind).or_insert((Vec::new(), at)).0.push(at);
        }
    }
    let together = kinds.into_values().filter_map(|(all, first)| {
        Some((names::several(model.seen(model.built.what[first]), all.len())?, all))
    });
    let together: Vec<_> = together.collect();
    alone.truncate(MOST_ALONE);
    let resources = together.into_iter().chain(alone).map(|(name, all)| {
        let mut built = model.built.clone();
        for at in all {
            built.network.resources[at].capacity *= MORE;
        }
        (name, built)
    });
    resources.chain(own(model, found)).collect()
}

/// The same of what limits flows by themselves: commands of drives, the processor, depth.
fn own(model: &Model, found: &Found) -> Vec<(String, Built)> {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, flow) in found.flows.iter().enumerate() {
        by_name.entry(flow.limited_by.as_str()).or_default().push(index);
    }
    let known: BTreeSet<String> = model.built.what.iter().map(|&what| model.name(what)).collect();
    let own = by_name.into_iter().filter(|(name, _)| !known.contains(*name)).take(MOST_ALONE);
    own.map(|(name, flows)| {
        let mut built = model.built.clone();
        for index in flows {
            built.network.classes[index].demand = model.demand_with_more(index, name, MORE);
        }
        let resource = name.strip_prefix("its ").unwrap_or(name);
        (resource.to_owned(), built)
    })
    .collect()
}
