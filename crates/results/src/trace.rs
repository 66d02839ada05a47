//! One copy, request by request, as the engine saw it.
//!
//! This is not a record: it is not kept as JSON, since a copy has as many requests as it has blocks.
//! `peerlane-report` writes it as a file that a viewer opens. Times are those of one clock, whatever its
//! zero is; all traces that are written together share it.

use peerlane_units::Nanos;

use crate::MemoryKind;

/// Requests and phases of one copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Name of the copy: `nvme0n1 to nvme1n1`.
    pub name: String,
    /// Drives and stages, by the names that a reader knows.
    pub drives: Vec<String>,
    /// Memories that payload or its check rested in.
    pub memories: Vec<TraceMemory>,
    /// Slots that the plan has for payload.
    pub slots: u32,
    /// Phases of the engine, one after the other.
    pub phases: Vec<TracePhase>,
    /// Requests in the order of their submission.
    pub requests: Vec<TraceRequest>,
    /// Sleeps of the engine's thread, waiting for a completion.
    pub waits: Vec<Span>,
    /// Requests that are not in it, since there was no room.
    pub left_out: u64,
}

/// A period of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Begin.
    pub begin: Nanos,
    /// End, not before the begin.
    pub end: Nanos,
}

/// A memory that requests used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceMemory {
    /// Its name: `cmb:nvme2`, `host memory`.
    pub name: String,
    /// Kind of its owner: the host, a drive or a GPU.
    pub kind: MemoryKind,
}

/// One phase of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracePhase {
    /// Its activity.
    pub kind: PhaseKind,
    /// Its time.
    pub span: Span,
}

/// Activities of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseKind {
    /// Memory is taken and files are opened.
    Prepare,
    /// The route is proved: host memory is used on purpose.
    Prove,
    /// Payload moves.
    Move,
    /// Written data is flushed.
    Flush,
    /// Content is compared, by host memory on purpose.
    Verify,
}

/// One request to a drive or a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRequest {
    /// The operation that it asked for.
    pub action: Action,
    /// Index into [`Trace::drives`].
    pub drive: usize,
    /// Index into [`Trace::memories`]; `None` for a request that moves nothing.
    pub memory: Option<usize>,
    /// Slot of the memory, for payload on its way; `None` for a proof, a check or a tail.
    pub slot: Option<u64>,
    /// Offset in the drive or file, in bytes; in the copy for work of a stage.
    pub offset: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// From its submission to the moment at which the engine saw its end.
    pub span: Span,
    /// Outcome as the engine saw it.
    pub outcome: TraceOutcome,
}

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// From drive to memory.
    Read,
    /// From memory to drive.
    Write,
    /// Makes written data and its size durable; memory, offsets and length are ignored.
    Flush,
    /// Makes bytes read as zeroes without moving any; the memory is ignored.
    Zero,
    /// Work of a stage on a chunk in its slot: the drive is the number of the stage, the offset that of
    /// the chunk in the copy.
    Stage,
}

impl Action {
    /// True when bytes go to or come from memory.
    pub fn has_memory(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Stage)
    }
}

/// Outcomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceOutcome {
    /// All that it asked for.
    Full,
    /// With so many bytes, fewer than it asked for.
    Short(u64),
    /// With this number of an error.
    Failed(i32),
    /// Not at all while the engine looked.
    Unanswered,
}
