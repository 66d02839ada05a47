//! Changes between two machines: functions, their facts, and the kernel's decisions on their pairs.
//!
//! Functions are matched by identity, not by address: by place below the root bus, serial number,
//! numbers of maker and product, address, name (`matching`). So a moved card is compared with itself.
//! A fact that one machine does not know is not a change; it is reported apart, in
//! [`MachineDifference::uncompared`].

mod collector;
mod functions;
mod gpu_links;
mod machine;
mod matching;
mod remote;
mod verdicts;

use std::fmt;

use peerlane_fabric::{Fabric, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use matching::Matching;

use crate::MapType;
use collector::Collector;

/// Changes between two machines.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineDifference {
    /// Changes, worst first.
    pub changes: Vec<MachineChange>,
    /// Facts that could not be compared.
    pub uncompared: Vec<UncomparedFact>,
    /// Functions of either machine, and which of them are the same.
    pub matching: Matching,
}

/// A change of one fact, on every function with the same change.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineChange {
    /// The fact.
    pub kind: ChangeKind,
    /// Its effect on peer-to-peer traffic.
    pub effect: ChangeEffect,
    /// The value before, in words; `None` where there was none.
    pub before: Option<String>,
    /// The value after, in words; `None` where there is none.
    pub after: Option<String>,
    /// The functions; none for a fact of the whole machine.
    pub functions: Vec<ComparedFunction>,
    /// The pairs of [`ChangeKind::Verdict`].
    pub pairs: Option<ChangedPairs>,
}

/// Facts that are compared, worst first where their effect is the same.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// The kernel's decision on pairs.
    Verdict,
    /// A function that is no longer there.
    Removed,
    /// Memory windows.
    Windows,
    /// ACS redirection of a port or function.
    AcsRedirection,
    /// Translation of addresses in the whole machine.
    Iommu,
    /// Translation of addresses for a function (`iommu_groups/N/type`).
    Translation,
    /// Memory that the kernel or a card lends.
    MemoryLent,
    /// NVLinks between two GPUs.
    #[serde(rename = "nvlinks")]
    NvLink,
    /// XGMI between two GPUs.
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
    #[serde(rename = "processor")]
    Cpu,
    /// Release of the kernel.
    #[serde(rename = "kernel")]
    KernelRelease,
    /// Peer-to-peer support in the kernel's configuration.
    KernelP2pdma,
    /// Parameters of the kernel.
    KernelParameters,
    /// Modules of the kernel that bear on peer-to-peer.
    KernelModules,
    /// Maker and model of the machine.
    Product,
    /// A function that was not there.
    Added,
    /// Addresses of functions that stayed in their place.
    Renumbered,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Verdict => "verdict",
            Self::Removed => "presence",
            Self::Windows => "windows",
            Self::AcsRedirection => "ACS redirection",
            Self::Iommu => "IOMMU",
            Self::Translation => "translation",
            Self::MemoryLent => "memory lent",
            Self::NvLink => "NVLinks",
            Self::Xgmi => "XGMI links",
            Self::LinkTrained => "link as trained",
            Self::LinkMaximum => "link at most",
            Self::RemoteDrive => "drive of another machine",
            Self::Moved => "place",
            Self::Driver => "driver",
            Self::Cpu => "processor",
            Self::KernelRelease => "kernel",
            Self::KernelP2pdma => "CONFIG_PCI_P2PDMA",
            Self::KernelParameters => "kernel parameters",
            Self::KernelModules => "kernel modules",
            Self::Product => "product",
            Self::Added => "presence",
            Self::Renumbered => "address",
        })
    }
}

/// Effect of a change on peer-to-peer traffic, worst first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeEffect {
    /// Less is possible, or it is slower.
    Worse,
    /// Neither, or unknown.
    Neutral,
    /// More is possible, or it is faster.
    Better,
}

/// A function of one machine or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ComparedFunction {
    /// In the machine before.
    pub before: Option<FunctionId>,
    /// In the machine after.
    pub after: Option<FunctionId>,
}

/// Pairs whose decision changed alike.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedPairs {
    /// The decision before.
    pub before: MapType,
    /// The decision after.
    pub after: MapType,
    /// Number of pairs.
    pub count: usize,
    /// Initiator of one of them.
    pub initiator: ComparedFunction,
    /// Provider of that pair.
    pub provider: ComparedFunction,
    /// Facts that decide that pair after and did not before.
    pub reasons: Vec<String>,
}

/// A fact that could not be compared, on every function with the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncomparedFact {
    /// The fact.
    pub kind: ChangeKind,
    /// The reason.
    pub reason: UncomparedReason,
    /// The functions; none for a fact of the whole machine.
    pub functions: Vec<ComparedFunction>,
    /// Number of pairs, for decisions.
    pub pairs: usize,
}

/// The reason why a fact could not be compared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum UncomparedReason {
    /// The machine before does not show it.
    UnknownBefore,
    /// The machine after does not show it.
    UnknownAfter,
    /// Neither shows it.
    UnknownInBoth,
    /// GPUs slow their links while idle, and one was read so.
    IdleLink,
}

impl UncomparedReason {
    /// Returns whether one of the machines shows the fact.
    pub fn is_of_one_side(self) -> bool {
        matches!(self, Self::UnknownBefore | Self::UnknownAfter)
    }
}

impl fmt::Display for UncomparedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UnknownBefore => "unknown before",
            Self::UnknownAfter => "unknown after",
            Self::UnknownInBoth => "unknown in both",
            Self::IdleLink => "GPUs slow their links while idle",
        })
    }
}

impl MachineDifference {
    /// Compares two machines.
    pub fn new(before: &Fabric, after: &Fabric) -> Self {
        let matching = Matching::new(before, after);
        let mut collector = Collector::default();
        machine::compare(&mut collector, before, after);
        functions::presence(&mut collector, (before, after), &matching);
        functions::compare(&mut collector, (before, after), &matching);
        remote::compare(&mut collector, before, after);
        gpu_links::compare(&mut collector, (before, after), &matching);
        verdicts::compare(&mut collector, (before, after), &matching);
        let (changes, uncompared) = collector.finish();
        Self { changes, uncompared, matching }
    }
}
