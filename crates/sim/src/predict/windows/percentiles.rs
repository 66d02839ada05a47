//! Percentiles of a flow over all its time, from the windows of some of its sets.

use peerlane_results::Percentiles;
use peerlane_units::{Bytes, Nanos};

use super::super::setting::whole;
use crate::flow::run::TransferPace;
use crate::model::{as_f64, picos};
use crate::tlp::LatencyHistogram;

/// Rates of one flow within this count as the same.
const SAME_RATE: f64 = 0.01;

/// A flow in one window, and the set that the window stands for.
#[derive(Debug, Clone)]
pub(super) struct WindowShare<'a> {
    pub(super) latency: &'a LatencyHistogram,
    /// Latency of the depth that was left out, in nanoseconds.
    pub(super) left_out: f64,
    /// Payload a nanosecond of the flow in this set, by the flow engine and by packets.
    pub(super) rate: f64,
    pub(super) packet_rate: f64,
    /// Duration of the set, in nanoseconds.
    pub(super) time: f64,
}

impl WindowShare<'_> {
    fn distance(&self, pace: &TransferPace) -> f64 {
        (self.rate / pace.rate()).ln().abs()
    }
}

/// Returns the percentiles of a flow over its paces. Each pace has the latencies of the windows of nearest rate, by payload,
/// times the ratio of the rates: as many commands are under way (Little's law).
pub(super) fn over_time(windows: &[WindowShare<'_>], paces: &[TransferPace]) -> Percentiles {
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for pace in paces {
        let least = windows.iter().map(|one| one.distance(pace)).fold(f64::INFINITY, f64::min);
        let is_near = |one: &&WindowShare<'_>| one.distance(pace) <= least + SAME_RATE;
        let near: Vec<&WindowShare<'_>> = windows.iter().filter(is_near).collect();
        let moved: f64 = near.iter().map(|one| one.rate * one.time).sum();
        for one in near {
            let is_same = one.distance(pace) < SAME_RATE;
            let longer = if is_same { 1.0 } else { one.rate / pace.rate() };
            let bytes = pace.bytes * one.rate * one.time / moved;
            let weight = bytes / as_f64(Bytes(one.latency.count())).max(1.0);
            steps.extend(one.latency.steps().map(|(time, commands)| {
                ((picos(time.0) + one.left_out) * longer, as_f64(Bytes(commands)) * weight)
            }));
        }
    }
    percentiles(steps, windows.iter().map(|one| one.latency.count()).sum())
}

/// Returns the percentiles of weighted times.
fn percentiles(mut steps: Vec<(f64, f64)>, count: u64) -> Percentiles {
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
        count,
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: at(1.0),
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

    /// Median and 99th percentile, in microseconds, of windows (rate, time) and paces (bytes, time).
    fn of_windows(windows: &[(LatencyHistogram, f64, f64)], paces: &[(f64, f64)]) -> (u64, u64) {
        let windows = windows.iter().map(|(latency, rate, time)| {
            let (rate, time) = (*rate, *time);
            WindowShare { latency, left_out: 0.0, rate, packet_rate: rate, time }
        });
        let paces: Vec<TransferPace> =
            paces.iter().map(|&(bytes, time)| TransferPace { bytes, time }).collect();
        let found = over_time(&windows.collect::<Vec<_>>(), &paces);
        ((found.p50_ns.0 + 500) / 1_000, (found.p99_ns.0 + 500) / 1_000)
    }

    #[test]
    fn windows_count_by_payload() {
        // A tenth was moved where commands took 950 us.
        let windows = [(window(800), 1.32, 9e9), (window(950), 1.321, 1e9)];
        let (median, last) = of_windows(&windows, &[(1.32e10, 1e10)]);
        assert!(median.abs_diff(800) < 8 && last.abs_diff(950) < 9, "{median} {last}");
    }

    #[test]
    fn half_the_rate_doubles_latency() {
        let windows = [(window(100), 4.0, 1e9), (window(300), 1.0, 1e9)];
        // A third at the rate of the first, two thirds at half of that.
        let (median, last) = of_windows(&windows, &[(4e9, 1e9), (8e9, 4e9 + 1.0)]);
        assert!(median.abs_diff(200) < 3 && last.abs_diff(200) < 3, "{median} {last}");
    }
}
