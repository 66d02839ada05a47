//! Exports of drives to other machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EndpointFacts, Machine, MemoryKind, Warning};
use peerlane_reach::MapType;

/// Schema of [`ExportRecord`].
pub const EXPORT_SCHEMA: &str = "peerlane.export/1";
/// Schema of [`ExportList`].
pub const EXPORTS_SCHEMA: &str = "peerlane.exports/1";

/// An export; it lasts until the program ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportRecord {
    /// [`EXPORT_SCHEMA`].
    pub schema: String,
    /// The exporting machine.
    pub machine: Machine,
    /// The drive.
    pub drive: EndpointFacts,
    /// NQN of the subsystem.
    pub subsystem: String,
    /// Number of the namespace.
    pub namespace: u32,
    /// UUID of the namespace, its identity for hosts.
    pub uuid: String,
    /// Transport and address for hosts.
    pub listen: ExportListen,
    /// NQNs of the allowed hosts; `None` for any.
    pub hosts: Option<Vec<String>>,
    /// Memory between drive and network on this machine, as the kernel accepted it.
    pub memory: MemoryKind,
    /// Reason for that memory.
    pub reason: String,
    /// RDMA device with the address, such as `mlx5_0`; `None` for other transports, and where no device
    /// lists the address.
    #[serde(default)]
    pub rdma_device: Option<String>,
    /// P2P memories for payload over RDMA, the nearest first; empty for other transports.
    #[serde(default)]
    pub memories: Vec<ExportMemory>,
    /// Name of the drive on other machines, for `copy`; `None` for `loop`.
    #[serde(default)]
    pub remote_name: Option<String>,
    /// Command to connect another machine, or this one by `loop`.
    pub connect: String,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
}

/// A P2P memory, judged for a drive and the RDMA device of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportMemory {
    /// Its name: `cmb:nvme0`.
    pub memory: String,
    /// PCI address of its function, if known.
    pub address: Option<String>,
    /// The kernel's decision between the memory and the drive.
    pub drive: MapType,
    /// The same for the RDMA device; `None` where that is unknown.
    pub nic: Option<MapType>,
    /// True if the kernel permits all known routes.
    pub is_permitted: bool,
    /// Reason for that.
    pub reason: String,
}

/// Transport and address for hosts.
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
    /// Served exports and leftovers.
    pub exports: Vec<OwnExport>,
}

/// A served export or a leftover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnExport {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// Path of the drive.
    pub drive: String,
    /// Transport and address: `tcp 10.0.0.1:4420`.
    pub listen: String,
    /// Number of the serving process; `None` for a leftover of a killed one.
    pub process: Option<u32>,
}
