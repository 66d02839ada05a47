//! Results of one copy.

use peerlane_units::{ByteRate, Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Asked, EndpointFacts, Limit, MemoryFacts, Route, RouteEvidence, RouteVerdict, Shape,
    VerifyMode, Warning,
};

/// Schema of [`CopyRecord`].
pub const COPY_SCHEMA: &str = "peerlane.copy/1";

/// Results of one copy: content, route, evidence and times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyRecord {
    /// [`COPY_SCHEMA`].
    pub schema: String,
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
    #[serde(default)]
    pub stages: Vec<StageRecord>,
    /// Evidence of the route.
    pub evidence: Vec<RouteEvidence>,
    /// The verdict of all evidence on the route.
    #[serde(default)]
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
    /// Time in which it had one chunk at least.
    pub busy_ns: Nanos,
    /// From the start on a chunk to its end, as the engine sees it.
    pub latency: Percentiles,
    /// Root over the digests of all chunks, 32 hexadecimal digits, for `digest`.
    pub root: Option<String>,
    /// Reason why there is no root.
    pub no_root: Option<String>,
}

impl CopyRecord {
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

/// The machine that a command ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Host name, or the machine's name in its description.
    pub name: String,
    /// FNV-1a digest of the fabric's TOML form, hexadecimal.
    pub fabric: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of this program.
    pub program: String,
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

/// One thing that was looked at to know the route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The source of evidence.
    pub looked_at: String,
    /// Its observation.
    pub showed: String,
}

impl Evidence {
    /// The same with its verdict on the route.
    #[must_use]
    pub fn says(self, says: RouteVerdict) -> RouteEvidence {
        RouteEvidence { evidence: self, says }
    }
}
