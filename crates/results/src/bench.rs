//! Results of a workload: measured on a machine, or predicted by the model.

use std::cmp::Reverse;
use std::fmt;

use peerlane_units::{ByteRate, Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    BytesByRoute, CaseSpec, HostMemoryTraffic, Latency, Limit, Machine, Percentiles, RouteEvidence,
    RouteVerdict, StageRecord, Verification, Warning, Workload,
};

/// Schema of [`BenchRecord`].
pub const BENCH_SCHEMA: &str = "peerlane.bench/1";

/// Results of a workload. Saved after every case; an interrupted one lacks cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchRecord {
    /// [`BENCH_SCHEMA`].
    pub schema: String,
    /// The workload, as it was asked for.
    pub asked: Workload,
    /// The machine that it ran on, or that was modelled.
    pub machine: Machine,
    /// The machine as a machine file, enough to draw it: without mounts, partitions, serial numbers and
    /// settings of the kernel. `None` where it is too large to keep, and in records made without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<String>,
    /// Origin of the figures: measured, emulated or predicted.
    pub basis: Basis,
    /// Start, in seconds since 1970-01-01 UTC; `None` for a prediction, which has no date.
    pub started_s: Option<u64>,
    /// Every run of every case, in the order of their starts.
    pub cases: Vec<CaseRecord>,
    /// One for each case that ran, in the order of the workload.
    pub summaries: Vec<Summary>,
    /// Effects of the location of drives, and of the choice of source and target; for a matrix
    /// only.
    pub effects: Vec<LocationEffect>,
    /// Warnings that concern all of it.
    pub warnings: Vec<Warning>,
}

/// Result of a permutation test on a matrix: of location, pairs below one switch against pairs
/// across switches; of an end, its drives against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LocationEffect {
    /// Pairs that were tested: `128K p2p`.
    pub cases: String,
    /// Property that was tested: `switch`, which the drives of a near pair share, or an end,
    /// `source` or `target`.
    pub place: String,
    /// Rate of near pairs over that of the others, what each drive does by itself taken out; of an end,
    /// rate of its fastest drive over that of its slowest, the share of the other end taken out.
    pub near_over_far: f64,
    /// The chance of a difference at least as large where that does not matter.
    pub chance: f64,
}

/// Origin of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured on a machine.
    Measured,
    /// Measured on an emulated machine: semantics, not speed.
    Emulated,
    /// Predicted by the model.
    Predicted,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "measured",
            Self::Emulated => "emulated",
            Self::Predicted => "predicted",
        })
    }
}

/// One run of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseRecord {
    /// The case, as it was asked for.
    pub asked: CaseSpec,
    /// Number of this counted run of the case, from 0.
    pub repeat: u32,
    /// Payload moved by all flows together.
    pub bytes: Bytes,
    /// From the first request of any flow to the last completion, the closing flush included.
    pub elapsed_ns: Nanos,
    /// Payload by the route it took.
    pub bytes_by_route: BytesByRoute,
    /// Latency of all flows.
    pub latency: Latency,
    /// CPU time, by who spent it.
    pub cpu: CpuCost,
    /// Host-memory traffic while it ran.
    pub host_memory: HostMemoryTraffic,
    /// One for each flow, in the order of the case.
    pub flows: Vec<FlowRecord>,
    /// Check of the content at the targets; `None` where nothing was stored or it was not asked for.
    pub verification: Option<Verification>,
    /// Evidence of the route from each source, with the reason where one could not be read.
    pub evidence: Vec<RouteEvidence>,
    /// Verdict of the evidence on the route.
    pub verdict: RouteVerdict,
    /// Ceilings, lowest first.
    pub limits: Vec<Limit>,
    /// Load of each link that payload crossed, of a prediction; nothing counts it where it is measured.
    pub links: Vec<LinkLoad>,
    /// Interval, gains and other results of a prediction; `None` for a measurement.
    pub prediction: Option<Prediction>,
    /// Page faults of the process while payload moved, of a prediction those of mapped files; `None` where they were not
    /// counted, or nothing is mapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<PageFaults>,
    /// Warnings that concern this run.
    pub warnings: Vec<Warning>,
}

/// Page faults as the kernel counts them: pages that came into a process, not bytes that memory moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageFaults {
    /// Without I/O.
    pub minor: u64,
    /// With I/O.
    pub major: u64,
}

impl CaseRecord {
    /// Payload over elapsed time.
    pub fn rate(&self) -> Option<ByteRate> {
        ByteRate::mean(self.bytes, self.elapsed_ns)
    }

    /// Returns the limits of its flows and the number of flows that each limits, most first.
    pub fn limited_by(&self) -> Vec<(&str, usize)> {
        let mut limits: Vec<(&str, usize)> = Vec::new();
        for limit in self.flows.iter().filter_map(|flow| flow.limited_by.as_deref()) {
            match limits.iter_mut().find(|(known, _)| *known == limit) {
                Some((_, count)) => *count += 1,
                None => limits.push((limit, 1)),
            }
        }
        limits.sort_by_key(|&(_, count)| Reverse(count));
        limits
    }
}

/// Results of one flow of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRecord {
    /// Payload moved.
    pub bytes: Bytes,
    /// From its first request to its last completion.
    pub elapsed_ns: Nanos,
    /// From the start of the case to its first completion.
    pub first_done_ns: Nanos,
    /// The memory between its ends, as typed.
    pub memory: String,
    /// Payload by the route it took.
    pub bytes_by_route: BytesByRoute,
    /// Latency of a block from the submission of its read to the completion of its write.
    pub block: Percentiles,
    /// The resource that limited it, where that is known.
    pub limited_by: Option<String>,
    /// Blocks in flight from which on more bring nothing; of a prediction by the closed form only, and not where a path
    /// has slots of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<u32>,
    /// Functions of the machine that it went between; `None` where they are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Places>,
    /// Chunks, busy time and latency of its stage; `None` without one, and of a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageRecord>,
}

/// Names in the machine of the functions that a flow went between.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Places {
    /// Function of the drive at the source; `None` where the source is memory, or its drive is not
    /// known.
    pub source: Option<String>,
    /// Function of the drive at the target; `None` as for the source.
    pub target: Option<String>,
    /// Function of the memory between them; `None` for host memory.
    pub memory: Option<String>,
}

/// CPU time while a case ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCost {
    /// The process in user mode.
    pub user_ns: Nanos,
    /// The process in the kernel, without its io_uring workers.
    pub system_ns: Nanos,
    /// Its io_uring workers; `None` where they cannot be told apart, and are in `system_ns`.
    pub workers_ns: Option<Nanos>,
    /// Kernel threads of the whole machine, an upper bound; `None` where they cannot be read.
    pub kernel_threads_ns: Option<Nanos>,
}

/// Load of one direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkLoad {
    /// PCI address of the function below the link, or its name in the machine file; of a link between sockets the host
    /// bridge at one end of it.
    pub below: String,
    /// The host bridge at the other end of a link between sockets: neither is below the other, and down is from here to
    /// `below`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_end: Option<String>,
    /// Direction of the load.
    pub direction: Direction,
    /// Payload a second.
    pub payload: ByteRate,
    /// Most payload a second that the link carries.
    pub ceiling: ByteRate,
    /// Share of the case's time spent sending anything, headers, requests and acknowledgements too, 0 to 1:
    /// the mean of the whole run, however full it was for a part of it. `None` where nothing counts it.
    pub busy: Option<f64>,
}

/// Direction on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Towards the root complex.
    Up,
    /// Away from it.
    Down,
}

/// Results of a prediction other than its rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// `closed`, `flow` or `tlp`, and the reason for it.
    pub engine: String,
    /// Lowest and highest rate over the ranges of the parameters; 80 % of draws lie between, and the rate itself.
    pub interval: Option<(ByteRate, ByteRate)>,
    /// Gains by 10 % more of each limit, most first.
    pub gains: Vec<Gain>,
    /// Host-memory traffic: with all that devices write still in the processor's cache when it is read, and
    /// with none of it.
    pub host_memory: Option<(Bytes, Bytes)>,
}

/// Gain by 10 % more of a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// The limit: a link, a drive, a memory, the root complex, the processor, depth.
    pub resource: String,
    /// The rate with a tenth more of it, over the rate as it is.
    pub ratio: f64,
}

/// All counted runs of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Name of the case.
    pub case: String,
    /// Rates of its runs, in bytes a second.
    pub rate: Spread,
    /// Block latency, over all runs.
    pub block: Percentiles,
    /// Bytes in host memory for each byte of payload; `None` without a counter.
    pub host_bytes_per_byte: Option<f64>,
    /// CPU seconds of process and workers for each GiB of payload.
    pub cpu_s_per_gib: f64,
    /// The verdict of its least certain run.
    pub verdict: RouteVerdict,
}

/// A figure that was taken several times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Number of values.
    pub count: u32,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Lowest.
    pub min: f64,
    /// Highest.
    pub max: f64,
    /// Standard deviation of the sample; zero for one.
    pub deviation: f64,
    /// 95 % confidence interval of the mean, lowest and highest; `None` for one.
    pub confidence: Option<(f64, f64)>,
}
