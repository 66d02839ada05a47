//! Percentiles of a flow over all its time, from the windows of some of its sets.

use peerlane_results::Percentiles;
use peerlane_units::{Bytes, Nanos};

use super::super::setting::whole;
use crate::model::{as_f64, picos};
use crate::tlp::LatencyHistogram;

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

/// Returns the percentiles of a flow over its windows, each by its payload.
pub(super) fn over_time(windows: &[WindowShare<'_>]) -> Percentiles {
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for one in windows {
        let weight = one.rate * one.time / as_f64(Bytes(one.latency.count())).max(1.0);
        steps.extend(one.latency.steps().map(|(time, commands)| {
            (picos(time.0) + one.left_out, as_f64(Bytes(commands)) * weight)
        }));
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

    #[test]
    fn windows_count_by_payload() {
        // A tenth was moved while commands took 950 us.
        let windows = [(800, 9e9), (950, 1e9)].map(|(micros, time)| {
            let mut latency = LatencyHistogram::default();
            (0..100).for_each(|_| latency.record(micros * 1_000_000));
            (latency, time)
        });
        let shares: Vec<WindowShare<'_>> = windows
            .iter()
            .map(|(latency, time)| {
                let (left_out, rate) = (0.0, 1.32);
                WindowShare { latency, left_out, rate, packet_rate: rate, time: *time }
            })
            .collect();
        let found = over_time(&shares);
        let [median, last] = [found.p50_ns, found.p99_ns].map(|time| (time.0 + 500) / 1_000);
        assert!(median.abs_diff(800) < 8 && last.abs_diff(950) < 9, "{median} {last}");
    }
}
