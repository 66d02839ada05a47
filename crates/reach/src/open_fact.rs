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
        match self {
            Self::Acs(functions) => {
                let names: Vec<&str> =
                    functions.iter().map(|&id| fabric.function(id).name.as_str()).collect();
                format!("ACS control of {}", names.join(", "))
            }
            Self::Cpu => "vendor and family of the CPU".to_owned(),
            Self::HostBridge(bridge) => {
                format!("identity of host bridge {}", fabric.bridges[bridge.0].name)
            }
            Self::Bridges(bridge) => {
                format!("bridges above {}", fabric.bridges[bridge.0].name)
            }
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
