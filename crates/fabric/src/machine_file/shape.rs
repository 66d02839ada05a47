//! The tables and keys of a machine file.

use std::collections::BTreeMap;

use peerlane_units::Bytes;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::values::{AcsValue, CuFileSetting, Hex, LinkValue, Mdts, OctalMode, Rate, Size, Text};
use crate::{
    Bdf, FailingRequest, FailureCount, FunctionKind, IommuMode, LinkSpeed, PeerCapability, RootBus,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineTable {
    pub(super) name: String,
    #[serde(default, with = "IommuName")]
    pub(super) iommu: IommuMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) product: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) libraries: Option<Vec<String>>,
    #[serde(default)]
    pub(super) kernel: KernelEntry,
    #[serde(default)]
    pub(super) cpu: CpuTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nvidia: Option<NvidiaDriverTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cufile: Option<Cufile>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) environment: EnvironmentTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lab: Option<LabTable>,
    /// `None` stands for one host bridge, `pci0000:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host_bridge: Option<Vec<HostBridgeTable>>,
    #[serde(default)]
    pub(super) function: Vec<FunctionTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stacked: Vec<StackedDeviceTable>,
    /// An empty list says that nothing is mounted, none that it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mount: Option<Vec<MountTable>>,
    /// An empty list says that no GPUs are connected, none that it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nvlink: Option<Vec<GpuLinkTable>>,
    /// As `nvlink`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) xgmi: Option<Vec<GpuLinkTable>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) peer_access: Vec<PeerAccessTable>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvironmentTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hypervisor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) confidential: Option<String>,
    /// The database of udev.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) udev: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuLinkTable {
    pub(super) gpus: [Spanned<String>; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) links: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerAccessTable {
    pub(super) gpus: [Spanned<String>; 2],
    #[serde(with = "PeerCapabilityName")]
    pub(super) capability: PeerCapability,
    pub(super) status: String,
}

/// The names of [`PeerCapability`] in a machine file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "PeerCapability", rename_all = "kebab-case")]
enum PeerCapabilityName {
    Read,
    Write,
    #[serde(rename = "nvlink")]
    NvLink,
    Atomics,
    Pcie,
    Unstated,
}

/// The names of [`RootBus`] in a machine file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RootBus", rename_all = "kebab-case")]
enum RootBusName {
    Whole,
    Partial,
    Assumed,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StackedDeviceTable {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    pub(super) below: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MountTable {
    pub(super) device: String,
    pub(super) point: String,
    pub(super) file_system: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) read_only: bool,
}

// The signature is that of `skip_serializing_if`.
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) release: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p2pdma: Option<bool>,
    /// `CONFIG_HSA_AMD_P2P`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) amd_p2p: Option<bool>,
    /// `CONFIG_DMABUF_MOVE_NOTIFY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) move_notify: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) use_cmb_sqes: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nvme_multipath: Option<bool>,
    /// `nvme` is registered with `nvidia_fs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nvidia_fs_nvme: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) modules: Option<Vec<ModuleTable>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) seen_modules: Vec<ModuleTable>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleTable {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vendor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) family: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model_number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NvidiaDriverTable {
    /// The open kernel modules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) open: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) parameters: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cufile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) settings: BTreeMap<String, CuFileSetting>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabTable {
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
pub(super) struct HostBridgeTable {
    pub(super) name: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) numa_node: Option<u32>,
    /// Bytes a second of peers' reads that it forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p2p_read: Option<Rate>,
    /// Bytes a second of peers' writes that it forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p2p_write: Option<Rate>,
    /// Bytes a second in each direction of a link to another memory node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) socket_link: Option<Rate>,
    #[serde(default, with = "RootBusName", skip_serializing_if = "is_default")]
    pub(super) root_bus: RootBus,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionTable {
    pub(super) name: Spanned<String>,
    #[serde(with = "KindName")]
    pub(super) kind: FunctionKind,
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
    pub(super) iommu_type: Option<String>,
    /// `none` where no driver is bound, `unknown` where that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) driver: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) kernel_names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fpga_p2p: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) physical_function: Option<Text<Bdf>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) accelerator: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_size: Option<Size>,
    /// Its registers read as ones.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) silent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mig_instances: Option<u32>,
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
    pub(super) state: Option<String>,
    /// Bytes a second that a drive reads from its medium.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read: Option<Rate>,
    /// Bytes a second that a drive writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) write: Option<Rate>,
    /// The most that the shares of both add up to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mixed: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) throttle: Option<Rate>,
    /// Bytes a second in each direction of the Ethernet behind a network controller, or between the two
    /// parts of a switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ethernet: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mdts: Option<Mdts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protection: Option<u8>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) multipath: bool,
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
    /// The most that a port supports on the link below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_below: Option<Text<LinkSpeed>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) bars: Vec<BarTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cmb_registers: Option<CmbRegistersTable>,
    /// In thousandths of a degree Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<TemperatureTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p2pmem: Option<P2pMemTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespaces: Option<Vec<NamespaceTable>>,
    /// The lab backs its memory by RAM.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) ram_bar: bool,
    /// Requests that the lab makes fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) errors: Option<Vec<InjectedErrorTable>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InjectedErrorTable {
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
pub(super) struct P2pMemTable {
    pub(super) size: Size,
    /// All of it when left out.
    pub(super) available: Option<Size>,
    #[serde(default = "published_by_default")]
    pub(super) published: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allocate: Option<OctalMode>,
    /// Bytes a second that are read of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read: Option<Rate>,
    /// Bytes a second that are written to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) write: Option<Rate>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BarTable {
    pub(super) index: u8,
    /// Left out only where it is unknown of a window without address space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<Size>,
    /// `false` for a window without address space.
    #[serde(default = "assigned_by_default", skip_serializing_if = "Clone::clone")]
    pub(super) assigned: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) prefetchable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) largest: Option<Size>,
    /// Number of bits of its highest address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address_bits: Option<u8>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CmbRegistersTable {
    pub(super) location: Hex<u32>,
    pub(super) size: Hex<u32>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TemperatureTable {
    pub(super) current: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warning: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) critical: Option<i32>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntegrityTable {
    pub(super) write_generate: bool,
    pub(super) read_verify: bool,
}

fn assigned_by_default() -> bool {
    true
}

fn published_by_default() -> bool {
    true
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamespaceTable {
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
    pub(super) max_hw_request: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_segments: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) multipath_head: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stable_writes: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) integrity: Option<IntegrityTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) partitions: Vec<PartitionTable>,
}

fn smallest_block() -> Size {
    Size(Bytes(512))
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartitionTable {
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

/// The names of [`FunctionKind`] in a machine file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FunctionKind", rename_all = "kebab-case")]
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
