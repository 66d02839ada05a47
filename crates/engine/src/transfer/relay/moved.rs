//! Progress and counts of a relay.

use std::fmt;

use hdrhistogram::Histogram;
use peerlane_results::Percentiles;
use peerlane_units::Nanos;

use crate::io::ranges::RangeSet;

/// An empty histogram of latencies in nanoseconds, with three digits; it grows with the longest.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are few enough")
}

/// Counts a latency.
pub(crate) fn count(latencies: &mut Histogram<u64>, latency: Nanos) {
    // A growing histogram takes every value.
    let _ = latencies.record(latency.0);
}

/// Percentiles of latencies; all zero if nothing was counted.
pub(crate) fn percentiles(latency: &Histogram<u64>) -> Percentiles {
    if latency.is_empty() {
        return Percentiles::default();
    }
    let at = |quantile: f64| Nanos(latency.value_at_quantile(quantile));
    Percentiles {
        count: latency.len(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: Nanos(latency.max()),
    }
}

/// Progress of one target.
#[derive(Clone)]
pub struct Moved {
    /// Payload written, wherever it lies.
    pub bytes: u64,
    /// Bytes that the target made zero by itself.
    pub zeroed: u64,
    /// Zeroes that were written out of host memory.
    pub zeroes_written: u64,
    /// Bytes that needed nothing, since they are zero at both ends.
    pub skipped: u64,
    /// All of these together; offsets from the start of the copy. A copy of a great many pieces may
    /// forget small ones, never the other way round.
    pub written: RangeSet,
    /// From the start to the end of the first write; zero when there was none.
    pub first_done: Nanos,
    /// From the start to the end of the last write.
    pub last_done: Nanos,
    /// A watch asked for the end before all was moved.
    pub interrupted: bool,
    /// Reads of the source, in nanoseconds as the engine sees them.
    pub read_latency: Histogram<u64>,
    /// Writes to the target, in nanoseconds as the engine sees them.
    pub write_latency: Histogram<u64>,
    /// Requests that came back short or were tried again.
    pub repeats: u64,
}

impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moved")
            .field("bytes", &self.bytes)
            .field("zeroed", &self.zeroed)
            .field("zeroes_written", &self.zeroes_written)
            .field("skipped", &self.skipped)
            .field("contiguous", &self.contiguous())
            .field("first_done", &self.first_done)
            .field("last_done", &self.last_done)
            .field("interrupted", &self.interrupted)
            .field("reads", &self.read_latency.len())
            .field("writes", &self.write_latency.len())
            .field("repeats", &self.repeats)
            .finish()
    }
}

impl Moved {
    /// Bytes of the copy that are over: moved, made zero, or left out as holes.
    pub(crate) fn total(&self) -> u64 {
        self.bytes + self.zeroed + self.zeroes_written + self.skipped
    }

    /// Returns the end of the written range that starts at offset zero of the copy.
    pub fn contiguous(&self) -> u64 {
        self.written.iter().next().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    pub(crate) fn nothing() -> Self {
        Self {
            bytes: 0,
            zeroed: 0,
            zeroes_written: 0,
            skipped: 0,
            written: RangeSet::new(),
            first_done: Nanos(0),
            last_done: Nanos(0),
            interrupted: false,
            read_latency: latencies(),
            write_latency: latencies(),
            repeats: 0,
        }
    }
}
