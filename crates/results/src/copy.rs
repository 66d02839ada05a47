//! Results of copies: jobs, each with one source and its targets.
//!
//! A copy of one source to one target is one job with one target. Each target has an account of its own,
//! as if it had been the only one. Nothing is counted for a target that another target got; times and
//! CPU are those of all targets of a job together.

use peerlane_units::{ByteRate, Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Asked, EndpointFacts, Limit, Machine, MemoryFacts, Route, RouteEvidence, RouteVerdict, Shape,
    VerifyMode, Warning,
};

/// Schema of [`CopyRecord`].
pub const COPY_SCHEMA: &str = "peerlane.copy/1";

/// Results of copies, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyRecord {
    /// [`COPY_SCHEMA`].
    pub schema: String,
    /// One for each source: several of a batch only.
    pub jobs: Vec<JobOutcome>,
}

impl CopyRecord {
    /// The record of these jobs.
    pub fn new(jobs: Vec<JobOutcome>) -> Self {
        Self { schema: COPY_SCHEMA.to_owned(), jobs }
    }

    /// The completed copy of a record with one source and one target.
    pub fn only(&self) -> Option<&CompletedCopy> {
        match self.jobs.as_slice() {
            [JobOutcome { targets, .. }] => match targets.as_slice() {
                [only] => only.copied.as_ref(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The outcomes of all targets, each with the source of its job.
    pub fn outcomes(&self) -> impl Iterator<Item = (&str, &TargetOutcome)> {
        self.jobs
            .iter()
            .flat_map(|job| job.targets.iter().map(move |target| (job.source.as_str(), target)))
    }
}

/// Results of copying one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobOutcome {
    /// The source as typed.
    pub source: String,
    /// Payload read from the source to be written: each byte once, whatever the number of targets. The
    /// tail of a target whose end is not a whole block is read once more.
    pub read: Bytes,
    /// Outcome of each target, in the order of their names on the command line.
    pub targets: Vec<TargetOutcome>,
}

/// Outcome of one target: a completed copy or a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetOutcome {
    /// The target as typed.
    pub target: String,
    /// The copy: complete, verified as asked for, under its name; null where it failed.
    pub copied: Option<CompletedCopy>,
    /// The failure; null where the copy is complete.
    pub failure: Option<CopyFailure>,
}

/// Failure of the copy to one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyFailure {
    /// The error and its causes, outermost first.
    pub errors: Vec<String>,
    /// Advice for a person.
    pub hint: Option<String>,
    /// The journal that the copy can go on by.
    pub journal: Option<String>,
    /// The exit status that a copy to this target alone would have ended with.
    pub exit: u8,
}

/// A completed copy to one target: content, route, evidence and times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompletedCopy {
    /// The copy, as it was asked for.
    pub asked: Asked,
    /// The machine that it ran on.
    pub machine: Machine,
    /// Source.
    pub source: EndpointFacts,
    /// Target.
    pub target: EndpointFacts,
    /// The memory between them.
    pub memory: MemoryFacts,
    /// The route that was chosen; with a warning `route-not-known` nothing shows that payload took it.
    pub route: Route,
    /// Reason for this route.
    pub reason: String,
    /// Payload by the route it took.
    pub bytes_by_route: BytesByRoute,
    /// Payload that is at the target.
    pub bytes: Bytes,
    /// Origin of these bytes.
    pub content: Content,
    /// From the first request to the end of the flush; proof and verification are not in it.
    pub elapsed_ns: Nanos,
    /// From the first request to the first finished write.
    pub first_done_ns: Nanos,
    /// From the first request to the last finished write.
    pub last_done_ns: Nanos,
    /// Time of proof before and verification after the copy.
    pub check_ns: Nanos,
    /// Sizes and counts.
    pub shape: Shape,
    /// Latency of reads and writes.
    pub latency: Latency,
    /// CPU time.
    pub cpu: CpuTime,
    /// Host-memory traffic.
    pub host_memory: HostMemoryTraffic,
    /// Check of the content at the target.
    pub verification: Verification,
    /// The account of each stage, in the order of their work.
    pub stages: Vec<StageRecord>,
    /// Evidence of the route.
    pub evidence: Vec<RouteEvidence>,
    /// The verdict of all evidence on the route.
    pub verdict: RouteVerdict,
    /// Warnings that concern this copy.
    pub warnings: Vec<Warning>,
    /// Ceilings on the path, lowest first.
    pub limits: Vec<Limit>,
}

/// The account of one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageRecord {
    /// The stage, as typed.
    pub stage: String,
    /// Chunks that it worked on; those of holes are not among them.
    pub chunks: u64,
    /// Bytes of these.
    pub bytes: Bytes,
    /// Time during which it had at least one chunk.
    pub busy_ns: Nanos,
    /// From the start on a chunk to its end, as the engine sees it.
    pub latency: Percentiles,
    /// Root over the digests of all chunks, 32 hexadecimal digits, for `digest`.
    pub root: Option<String>,
    /// Reason why there is no root.
    pub no_root: Option<String>,
}

impl CompletedCopy {
    /// Payload that this run moved over elapsed time.
    pub fn rate(&self) -> Option<ByteRate> {
        ByteRate::mean(self.content.data, self.elapsed_ns)
    }

    /// The same with the rate that was asked for among its ceilings.
    #[must_use]
    pub fn limited(mut self, rate: Option<ByteRate>) -> Self {
        let object = "the rate asked for (`--limit`)".to_owned();
        self.limits.extend(rate.map(|rate| Limit { object, bytes_per_second: rate }));
        self.limits.sort_by_key(|limit| limit.bytes_per_second);
        self
    }
}

/// Payload by the route it took; bytes whose route is unknown are in neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BytesByRoute {
    /// Between devices.
    pub p2p: Bytes,
    /// Through host memory.
    pub host: Bytes,
}

impl BytesByRoute {
    /// The routes that bytes took; `None` where none moved.
    pub fn words(self) -> Option<&'static str> {
        match (self.p2p > Bytes::ZERO, self.host > Bytes::ZERO) {
            (true, true) => Some("p2p and host"),
            (true, false) => Some("p2p"),
            (false, true) => Some("host"),
            (false, false) => None,
        }
    }
}

/// Origin of the bytes at the target: moved by this run, moved by an earlier one, or holes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Content {
    /// Moved by this run.
    pub data: Bytes,
    /// Holes of the source that are holes at the target, or were made zero there.
    pub holes: Bytes,
    /// Of the holes: made zero by the target itself.
    pub zeroed_by_device: Bytes,
    /// Of the holes: zeroes that were written out of host memory, since the target makes none.
    pub zeroes_written: Bytes,
    /// Moved by an earlier run that was interrupted.
    pub before: Bytes,
}

/// Latency of reads and writes, submission to completion as the engine sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Reads from the source.
    pub read: Percentiles,
    /// Writes to the target.
    pub write: Percentiles,
}

/// Percentiles of a latency; all zero where nothing was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Requests counted.
    pub count: u64,
    /// Half are below.
    pub p50_ns: Nanos,
    /// 90 % are below.
    pub p90_ns: Nanos,
    /// 99 % are below.
    pub p99_ns: Nanos,
    /// 99.9 % are below.
    pub p999_ns: Nanos,
    /// The longest.
    pub max_ns: Nanos,
}

/// CPU time from first request to end of flush.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTime {
    /// The process in user mode.
    pub user_ns: Nanos,
    /// The process in the kernel, its io_uring workers included.
    pub system_ns: Nanos,
}

/// Host-memory traffic, where a counter exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostMemoryTraffic {
    /// Bytes counted; `None` without a counter.
    pub bytes: Option<Bytes>,
    /// The counter, or the reason why there is none.
    pub reason: String,
}

/// Check of the content at the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Extent of the check: a sample or everything.
    pub mode: VerifyMode,
    /// Bytes compared, each counted once.
    pub bytes: Bytes,
    /// Blocks that differ; a finished copy has none.
    pub mismatches: u64,
}
