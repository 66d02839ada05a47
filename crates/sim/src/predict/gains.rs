//! What a tenth more of each thing that limits a case would gain.
//!
//! Leaves out what limits nothing: to first order more of it gains nothing. The one thing to know: where
//! several resources of one kind limit, each is raised alone and all of them together, since ten drives
//! that are alike are bought together; where more of one resource gains next to nothing since another limits
//! as much, within a percent, both are raised together; and where a flow waits for nobody, what its blocks pass on their way
//! limits it by the time that it takes.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_results::{CaseSpec, Gain};

use super::PredictError;
use super::case::{CAREFUL, Found, Model};
use super::more::More;
use super::own::Own;
use crate::flow::run::Run;

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
    let (mut gains, mut ties) = (Vec::new(), Vec::<(String, Vec<More>)>::new());
    for (resource, of) in raised(model, found) {
        let more = model.with_more(&of, case)?;
        let run = more.run(case, CAREFUL)?;
        let gain = Gain { resource, ratio: ratio(&run) };
        if gain.ratio < NEXT_TO_NONE {
            let tie = tie(model, &of, &more, &run);
            let tie = tie.filter(|(_, tie)| ties.iter().all(|(_, known)| !is_same(known, tie)));
            ties.extend(tie.map(|(other, tie)| {
                (format!("{}, and as much more of {other}", gain.resource), tie)
            }));
        }
        gains.push(gain);
    }
    if gains.iter().all(|gain| gain.ratio < NEXT_TO_NONE) {
        for (resource, of) in ties {
            let more = model.with_more(&of, case)?;
            gains.push(Gain { resource, ratio: ratio(&more.run(case, CAREFUL)?) });
        }
    }
    gains.sort_by(|a, b| b.ratio.total_cmp(&a.ratio).then(a.resource.cmp(&b.resource)));
    Ok(gains)
}

/// Whether both are more of the same things.
fn is_same(one: &[More], other: &[More]) -> bool {
    one.len() == other.len() && one.iter().all(|more| other.contains(more))
}

/// What limits as much as something of which more gains next to nothing, by its name, and both together.
fn tie(model: &Model, of: &[More], more: &Model, run: &Run) -> Option<(String, Vec<More>)> {
    let mut others: Vec<(usize, More)> = Vec::new();
    for (flow, outcome) in run.outcomes.iter().enumerate() {
        let Some(at) = outcome.limit else { continue };
        let cause = more.cause(flow, more.built.what[at]);
        if !of.contains(&cause) && others.iter().all(|&(_, known)| known != cause) {
            others.push((at, cause));
        }
    }
    others.sort_by_key(|&(at, _)| at);
    let mut others: Vec<More> = others.into_iter().map(|(_, more)| more).collect();
    if others.is_empty() {
        others = own_ties(model, of, more, run);
    }
    let first = *others.first()?;
    others.retain(|&other| kind(model, other) == kind(model, first));
    Some((called(model, &others), of.iter().copied().chain(others).collect()))
}

/// What limits flows by themselves then, but for those that are faster.
fn own_ties(model: &Model, of: &[More], more: &Model, run: &Run) -> Vec<More> {
    let mut others = Vec::new();
    let classes = model.built.network.classes.iter().zip(&more.built.network.classes);
    for (flow, (class, raised)) in classes.enumerate() {
        let is_faster = raised.demand / class.demand >= NEXT_TO_NONE;
        if run.outcomes[flow].limit.is_some() || is_faster {
            continue;
        }
        let own = more.own_limit(&more.flows[flow]);
        let other = More::Own(own);
        if own != Own::Stages && !of.contains(&other) && !others.contains(&other) {
            others.push(other);
        }
    }
    others
}

/// What things of one kind are called together, or one by itself, in words that do not speak of one flow.
fn called(model: &Model, of: &[More]) -> String {
    let together = of.first().and_then(|more| more.several(of.len()));
    let name = together.or_else(|| of.first().map(|&one| model.name(one))).unwrap_or_default();
    name.strip_prefix("its ").unwrap_or(&name).to_owned()
}

/// The same text for things of one kind.
fn kind(model: &Model, more: More) -> String {
    more.several(usize::MAX).unwrap_or_else(|| model.name(more))
}

/// What limits a case: all of a kind together, and each alone.
fn raised(model: &Model, found: &Found) -> Vec<(String, Vec<More>)> {
    let limits = |more: &More| found.flows.iter().any(|flow| flow.limited_by == *more);
    let resources = model.built.what.iter().map(|&what| More::Resource(what)).filter(limits);
    let own: BTreeSet<Own> = found.flows.iter().filter_map(|flow| flow.limited_by.own()).collect();
    let own = own.into_iter().filter(|&own| own != Own::Stages).map(More::Own);
    let mut all: Vec<More> = resources.chain(own).collect();
    all.extend(of_blocks(model, found).into_iter().filter(|more| !limits(more)));
    let mut kinds: BTreeMap<String, Vec<More>> = BTreeMap::new();
    for &more in &all {
        kinds.entry(kind(model, more)).or_default().push(more);
    }
    let is_one_of_several = |more: &More| kinds[&kind(model, *more)].len() > 1;
    let (several, single): (Vec<More>, Vec<More>) = all.into_iter().partition(is_one_of_several);
    let alone = several.into_iter().take(MOST_ALONE).chain(single).map(|more| vec![more]);
    let together = kinds.into_values().filter(|of| of.len() > 1);
    together.chain(alone).map(|of| (called(model, &of), of)).collect()
}

/// What makes blocks quicker whose time limits flows, each by itself.
fn of_blocks(model: &Model, found: &Found) -> Vec<More> {
    let mut parts: Vec<(More, Vec<usize>)> = Vec::new();
    for (flow, found) in found.flows.iter().enumerate() {
        if !matches!(found.limited_by.own(), Some(Own::Depth | Own::Stages)) {
            continue;
        }
        for part in model.parts_of_a_block(flow) {
            match parts.iter_mut().find(|(known, _)| *known == part) {
                Some((_, flows)) => flows.push(flow),
                None => parts.push((part, vec![flow])),
            }
        }
    }
    parts.retain(|(part, flows)| model.quickens(*part, flows) >= NEXT_TO_NONE);
    parts.into_iter().map(|(part, _)| part).collect()
}
