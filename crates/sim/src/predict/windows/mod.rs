//! Windows of packets: sets of flows that are active together, on the TLP engine, for percentiles and for the
//! difference of both engines.

mod apart;
mod choose;
mod length;
mod mixed;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use peerlane_results::Percentiles;
use peerlane_units::{ByteRate, Bytes};
use rayon::prelude::*;

pub(super) use self::apart::{Apart, TOLD};
pub(super) use self::choose::{Planned, plan};
use self::length::{brief, longer, settings, shallow};
use self::mixed::{Seen, mixed};
use super::alike::Part;
use super::case::Found;
use super::names;
use crate::flow::rates::Rates;
use crate::flow::solve::Settings;
use crate::model::{FlowSpec, Topology};
use crate::tlp::{
    self, FlowOutcome, TlpError, TlpOutcome, Train, are_alike, halved, simulate, simulate_beside,
};
use crate::way::as_f64;

/// What windows showed.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Latency of blocks of the flows that were in one.
    pub(super) latency: BTreeMap<usize, Percentiles>,
    /// How much slower those were than the flow engine says of the same flows, on average over time: 1 where both agree.
    pub(super) slower: BTreeMap<usize, f64>,
    /// Largest difference of the sum over a window between the engines, relative to the TLP engine.
    pub(super) difference: f64,
    /// The flow whose rates are furthest apart in a window; `None` without one.
    pub(super) furthest: Option<Apart>,
    /// Whether all of them were stable.
    pub(super) is_settled: bool,
    /// Sets of flows with a window, and all that there were.
    pub(super) count: (usize, usize),
}

/// Windows that were run, by the part of a machine that they are of: parts that are alike have one.
pub(super) type Shown<'a> = HashMap<&'a str, Window>;

/// Runs the windows of cases, each with its name.
pub(super) fn run<'a>(
    cases: impl Iterator<Item = (&'a str, &'a Planned)>,
) -> Result<Shown<'a>, (&'a str, TlpError)> {
    let mut jobs: Vec<(&str, &str, &Part, u64)> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for (name, planned) in cases {
        let new = planned.parts.iter().filter(|(_, _, key)| known.insert(key));
        jobs.extend(new.map(|(_, part, key)| (name, key.as_str(), part, planned.events)));
    }
    let shown = jobs.par_iter().map(|&(name, key, part, events)| match window(part, events) {
        Ok(window) => Ok((key, window)),
        Err(error) => Err((name, error)),
    });
    shown.collect()
}

/// What the windows of one case showed.
pub(super) fn of(planned: &Planned, shown: &Shown<'_>, found: &Found) -> Windows {
    let mut windows = Windows {
        is_settled: true,
        count: (planned.parts.len(), planned.of),
        ..Windows::default()
    };
    let mut seen: BTreeMap<usize, Vec<Seen<'_>>> = BTreeMap::new();
    for (set, part, key) in &planned.parts {
        let Some(window) = shown.get(key.as_str()) else { continue };
        let Window { outcome, behind, fluids, .. } = window;
        let mut sum = 0.0;
        for (at, &(index, moved)) in set.members.iter().enumerate() {
            let one = &outcome.flows[at];
            let rate = as_f64(one.bytes) / super::nanos(outcome.measured.to_nanos());
            sum += rate;
            let (behind, fluid) = (behind[at], fluids[at]);
            let slower = (rate > 0.0 && fluid > 0.0).then(|| fluid / rate);
            let latency = &one.latency;
            let seen = seen.entry(index).or_default();
            seen.push(Seen { latency, behind, rate: moved / set.time, slower, time: set.time });
        }
        let fluids: f64 = fluids.iter().sum();
        windows.difference = windows.difference.max((fluids / sum.max(1e-9) - 1.0).abs());
        windows.is_settled &= outcome.is_settled;
        let apart = apart::furthest(set, &part.flows, window);
        windows.furthest = windows.furthest.into_iter().chain(apart).reduce(Apart::further);
    }
    for &(flow, other) in &planned.like {
        if let Some(of_other) = seen.get(&other).cloned() {
            seen.insert(flow, of_other);
        }
    }
    for (index, seen) in seen {
        windows.latency.insert(index, mixed(&seen, &found.flows[index].paces));
        let known = || seen.iter().filter_map(|one| Some((one.slower?, one.time)));
        let time: f64 = known().map(|(_, time)| time).sum();
        if time > 0.0 {
            let slower = known().map(|(slower, time)| slower * time).sum::<f64>() / time;
            windows.slower.insert(index, slower);
        }
    }
    windows
}

/// What one window showed of its flows.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) outcome: TlpOutcome,
    /// Commands that each flow had under way.
    pub(super) depths: Vec<u32>,
    /// Nanoseconds that commands took longer, by depth that was left out.
    behind: Vec<f64>,
    /// What the flow engine says of the same flows, payload a nanosecond each.
    fluids: Vec<f64>,
    /// By what share rates may be off because packets move in trains.
    trains: f64,
}

/// One window, and what the flow engine says of the same flows.
///
/// Where packets agree with fluids, shorter trains would show no other rates, and depth beyond what keeps a
/// flow at its rate `x` only adds commands that wait for the others of their own flow: `n / x` each (Little's
/// law). Where they do not agree, neither is taken for granted; where rates of packets go on changing, more of them
/// would only take longer to do so, and the window is told to be less sure.
fn window(Part { topology, flows: specs }: &Part, events: u64) -> Result<Window, TlpError> {
    let rates = Rates::of(topology, specs, Settings::default());
    let fluids = rates.map_or_else(|_| vec![0.0; specs.len()], |rates| rates.solution.rates);
    let flow: f64 = fluids.iter().sum();
    let found: Vec<ByteRate> = fluids.iter().map(|&rate| names::per_second(rate)).collect();
    let shallow = shallow(specs);
    let depths = |specs: &[FlowSpec]| specs.iter().map(|spec| spec.depth).collect();
    let is_of_chance = specs.len() > 1 && specs.iter().any(|spec| spec.depth <= tlp::FEW_SLOTS);
    let settings = |specs| {
        let settings = tlp::Settings { events, ..settings(specs, flow) };
        if is_of_chance { longer(settings) } else { settings }
    };
    let of_shallow = settings(&shallow);
    let (outcome, agrees) = simulate_beside(topology, &shallow, &of_shallow, &found)?;
    if agrees || !outcome.is_settled {
        let left_out = specs.iter().zip(&shallow).map(|(whole, kept)| whole.depth - kept.depth);
        let behind = left_out.zip(specs).zip(&outcome.flows).map(|((depth, spec), one)| {
            f64::from(depth) * as_f64(spec.request) / as_f64(Bytes(one.rate.0)).max(1.0) * 1e9
        });
        let (depths, behind) = (depths(&shallow), behind.collect());
        return Ok(Window { outcome, depths, behind, fluids, trains: tlp::AGREEMENT });
    }
    let (settings, coarse) = if shallow == *specs {
        (of_shallow, outcome)
    } else {
        let settings = settings(specs);
        let train = Train::Fixed(outcome.train);
        let whole = tlp::Settings { train, ..settings.clone() };
        (settings, simulate(topology, specs, &whole)?)
    };
    let (outcome, trains) = with_trains(topology, specs, &settings, coarse, is_of_chance)?;
    Ok(Window { outcome, depths: depths(specs), behind: vec![0.0; specs.len()], fluids, trains })
}

/// Shorter trains until they agree, or events are spent, and by what share rates may be off for trains. Where chance has a
/// part, rates differ by whom commands met, too: a look at shorter trains is as good then as it is long, and a short one
/// will do where it sees no difference.
fn with_trains(
    topology: &Topology,
    specs: &[FlowSpec],
    settings: &tlp::Settings,
    mut coarse: TlpOutcome,
    is_of_chance: bool,
) -> Result<(TlpOutcome, f64), TlpError> {
    if is_of_chance && coarse.train > 1 {
        let train = Train::Fixed(coarse.train / 2);
        let look = simulate(topology, specs, &tlp::Settings { train, ..brief(settings) })?;
        coarse.events += look.events;
        if are_alike(&coarse, &look, chance) {
            return Ok((coarse, tlp::AGREEMENT));
        }
    }
    let beside = |one: &_, other: &_| if is_of_chance { chance(one, other) } else { 0.0 };
    let (outcome, agree) = halved(topology, specs, settings, coarse, beside)?;
    let is_known = agree || outcome.train == 1;
    let apart = outcome.train_difference.filter(|_| !is_known).unwrap_or_default();
    Ok((outcome, apart.max(tlp::AGREEMENT)))
}

/// By how much the rates of a flow in two runs may differ by chance: three standard errors of the mean time of a command,
/// of which its rate is the inverse (Little's law).
fn chance(one: &FlowOutcome, other: &FlowOutcome) -> f64 {
    3.0 * one.latency.relative_error().hypot(other.latency.relative_error())
}
