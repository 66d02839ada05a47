//! Windows of packets: the flows that are active together for the longest time, on the TLP engine, for
//! percentiles and for the difference of both engines.

use std::collections::BTreeMap;

use peerlane_results::Percentiles;
use peerlane_units::{ByteRate, Bytes, Nanos};
use rayon::prelude::*;

use super::case::{Found, Model};
use super::names;
use crate::flow::rates::Rates;
use crate::flow::solve::Settings;
use crate::model::{FlowSpec, Picos};
use crate::tlp::{self, Extent, TlpError, TlpOutcome, simulate, simulate_beside};
use crate::way::as_f64;

/// Parts of the machine that get a window.
const MOST_WINDOWS: usize = 16;
/// Flows in a window at most.
const MOST_FLOWS: usize = 256;
/// Payload of a window at most: enough commands for percentiles, and little enough for seconds.
const PAYLOAD: (f64, f64) = (4e6, 1e8);
/// Commands of a window at most.
const COMMANDS: f64 = 2_000.0;
/// Commands of each flow, so that one in a hundred is there, and the payload of a flow and of all up to
/// which that holds.
const OF_EACH: (f64, f64, f64) = (256.0, 1.4e8, 7e8);
/// The same of the shortest window, and commands of each flow that it has whatever their payload.
const OF_EACH_AT_LEAST: (f64, f64, f64) = (128.0, 7e7, 2.5e8);
const AT_LEAST: f64 = 4.0;
/// Windows until rates have settled, and the payload up to which that holds: a window of large blocks is long.
const UNTIL_SETTLED: (f64, f64) = (10.0, 1e9);
/// Payload under way from which on depth is left out, and the depth that is left.
const UNDER_WAY: f64 = 2.5e8;
const SHALLOW: u32 = 4;

/// What windows showed.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Latency of blocks of the flows that were in one.
    pub(super) latency: BTreeMap<usize, Percentiles>,
    /// Rate of those, payload a nanosecond.
    pub(super) rate: BTreeMap<usize, f64>,
    /// Largest difference of the sum over a window between the engines, relative to the TLP engine.
    pub(super) difference: f64,
    /// Whether all of them were stable.
    pub(super) is_settled: bool,
    /// Windows that were run, and parts of the machine there are.
    pub(super) count: (usize, usize),
}

/// Runs windows.
pub(super) fn run(model: &Model, found: &Found) -> Result<Windows, TlpError> {
    let parts = found.sets.len();
    let sets: Vec<&Vec<usize>> =
        found.sets.iter().filter(|set| set.len() <= MOST_FLOWS).take(MOST_WINDOWS).collect();
    let outcomes: Vec<Window> =
        sets.par_iter().map(|set| window(model, set)).collect::<Result<_, _>>()?;
    let mut windows =
        Windows { is_settled: true, count: (sets.len(), parts), ..Windows::default() };
    for (set, Window { outcome, behind, flow }) in sets.into_iter().zip(outcomes) {
        let mut sum = 0.0;
        for ((&index, one), behind) in set.iter().zip(&outcome.flows).zip(behind) {
            let rate = as_f64(one.bytes) / super::nanos(outcome.measured.to_nanos());
            sum += rate;
            windows.latency.insert(index, later(one.latency.percentiles(), behind));
            windows.rate.insert(index, rate);
        }
        windows.difference = windows.difference.max((flow / sum.max(1e-9) - 1.0).abs());
        windows.is_settled &= outcome.is_settled;
    }
    Ok(windows)
}

/// Percentiles of commands that took so many nanoseconds longer.
fn later(percentiles: Percentiles, nanos: f64) -> Percentiles {
    let later = |time: Nanos| Nanos(time.0.saturating_add(super::setting::whole(nanos)));
    Percentiles {
        count: percentiles.count,
        p50_ns: later(percentiles.p50_ns),
        p90_ns: later(percentiles.p90_ns),
        p99_ns: later(percentiles.p99_ns),
        p999_ns: later(percentiles.p999_ns),
        max_ns: later(percentiles.max_ns),
    }
}

/// What one window showed of its flows.
struct Window {
    outcome: TlpOutcome,
    /// Nanoseconds that commands took longer, by depth that was left out.
    behind: Vec<f64>,
    /// The sum of what the flow engine says of the same flows.
    flow: f64,
}

/// One window, and what the flow engine says of the same flows.
///
/// Where packets agree with fluids, shorter trains would show no other rates, and depth beyond what keeps a
/// flow at its rate `x` only adds commands that wait for the others of their own flow: `n / x` each (Little's
/// law). Where they do not agree, neither is taken for granted.
fn window(model: &Model, set: &[usize]) -> Result<Window, TlpError> {
    let specs: Vec<FlowSpec> = set
        .iter()
        .map(|&index| FlowSpec { start: Picos::ZERO, ..model.flows[index].spec.clone() })
        .collect();
    let rates = Rates::of(&model.topology, &specs, Settings::default());
    let rates = rates.map_or_else(|_| vec![0.0; specs.len()], |rates| rates.solution.rates);
    let flow: f64 = rates.iter().sum();
    let found: Vec<ByteRate> = rates.iter().map(|&rate| names::per_second(rate)).collect();
    let shallow = shallow(&specs);
    let settings = settings(&shallow, flow);
    let (outcome, agrees) = simulate_beside(&model.topology, &shallow, &settings, &found)?;
    if agrees {
        let left_out = specs.iter().zip(&shallow).map(|(whole, kept)| whole.depth - kept.depth);
        let behind = left_out.zip(&specs).zip(&outcome.flows).map(|((depth, spec), one)| {
            f64::from(depth) * as_f64(spec.request) / as_f64(Bytes(one.rate.0)).max(1.0) * 1e9
        });
        return Ok(Window { behind: behind.collect(), outcome, flow });
    }
    let outcome = simulate(&model.topology, &specs, &self::settings(&specs, flow))?;
    Ok(Window { behind: vec![0.0; specs.len()], outcome, flow })
}

/// The flows with less depth, where their commands hold more payload than a window should take to begin.
fn shallow(specs: &[FlowSpec]) -> Vec<FlowSpec> {
    let kept = (UNDER_WAY / under_way(specs)).min(1.0);
    let depth = |spec: &FlowSpec| {
        let depth = super::setting::whole(f64::from(spec.depth) * kept);
        u32::try_from(depth).unwrap_or(u32::MAX).max(SHALLOW).min(spec.depth)
    };
    specs.iter().map(|spec| FlowSpec { depth: depth(spec), ..spec.clone() }).collect()
}

fn under_way(specs: &[FlowSpec]) -> f64 {
    specs.iter().map(|spec| as_f64(spec.request) * f64::from(spec.depth)).sum::<f64>().max(1.0)
}

/// How long a window is for flows of these rates together.
fn settings(specs: &[FlowSpec], rate: f64) -> tlp::Settings {
    let block = specs.iter().map(|spec| as_f64(spec.request)).fold(1.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "a few hundred flows")]
    let flows = specs.len() as f64;
    let of_each =
        |(commands, each, all): (f64, f64, f64)| ((commands * block).min(each) * flows).min(all);
    let payload = (COMMANDS * block).clamp(PAYLOAD.0, PAYLOAD.1).max(of_each(OF_EACH));
    let least = of_each(OF_EACH_AT_LEAST).max(AT_LEAST * block * flows).min(payload);
    let until = (UNTIL_SETTLED.0 * payload).min(UNTIL_SETTLED.1).max(2.0 * payload);
    let time = |payload: f64| picos(payload / rate.max(1e-3));
    let extent = Extent::Even {
        least: time(least),
        window: time(payload),
        most: Picos(time(until.max(2.0 * under_way(specs))).0.saturating_add(1_000_000_000)),
    };
    tlp::Settings { extent, ..tlp::Settings::default() }
}

fn picos(nanos: f64) -> Picos {
    Picos::nanos(super::setting::whole(nanos))
}
