//! What a tenth more of each thing that limits a case would gain.
//!
//! Leaves out what limits nothing: to first order more of it gains nothing. The one thing to know: where
//! several resources of one kind limit, each is raised alone and all of them together, since ten drives
//! that are alike are bought together; and where more of one resource gains next to nothing since another limits
//! as much, within a percent, both are raised together.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_results::{CaseSpec, Gain};

use super::case::{Found, Model, SLOTS};
use super::{PredictError, names};
use crate::flow::build::Built;
use crate::flow::run::Run;

/// By how much a resource is raised.
const MORE: f64 = 1.1;
/// Where a tenth more gains less than this, something else limits as much.
const NEXT_TO_NONE: f64 = 1.01;
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
    let ratio = |run: &Run| {
        let bytes: f64 = run.outcomes.iter().map(|outcome| outcome.bytes).sum();
        bytes / (run.end - start).max(1.0) / before
    };
    let (mut gains, mut ties) = (Vec::new(), Vec::new());
    for (resource, built) in raised(model, found) {
        let run = model.run(&built, case)?;
        let gain = Gain { resource, ratio: ratio(&run) };
        if gain.ratio < NEXT_TO_NONE {
            let tie = tie(model, &gain.resource, built, &run);
            ties.extend(tie.filter(|(_, built)| ties.iter().all(|(_, known)| known != built)));
        }
        gains.push(gain);
    }
    if gains.iter().all(|gain| gain.ratio < NEXT_TO_NONE) {
        for (resource, built) in ties {
            gains.push(Gain { resource, ratio: ratio(&model.run(&built, case)?) });
        }
    }
    gains.sort_by(|a, b| b.ratio.total_cmp(&a.ratio).then(a.resource.cmp(&b.resource)));
    Ok(gains)
}

/// What limits as much as something of which more gains next to nothing: the network with more of that, too.
fn tie(model: &Model, raised: &str, mut built: Built, run: &Run) -> Option<(String, Built)> {
    let what = |at: usize| model.built.what[at];
    let kind = |at: usize| names::several(what(at), usize::MAX);
    let is_same = |&at: &usize| built.network.resources[at] == model.built.network.resources[at];
    let limits: BTreeSet<usize> = run.outcomes.iter().filter_map(|outcome| outcome.limit).collect();
    let mut others: Vec<usize> = limits.into_iter().filter(is_same).collect();
    let Some(&first) = others.first() else { return own_tie(model, raised, built, run) };
    others.retain(|&at| kind(at) == kind(first));
    for &at in &others {
        built.network.resources[at].capacity *= MORE;
    }
    let name = names::several(what(first), others.len());
    let name = name.unwrap_or_else(|| names::of(&model.topology, what(first)));
    Some((format!("{raised}, and as much more of {name}"), built))
}

/// The same where flows are limited by themselves then.
fn own_tie(model: &Model, raised: &str, mut built: Built, run: &Run) -> Option<(String, Built)> {
    let own = |index: usize| model.own_limit(&model.flows[index]);
    let is_free = |&index: &usize| {
        let demand = |built: &Built| built.network.classes[index].demand;
        run.outcomes[index].limit.is_none() && demand(&built) == demand(&model.built)
    };
    let mut free: Vec<usize> =
        (0..model.flows.len()).filter(|index| is_free(index) && own(*index) != SLOTS).collect();
    let name = own(*free.first()?);
    free.retain(|&index| own(index) == name);
    for index in free {
        built.network.classes[index].demand = model.demand_with_more(index, &name, MORE);
    }
    Some((format!("{raised}, and as much more of {}", without_its(&name)), built))
}

/// What a flow has of its own, in words that do not speak of one flow.
fn without_its(name: &str) -> &str {
    name.strip_prefix("its ").unwrap_or(name)
}

/// The network with more of each, and of what.
fn raised(model: &Model, found: &Found) -> Vec<(String, Built)> {
    let limiting: BTreeSet<&str> =
        found.flows.iter().map(|flow| flow.limited_by.as_str()).collect();
    let mut alone: Vec<(String, Vec<usize>)> = Vec::new();
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, &what) in model.built.what.iter().enumerate() {
        let name = names::of(&model.topology, what);
        if limiting.contains(name.as_str()) {
            alone.push((name, vec![at]));
            let kind = names::several(what, usize::MAX).unwrap_or_default();
            kinds.entry(kind).or_default().push(at);
        }
    }
    let together = kinds.into_values().filter_map(|all| {
        let first = model.built.what[*all.first()?];
        Some((names::several(first, all.len())?, all))
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
    let more = found.flows.iter().enumerate().filter(|(_, flow)| flow.limited_by != SLOTS);
    for (index, flow) in more {
        by_name.entry(flow.limited_by.as_str()).or_default().push(index);
    }
    let known: BTreeSet<String> = model.built.what.iter().map(|&what| model.name(what)).collect();
    let own = by_name.into_iter().filter(|(name, _)| !known.contains(*name)).take(MOST_ALONE);
    own.map(|(name, flows)| {
        let mut built = model.built.clone();
        for index in flows {
            built.network.classes[index].demand = model.demand_with_more(index, name, MORE);
        }
        (without_its(name).to_owned(), built)
    })
    .collect()
}
