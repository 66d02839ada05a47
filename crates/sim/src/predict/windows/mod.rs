//! Windows of packets: sets of flows that are active together, on the TLP engine, for rates and percentiles.
//!
//! A set is run on the part of the machine that it uses; parts that are alike share one window. A window ends when each
//! flow has completed its commands ([`tlp::Extent::Window`]). All windows of a case share [`EVENTS`] equally.

mod percentiles;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use peerlane_results::{CaseSpec, Percentiles};
use peerlane_units::Bytes;
use rayon::prelude::*;

use self::percentiles::{WindowShare, over_time};
use super::alike::MachinePart;
use super::case::{CaseRates, Model};
use crate::flow::run::TransferSet;
use crate::model::{Arrival, FlowSpec, Picos, as_f64};
use crate::tlp::{self, RunLength, TlpError, TlpOutcome};

/// Windows of a case, at most.
const WINDOWS_MAX: usize = 16;
/// Events of all windows of a case, shared equally: a second or two of one core.
const EVENTS: u64 = 30_000_000;
/// Flows in a window, at most.
const FLOWS_MAX: usize = 256;
/// A flow that already has a window gets another where its rate differs by more ...
const RATE_CHANGE: f64 = 0.1;
/// ... and where it moves such a share of its payload: less hardly moves its 99th percentile.
const PAYLOAD_SHARE: f64 = 0.01;
/// Payload of a flow under way, at most: 14 GB/s over a millisecond. More depth only queues behind its own flow.
const UNDER_WAY_MAX: Bytes = Bytes::mib(16);
/// Depth that every flow keeps.
const DEPTH_KEPT: u32 = 4;

/// The windows of a case, before they are run.
#[derive(Debug)]
pub(super) struct PlannedWindows {
    /// Sets of flows, their parts of the machine, and the keys that are equal for parts that are alike.
    parts: Vec<(TransferSet, MachinePart, String)>,
    /// Events of each window, at most.
    events: u64,
    /// Sets of flows in all.
    sets: usize,
    /// Flows without a window, each with one that does the same in some set.
    like: Vec<(usize, usize)>,
}

/// Windows that were run, by key.
pub(super) type Shown<'a> = HashMap<&'a str, Window>;

/// One window.
#[derive(Debug)]
pub(super) struct Window {
    outcome: TlpOutcome,
    /// Latency of the depth that was left out of each flow, in nanoseconds.
    left_out: Vec<f64>,
}

/// The results of a case's windows.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Block latencies of the flows that were in one.
    pub(super) latency: BTreeMap<usize, Percentiles>,
    /// Rates of the flow engine over those of packets, on average over time.
    pub(super) slower: BTreeMap<usize, f64>,
    /// True if rates in all of them were stable, and all flows completed enough commands.
    pub(super) is_settled: bool,
    /// Sets of flows with a window, and all that there were.
    pub(super) count: (usize, usize),
}

/// Plans the windows of a case, of the longest sets first: for each flow one, then those that change its rate.
pub(super) fn plan(model: &Model, found: &CaseRates) -> PlannedWindows {
    let mut plan =
        WindowPlan { model, parts: Vec::new(), keys: HashSet::new(), rates: BTreeMap::new() };
    let sets = || found.phases.iter().filter(|set| set.members.len() <= FLOWS_MAX);
    let mut others = Vec::new();
    for set in sets() {
        if set.members.iter().any(|(flow, _)| !plan.rates.contains_key(flow)) {
            plan.take(set);
        } else {
            others.push(set);
        }
    }
    for set in others {
        if plan.has_other_rates(set, found) {
            plan.take(set);
        }
    }
    let like = plan.like();
    let events = EVENTS / u64::try_from(plan.keys.len()).unwrap_or(u64::MAX).max(1);
    let mut parts = plan.parts;
    // Windows of several cases are one only if they have as many events.
    parts.iter_mut().for_each(|(_, _, key)| key.push_str(&format!("events {events}\n")));
    PlannedWindows { parts, events, sets: found.sets, like }
}

/// A plan in progress.
struct WindowPlan<'a> {
    model: &'a Model,
    parts: Vec<(TransferSet, MachinePart, String)>,
    keys: HashSet<String>,
    /// Rates of each flow in the windows so far.
    rates: BTreeMap<usize, Vec<f64>>,
}

impl WindowPlan<'_> {
    /// Returns true if a flow of a set has another rate than in all windows so far, for long enough.
    fn has_other_rates(&self, set: &TransferSet, found: &CaseRates) -> bool {
        set.members.iter().any(|&(flow, rate)| {
            let is_far = |other: &f64| (rate / other).ln().abs() > RATE_CHANGE;
            let rates = self.rates.get(&flow).map_or(&[][..], Vec::as_slice);
            rate * set.time >= PAYLOAD_SHARE * found.flows[flow].bytes && rates.iter().all(is_far)
        })
    }

    /// Adds a set, unless there are too many windows.
    fn take(&mut self, set: &TransferSet) {
        let spec = |&(flow, _): &(usize, f64)| &self.model.flows[flow].spec;
        let part = MachinePart::of_flows(&self.model.topology, set.members.iter().map(spec));
        let key = part.key();
        if !self.keys.contains(&key) && self.keys.len() >= WINDOWS_MAX {
            return;
        }
        self.keys.insert(key.clone());
        for &(flow, rate) in &set.members {
            self.rates.entry(flow).or_default().push(rate);
        }
        self.parts.push((set.clone(), part, key));
    }

    /// Finds flows in windows that do the same as flows without one: a set has as many of those as were active, and names
    /// the first.
    fn like(&self) -> Vec<(usize, usize)> {
        let flows = &self.model.flows;
        let work = |flow: usize| {
            let spec = flows[flow].spec.clone();
            FlowSpec { name: String::new(), start: Picos::ZERO, bytes: Bytes::ZERO, ..spec }
        };
        let without = (0..flows.len()).filter(|flow| !self.rates.contains_key(flow));
        let like =
            |flow| Some((flow, *self.rates.keys().find(|&&other| work(other) == work(flow))?));
        without.filter_map(like).collect()
    }
}

/// Runs the windows of cases. An error comes with its case.
pub(super) fn run<'a>(
    cases: impl Iterator<Item = (&'a CaseSpec, &'a PlannedWindows)>,
) -> Result<Shown<'a>, (&'a CaseSpec, TlpError)> {
    let mut jobs: Vec<(&CaseSpec, &str, &MachinePart, u64)> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for (case, planned) in cases {
        let new = planned.parts.iter().filter(|(_, _, key)| known.insert(key));
        jobs.extend(new.map(|(_, part, key)| (case, key.as_str(), part, planned.events)));
    }
    let shown = jobs.par_iter().map(|&(case, key, part, events)| {
        let window = window(part, events).map_err(|error| (case, error))?;
        Ok((key, window))
    });
    shown.collect()
}

/// Runs one window, without the depth that only queues behind its own flow: so many commands `n` of a flow of rate `x`
/// wait `n / x` longer (Little's law), and leave the rate as it is.
fn window(MachinePart { topology, flows }: &MachinePart, events: u64) -> Result<Window, TlpError> {
    let kept: Vec<FlowSpec> = flows.iter().map(shallow).collect();
    let settings =
        tlp::Settings { extent: RunLength::Window { events }, ..tlp::Settings::default() };
    let outcome = tlp::simulate(topology, &kept, &settings)?;
    let left_out = flows.iter().zip(&kept).zip(&outcome.flows).map(|((flow, kept), one)| {
        let bytes = f64::from(flow.depth - kept.depth) * as_f64(flow.request);
        bytes / as_f64(Bytes(one.rate.0)).max(1.0) * 1e9
    });
    let left_out = left_out.collect();
    Ok(Window { outcome, left_out })
}

/// Returns a flow with [`UNDER_WAY_MAX`] under way. Paced flows keep their depth: how much of it waits is unknown.
fn shallow(flow: &FlowSpec) -> FlowSpec {
    let kept = u32::try_from(UNDER_WAY_MAX.0.div_ceil(flow.request.0.max(1))).unwrap_or(u32::MAX);
    let depth = match flow.arrival {
        Arrival::Paced { .. } => flow.depth,
        Arrival::Closed => flow.depth.min(kept.max(DEPTH_KEPT)),
    };
    FlowSpec { depth, ..flow.clone() }
}

/// Sums up the windows of one case.
pub(super) fn summary(planned: &PlannedWindows, shown: &Shown<'_>) -> Windows {
    let count = (planned.parts.len(), planned.sets);
    let mut windows = Windows { is_settled: true, count, ..Windows::default() };
    let mut shares: BTreeMap<usize, Vec<WindowShare<'_>>> = BTreeMap::new();
    for (set, _, key) in &planned.parts {
        let Some(Window { outcome, left_out }) = shown.get(key.as_str()) else { continue };
        windows.is_settled &= outcome.is_settled;
        for (at, &(flow, rate)) in set.members.iter().enumerate() {
            let one = &outcome.flows[at];
            shares.entry(flow).or_default().push(WindowShare {
                latency: &one.latency,
                left_out: left_out[at],
                rate,
                packet_rate: as_f64(one.bytes) / super::nanos(outcome.measured.to_nanos()),
                time: set.time,
            });
        }
    }
    for &(flow, other) in &planned.like {
        if let Some(of_other) = shares.get(&other).cloned() {
            shares.insert(flow, of_other);
        }
    }
    for (flow, shares) in shares {
        windows.latency.insert(flow, over_time(&shares));
        let moving = || shares.iter().filter(|one| one.packet_rate > 0.0 && one.rate > 0.0);
        let time: f64 = moving().map(|one| one.time).sum();
        if time > 0.0 {
            let slower = moving().map(|one| one.rate / one.packet_rate * one.time).sum::<f64>();
            windows.slower.insert(flow, slower / time);
        }
    }
    windows
}
