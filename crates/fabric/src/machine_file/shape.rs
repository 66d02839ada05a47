//! The tables and keys of a machine file.

use peerlane_units::Bytes;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::values::{AcsValue, Hex, LinkValue, Rate, Size, Text};
use crate::{Bdf, FailingRequest, FailureCount, IommuMode, Kind};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    pub(super) name: String,
    #[serde(default, with = "IommuName")]
    pub(super) iommu: IommuMode,
    #[serde(default)]
    pub(super) kernel: Kernel,
    #[serde(default)]
    pub(super) cpu: Cpu,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lab: Option<Lab>,
    /// `None` stands for one host bridge, `pci0000:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host_bridge: Option<Vec<HostBridge>>,
    #[serde(default)]
    pub(super) function: Vec<Function>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernel {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) release: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p2pdma: Option<bool>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cpu {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vendor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) family: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lab {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpus: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Size>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) kernel_args: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostBridge {
    pub(super) name: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numa_node: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Function {
    pub(super) name: Spanned<String>,
    #[serde(with = "KindName")]
    pub(super) kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) under: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<Text<Bdf>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vendor: Option<Hex<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<Hex<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<Hex<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numa_node: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iommu_group: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) driver: Option<String>,
    /// `false` for a drive without a bound NVMe driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bound: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) controller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) serial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) firmware: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) throttle: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mdts: Option<u8>,
    /// Short for one namespace.
    #[serde(skip_serializing)]
    pub(super) size: Option<Size>,
    /// Short for the block size of that namespace.
    #[serde(skip_serializing)]
    pub(super) block_size: Option<Size>,
    /// Short for published peer-to-peer memory, none of it in use.
    #[serde(skip_serializing)]
    pub(super) cmb: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) acs: Option<AcsValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<LinkValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p2pmem: Option<P2pMem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespaces: Option<Vec<Namespace>>,
    /// Requests that the lab makes fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) errors: Option<Vec<InjectedError>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InjectedError {
    #[serde(with = "FailingRequestName")]
    pub(super) on: FailingRequest,
    pub(super) sector: u32,
    /// Always when left out.
    #[serde(default, with = "FailureCountName", skip_serializing_if = "is_always")]
    pub(super) times: FailureCount,
}

// The shape of a serde predicate.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_always(times: &FailureCount) -> bool {
    *times == FailureCount::Always
}

/// The names of [`FailingRequest`] in a machine file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FailingRequest", rename_all = "kebab-case")]
enum FailingRequestName {
    Read,
    Write,
}

/// The names of [`FailureCount`] in a machine file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FailureCount", rename_all = "kebab-case")]
enum FailureCountName {
    Once,
    Always,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct P2pMem {
    pub(super) size: Size,
    /// All of it when left out.
    pub(super) available: Option<Size>,
    #[serde(default = "published_by_default")]
    pub(super) published: bool,
}

fn published_by_default() -> bool {
    true
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Namespace {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nsid: Option<u32>,
    pub(super) size: Size,
    #[serde(default = "smallest_block")]
    pub(super) block_size: Size,
    /// The block size when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) physical_block_size: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_request: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_segments: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) partitions: Vec<Partition>,
}

fn smallest_block() -> Size {
    Size(Bytes(512))
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Partition {
    pub(super) name: String,
    pub(super) start: Size,
    pub(super) size: Size,
}

/// The names of [`IommuMode`] in a machine file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "IommuMode", rename_all = "kebab-case")]
enum IommuName {
    Off,
    Passthrough,
    Translating,
    Unknown,
}

/// The names of [`Kind`] in a machine file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Kind", rename_all = "kebab-case")]
enum KindName {
    RootPort,
    UpstreamPort,
    DownstreamPort,
    #[serde(rename = "bridge")]
    OtherBridge,
    Nvme,
    Gpu,
    Fpga,
    Nic,
    Other,
}
