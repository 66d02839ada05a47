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
/// those in which its rate was nearest, as much of each as it moved there: as many commands as then are under way, and so
/// they take as much longer as the rate is lower (Little's law).
pub(super) fn mixed(seen: &[Seen<'_>], paces: &[Pace]) -> Percentiles {
    let parts: Vec<Part<'_, '_>> = paces.iter().flat_map(|pace| nearest(seen, pace)).collect();
    let first = parts.first().map(|part| part.seen).or(seen.first());
    let is_first = |part: &Part<'_, '_>| {
        part.longer == 1.0 && first.is_some_and(|first| std::ptr::eq(part.seen, first))
    };
    if let (Some(one), true) = (first, parts.iter().all(is_first)) {
        return later(&one.latency.percentiles(), one.behind);
    }
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for Part { seen: one, longer, bytes } in &parts {
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

/// What of a pace is like a window: by how much longer its commands take, and its payload.
struct Part<'a, 's> {
    seen: &'s Seen<'a>,
    longer: f64,
    bytes: f64,
}

/// The windows in which the rate of a flow was nearest to that of a pace. Rates that differ within [`SAME`] are as near.
fn nearest<'a, 's>(seen: &'s [Seen<'a>], pace: &Pace) -> Vec<Part<'a, 's>> {
    let far = |one: &Seen<'_>| (one.rate / pace.rate()).ln().abs();
    let least = seen.iter().map(far).fold(f64::INFINITY, f64::min);
    let near: Vec<&Seen<'_>> = seen.iter().filter(|one| far(one) <= least + SAME).collect();
    let moved = |one: &Seen<'_>| one.rate * one.time;
    let all: f64 = near.iter().map(|one| moved(one)).sum();
    let part = |one: &&'s Seen<'a>| Part {
        seen: one,
        longer: if far(one) < SAME { 1.0 } else { one.rate / pace.rate() },
        bytes: pace.bytes * moved(one) / all,
    };
    near.iter().map(part).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A window with commands of so many microseconds.
    fn window(micros: u64) -> LatencyHistogram {
        let mut latency = LatencyHistogram::default();
        (0..100).for_each(|_| latency.record(micros * 1_000_000));
        latency
    }

    fn median_and_last(
        windows: &[(LatencyHistogram, f64, f64)],
        paces: &[(f64, f64)],
    ) -> (u64, u64) {
        let seen = windows.iter().map(|(latency, rate, time)| Seen {
            latency,
            behind: 0.0,
            rate: *rate,
            slower: None,
            time: *time,
        });
        let paces: Vec<Pace> = paces.iter().map(|&(bytes, time)| Pace { bytes, time }).collect();
        let found = mixed(&seen.collect::<Vec<_>>(), &paces);
        ((found.p50_ns.0 + 500) / 1_000, (found.p99_ns.0 + 500) / 1_000)
    }

    #[test]
    fn windows_of_one_rate_count_by_what_was_moved_in_each() {
        // Most of it was moved where commands took 800 us, and a tenth where they took 950.
        let windows = [(window(800), 1.32, 9e9), (window(950), 1.321, 1e9)];
        let (median, last) = median_and_last(&windows, &[(1.32e10, 1e10)]);
        assert!(median.abs_diff(800) < 8 && last.abs_diff(950) < 9, "{median} {last}");
    }

    #[test]
    fn at_half_the_rate_commands_take_twice_as_long() {
        let windows = [(window(100), 4.0, 1e9), (window(300), 1.0, 1e9)];
        // A third at the rate of the first, two thirds at half of that.
        let (median, last) = median_and_last(&windows, &[(4e9, 1e9), (8e9, 4e9 + 1.0)]);
        assert!(median.abs_diff(200) < 3 && last.abs_diff(200) < 3, "{median} {last}");
    }
}
