//! A drive that hosts of the network are served with, and those that were left.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EndpointFacts, Machine, MemoryKind, Warning};

/// Schema of [`ExportRecord`].
pub const EXPORT_SCHEMA: &str = "peerlane.export/1";
/// Schema of [`ExportList`].
pub const EXPORTS_SCHEMA: &str = "peerlane.exports/1";

/// An export as it was made; it lasts until the program ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportRecord {
    /// [`EXPORT_SCHEMA`].
    pub schema: String,
    /// Where it runs.
    pub machine: Machine,
    /// The drive.
    pub drive: EndpointFacts,
    /// NQN of the subsystem.
    pub subsystem: String,
    /// Number of the namespace.
    pub namespace: u32,
    /// UUID of the namespace, by which hosts know the drive again.
    pub uuid: String,
    /// Where hosts connect.
    pub listen: ExportListen,
    /// NQNs of hosts that may connect; `None` for any.
    pub hosts: Option<Vec<String>>,
    /// Memory that payload waits in on this machine, as the kernel took it.
    pub memory: MemoryKind,
    /// Why it is that.
    pub reason: String,
    /// Command that connects another machine, or this one by `loop`.
    pub connect: String,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// Where hosts connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportListen {
    /// `tcp`, `rdma` or `loop`.
    pub transport: String,
    /// IP address; `None` for `loop`.
    pub address: Option<String>,
    /// Port; `None` for `loop`.
    pub port: Option<u16>,
}

/// Exports of Peerlane on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportList {
    /// [`EXPORTS_SCHEMA`].
    pub schema: String,
    /// All of them.
    pub exports: Vec<OwnExport>,
}

/// An export that is served, or was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnExport {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// Path of the drive.
    pub drive: String,
    /// Where hosts connect: `tcp 10.0.0.1:4420`.
    pub listen: String,
    /// Number of the process that serves it; `None` where it was killed and the export left.
    pub process: Option<u32>,
}
