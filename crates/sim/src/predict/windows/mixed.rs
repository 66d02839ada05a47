//! Percentiles of a flow that was in several sets, and in some without a window.

use peerlane_results::Percentiles;
use peerlane_units::{Bytes, Nanos};

use super::super::setting::whole;
use crate::flow::run::Pace;
use crate::model::Picos;
use crate::tlp::LatencyHistogram;
use crate::way::{as_f64, picos};

/// Rates of one flow that differ by less are the same.
const SAME: f64 = 0.01;

/// What one window showed of one flow.
#[derive(Debug, Clone)]
pub(super) struct Seen<'a> {
    pub(super) latency: &'a LatencyHistogram,
    /// Nanoseconds that commands took longer.
    pub(super) behind: f64,
    /// Payload a nanosecond that the flow moved in this set, by fluids.
    pub(super) rate: f64,
    /// By how much it was slower than fluids, where both moved something.
    pub(super) slower: Option<f64>,
    /// How long the set lasted.
    pub(super) time: f64,
}

/// Percentiles of a flow over all the time that it ran. What it moved at another rate than in any window is taken from
/// the window in which its rate was nearest: as many commands as then are under way, and so they take as much longer as
/// the rate is lower (Little's law).
pub(super) fn mixed(seen: &[Seen<'_>], paces: &[Pace]) -> Percentiles {
    let parts: Vec<(&Seen<'_>, f64, f64)> = paces.iter().map(|pace| nearest(seen, pace)).collect();
    let is_one =
        |(one, longer, _): &(&Seen<'_>, f64, f64)| *longer == 1.0 && std::ptr::eq(*one, parts[0].0);
    match (parts.first(), seen.first()) {
        (Some((one, ..)), _) if parts.iter().all(is_one) => {
            return later(&one.latency.percentiles(), one.behind);
        }
        (None, Some(one)) => return later(&one.latency.percentiles(), one.behind),
        _ => {}
    }
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (one, longer, bytes) in &parts {
        let count = as_f64(Bytes(one.latency.count())).max(1.0);
        let step = |(time, commands): (Picos, u64)| {
            let nanos = (picos(time.0) + one.behind) * longer;
            (nanos, as_f64(Bytes(commands)) * bytes / count)
        };
        steps.extend(one.latency.steps().map(step));
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = steps.iter().map(|(_, weight)| weight).sum();
    let at = |share: f64| {
        let mut sum = 0.0;
        let reached = |(_, weight): &&(f64, f64)| {
            sum += weight;
            sum >= all * share * (1.0 - 1e-9)
        };
        Nanos(steps.iter().find(reached).map_or(0, |&(nanos, _)| whole(nanos)))
    };
    Percentiles {
        count: seen.iter().map(|one| one.latency.count()).sum(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: at(1.0),
    }
}

/// The window in which the rate of a flow was nearest to that of a pace, by how much longer commands take at the pace,
/// and its payload. Rates that are solved again differ within [`SAME`].
fn nearest<'a, 's>(seen: &'s [Seen<'a>], pace: &Pace) -> (&'s Seen<'a>, f64, f64) {
    let far = |one: &Seen<'_>| (one.rate / pace.rate()).ln().abs();
    let (first, rest) = seen.split_first().expect("whoever is seen was in a window");
    let nearest =
        rest.iter().fold(first, |near, one| if far(one) < far(near) { one } else { near });
    let longer = nearest.rate / pace.rate();
    (nearest, if far(nearest) < SAME { 1.0 } else { longer }, pace.bytes)
}

/// Percentiles of commands that took so many nanoseconds longer.
pub(super) fn later(percentiles: &Percentiles, nanos: f64) -> Percentiles {
    let later = |time: Nanos| Nanos(time.0.saturating_add(whole(nanos)));
    Percentiles {
        count: percentiles.count,
        p50_ns: later(percentiles.p50_ns),
        p90_ns: later(percentiles.p90_ns),
        p99_ns: later(percentiles.p99_ns),
        p999_ns: later(percentiles.p999_ns),
        max_ns: later(percentiles.max_ns),
    }
}
