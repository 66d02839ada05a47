//! One flow of a measurement: its ends as they are, its memory, its route proved, moved as often as asked.
//!
//! [`PlannedFlow::look`] only looks; [`PlannedFlow::carry`] opens, takes memory, proves a peer-to-peer
//! route, waits at a [`Gate`] until every flow of the case is as far, moves, flushes, waits again, and
//! only then checks the content. It keeps no journal, restores nothing and makes no name: a target is
//! written in place, within its range, and only if [`Consent`] names it.
//!
//! Besides drives, `host` and `null` are ends (plain direct reads into host buffers, plain direct
//! writes out of them), and so is `cmb:NAME` (one drive against that memory). From `host` to `host`
//! one core copies, or maps, and no device takes part.

mod blocks;
mod cached;
mod carry;
mod check_ends;
mod content;
mod error;
mod fill;
mod gpu;
mod hold;
mod in_turn;
mod look;
mod looks;
mod made;
mod mapped;
mod planned;
mod processor;
mod ready;
mod requests;
mod sample;
mod scrub;
mod serial;
mod stage;
mod stream;
#[cfg(test)]
mod stream_stage_tests;
#[cfg(test)]
mod tests;

use hdrhistogram::Histogram;
use peerlane_results::{BytesByRoute, RouteEvidence, StageRecord, Verification, Warning};
use peerlane_units::{Bytes, Nanos};

pub use error::MeasureError;
pub use hold::Hold;
pub use look::size_of;
pub use made::Made;
pub use planned::PlannedFlow;

use crate::io::clock::Clock;
use crate::io::trace::Tracer;
use crate::io::watch::Watch;

/// The result of a step of a measurement.
type Result<T, E = MeasureError> = std::result::Result<T, E>;

/// Permission to write, by drive and file.
#[derive(Debug, Clone, Default)]
pub struct Consent {
    /// Drives and files that may be written, as typed.
    pub scratch: Vec<String>,
    /// Permits overwriting content other than benchmark sectors.
    pub force: bool,
}

/// Barriers at which the flows of a case wait for each other.
pub trait Gate {
    /// Called when a flow is ready to move; returns when all are, false if one of them failed.
    fn begin(&self) -> bool;

    /// Called when a flow has moved and flushed; returns when all have.
    fn end(&self, moved: FlowMoved);
}

/// Payload of a flow, before anything is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowMoved {
    /// Payload.
    pub bytes: Bytes,
    /// Payload by the memory that requests named, as the ring counted them.
    pub requested: BytesByRoute,
}

/// A flow by itself has no other to wait for.
impl Gate for () {
    fn begin(&self) -> bool {
        true
    }

    fn end(&self, _: FlowMoved) {}
}

/// Clock, watch and barriers that the caller gives a flow.
pub struct FlowTools<'a> {
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// May ask for an end.
    pub watch: &'a mut dyn Watch,
    /// Barriers with the other flows.
    pub gate: &'a dyn Gate,
    /// Keeps others away from the targets of the case.
    pub hold: &'a Hold,
    /// Notes the requests of its ring, if there is one.
    pub trace: Option<&'a Tracer>,
    /// Of patterns and random offsets.
    pub seed: u64,
    /// Ends the flow at this time after its start; `None` if it ends by its bytes.
    pub time: Option<Nanos>,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// Outcome of a flow.
#[derive(Debug, Clone)]
pub struct FlowOutcome {
    /// Payload moved.
    pub bytes: Bytes,
    /// Time of the first request, by the clock.
    pub start: Nanos,
    /// Time when the first block was done.
    pub first_done: Nanos,
    /// Time when the closing flush was over.
    pub end: Nanos,
    /// Name of the memory between its ends.
    pub memory: String,
    /// Payload by the route it took.
    pub bytes_by_route: BytesByRoute,
    /// Reads from the source.
    pub read: Histogram<u64>,
    /// Writes to the target.
    pub write: Histogram<u64>,
    /// Blocks, from the hand-over of their first request to the end of their last.
    pub block: Histogram<u64>,
    /// Chunks, busy time and latency of its stage; `None` without one.
    pub stage: Option<StageRecord>,
    /// Payload completed over time, in samples.
    pub pace: Vec<(Nanos, Bytes)>,
    /// Check of the content at the target; `None` if nothing was stored.
    pub verification: Option<Verification>,
    /// Evidence of the route.
    pub evidence: Vec<RouteEvidence>,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
    /// The watch asked for the end before all was moved.
    pub interrupted: bool,
}

pub use crate::endpoints::find_gpu;

/// Latencies in nanoseconds; above an hour they count as an hour.
pub fn latencies() -> Histogram<u64> {
    crate::transfer::relay::latencies()
}
