//! Changes between two machines.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Machine;
use peerlane_reach::MapType;

/// Schema of [`TopoDiffRecord`].
pub const TOPO_DIFF_SCHEMA: &str = "peerlane.topo-diff/1";

/// Changes from one machine to another, or of one machine over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoDiffRecord {
    /// [`TOPO_DIFF_SCHEMA`].
    pub schema: String,
    /// The machine before.
    pub before: Machine,
    /// The machine after.
    pub after: Machine,
    /// The answer in one sentence.
    pub verdict: String,
    /// Number of functions that both machines have.
    pub matched: usize,
    /// The changes, worst first; equal ones are one.
    pub changes: Vec<TopoChange>,
    /// Facts that could not be compared, and so are no changes.
    pub uncompared: Vec<TopoUncompared>,
}

impl TopoDiffRecord {
    /// Returns whether nothing changed. A fact that one machine alone shows may have changed; one that
    /// neither shows is not asked for.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && !self.uncompared.iter().any(|fact| fact.reason.is_of_one_side())
    }
}

/// A change of one fact, on every function on which it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoChange {
    /// The fact.
    pub fact: TopoFact,
    /// The effect on peer-to-peer traffic.
    pub effect: TopoEffect,
    /// The change in a sentence.
    pub what: String,
    /// The value before, in words; null where there was none.
    pub before: Option<String>,
    /// The value after, in words; null where there is none.
    pub after: Option<String>,
    /// The functions; none for a fact of the whole machine, and for pairs.
    pub functions: Vec<TopoFunction>,
    /// The pairs whose verdict changed; null for other facts.
    pub pairs: Option<TopoPairs>,
}

/// A fact of a machine, a function or a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopoFact {
    /// The kernel's decision on pairs.
    Verdict,
    /// A function that is gone.
    Removed,
    /// Memory windows (BARs).
    Windows,
    /// ACS redirection of a port or function.
    AcsRedirection,
    /// Translation of addresses in the whole machine.
    Iommu,
    /// Translation of addresses for a function.
    Translation,
    /// Memory that the kernel or a card lends to peers.
    MemoryLent,
    /// NVLinks between two GPUs.
    Nvlinks,
    /// XGMI links between two GPUs.
    Xgmi,
    /// Speed and width that a link trained to.
    LinkTrained,
    /// The most that both ends of a link support.
    LinkMaximum,
    /// A drive of another machine, or the state of its connection.
    RemoteDrive,
    /// A function in another place.
    Moved,
    /// The bound driver.
    Driver,
    /// The processor.
    Processor,
    /// Release of the kernel.
    Kernel,
    /// Peer-to-peer support in the kernel's configuration.
    KernelP2pdma,
    /// Parameters of the kernel that bear on devices.
    KernelParameters,
    /// Modules of the kernel that bear on peer-to-peer.
    KernelModules,
    /// Maker and model of the machine.
    Product,
    /// A function that is new.
    Added,
    /// Addresses of functions that stayed in their place.
    Renumbered,
}

impl fmt::Display for TopoFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Verdict => "verdict",
            Self::Removed => "presence",
            Self::Windows => "windows",
            Self::AcsRedirection => "ACS redirection",
            Self::Iommu => "IOMMU",
            Self::Translation => "translation",
            Self::MemoryLent => "memory lent",
            Self::Nvlinks => "NVLinks",
            Self::Xgmi => "XGMI links",
            Self::LinkTrained => "link as trained",
            Self::LinkMaximum => "link at most",
            Self::RemoteDrive => "drive of another machine",
            Self::Moved => "place",
            Self::Driver => "driver",
            Self::Processor => "processor",
            Self::Kernel => "kernel",
            Self::KernelP2pdma => "CONFIG_PCI_P2PDMA",
            Self::KernelParameters => "kernel parameters",
            Self::KernelModules => "kernel modules",
            Self::Product => "product",
            Self::Added => "presence",
            Self::Renumbered => "address",
        })
    }
}

/// Effect of a change on peer-to-peer traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopoEffect {
    /// Less is possible, or it is slower.
    Worse,
    /// Neither, or unknown.
    Neutral,
    /// More is possible, or it is faster.
    Better,
}

/// A function of one machine or of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoFunction {
    /// The word for it in commands, in the machine after where it is there: `gpu:0`, `nvme2`.
    pub name: String,
    /// Address before, or name where it has no address; null where it was not there.
    pub before: Option<String>,
    /// Address after, or name where it has no address; null where it is not there.
    pub after: Option<String>,
}

/// Pairs whose verdict changed alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoPairs {
    /// Number of pairs of an initiator and a memory.
    pub count: usize,
    /// The kernel's decision before.
    pub before: MapType,
    /// The kernel's decision after.
    pub after: MapType,
    /// Initiator of one of them.
    pub initiator: TopoFunction,
    /// Provider of that pair.
    pub provider: TopoFunction,
    /// Facts that decide that pair after and did not before, in words.
    pub reasons: Vec<String>,
}

/// A fact that could not be compared, on every function on which it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopoUncompared {
    /// The fact.
    pub fact: TopoFact,
    /// The reason.
    pub reason: TopoUncomparedReason,
    /// Both in a sentence.
    pub what: String,
    /// The functions; none for a fact of the whole machine, and for pairs.
    pub functions: Vec<TopoFunction>,
    /// Number of pairs; 0 for other facts than the verdict.
    pub pairs: usize,
}

/// Reasons why a fact could not be compared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TopoUncomparedReason {
    /// The machine before does not show it.
    UnknownBefore,
    /// The machine after does not show it.
    UnknownAfter,
    /// Neither shows it.
    UnknownInBoth,
    /// GPUs slow their links while idle, and one was read so.
    IdleLink,
}

impl TopoUncomparedReason {
    /// Returns whether one of the machines shows the fact.
    pub fn is_of_one_side(self) -> bool {
        matches!(self, Self::UnknownBefore | Self::UnknownAfter)
    }
}

impl fmt::Display for TopoUncomparedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UnknownBefore => "unknown before",
            Self::UnknownAfter => "unknown after",
            Self::UnknownInBoth => "unknown in both",
            Self::IdleLink => "GPUs slow their links while idle",
        })
    }
}
