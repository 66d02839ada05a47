//! One task on several machines: the nodes of a cluster, each with its answer or the reason for having none.
//!
//! A node is never left out: it has a record, an error of its own, or the reason why it is missing.

use std::fmt;

use peerlane_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BenchRecord, DoctorRecord, HitRecord};

/// Schema of [`NodesRecord`].
pub const NODES_SCHEMA: &str = "peerlane.nodes/1";

/// One task on the nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodesRecord {
    /// [`NODES_SCHEMA`].
    pub schema: String,
    /// The task.
    pub what: NodesTask,
    /// Every node that was asked or named, in order of names.
    pub nodes: Vec<NodeRecord>,
    /// Parts of work that was divided; `None` where each node had the same task.
    pub parts: Option<PartCount>,
    /// From the first part handed out to the last answer.
    pub elapsed_ns: Nanos,
    /// Hits of all parts in the order of the images; `None` where each node scanned its own.
    pub scan: Option<ScanRecord>,
    /// Predictions in the order of the variants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantRecord>,
}

/// A task that nodes are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodesTask {
    /// A workload, on each node.
    Bench,
    /// An examination of each node.
    Doctor,
    /// A search for a picture, divided or on each node.
    Scan,
    /// Predictions, divided.
    Simulate,
}

impl fmt::Display for NodesTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bench => "bench",
            Self::Doctor => "doctor",
            Self::Scan => "scan",
            Self::Simulate => "simulate",
        })
    }
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRecord {
    /// Name, which no other node has: that given to Ray, else the host name.
    pub name: String,
    /// Host name as the node says it; `None` of a node that never answered.
    pub hostname: Option<String>,
    /// Network address, as the cluster knows it.
    pub address: String,
    /// Drives, GPUs, network controllers and FPGA cards of the node.
    pub devices: Vec<NodeDevice>,
    /// Ends of the transfers of a benchmark, each with the device behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<UsedEnd>,
    /// Number of times that the node was given work.
    pub attempts: u32,
    /// Number of parts that count as done by it; 0 where nothing was divided.
    pub parts: u32,
    /// Its benchmark.
    pub bench: Option<Box<BenchRecord>>,
    /// Its examination.
    pub doctor: Option<Box<DoctorRecord>>,
    /// Its own scan.
    pub scan: Option<ScanRecord>,
    /// The error that the task ended with on this node.
    pub error: Option<NodeError>,
    /// The reason for having no answer of it.
    pub missing: Option<String>,
}

/// A device of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeDevice {
    /// Name: `nvme0`, `mlx5_0`.
    pub name: String,
    /// Kind: `nvme`, `gpu`, `nic`, `fpga`.
    pub kind: String,
    /// PCI address.
    pub address: String,
}

/// An end of a transfer, and the device behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedEnd {
    /// The end or memory, as the workload names it.
    pub end: String,
    /// PCI address of the device; `None` of host memory, and of a file whose device is not on PCIe.
    pub address: Option<String>,
}

/// An error of the task on one node, which is its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeError {
    /// Exit status that the program has for it: 2, or 77 where it is not possible on this node.
    pub status: u8,
    /// Causes, the outermost first.
    pub causes: Vec<String>,
    /// Advice.
    pub hint: Option<String>,
}

/// Parts of work that was divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartCount {
    /// Number of parts, each counted once.
    pub total: u32,
    /// Parts that were handed out again because their node was lost.
    pub repeated: u32,
}

/// Hits of a search, and its cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScanRecord {
    /// Places where the picture is.
    pub hits: Vec<HitRecord>,
    /// Images that could not be searched.
    pub failed: Vec<FailedImage>,
    /// Number of images searched.
    pub images: u64,
    /// Number of their pixels.
    pub pixels: u64,
    /// Threads that searched, of all nodes together.
    pub threads: u32,
    /// From the first image to the last.
    pub elapsed_ns: Nanos,
    /// Time that stages were busy, of all threads and nodes together.
    pub busy: ScanBusy,
    /// The stage that limits; `None` where several nodes searched.
    pub limited_by: Option<String>,
}

/// An image that could not be searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedImage {
    /// Path of the image.
    pub image: String,
    /// The reason.
    pub error: String,
}

/// Time that the stages of a search were busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScanBusy {
    /// Reading.
    pub load_ns: Nanos,
    /// Decoding.
    pub decode_ns: Nanos,
    /// Searching.
    pub search_ns: Nanos,
}

/// A prediction of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantRecord {
    /// The prediction.
    pub record: Option<Box<BenchRecord>>,
    /// The error that it ended with.
    pub error: Option<NodeError>,
}
