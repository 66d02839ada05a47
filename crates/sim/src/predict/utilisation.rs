//! Loads of links, and the ceilings of a case.

use std::collections::BTreeMap;

use peerlane_results::{Direction as LoadDirection, Limit, LinkLoad};

use super::case::{CaseRates, Model};
use super::names::{self, Limiter, per_second};
use crate::flow::network::NetworkFlow;
use crate::model::{
    Framing, LinkDirection, LinkIndex, ModelLink, NodeIndex, NodeKind, Picos, ResourceOrigin,
    Topology,
};
use crate::way::rate_of;

/// Ceilings in a record.
const MAX_LIMITS: usize = 16;
/// Least capacity of a resource that counts as unbounded.
const UNBOUNDED: f64 = 1e9;

/// Load of each direction of each link that carried anything, over a time in nanoseconds; `moved` is the payload of each
/// transfer.
pub(super) fn loads(model: &Model, moved: &[f64], time: f64) -> Vec<LinkLoad> {
    let Model { topology, built, .. } = model;
    let mut payload = vec![0.0; built.what.len()];
    let mut wire = vec![0.0; built.what.len()];
    // Acknowledgements of the other direction come on top.
    let mut ahead = vec![0.0; built.what.len()];
    for (class, moved) in built.network.flows.iter().zip(moved) {
        for hop in class.legs.iter().flatten() {
            wire[hop.resource as usize] += hop.cost * moved;
            // Requests carry no payload: they cost less than a byte for each.
            if hop.cost >= 1.0 {
                payload[hop.resource as usize] += moved;
            }
        }
        for &(resource, cost) in &class.priority {
            ahead[resource as usize] += cost * moved;
        }
    }
    let time = time.max(1.0);
    let mut loads = Vec::new();
    for (at, what) in built.what.iter().enumerate() {
        let ResourceOrigin::Link(link, direction) = *what else { continue };
        let sent = wire[at] + ahead[at];
        if sent <= 0.0 || is_inside_a_chip(topology, link) {
            continue;
        }
        let share = if payload[at] > 0.0 { payload[at] / wire[at] } else { 1.0 };
        let rate = rate_of(topology, link);
        let ModelLink { upper, lower, .. } = *topology.link(link);
        let name = |node| topology.node(node).name.clone();
        loads.push(LinkLoad {
            below: name(lower),
            other_end: topology.is_between_sockets(link).then(|| name(upper)),
            direction: match direction {
                LinkDirection::Up => LoadDirection::Up,
                LinkDirection::Down => LoadDirection::Down,
            },
            payload: per_second(payload[at] / time),
            ceiling: per_second(rate * share),
            busy: Some(sent / (rate * time)),
        });
    }
    loads
}

fn is_inside_a_chip(topology: &Topology, link: LinkIndex) -> bool {
    topology.link(link).wire.framing == Framing::Bare && !topology.is_between_sockets(link)
}

/// Ceilings of a case, lowest first: the sum of rates at which each resource would be full, with the shares of what was
/// moved.
pub(super) fn limits(model: &Model, found: &CaseRates, moved: &[f64]) -> Vec<Limit> {
    let network = &model.built.network;
    let ones = vec![1.0; network.flows.len()];
    let shares = if moved.iter().sum::<f64>() > 0.0 { moved } else { &ones };
    let load = network.load(shares);
    let all = shares.iter().sum::<f64>();
    let heaviest = heaviest_users(&network.flows, shares, network.resources.len());
    let resources = network.resources.iter().zip(&load).zip(model.built.what.iter().zip(heaviest));
    let mut limits: Vec<Limit> = resources
        .filter(|((resource, load), _)| **load > 0.0 && resource.capacity < UNBOUNDED)
        .map(|((resource, load), (&what, flow))| {
            limit(model.name(model.limiter(flow, Some(what))), resource.capacity / load * all)
        })
        .collect();
    limits.extend(processors(model, shares));
    for (name, rate) in own(model, found, shares) {
        // Drives whose commands are shared are resources, too, and lower.
        if limits.iter().all(|limit| limit.object != name) {
            limits.push(limit(name, rate));
        }
    }
    limits.sort_by_key(|limit| limit.bytes_per_second);
    limits.truncate(MAX_LIMITS);
    limits
}

fn limit(object: String, rate: f64) -> Limit {
    Limit { object, bytes_per_second: per_second(rate) }
}

/// The transfer that takes most of each resource.
fn heaviest_users(classes: &[NetworkFlow], shares: &[f64], resources: usize) -> Vec<usize> {
    let mut most = vec![(0.0, 0); resources];
    for (flow, (class, share)) in classes.iter().zip(shares).enumerate() {
        for hop in class.legs.iter().flatten() {
            let known = &mut most[hop.resource as usize];
            if hop.cost * share > known.0 {
                *known = (hop.cost * share, flow);
            }
        }
    }
    most.into_iter().map(|(_, flow)| flow).collect()
}

/// Ceilings by commands and processors of single transfers, where those limit one.
fn own(model: &Model, found: &CaseRates, shares: &[f64]) -> BTreeMap<String, f64> {
    let is_own = |limiter: Limiter| limiter == Limiter::Processor || limiter.drive().is_some();
    let limiting = found.flows.iter().map(|flow| flow.limited_by).filter(|one| is_own(*one));
    let limiting: Vec<Limiter> = limiting.collect();
    let all = shares.iter().sum::<f64>();
    let mut ceilings = BTreeMap::new();
    for (flow, share) in model.flows.iter().zip(shares).filter(|(_, share)| **share > 0.0) {
        for (own, most) in flow.bounds.iter().filter(|(own, _)| limiting.contains(own)) {
            let ceiling = ceilings.entry(model.name(*own)).or_insert(f64::INFINITY);
            *ceiling = ceiling.min(most / share * all);
        }
    }
    ceilings
}

/// Ceilings by processors that copy, if transfers could not use them up and they are no resource.
fn processors(model: &Model, shares: &[f64]) -> Vec<Limit> {
    let all = shares.iter().sum::<f64>();
    let mut load: BTreeMap<NodeIndex, f64> = BTreeMap::new();
    for (flow, share) in model.flows.iter().zip(shares) {
        let works = flow.spec.parts().filter_map(|part| part.work.as_ref());
        for work in works.filter(|work| work.copy > Picos::ZERO) {
            *load.entry(work.at).or_default() += work.per_byte(flow.spec.request) * share;
        }
    }
    load.retain(|&at, load| {
        *load > 0.0 && model.built.find(ResourceOrigin::Processors(at)).is_none()
    });
    let ceiling = |(at, load)| match &model.topology.node(at).kind {
        NodeKind::HostMemory(host) => {
            let name = names::processors(&model.topology, at);
            host.cores.map(|cores| limit(name, f64::from(cores) / load * all))
        }
        _ => None,
    };
    load.into_iter().filter_map(ceiling).collect()
}
