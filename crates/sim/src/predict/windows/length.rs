//! How long a window is, and how much may be under way in it: enough commands for percentiles, and little enough for
//! seconds.

use super::super::setting::whole;
use crate::model::{Arrival, FlowSpec, Picos};
use crate::tlp::{Extent, Settings};
use crate::way::as_f64;

/// Payload of a window at most: enough commands for percentiles, and little enough for seconds.
const PAYLOAD: (f64, f64) = (4e6, 1e8);
/// Commands of a window at most.
const COMMANDS: f64 = 2_000.0;
/// Commands of each flow, so that one in a hundred is there, and the payload of a flow and of all up to
/// which that holds.
const OF_EACH: (f64, f64, f64) = (256.0, 1.4e8, 7e8);
/// The same of the shortest window, and of the shortest time before it.
const OF_EACH_AT_LEAST: (f64, f64, f64) = (128.0, 7e7, 2.5e8);
/// The same of a window that has no events left.
const OF_EACH_BRIEF: (f64, f64, f64) = (32.0, 2e7, 6e7);
/// Commands of each flow in a window whatever their payload.
const AT_LEAST: f64 = 4.0;
/// Windows until rates have settled, and the payload up to which that holds: a window of large blocks is long.
const UNTIL_SETTLED: (f64, f64) = (10.0, 1e9);
/// By how much a window is longer where gaps between commands decide whom they meet, for longer than it otherwise is.
const MORE_BY_CHANCE: u64 = 6;
/// A run has half of the events of a window then, and the look at shorter trains a third of that.
const BY_CHANCE: (u64, u64) = (2, 3);
/// Payload under way from which on depth is left out, and the depth that is left.
const UNDER_WAY: f64 = 2.5e8;
const SHALLOW: u32 = 4;

/// A window for commands that meet by chance.
pub(super) fn longer(mut settings: Settings) -> Settings {
    settings.events /= BY_CHANCE.0;
    if let Extent::Even { least, window, .. } = &mut settings.extent {
        *least = Picos(least.0.saturating_mul(MORE_BY_CHANCE));
        *window = Picos(window.0.saturating_mul(MORE_BY_CHANCE));
    }
    settings
}

/// A look at what another window for commands that meet by chance has seen.
pub(super) fn brief(settings: &Settings) -> Settings {
    Settings { events: settings.events / BY_CHANCE.1, ..settings.clone() }
}

/// The flows with less depth, where their commands hold more payload than a window should take to begin. Of what waits
/// before it begins nobody knows how much is under way, and so what to add for what is left out.
pub(super) fn shallow(specs: &[FlowSpec]) -> Vec<FlowSpec> {
    let kept = (UNDER_WAY / under_way(specs)).min(1.0);
    let depth = |spec: &FlowSpec| {
        if let Arrival::Paced { .. } = spec.arrival {
            return spec.depth;
        }
        let depth = whole(f64::from(spec.depth) * kept);
        u32::try_from(depth).unwrap_or(u32::MAX).max(SHALLOW).min(spec.depth)
    };
    specs.iter().map(|spec| FlowSpec { depth: depth(spec), ..spec.clone() }).collect()
}

fn under_way(specs: &[FlowSpec]) -> f64 {
    specs.iter().map(|spec| as_f64(spec.request) * f64::from(spec.depth)).sum::<f64>().max(1.0)
}

/// Payload of so many commands of each flow, as far as it is not too much for each and for all.
fn of_each(specs: &[FlowSpec], (commands, each, all): (f64, f64, f64)) -> f64 {
    ((commands * largest(specs)).min(each) * count(specs)).min(all)
}

fn largest(specs: &[FlowSpec]) -> f64 {
    specs.iter().map(|spec| as_f64(spec.request)).fold(1.0, f64::max)
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred flows")]
fn count(specs: &[FlowSpec]) -> f64 {
    specs.len() as f64
}

/// Payload of a window, where its length is that of few flows.
fn together(specs: &[FlowSpec]) -> f64 {
    (COMMANDS * largest(specs)).clamp(PAYLOAD.0, PAYLOAD.1)
}

/// Payload before a window, at least, and of a window of many flows.
fn at_least(specs: &[FlowSpec]) -> f64 {
    together(specs).max(of_each(specs, OF_EACH_AT_LEAST))
}

/// Payload of a window, at most.
fn payload(specs: &[FlowSpec]) -> f64 {
    together(specs).max(of_each(specs, OF_EACH))
}

/// Payload before a window, at most.
fn until_settled(specs: &[FlowSpec]) -> f64 {
    let payload = payload(specs);
    let until = (UNTIL_SETTLED.0 * payload).min(UNTIL_SETTLED.1).max(2.0 * payload);
    until.max(2.0 * under_way(specs))
}

/// Payload that is simulated for a window, at most.
pub(super) fn at_most(specs: &[FlowSpec]) -> f64 {
    until_settled(specs) + payload(specs)
}

/// How long a window is for flows of these rates together.
pub(super) fn settings(specs: &[FlowSpec], rate: f64) -> Settings {
    let payload = payload(specs);
    let least = of_each(specs, OF_EACH_AT_LEAST);
    let some = AT_LEAST * largest(specs) * count(specs);
    let least = least.max(some).min(payload);
    let brief = of_each(specs, OF_EACH_BRIEF).max(some).min(least);
    let time = |payload: f64| picos(payload / rate.max(1e-3));
    let extent = Extent::Even {
        after: time(at_least(specs)),
        brief: time(brief),
        least: time(least),
        window: time(payload),
        most: Picos(time(until_settled(specs)).0.saturating_add(1_000_000_000)),
    };
    Settings { extent, ..Settings::default() }
}

fn picos(nanos: f64) -> Picos {
    Picos::nanos(whole(nanos))
}
