//! Which sets of flows get a window.

use std::collections::{BTreeMap, HashSet};

use peerlane_units::Bytes;

use super::super::alike::Part;
use super::super::case::{Found, Model, Set};
use super::length::{at_most, shallow};
use crate::model::{FlowSpec, Picos};

/// Windows of a case.
const MOST_WINDOWS: usize = 16;
/// A set is looked at for flows that another set has shown, too, where it has such a share of the payload of one: what
/// has less cannot move its 99th percentile far.
const SHARE: f64 = 0.01;
/// Payload of the windows of such sets with all that may come before it, so that a case stays within seconds.
const AGAIN: f64 = 4e9;
/// Events of all windows of a case, shared equally: two or three seconds of one core.
pub(super) const EVENTS: u64 = 30_000_000;
/// Flows in a window at most.
const MOST_FLOWS: usize = 256;
/// Rates of one flow that differ by more are far from each other.
const FAR: f64 = 0.1;

/// The windows of a case that are to be run.
#[derive(Debug)]
pub(in crate::predict) struct Planned {
    /// Sets of flows, the part of the machine that each is on, and what is the same for parts that are alike.
    pub(in crate::predict) parts: Vec<(Set, Part, String)>,
    /// Events that each window may have.
    pub(super) events: u64,
    /// Sets of flows that there are.
    pub(super) of: usize,
    /// For each flow without a window one that does the same in some set, whose place it takes in another.
    pub(super) like: Vec<(usize, usize)>,
}

/// Which windows a case has: of sets in order of the time that they last, first of those in which a flow is that no longer
/// one has, then of those in which one is far from its rates in all before.
pub(in crate::predict) fn plan(model: &Model, found: &Found) -> Planned {
    let (keys, rates) = (HashSet::new(), BTreeMap::new());
    let mut plan = Plan { model, parts: Vec::new(), keys, rates };
    let fits = found.sets.iter().filter(|set| set.members.len() <= MOST_FLOWS);
    let (mut again, mut left) = (Vec::new(), AGAIN);
    for set in fits {
        if set.members.iter().any(|(flow, _)| !plan.rates.contains_key(flow)) {
            plan.take(set, f64::INFINITY);
        } else {
            again.push(set);
        }
    }
    for set in again {
        if plan.shows_more(set, found) {
            left -= plan.take(set, left);
        }
    }
    let like = plan.like();
    let events = EVENTS / u64::try_from(plan.keys.len()).unwrap_or(u64::MAX).max(1);
    let mut parts = plan.parts;
    // A window that another case has, too, is the same there only with as many events.
    parts.iter_mut().for_each(|(_, _, key)| key.push_str(&format!("events {events}\n")));
    Planned { parts, events, of: found.sets_in_all, like }
}

/// Windows on the way to a plan.
struct Plan<'a> {
    model: &'a Model,
    parts: Vec<(Set, Part, String)>,
    keys: HashSet<String>,
    /// Flows that are in one, each with its rates there.
    rates: BTreeMap<usize, Vec<f64>>,
}

impl Plan<'_> {
    /// Whether a flow is far from all its rates so far, and moves enough meanwhile to be looked at.
    fn shows_more(&self, set: &Set, found: &Found) -> bool {
        set.members.iter().any(|&(flow, moved)| {
            let rates = self.rates.get(&flow).map_or(&[][..], Vec::as_slice);
            let is_far = |rate: &f64| (moved / set.time / rate).ln().abs() > FAR;
            moved >= SHARE * found.flows[flow].bytes && rates.iter().all(is_far)
        })
    }

    /// Takes a set in, where there is room for another window, of no more than so much payload. Returns how much it is.
    fn take(&mut self, set: &Set, most: f64) -> f64 {
        let spec = |&(flow, _): &(usize, f64)| &self.model.flows[flow].spec;
        let part = Part::of(&self.model.topology, set.members.iter().map(spec));
        let key = part.key();
        let is_known = self.keys.contains(&key);
        let payload = if is_known { 0.0 } else { at_most(&shallow(&part.flows)) };
        if !is_known && self.keys.len() >= MOST_WINDOWS || payload > most {
            return 0.0;
        }
        self.keys.insert(key.clone());
        for &(flow, moved) in &set.members {
            self.rates.entry(flow).or_default().push(moved / set.time);
        }
        self.parts.push((set.clone(), part, key));
        payload
    }

    /// Of flows that do the same, a set has as many as were active, and names those that were first.
    fn like(&self) -> Vec<(usize, usize)> {
        let flows = &self.model.flows;
        let does = |flow: usize| {
            let spec = flows[flow].spec.clone();
            FlowSpec { name: String::new(), start: Picos::ZERO, bytes: Bytes::ZERO, ..spec }
        };
        let without = (0..flows.len()).filter(|flow| !self.rates.contains_key(flow));
        let like =
            |flow| Some((flow, *self.rates.keys().find(|&&other| does(other) == does(flow))?));
        without.filter_map(like).collect()
    }
}
