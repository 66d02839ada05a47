//! Workloads from a few words: flags of the program, or a short TOML file, into every case of a benchmark.
//!
//! A [`Brief`] is what a person says; [`Brief::build`] turns it into a
//! [`Workload`](peerlane_results::Workload), which names every transfer. Leaves out whether the
//! ends exist: what carries the workload out finds that. On a drive that is read and written in one
//! workload, the written ranges lie behind the read one, each as long as it.

mod build;
mod check;
mod crowd;
mod matrix;
mod one_or_many;
mod roundtrip;
mod stream;
mod sweep;
mod text;

use peerlane_results::{FlowStage, Order, Path, WorkloadKind};
use peerlane_units::{ByteRate, Bytes, Named, Nanos};
use serde::{Deserialize, Serialize};

pub use build::BriefError;
pub use check::{BLOCK_MAX, DEPTH_MAX, check};
use one_or_many::one_or_many;
pub use stream::{is_gpu, is_memory};
pub use text::{TextError, WrittenWorkload, parse, print, read};

/// A workload as a person states it; defaults of absent fields depend on the kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Brief {
    /// Effect that the cases show together.
    pub kind: WorkloadKind,
    /// Sources of payload, as typed; drives of a stream, or one memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub source: Vec<String>,
    /// Targets of payload.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub target: Vec<String>,
    /// Drives of a matrix or a crowd.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub drives: Vec<String>,
    /// Memory between source and target, or that of a roundtrip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Routes of the bytes; one case each.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub routes: Vec<Path>,
    /// Block sizes; one case each.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub blocks: Vec<Bytes>,
    /// Blocks in flight of each transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Transfers of each drive of a stream, each on a part of the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Order of the blocks.
    #[serde(default)]
    pub order: Order,
    /// Pairs of a crowd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// Start of the range that is read.
    #[serde(default)]
    pub offset: Bytes,
    /// Bytes of the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Bytes>,
    /// Start of the range that is written; by default that of the range that is read, and behind it
    /// where a drive is both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_offset: Option<Bytes>,
    /// Time of each run; by bytes where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<Nanos>,
    /// Most bytes a second of each transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ByteRate>,
    /// Work on each block in its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<FlowStage>,
    /// Runs that are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<u32>,
    /// Counted runs of each case; with `until_per_mille` the most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Half-width of the confidence interval at which a case has been run often enough, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_per_mille: Option<u32>,
    /// Of the order, of patterns and of random blocks.
    #[serde(default)]
    pub seed: u64,
}

impl Brief {
    /// A brief that leaves everything to its defaults.
    pub fn new(kind: WorkloadKind) -> Self {
        Self {
            kind,
            source: Vec::new(),
            target: Vec::new(),
            drives: Vec::new(),
            via: None,
            routes: Vec::new(),
            blocks: Vec::new(),
            depth: None,
            jobs: None,
            order: Order::Sequential,
            pattern: None,
            offset: Bytes::ZERO,
            length: None,
            target_offset: None,
            time_ns: None,
            limit: None,
            stage: None,
            warm_up: None,
            repeats: None,
            until_per_mille: None,
            seed: 0,
        }
    }

    /// True when no route was named; cases by an impossible one can then be left out.
    pub fn has_usual_routes(&self) -> bool {
        let is_pair = !matches!(self.kind, WorkloadKind::Roundtrip | WorkloadKind::Stream);
        is_pair && self.routes.is_empty() && self.via.is_none()
    }

    /// Says which usual route the ends themselves exclude.
    pub fn excluded_route(&self) -> Option<String> {
        let is_usual = self.kind == WorkloadKind::Sweep && self.has_usual_routes();
        let ends = || self.source.iter().chain(&self.target).map(String::as_str);
        let host = ends().find(|end| matches!(*end, "host" | "null")).filter(|_| is_usual);
        host.map(|end| {
            format!("p2p is left out: `{end}` is host memory, and p2p needs memory of a device")
        })
    }
}

/// Pairs of sender and receiver in a crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// The first to the second, the third to the fourth.
    Pairs,
    /// Each to the next, the last to the first.
    Permutation,
    /// All others to the first.
    Incast,
    /// Each to each other.
    AllToAll,
}

impl Named for Pattern {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("pairs", Self::Pairs),
        ("permutation", Self::Permutation),
        ("incast", Self::Incast),
        ("all-to-all", Self::AllToAll),
    ];
}
