//! What a tenth more of each thing that limits a case would gain.
//!
//! Leaves out what limits nothing: to first order more of it gains nothing. The one thing to know: where
//! several resources of one kind limit, each is raised alone and all of them together, since ten drives
//! that are alike are bought together; where more of one resource gains next to nothing since another limits
//! as much, within a percent, both are raised together; and where a flow waits for nobody, what its blocks pass on their way
//! limits it by the time that it takes.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_results::{CaseSpec, Gain};

use super::case::{CAREFUL, Found, Model};
use super::more::More;
use super::own::Own;
use super::{Engine, PredictError};

/// Where a tenth more gains less than this, something else limits as much.
const NEXT_TO_NONE: f64 = 1.01;
/// Resources that are raised alone.
const MOST_ALONE: usize = 8;

/// The gains by an engine, those of packets by fluids; most first.
pub(super) fn gains(
    model: &Model,
    found: &Found,
    (case, engine): (&CaseSpec, Engine),
) -> Result<Vec<Gain>, PredictError> {
    let before = found.rate();
    let (mut gains, mut ties) = (Vec::new(), Vec::<(String, Vec<More>)>::new());
    for (resource, of) in raised(model, found) {
        let more = model.with_more(&of, case)?;
        let after = more.find(engine, case, CAREFUL)?;
        let gain = Gain { resource, ratio: after.rate() / before };
        if gain.ratio < NEXT_TO_NONE {
            let tie = tie(model, &of, &more, &after);
            let tie = tie.filter(|(_, tie)| ties.iter().all(|(_, known)| !is_same(known, tie)));
            ties.extend(tie.map(|(other, tie)| {
                (format!("{}, and as much more of {other}", gain.resource), tie)
            }));
        }
        gains.push(gain);
    }
    if gains.iter().all(|gain| gain.ratio < NEXT_TO_NONE) {
        for (resource, of) in ties {
            let after = model.with_more(&of, case)?.find(engine, case, CAREFUL)?;
            gains.push(Gain { resource, ratio: after.rate() / before });
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
fn tie(model: &Model, of: &[More], more: &Model, after: &Found) -> Option<(String, Vec<More>)> {
    let limits = |other: &More| after.flows.iter().any(|flow| flow.limited_by == *other);
    let resources = more.built.what.iter().map(|&what| More::Resource(what)).filter(limits);
    let mut others: Vec<More> = resources.filter(|other| !of.contains(other)).collect();
    if others.is_empty() {
        others = own_ties(model, of, more, after);
    }
    let first = *others.first()?;
    others.retain(|&other| kind(model, other) == kind(model, first));
    Some((called(model, &others), of.iter().copied().chain(others).collect()))
}

/// What limits flows by themselves then, or drives by their commands, but for those that are faster.
fn own_ties(model: &Model, of: &[More], more: &Model, after: &Found) -> Vec<More> {
    let mut others = Vec::new();
    let classes = model.built.network.classes.iter().zip(&more.built.network.classes);
    for (found, (class, raised)) in after.flows.iter().zip(classes) {
        let Some(own) = found.limited_by.own().filter(|&own| own != Own::Stages) else { continue };
        let is_faster = raised.demand / class.demand >= NEXT_TO_NONE;
        let other = More::Own(own);
        if !is_faster && !of.contains(&other) && !others.contains(&other) {
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
                // A relay passes some things twice.
                Some((_, flows)) if flows.last() == Some(&flow) => {}
                Some((_, flows)) => flows.push(flow),
                None => parts.push((part, vec![flow])),
            }
        }
    }
    parts.retain(|(part, flows)| model.quickens(*part, flows) >= NEXT_TO_NONE);
    parts.into_iter().map(|(part, _)| part).collect()
}
