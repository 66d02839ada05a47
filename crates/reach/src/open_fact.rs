//! Facts that a fabric leaves open, with the commands that show them.

use peerlane_fabric::{BridgeId, Fabric, FunctionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fact that a conditional decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownFact {
    /// Vendor and family of the CPU.
    Cpu,
}

/// A fact that a decision needs and the fabric lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// ACS control registers of these functions.
    Acs(Vec<FunctionId>),
    /// Vendor and family of the CPU.
    Cpu,
    /// Identity of the function that the kernel knows a host bridge by.
    HostBridge(BridgeId),
    /// The bridges above a bus that a text shows without them.
    Bridges(BridgeId),
}

impl UnknownFact {
    /// The command that shows it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Cpu => CPU_COMMAND,
        }
    }
}

const CPU_COMMAND: &str = "grep -m4 -E 'vendor_id|cpu family|model' /proc/cpuinfo";

impl Need {
    /// The fact in words, with the names of functions.
    ///
    /// # Panics
    /// When it is a need of another fabric.
    pub fn in_words(&self, fabric: &Fabric) -> String {
        let bridge = |id: &BridgeId| fabric.bridges[id.0].name.as_str();
        match self {
            Self::Acs(functions) => {
                acs_in_words(functions.iter().map(|&id| fabric.function(id).name.as_str()))
            }
            Self::Cpu => CPU.to_owned(),
            Self::HostBridge(id) => host_bridge_in_words(bridge(id)),
            Self::Bridges(id) => bridges_in_words(bridge(id)),
        }
    }

    /// The command that shows it.
    pub fn command(&self) -> &'static str {
        match self {
            Self::Acs(_) | Self::HostBridge(_) | Self::Bridges(_) => "sudo lspci -Dvvvnn",
            Self::Cpu => CPU_COMMAND,
        }
    }
}

/// A fact that the decision on pairs of two groups lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupNeed {
    /// ACS control registers on the way.
    Acs,
    /// Vendor and family of the CPU.
    Cpu,
    /// Identity of the host bridge above the memory.
    MemoryHostBridge,
    /// Identity of the host bridge above the initiator.
    InitiatorHostBridge,
    /// The bridges above the memory's bus.
    MemoryBridges,
    /// The bridges above the initiator's bus.
    InitiatorBridges,
}

impl GroupNeed {
    /// The fact in words as [`Need::in_words`] has it, with names of unread functions on the way, and of the
    /// host bridges above memory and initiator.
    pub fn in_words<'a>(
        self,
        unread: impl Iterator<Item = &'a str>,
        (memory, initiator): (&str, &str),
    ) -> String {
        match self {
            Self::Acs => acs_in_words(unread),
            Self::Cpu => CPU.to_owned(),
            Self::MemoryHostBridge => host_bridge_in_words(memory),
            Self::InitiatorHostBridge => host_bridge_in_words(initiator),
            Self::MemoryBridges => bridges_in_words(memory),
            Self::InitiatorBridges => bridges_in_words(initiator),
        }
    }
}

const CPU: &str = "vendor and family of the CPU";

fn acs_in_words<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("ACS control of {}", names.collect::<Vec<_>>().join(", "))
}

fn host_bridge_in_words(name: &str) -> String {
    format!("identity of host bridge {name}")
}

fn bridges_in_words(name: &str) -> String {
    format!("bridges above {name}")
}
