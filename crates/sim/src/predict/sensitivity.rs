//! Sensitivity of a case to its limits: the rate with 10 % more of one, over the rate without.
//!
//! A finite difference on the network of the case, by the flow engine: one capacity, one cost or one bound changes, and
//! rates are solved once more. A block takes no less time on an idle machine, so transfers limited by the stages
//! of their blocks have no sensitivity here.

use std::collections::BTreeMap;

use peerlane_results::Gain;

use super::case::{CAREFUL, CaseRates, Model};
use super::error::CaseError;
use super::flows::Planned;
use super::names::Limiter;
use crate::flow::network::FlowNetwork;
use crate::model::{ResourceOrigin, as_f64, picos};

/// The step of the difference.
const MORE: f64 = 1.1;
/// Most limits of one kind that are raised alone, too.
const MAX_ALONE: usize = 8;

/// The gains of a case whose flows the flow engine found, most first: of all limits of one kind together, and of each.
pub(super) fn gains(model: &Model, found: &CaseRates) -> Result<Vec<Gain>, CaseError> {
    let gain = |resource, limiters: &[Limiter]| {
        let after = model.flow_on(&raised(model, limiters), CAREFUL)?;
        Ok::<_, CaseError>(Gain { resource, ratio: after.rate() / found.rate() })
    };
    let mut kinds: BTreeMap<String, Vec<Limiter>> = BTreeMap::new();
    for limiter in found.flows.iter().map(|flow| flow.limited_by) {
        let kind = limiter.several(usize::MAX).unwrap_or_else(|| model.name(limiter));
        let kind = kinds.entry(kind).or_default();
        if limiter != Limiter::Stages && !kind.contains(&limiter) {
            kind.push(limiter);
        }
    }
    let mut gains = Vec::new();
    for kind in kinds.into_values() {
        let together = kind.first().and_then(|first| first.several(kind.len()));
        if let (Some(name), [_, _, ..]) = (together, &kind[..]) {
            gains.push(gain(name, &kind)?);
        }
        for limiter in kind.iter().take(MAX_ALONE) {
            let name = model.name(*limiter);
            let name = name.strip_prefix("its ").unwrap_or(&name).to_owned();
            gains.push(gain(name, &[*limiter])?);
        }
    }
    gains.sort_by(|a, b| b.ratio.total_cmp(&a.ratio).then(a.resource.cmp(&b.resource)));
    Ok(gains)
}

/// The network with 10 % more of some limits: of a resource its capacity, of media and commands the bytes that they carry
/// in a time, of a bound the demand of the flows that have it.
fn raised(model: &Model, limiters: &[Limiter]) -> FlowNetwork {
    let mut network = model.built.network.clone();
    let is_medium = |what| matches!(what, ResourceOrigin::Medium(..));
    for (resource, &what) in network.resources.iter_mut().zip(&model.built.what) {
        if limiters.contains(&Limiter::Resource(what)) && !is_medium(what) {
            resource.capacity *= MORE;
        }
    }
    for (index, class) in network.flows.iter_mut().enumerate() {
        if limiters.iter().any(|limiter| !matches!(limiter, Limiter::Resource(_))) {
            class.demand = demand(&model.flows[index], limiters);
        }
        for hop in class.legs.iter_mut().flatten() {
            let what = model.built.what[hop.resource as usize];
            if is_medium(what) && limiters.contains(&model.limiter(index, Some(what))) {
                hop.cost /= MORE;
                hop.quantum /= MORE;
            }
        }
    }
    network
}

/// The demand of a flow with 10 % more of some of its bounds. A faster processor also shortens its blocks.
fn demand(flow: &Planned, limiters: &[Limiter]) -> f64 {
    let is_raised = |limiter| limiters.contains(&limiter);
    let works = flow.spec.parts().filter_map(|part| part.work.as_ref());
    let copy: f64 = works.map(|work| picos(work.copy.0)).sum();
    let saved = if is_raised(Limiter::Processor) { copy * (1.0 - 1.0 / MORE) } else { 0.0 };
    let bytes = as_f64(flow.spec.request) * f64::from(flow.spec.depth);
    let raised = |&(limiter, rate): &(Limiter, f64)| match limiter {
        _ if is_raised(limiter) => rate * MORE,
        Limiter::Depth | Limiter::Stages => bytes / (bytes / rate - saved),
        _ => rate,
    };
    flow.bounds.iter().map(raised).fold(f64::INFINITY, f64::min)
}
