//! Windows of packets: the flows that are active together for the longest time, on the TLP engine, for
//! percentiles and for the difference of both engines.

use std::collections::BTreeMap;

use peerlane_results::Percentiles;
use rayon::prelude::*;

use super::case::{Found, Model};
use crate::flow::rates::Rates;
use crate::flow::solve::Settings;
use crate::model::{FlowSpec, Picos};
use crate::tlp::{self, Extent, TlpError, TlpOutcome, simulate};

/// Parts of the machine that get a window.
const MOST_WINDOWS: usize = 16;
/// Flows in a window at most.
const MOST_FLOWS: usize = 256;
/// Payload of a window: enough commands for percentiles, and little enough for seconds.
const PAYLOAD: (f64, f64) = (4e6, 1e8);
/// Commands of a window.
const COMMANDS: f64 = 2_000.0;
/// Commands of each flow, so that one in a hundred is there, and the payload of a flow and of all up to
/// which that holds.
const OF_EACH: (f64, f64, f64) = (128.0, 1.4e8, 7e8);
/// Windows until rates have settled, and the payload up to which that holds: a window of large blocks is long.
const UNTIL_SETTLED: (f64, f64) = (10.0, 1e9);

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
    let outcomes: Vec<(TlpOutcome, f64)> =
        sets.par_iter().map(|set| window(model, set)).collect::<Result<_, _>>()?;
    let mut windows =
        Windows { is_settled: true, count: (sets.len(), parts), ..Windows::default() };
    for (set, (outcome, flow)) in sets.into_iter().zip(outcomes) {
        let mut sum = 0.0;
        for (&index, one) in set.iter().zip(&outcome.flows) {
            let rate = crate::way::as_f64(one.bytes) / super::nanos(outcome.measured.to_nanos());
            sum += rate;
            windows.latency.insert(index, one.latency.percentiles());
            windows.rate.insert(index, rate);
        }
        windows.difference = windows.difference.max((flow / sum.max(1e-9) - 1.0).abs());
        windows.is_settled &= outcome.is_settled;
    }
    Ok(windows)
}

/// One window, and what the flow engine says of the same flows.
fn window(model: &Model, set: &[usize]) -> Result<(TlpOutcome, f64), TlpError> {
    let specs: Vec<FlowSpec> = set
        .iter()
        .map(|&index| FlowSpec { start: Picos::ZERO, ..model.flows[index].spec.clone() })
        .collect();
    let rates = Rates::of(&model.topology, &specs, Settings::default());
    let sum: f64 = rates.map_or(0.0, |rates| rates.solution.rates.iter().sum());
    let block = specs.iter().map(|spec| crate::way::as_f64(spec.request)).fold(1.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "a few hundred flows")]
    let of_each = ((OF_EACH.0 * block).min(OF_EACH.1) * specs.len() as f64).min(OF_EACH.2);
    let payload = (COMMANDS * block).clamp(PAYLOAD.0, PAYLOAD.1).max(of_each);
    let window = payload / sum.max(1e-3);
    let windows = (UNTIL_SETTLED.1 / payload).clamp(2.0, UNTIL_SETTLED.0);
    let settings = tlp::Settings {
        extent: Extent::Steady { window: picos(window), most: picos(windows * window + 1e6) },
        ..tlp::Settings::default()
    };
    Ok((simulate(&model.topology, &specs, &settings)?, sum))
}

fn picos(nanos: f64) -> Picos {
    Picos::nanos(super::setting::whole(nanos))
}
