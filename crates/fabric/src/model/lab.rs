//! The lab's settings of a machine: plain data, no files, no decisions.

use peerlane_units::{ByteRate, Bytes};
use serde::{Deserialize, Serialize};

use crate::notation::{is_default, size};

/// The lab's boot settings of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabBoot {
    /// QEMU CPU model; `max` has no host-bridge peer-to-peer in the kernel's eyes, `EPYC` has.
    pub cpu: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Guest memory.
    #[serde(serialize_with = "size")]
    pub memory: Bytes,
    /// Further kernel parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_args: Vec<String>,
}

impl Default for LabBoot {
    fn default() -> Self {
        Self { cpu: "max".to_owned(), cpus: 2, memory: Bytes::mib(1024), kernel_args: Vec::new() }
    }
}

/// Emulation of a function in the lab; empty for all but drives and cards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabDrive {
    /// Rate limit, reads and writes together.
    pub throttle: Option<ByteRate>,
    /// NVMe MDTS as a power of two of 4 KiB pages.
    pub mdts: Option<u8>,
    /// Type of protection information, 1 to 3, kept in 8 bytes with each block (NVM Command Set,
    /// "End-to-end Data Protection"); `None` for none.
    pub protection: Option<u8>,
    /// Set when the drive's subsystem says that it may have several controllers. The kernel then
    /// makes a multipath head of its namespace.
    pub multipath: bool,
    /// Requests that fail.
    pub errors: Vec<InjectedError>,
    /// Set when its memory is a BAR backed by RAM of the host, standing in for a card that lends
    /// its memory.
    pub is_ram_bar: bool,
}

/// Requests of an emulated drive that fail with an error of the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectedError {
    /// The kind of request.
    pub on: FailingRequest,
    /// The sector of 512 bytes whose touch fails, whatever the drive's block size is.
    pub sector: u32,
    /// Number of failures.
    #[serde(default, skip_serializing_if = "is_default")]
    pub times: FailureCount,
}

/// A kind of request that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailingRequest {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// Number of times that a request fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureCount {
    /// The first one only: a transient error.
    Once,
    /// Every one: a permanent error.
    #[default]
    Always,
}
