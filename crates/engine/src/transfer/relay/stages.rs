//! The account of each stage: chunks, latencies, and its busy time.

use hdrhistogram::Histogram;
use peerlane_results::StageRecord;
use peerlane_units::{Bytes, Nanos};

use super::moved::{count, latencies, percentiles};

/// The account of one stage.
#[derive(Debug, Clone)]
pub(crate) struct StageTally {
    /// Chunks that it is done with.
    pub chunks: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Time with one chunk at least.
    pub busy: Nanos,
    /// From the start on a chunk to its end, in nanoseconds as the engine sees it.
    pub latency: Histogram<u64>,
    /// Chunks that it has, and since when it has one at least.
    open: u32,
    since: Nanos,
}

impl Default for StageTally {
    fn default() -> Self {
        let (chunks, bytes, busy, open, since) = (0, 0, Nanos(0), 0, Nanos(0));
        Self { chunks, bytes, busy, latency: latencies(), open, since }
    }
}

impl StageTally {
    /// It got a chunk.
    pub(crate) fn begins(&mut self, now: Nanos) {
        if self.open == 0 {
            self.since = now;
        }
        self.open += 1;
    }

    /// It gave one back, well or not.
    pub(crate) fn ends(&mut self, now: Nanos) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.busy = self.busy.after(now.since(self.since));
        }
    }

    /// It is done with a chunk.
    pub(crate) fn done(&mut self, bytes: u64, latency: Nanos) {
        self.chunks += 1;
        self.bytes += bytes;
        count(&mut self.latency, latency);
    }

    /// The record of it, without a root over digests.
    pub(crate) fn record(&self, stage: String) -> StageRecord {
        StageRecord {
            stage,
            chunks: self.chunks,
            bytes: Bytes(self.bytes),
            busy_ns: self.busy,
            latency: percentiles(&self.latency),
            root: None,
            no_root: None,
        }
    }

    /// Adds the account of the same stage from another time.
    pub(crate) fn add(&mut self, other: &Self) {
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.busy = self.busy.after(other.busy);
        // A growing histogram takes every value.
        let _ = self.latency.add(&other.latency);
    }
}
