//! Exports of drives to other machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EndpointFacts, Machine, MemoryKind, Warning};
use peerlane_reach::MapType;

/// Schema of [`ExportRecord`].
pub const EXPORT_SCHEMA: &str = "peerlane.export/1";

/// Exports of Peerlane on this machine: the one that begins, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportRecord {
    /// [`EXPORT_SCHEMA`].
    pub schema: String,
    /// Served exports and leftovers.
    pub exports: Vec<Export>,
}

impl ExportRecord {
    /// The record of these exports.
    pub fn new(exports: Vec<Export>) -> Self {
        Self { schema: EXPORT_SCHEMA.to_owned(), exports }
    }
}

/// A served export or a leftover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Export {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// Path of the drive.
    pub drive: String,
    /// Transport and address for hosts: `tcp 10.0.0.1:4420`, `loop`.
    pub listen: String,
    /// Number of the serving process; `None` for a leftover of a killed one.
    pub process: Option<u32>,
    /// Settings of the serving program; `None` in a list.
    pub served: Option<ServedExport>,
}

/// An export as its program set it up; it lasts until that ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServedExport {
    /// The exporting machine.
    pub machine: Machine,
    /// The drive.
    pub drive: EndpointFacts,
    /// Number of the namespace.
    pub namespace: u32,
    /// UUID of the namespace, its identity for hosts.
    pub uuid: String,
    /// NQNs of the allowed hosts; `None` for any.
    pub hosts: Option<Vec<String>>,
    /// Memory between drive and network on this machine, as the kernel accepted it.
    pub memory: MemoryKind,
    /// Reason for that memory.
    pub reason: String,
    /// RDMA device with the address, such as `mlx5_0`; `None` for other transports, and where no device
    /// lists the address.
    pub rdma_device: Option<String>,
    /// P2P memories for payload over RDMA, the nearest first; empty for other transports.
    pub memories: Vec<ExportMemory>,
    /// Name of the drive on other machines, for `copy`; `None` for `loop`.
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
