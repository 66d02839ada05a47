//! The request and the plan of a copy, complete before the first byte moves; pairs of devices with it.

use std::fmt;

use peerlane_units::{ByteRate, Bytes, Named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_reach::{ExplanationStep, MapType, RouteState};

use crate::{EndpointFacts, MemoryFacts, PairProof, PairRecord, Warning};

/// Schema of [`PlanRecord`].
pub const PLAN_SCHEMA: &str = "peerlane.plan/1";

/// Plans, in the order of the request, and pairs of devices: jobs with targets, as in a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRecord {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// One for each source: several of a batch only.
    pub jobs: Vec<JobPlan>,
}

impl PlanRecord {
    /// The record of these jobs.
    pub fn new(jobs: Vec<JobPlan>) -> Self {
        Self { schema: PLAN_SCHEMA.to_owned(), jobs }
    }

    /// The only target of a record with one source and one target.
    pub fn only(&self) -> Option<&TargetPlan> {
        match self.jobs.as_slice() {
            [JobPlan { targets, .. }] if targets.len() == 1 => targets.first(),
            _ => None,
        }
    }

    /// All targets.
    pub fn targets(&self) -> impl Iterator<Item = &TargetPlan> {
        self.jobs.iter().flat_map(|job| &job.targets)
    }
}

/// The plan for one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobPlan {
    /// The source as typed.
    pub source: String,
    /// The plan for each target. Several share route, memory, reason and requests; an overlap of two
    /// targets is a refusal of the later one.
    pub targets: Vec<TargetPlan>,
}

/// The answer for one source and one target: the plan of a copy, and the two devices as a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPlan {
    /// The target as typed.
    pub target: String,
    /// State of the route between the two ends.
    pub state: RouteState,
    /// The answer in one sentence.
    pub verdict: String,
    /// The plan of a copy; null where no copy between the two is possible to plan.
    pub plan: Option<Plan>,
    /// The reason for there being no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_plan: Option<String>,
    /// The two devices; null where an end is not on a PCI function of this machine.
    pub pair: Option<PairRecord>,
    /// The decisions step by step, with `--explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Vec<Explanation>>,
    /// The kernel's own answers, with `--probe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Vec<Probe>>,
    /// The proof between two GPUs, with `--probe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<PairProof>,
}

/// The route a person asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouteChoice {
    /// Peer to peer where it is possible, else through host memory, saying so.
    #[default]
    Auto,
    /// Peer to peer or not at all.
    P2p,
    /// Through host memory.
    Host,
}

/// The route that bytes take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Between devices; no payload in host memory.
    P2p,
    /// Through a bounce buffer in host memory.
    Host,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::P2p => "p2p",
            Self::Host => "host",
        })
    }
}

impl Named for RouteChoice {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("p2p", Self::P2p), ("host", Self::Host)];
}

impl fmt::Display for RouteChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Check of the content at the target after the copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyMode {
    /// First and last block and a sample between them.
    #[default]
    Sample,
    /// Every byte.
    Full,
    /// Nothing; the route is still proved on the first block.
    None,
}

impl Named for VerifyMode {
    const NAMES: &'static [(&'static str, Self)] =
        &[("sample", Self::Sample), ("full", Self::Full), ("none", Self::None)];
}

impl fmt::Display for VerifyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The request of a person, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Source endpoint as typed.
    pub source: String,
    /// Target endpoint as typed.
    pub target: String,
    /// Route.
    pub route: RouteChoice,
    /// Memory named by `--via`, as typed.
    pub via: Option<String>,
    /// Block size: bytes that travel as one unit of `depth`.
    pub block: Bytes,
    /// Queue depth: blocks in flight.
    pub depth: u32,
    /// Offset in the source.
    pub offset: Bytes,
    /// Bytes to copy; `None` for all from `offset`.
    pub length: Option<Bytes>,
    /// Offset in the target.
    pub target_offset: Bytes,
    /// Check of the content at the target.
    pub verify: VerifyMode,
    /// Overwriting the target's content is allowed.
    pub force: bool,
    /// Stages that work on each chunk between read and write, as typed.
    pub stages: Vec<String>,
}

impl Asked {
    /// All of the source to the start of the target, as `peerlane copy` does it without options.
    pub fn between(source: &str, target: &str) -> Self {
        Self {
            source: source.to_owned(),
            target: target.to_owned(),
            route: RouteChoice::Auto,
            via: None,
            block: Bytes::mib(1),
            depth: 16,
            offset: Bytes::ZERO,
            length: None,
            target_offset: Bytes::ZERO,
            verify: VerifyMode::Sample,
            force: false,
            stages: Vec::new(),
        }
    }
}

/// A memory that was considered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The memory.
    pub memory: MemoryFacts,
    /// The source drive writing into it.
    pub source: MapType,
    /// The target drive reading out of it.
    pub target: MapType,
    /// Hops up and down for both drives together; lower is nearer.
    pub distance: Option<u32>,
    /// Reasons why it cannot be used, in words; empty where it can.
    pub refusals: Vec<String>,
    /// The facts behind the verdicts, in words.
    pub facts: Vec<String>,
}

/// A reason to refuse a copy altogether.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// The obstacle and the object that has it.
    pub reason: String,
    /// Advice for a person: a command where there is one.
    pub hint: Option<String>,
    /// `--force` overrides it.
    pub forceable: bool,
}

/// Method of writing the end of a copy that is not a multiple of the target's block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// There is none.
    None,
    /// Written up to the next block; the file is then cut to its length.
    RoundUpAndCut,
    /// The target's last block is read into the slot, the source's tail over it, the block written:
    /// by the same route as the rest.
    MergeInSlot,
    /// Merged with the target's last block in host memory, since a device moves whole blocks.
    MergeInHost,
}

/// Sizes and counts of the transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shape {
    /// Bytes to copy.
    pub length: Bytes,
    /// Bytes that one request carries.
    pub request: Bytes,
    /// Requests in flight, reads and writes together: depth times requests a block, as far as the memory
    /// has room, and no more than a 32nd of the copy or four.
    pub slots: u32,
    /// Bytes of memory that the slots take together.
    pub memory: Bytes,
    /// Limit of the request size, in words.
    pub request_limit: String,
    /// Limit of the number of slots, in words.
    pub slots_limit: String,
    /// The end of the copy.
    pub tail: Tail,
}

/// A rate that bounds the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// The resource: a link, named by the function below it; a drive; a memory; a root complex.
    pub object: String,
    /// Its ceiling.
    pub bytes_per_second: ByteRate,
}

/// Plan of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The copy, as it was asked for.
    pub asked: Asked,
    /// Source.
    pub source: EndpointFacts,
    /// Target.
    pub target: EndpointFacts,
    /// The route chosen; `None` where the one asked for is not possible.
    pub route: Option<Route>,
    /// The memory chosen.
    pub memory: Option<MemoryFacts>,
    /// Reason for this route, in a sentence.
    pub reason: String,
    /// Every peer-to-peer memory that was considered, best first.
    pub candidates: Vec<Candidate>,
    /// Sizes and counts for the chosen route.
    pub shape: Option<Shape>,
    /// Names of the functions, host bridges and memory that payload crosses from source to target;
    /// empty where they are unknown.
    pub way: Vec<String>,
    /// Ceilings on the path, lowest first.
    pub limits: Vec<Limit>,
    /// Drives at either end whose own rate is unknown, which may be the lowest ceiling of all.
    pub unmeasured: Vec<String>,
    /// Reasons to refuse the copy altogether; it does not start while one remains.
    pub refusals: Vec<Refusal>,
    /// Warnings that concern this copy.
    pub warnings: Vec<Warning>,
}

/// A question that a plan rests on, answered the way the kernel answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The question, in words.
    pub question: String,
    /// Checks of the kernel, in its order; the last step is the answer.
    pub steps: Vec<ExplanationStep>,
}

/// An answer to a probe: the kernel's to a block read from an end into a memory, or a library's to the registration of
/// an end and of memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Name of the memory.
    pub memory: String,
    /// Path of the end.
    pub endpoint: String,
    /// Verdict of the plan.
    pub predicted: MapType,
    /// Answer of the kernel or of the library.
    pub answer: ProbeAnswer,
    /// True when the two agree; `None` where one of them is not an answer.
    pub agrees: Option<bool>,
}

/// Results of asking the kernel or a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum ProbeAnswer {
    /// The request succeeded.
    Permitted,
    /// The library registered the ends and released them; no payload moved, so its route is open.
    Registered {
        /// The ends that it registered, and its own properties.
        showed: String,
    },
    /// The kernel or the library refused it.
    Refused {
        /// The error in words, with the reason out of the library's own log where it has one.
        reason: String,
    },
    /// It could not be asked, or its result does not answer this question.
    NotAsked {
        /// Reason why there is no answer.
        reason: String,
    },
}
