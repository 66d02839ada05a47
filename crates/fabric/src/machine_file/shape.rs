//! The tables and keys of a machine file.

use peerlane_units::Bytes;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::values::{Mdts, OctalMode, Rate, Size, Text};
use crate::notation::{Hex, is_default};
use crate::{
    Acs, Bdf, CmbRegisters, Cpu, CufileConfiguration, Environment, FunctionKind, InjectedError,
    Integrity, IommuMode, Kernel, LabBoot, Link, LinkSpeed, Mount, NvidiaDriver, Partition,
    PeerCapability, RootBus, StackedDevice, Temperature,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) iommu: IommuMode,
    pub(super) product: Option<String>,
    pub(super) libraries: Option<Vec<String>>,
    #[serde(default)]
    pub(super) kernel: Kernel,
    #[serde(default)]
    pub(super) cpu: Cpu,
    pub(super) nvidia: Option<NvidiaDriver>,
    pub(super) cufile: Option<CufileConfiguration>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) environment: Environment,
    pub(super) lab: Option<LabBoot>,
    /// `None` stands for one host bridge, `pci0000:00`.
    pub(super) host_bridge: Option<Vec<HostBridgeTable>>,
    #[serde(default)]
    pub(super) function: Vec<FunctionTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stacked: Vec<StackedDevice>,
    /// An empty list says that nothing is mounted, none that it is unknown.
    pub(super) mount: Option<Vec<Mount>>,
    /// An empty list says that no GPUs are connected, none that it is unknown.
    pub(super) nvlink: Option<Vec<GpuLinkTable>>,
    /// As `nvlink`.
    pub(super) xgmi: Option<Vec<GpuLinkTable>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) peer_access: Vec<PeerAccessTable>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuLinkTable {
    pub(super) gpus: [Spanned<String>; 2],
    pub(super) links: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerAccessTable {
    pub(super) gpus: [Spanned<String>; 2],
    pub(super) capability: PeerCapability,
    pub(super) status: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostBridgeTable {
    pub(super) name: Spanned<String>,
    pub(super) numa_node: Option<u32>,
    /// Bytes a second of peers' reads that it forwards.
    pub(super) p2p_read: Option<Rate>,
    /// Bytes a second of peers' writes that it forwards.
    pub(super) p2p_write: Option<Rate>,
    /// Bytes a second in each direction of a link to another memory node.
    pub(super) socket_link: Option<Rate>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) root_bus: RootBus,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionTable {
    pub(super) name: Spanned<String>,
    pub(super) kind: FunctionKind,
    pub(super) under: Option<String>,
    pub(super) address: Option<Text<Bdf>>,
    pub(super) vendor: Option<Hex<u16>>,
    pub(super) device: Option<Hex<u16>>,
    pub(super) class: Option<Hex<u32>>,
    pub(super) numa_node: Option<u32>,
    pub(super) iommu_group: Option<u32>,
    pub(super) iommu_type: Option<String>,
    /// `none` where no driver is bound, `unknown` where that is unknown.
    pub(super) driver: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) kernel_names: Vec<String>,
    pub(super) fpga_p2p: Option<bool>,
    pub(super) physical_function: Option<Text<Bdf>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) accelerator: bool,
    pub(super) memory_size: Option<Size>,
    /// Its registers read as ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) silent: bool,
    pub(super) mig_instances: Option<u32>,
    /// `false` for a drive without a bound NVMe driver.
    pub(super) bound: Option<bool>,
    pub(super) controller: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) model: Option<String>,
    pub(super) firmware: Option<String>,
    pub(super) state: Option<String>,
    /// Bytes a second that a drive reads from its medium.
    pub(super) read: Option<Rate>,
    /// Bytes a second that a drive writes.
    pub(super) write: Option<Rate>,
    /// The most that the shares of both add up to.
    pub(super) mixed: Option<f64>,
    pub(super) throttle: Option<Rate>,
    /// Bytes a second in each direction of the Ethernet behind a network controller, or between the two
    /// parts of a switch.
    pub(super) ethernet: Option<Rate>,
    pub(super) mdts: Option<Mdts>,
    pub(super) protection: Option<u8>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) multipath: bool,
    /// Short for one namespace.
    #[serde(skip_serializing)]
    pub(super) size: Option<Bytes>,
    /// Short for the block size of that namespace.
    #[serde(skip_serializing)]
    pub(super) block_size: Option<Bytes>,
    /// Short for published peer-to-peer memory, none of it in use.
    #[serde(skip_serializing)]
    pub(super) cmb: Option<Bytes>,
    pub(super) acs: Option<Acs>,
    pub(super) link: Option<Link>,
    /// The most that a port supports on the link below it.
    pub(super) link_below: Option<Text<LinkSpeed>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) bars: Vec<BarTable>,
    pub(super) cmb_registers: Option<CmbRegisters>,
    /// In thousandths of a degree Celsius.
    pub(super) temperature: Option<Temperature>,
    pub(super) p2pmem: Option<P2pMemTable>,
    pub(super) namespaces: Option<Vec<NamespaceTable>>,
    /// The lab backs its memory by RAM.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) ram_bar: bool,
    /// Requests that the lab makes fail.
    pub(super) errors: Option<Vec<InjectedError>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct P2pMemTable {
    pub(super) size: Size,
    /// All of it when left out.
    pub(super) available: Option<Size>,
    #[serde(default = "published_by_default")]
    pub(super) published: bool,
    pub(super) allocate: Option<OctalMode>,
    /// Bytes a second that are read of it.
    pub(super) read: Option<Rate>,
    /// Bytes a second that are written to it.
    pub(super) write: Option<Rate>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BarTable {
    pub(super) index: u8,
    /// Left out only where it is unknown of a window without address space.
    pub(super) size: Option<Size>,
    /// `false` for a window without address space.
    #[serde(default = "assigned_by_default", skip_serializing_if = "Clone::clone")]
    pub(super) assigned: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) prefetchable: bool,
    pub(super) largest: Option<Size>,
    /// Number of bits of its highest address.
    pub(super) address_bits: Option<u8>,
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
    pub(super) name: Option<String>,
    pub(super) nsid: Option<u32>,
    pub(super) size: Size,
    #[serde(default = "smallest_block")]
    pub(super) block_size: Size,
    /// The block size when left out.
    pub(super) physical_block_size: Option<Size>,
    pub(super) max_request: Option<Size>,
    pub(super) max_hw_request: Option<Size>,
    pub(super) max_segments: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) multipath_head: bool,
    pub(super) stable_writes: Option<bool>,
    pub(super) integrity: Option<Integrity>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) partitions: Vec<Partition>,
}

fn smallest_block() -> Size {
    Size(Bytes(512))
}
