//! The request and the plan of a copy, complete before the first byte moves.

use std::fmt;

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_units::{ByteRate, Bytes, Named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Warning;

/// Schema of [`Plan`].
pub const PLAN_SCHEMA: &str = "peerlane.plan/1";

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
    /// Overwriting what is there is allowed.
    pub force: bool,
    /// Stages that work on each chunk between read and write, as typed.
    #[serde(default)]
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

/// Kinds of endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointKind {
    /// A block device.
    BlockDevice,
    /// The passthrough node of an NVMe namespace (`/dev/ng0n1`): the bytes of its block device by
    /// commands that no block layer looks at.
    Passthrough,
    /// A regular file, there or to be made.
    File,
    /// Memory of a GPU, which has no blocks.
    Gpu,
}

/// Known properties of one end of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointFacts {
    /// As typed, made absolute and with links resolved.
    pub path: String,
    /// Kind of the endpoint.
    pub kind: EndpointKind,
    /// Capacity or file size; zero for a file to be made.
    pub size: Bytes,
    /// Smallest unit of direct I/O: length and offset are multiples of it.
    pub block: Bytes,
    /// Most bytes that one request carries through host memory.
    pub request_host: Bytes,
    /// Most bytes that one request carries peer to peer; `None` where that cannot be.
    pub request_p2p: Option<Bytes>,
    /// Block device below it (`nvme0n1`); `None` where there is none.
    pub device: Option<String>,
    /// PCI address of the controller below it.
    pub address: Option<String>,
    /// Model and serial of the drive, where it has them.
    pub drive: Option<String>,
    /// File system type for a file.
    pub file_system: Option<String>,
    /// Reason why peer-to-peer requests cannot work on this endpoint, whatever the memory.
    pub refusal: Option<String>,
    /// Change that would make them possible; `None` where nothing would.
    #[serde(default)]
    pub way_out: Option<String>,
    /// Its location in the network, for a namespace of NVMe over Fabrics.
    #[serde(default)]
    pub network: Option<NetworkFacts>,
}

impl EndpointFacts {
    /// The function that serves this end; `None` where the fabric has none by its names.
    pub fn function(&self, fabric: &Fabric) -> Option<FunctionId> {
        [self.address.as_deref(), self.device.as_deref(), Some(self.path.as_str())]
            .into_iter()
            .flatten()
            .find_map(|name| fabric.find_device(name))
    }
}

/// Location of a namespace of NVMe over Fabrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkFacts {
    /// `tcp`, `rdma`, `fc` or `loop`.
    pub transport: String,
    /// Address and port: `10.0.0.1:4420`; `None` for `loop`.
    pub address: Option<String>,
    /// NQN of the subsystem; `None` if the kernel does not say.
    pub subsystem: Option<String>,
}

/// Kinds of memory between read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Host memory: a bounce buffer.
    Host,
    /// The controller memory buffer of an NVMe drive, or other memory published to the kernel.
    P2pmem,
    /// Memory of a GPU.
    Gpu,
}

/// The memory between read and write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFacts {
    /// As a person types it: `cmb:nvme2`, `host`.
    pub name: String,
    /// Kind of the memory.
    pub kind: MemoryKind,
    /// PCI address of its owner.
    pub address: Option<String>,
    /// Bytes in the pool.
    pub size: Option<Bytes>,
    /// Bytes free when it was looked at.
    pub available: Option<Bytes>,
}

/// The kernel's decision about one memory and one drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Turned around inside a switch.
    BusAddress,
    /// Through the host bridge, not through memory.
    ThroughHostBridge,
    /// Refused.
    NotSupported,
    /// Cannot be decided from here; a probe decides.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BusAddress => "inside the switch",
            Self::ThroughHostBridge => "through the host bridge",
            Self::NotSupported => "refused",
            Self::Unknown => "unknown",
        })
    }
}

/// A memory that was considered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The memory.
    pub memory: MemoryFacts,
    /// The source drive writing into it.
    pub source: Verdict,
    /// The target drive reading out of it.
    pub target: Verdict,
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
    /// [`PLAN_SCHEMA`].
    pub schema: String,
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
    #[serde(default)]
    pub way: Vec<String>,
    /// Ceilings on the path, lowest first.
    pub limits: Vec<Limit>,
    /// Drives at either end whose own rate is unknown, which may be the lowest ceiling of all.
    #[serde(default)]
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

/// One check of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplanationStep {
    /// The object of the check and the finding.
    pub finding: String,
    /// Kernel file and function, in Linux 7.2; empty where no kernel function is asked.
    pub source: String,
}

/// A plan with what else was asked for, as version 1 of `plan --json` had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedPlan {
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// Steps of the decision, with `--explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Vec<Explanation>>,
    /// Answers of the kernel, with `--probe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Vec<Probe>>,
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
    pub predicted: Verdict,
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
    /// The library took what it was given, and gave it back; no payload moved, so its route is open.
    Registered {
        /// What it took, and what it says of itself.
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
