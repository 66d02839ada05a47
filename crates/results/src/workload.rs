//! A workload as data: sources, targets and amounts of its transfers.
//!
//! The same value runs on this machine, in the lab and on the model. It names endpoints as a person
//! types them; the engine or the model that carries the workload out resolves them.

use std::fmt;

use peerlane_units::{ByteRate, Bytes, Named, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Route;

/// Schema of [`Workload`] where it stands alone.
pub const WORKLOAD_SCHEMA: &str = "peerlane.workload/1";

/// Cases that belong together, and how often each is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// [`WORKLOAD_SCHEMA`].
    pub schema: String,
    /// A name for people: `sweep nvme0n1 nvme1n1`.
    pub name: String,
    /// Purpose of the cases together, which decides how they are summed up and drawn.
    pub kind: WorkloadKind,
    /// The cases, in the order of a report; they run in random order.
    pub cases: Vec<CaseSpec>,
    /// Number of runs of each case, and the condition that ends them.
    pub repeats: Repeats,
    /// Seed of the order of cases, of patterns and of random offsets.
    pub seed: u64,
}

/// Purposes of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Block sizes by routes.
    Sweep,
    /// Every ordered pair of drives, one at a time.
    Matrix,
    /// Many transfers at once.
    Crowd,
    /// Drives against one memory.
    Stream,
    /// Host memory, device memory, drive and back.
    Roundtrip,
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sweep => "sweep",
            Self::Matrix => "matrix",
            Self::Crowd => "crowd",
            Self::Stream => "stream",
            Self::Roundtrip => "roundtrip",
        })
    }
}

/// Number of runs of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeats {
    /// Runs that are not counted.
    pub warm_up: u32,
    /// Counted runs at least.
    pub least: u32,
    /// Counted runs at most.
    pub most: u32,
    /// Half-width of the 95 % confidence interval of the mean rate, in thousandths of the mean, at which
    /// a case has been run often enough; `None` for `most` runs of each.
    pub until_per_mille: Option<u32>,
    /// Time after which `least` runs are enough, however wide the interval is; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<Nanos>,
}

/// Transfers that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaseSpec {
    /// Unique in its workload: `64K p2p`.
    pub name: String,
    /// Transfers that run at once.
    pub flows: Vec<Flow>,
    /// Stops each flow this long after it began; `None` when each ends by its bytes.
    pub time_ns: Option<Nanos>,
}

/// One transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// Source endpoint as typed: a path, `host`, `cmb:nvme2`.
    pub source: String,
    /// Target endpoint as typed: a path, `host`, `null`, `cmb:nvme2`.
    pub target: String,
    /// Memory between them, as typed, or the transport of the model's networks (`rdma`, `tcp`); `None` where it is chosen.
    pub via: Option<String>,
    /// Path of the bytes.
    pub path: Path,
    /// Bytes of one block.
    pub block: Bytes,
    /// Blocks in flight.
    pub depth: u32,
    /// Order of blocks.
    pub order: Order,
    /// First byte in the source.
    pub offset: Bytes,
    /// First byte in the target.
    pub target_offset: Bytes,
    /// Bytes to move, which are also the range that random blocks are taken from. A flow with a time
    /// begins again at its end.
    pub bytes: Bytes,
    /// Most bytes a second; `None` for as fast as it goes.
    pub limit: Option<ByteRate>,
    /// Begins this long after the case.
    pub start_ns: Nanos,
    /// Work on each block in its memory: between read and write, or at the memory's end of a transfer with one
    /// drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<FlowStage>,
}

/// A unit that works in place on blocks in their memory. A measurement sets it up by its name; the model
/// goes by its numbers, which a measurement ignores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowStage {
    /// Name; the notation of a stage (`digest`, `cuda:FILE.cu:KERNEL`, `xrt:FILE.xclbin:KERNEL`) where it
    /// is measured. On the model, transfers of a case that name the same unit share it.
    pub name: String,
    /// Bytes a second of the whole unit, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<ByteRate>,
    /// Time before the first byte of each block, for the model.
    #[serde(default, alias = "start-ns")]
    pub start_ns: Nanos,
    /// Blocks in work at a time, for the model.
    #[serde(default = "one", alias = "at-once")]
    pub at_once: u32,
}

fn one() -> u32 {
    1
}

impl FlowStage {
    /// A stage without numbers for the model.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rate: None, start_ns: Nanos(0), at_once: one() }
    }
}

impl Flow {
    /// 1 GiB from a source to a target, one block after the other: 128 KiB each, 16 in flight, as fast as it goes.
    pub fn new(source: impl Into<String>, target: impl Into<String>, path: Path) -> Self {
        Self {
            source: source.into(),
            target: target.into(),
            via: None,
            path,
            block: Bytes::kib(128),
            depth: 16,
            order: Order::Sequential,
            offset: Bytes::ZERO,
            target_offset: Bytes::ZERO,
            bytes: Bytes::mib(1024),
            limit: None,
            start_ns: Nanos(0),
            stage: None,
        }
    }
}

/// Path of the bytes of a flow.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Between devices.
    P2p,
    /// Through several buffers in host memory, reads and writes at the same time; `host` is read as well.
    #[serde(alias = "host")]
    HostPipelined,
    /// Through one buffer in host memory with direct I/O: read, then write. What papers call classical.
    HostSerial,
    /// Through one buffer in host memory and the page cache: read, then write. Out of memory of a GPU the
    /// buffer is pageable, and taken anew for each block.
    HostPageCache,
    /// A mapped source, written from the map, or copied from it into memory of a GPU.
    HostMapped,
    /// Through host memory by cuFile's compatibility mode, into or out of memory of a GPU.
    HostCufile,
}

impl Path {
    /// The route that bytes take on it.
    pub fn route(self) -> Route {
        match self {
            Self::P2p => Route::P2p,
            _ => Route::Host,
        }
    }
}

impl Named for Path {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("p2p", Self::P2p),
        ("host", Self::HostPipelined),
        ("host-serial", Self::HostSerial),
        ("host-page-cache", Self::HostPageCache),
        ("host-mapped", Self::HostMapped),
        ("host-cufile", Self::HostCufile),
    ];
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Order of the blocks of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other.
    #[default]
    Sequential,
    /// Drawn from the range by seed.
    Random,
}
