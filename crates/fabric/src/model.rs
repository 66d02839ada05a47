//! The types of a fabric: plain data, no files, no decisions.
//!
//! Functions lie in one list, parents before children; [`FunctionId`] is a position in it.
//! A fact that could not be read is a value (`None`, [`Acs::Unknown`], [`IommuMode::Unknown`]): an
//! unprivileged reader learns less, never something wrong.

pub(crate) mod account;
mod cufile;
mod driver;
mod lab;
mod network;
mod nvidia;
mod rdma;
mod storage;
mod window;

use std::path::PathBuf;

use peerlane_units::{ByteRate, Bytes};
use serde::{Deserialize, Serialize};

pub use cufile::{CufileConfiguration, CufileValue};
pub use driver::DriverBinding;
pub use lab::{FailingRequest, FailureCount, InjectedError, LabBoot, LabDrive};
pub use network::{NetworkLocation, RemoteDrive, host_and_port};
pub use nvidia::NvidiaDriver;
pub use rdma::{RdmaDevice, RdmaGid, RdmaPort};
pub use storage::{
    CmbRegisters, Integrity, Mount, Namespace, NvmeController, Partition, QueueLimits,
    StackedDevice, Temperature,
};
pub(crate) use window::bits_of;
pub use window::{Bar, UnassignedBar};

use crate::Bdf;
use account::TextAccount;

/// A machine as data.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// A word for the machine: host name, or the name in the TOML file.
    pub name: String,
    /// Source of the description.
    pub origin: Origin,
    /// Known facts about the kernel.
    pub kernel: Kernel,
    /// Known facts about the CPU.
    pub cpu: Cpu,
    /// Translation of device addresses.
    pub iommu: IommuMode,
    /// Entries from CPU to PCI, in address order.
    pub bridges: Vec<HostBridge>,
    /// Every PCI function; parents precede children.
    pub functions: Vec<Function>,
    /// Maker and model that the machine states (`sys/devices/virtual/dmi/id`).
    pub product: Option<String>,
    /// Libraries that programs load to reach GPUs and FPGA cards, those of a short list that are in
    /// the usual folders: `libcufile.so.0`, and the file of one version that it points to; `None`
    /// where that cannot be seen.
    pub libraries: Option<Vec<String>>,
    /// Drives that other machines serve; none in a description or a text.
    pub remote_drives: Vec<RemoteDrive>,
    /// RDMA devices; none in a description or a text.
    pub rdma_devices: Vec<RdmaDevice>,
    /// Block devices that are stacked on others: device mapper, md; in order of name.
    pub stacked: Vec<StackedDevice>,
    /// Mounts of block devices of this fabric; `None` where they cannot be seen.
    pub mounts: Option<Vec<Mount>>,
    /// NVLink connections between GPUs; `None` where they cannot be seen, as in `/sys`.
    pub nvlinks: Option<Vec<GpuLink>>,
    /// XGMI between GPUs of AMD; `None` where it cannot be seen, as in `/sys`.
    pub xgmi: Option<Vec<GpuLink>>,
    /// The driver's own answers on peer access between GPUs, as `nvidia-smi topo -p2p` shows them.
    pub peer_access: Vec<PeerAccess>,
    /// NVIDIA's kernel driver; `None` where none is loaded, or it is not shown.
    pub nvidia: Option<NvidiaDriver>,
    /// Settings of NVIDIA's cuFile; `None` where there is no `/etc/cufile.json`, or it is not shown.
    pub cufile: Option<CufileConfiguration>,
    /// Layers between this system and the hardware.
    pub environment: Environment,
    /// Boot settings for the lab; only in descriptions meant for it.
    pub lab: Option<LabBoot>,
    /// An account of the text of `lspci` that it was read from; no machine file has it.
    pub account: Option<TextAccount>,
}

/// Source of a fabric; only [`Origin::ThisMachine`] may move data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Read from `/sys` of the running machine.
    ThisMachine,
    /// Read from a captured tree.
    Tree(PathBuf),
    /// Read from text that a person pasted: `lspci`, or the topology of NCCL.
    Text,
    /// Read from a machine file, or built by a program.
    Description,
    /// Another one, with a boot configuration taken as in force.
    Assumed,
}

/// Known facts about the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// True when it is built with `CONFIG_PCI_P2PDMA`; `None` where that cannot be seen.
    #[serde(rename = "p2pdma")]
    pub has_p2pdma: Option<bool>,
    /// True when it is built with `CONFIG_HSA_AMD_P2P`, without which amdgpu of the kernel gives no peer access.
    #[serde(rename = "amd_p2p")]
    pub has_amd_p2p: Option<bool>,
    /// True when it is built with `CONFIG_DMABUF_MOVE_NOTIFY`; [`Kernel::notifies_moves`] knows more.
    #[serde(rename = "move_notify")]
    pub has_move_notify: Option<bool>,
    /// The parameters it was booted with (`/proc/cmdline`), those that bear on devices only.
    pub parameters: Option<Vec<String>>,
    /// Parameter `use_cmb_sqes` of the `nvme` module: submission queues are put into a CMB, which
    /// leaves less of it to peers.
    pub use_cmb_sqes: Option<bool>,
    /// Parameter `multipath` of the `nvme_core` module.
    pub nvme_multipath: Option<bool>,
    /// The driver `nvme` is registered with the module `nvidia_fs`; `None` where that is not shown.
    pub nvidia_fs_nvme: Option<bool>,
    /// Modules that bear on peer-to-peer, as far as they are loaded; `None` where that cannot be
    /// seen.
    pub modules: Option<Vec<Module>>,
    /// Modules that another tool's text shows as loaded, if the whole list is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen_modules: Vec<Module>,
}

impl Kernel {
    /// Returns whether a module is loaded; `None` where that is unknown.
    pub fn has_module(&self, name: &str) -> Option<bool> {
        let has = |list: &[Module]| list.iter().any(|module| module.name == name);
        match &self.modules {
            Some(modules) => Some(has(modules)),
            None => has(&self.seen_modules).then_some(true),
        }
    }

    /// Major and minor number of the release.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.as_deref()?.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Number of the stable release, 11 in `7.0.11`; 0 where the release names none.
    pub fn patch_level(&self) -> Option<u32> {
        let release = self.release.as_deref()?;
        let mut numbers = release.splitn(3, '.').skip(2);
        let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        self.version().map(|_| numbers.next().and_then(digits).unwrap_or(0))
    }

    /// Returns whether exporters of dma-bufs tell importers that memory moves, instead of pinning it.
    ///
    /// Linux 7.1 always does: "dma-buf: Always build with DMABUF_MOVE_NOTIFY" removed the option.
    pub fn notifies_moves(&self) -> Option<bool> {
        const ALWAYS_SINCE: (u32, u32) = (7, 1);
        match self.version() {
            Some(version) if version >= ALWAYS_SINCE => Some(true),
            _ => self.has_move_notify,
        }
    }
}

/// A loaded kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Its name, `nvidia_fs`.
    pub name: String,
    /// The version that it states; few modules do.
    pub version: Option<String>,
}

/// Known facts about the CPU; the kernel's decision depends on vendor and family.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cpu {
    /// `vendor_id` of `/proc/cpuinfo`, for instance `AuthenticAMD`.
    pub vendor: Option<String>,
    /// `cpu family` of `/proc/cpuinfo`.
    pub family: Option<u32>,
    /// `model` of `/proc/cpuinfo`; NVIDIA's driver tells Intel's processors by it.
    pub model_number: Option<u32>,
    /// `model name` of `/proc/cpuinfo`.
    pub model: Option<String>,
}

/// Start of the word for a CPU of Arm, which names its maker by number: `CPU implementer 0x41`.
const ARM: &str = "CPU implementer";

impl Cpu {
    /// Returns whether it is a CPU of Arm's architecture; `false` where its vendor is unknown.
    pub fn is_arm(&self) -> bool {
        self.vendor.as_deref().is_some_and(|vendor| vendor.starts_with(ARM))
    }
}

/// Translation of device addresses by an IOMMU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IommuMode {
    /// No IOMMU, or none in use.
    Off,
    /// An IOMMU that passes addresses through (`iommu=pt`).
    Passthrough,
    /// An IOMMU that translates; requests are limited to 128 KiB.
    Translating,
    /// Unknown: not in this input.
    #[default]
    Unknown,
}

/// Position of a host bridge in [`Fabric::bridges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId(pub usize);

/// Position of a function in [`Fabric::functions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub usize);

/// The CPU-side entry to a tree of PCI buses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBridge {
    /// Unique in the fabric; `pci0000:00` when discovered.
    pub name: String,
    /// Memory node it belongs to.
    pub numa_node: Option<u32>,
    /// Rates at which it forwards reads and writes of peers; only a machine file has them.
    pub peer: Rates,
    /// Rate in each direction of each link from its memory node to another one; only a machine file
    /// has it.
    pub socket_link: Option<ByteRate>,
    /// The listed part of its root bus.
    pub root_bus: RootBus,
}

impl HostBridge {
    /// Machine of the host bridge, if a description has several: the part of its name before a
    /// slash.
    pub fn machine(&self) -> &str {
        self.name.split_once('/').map_or("", |(machine, _)| machine)
    }
}

/// The part of the root bus of a host bridge that a description lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootBus {
    /// Every function.
    #[default]
    Whole,
    /// Some functions may be missing, so the first one is not known to be the kernel's test device.
    Partial,
    /// The bus may be below a bridge that is not listed, and so not be a root bus at all.
    Assumed,
}

/// Links between two GPUs, by NVLink or XGMI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuLink {
    /// Both GPUs, the earlier function first.
    pub gpus: (FunctionId, FunctionId),
    /// Number of links; `None` where only their presence is known (`nvidia-smi topo -m` of a bridge or switch).
    pub links: Option<u32>,
}

/// The driver's answer on peer access from one GPU to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAccess {
    /// The GPU that accesses memory, and the owner of the memory.
    pub gpus: (FunctionId, FunctionId),
    /// The capability.
    pub capability: PeerCapability,
    /// The answer as `nvidia-smi` prints it: `OK`, `CNS`.
    pub status: String,
}

/// Capabilities that `nvidia-smi topo -p2p` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerCapability {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// NVLink.
    #[serde(rename = "nvlink")]
    NvLink,
    /// Atomic operations.
    Atomics,
    /// Peer access over PCIe.
    Pcie,
    /// The text does not show which.
    Unstated,
}

/// Layers between a system and the hardware. They hide parts of it; a name is `None` where no sign
/// of one was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Environment {
    /// Hypervisor below this system: `KVM`, `VMware`.
    pub hypervisor: Option<String>,
    /// Container runtime around this process: `docker`, `podman`.
    pub container: Option<String>,
    /// Memory encryption of a confidential guest: `TDX`, `SEV-SNP`.
    pub confidential: Option<String>,
    /// The database of udev (`/run/udev`) is there; `None` where that is not shown.
    #[serde(rename = "udev")]
    pub has_udev: Option<bool>,
}

/// Byte rates of either direction, measured or stated: only a machine file has them, since no
/// device of `/sys` does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Rate of reads from it.
    pub read: Option<ByteRate>,
    /// Rate of writes to it.
    pub write: Option<ByteRate>,
}

/// The place that a function hangs from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parent {
    /// The root bus of a host bridge.
    Bridge(BridgeId),
    /// The secondary bus of a port.
    Function(FunctionId),
}

/// The kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionKind {
    /// A port of the root complex.
    RootPort,
    /// The port of a switch that faces the root.
    UpstreamPort,
    /// A port of a switch that faces away from the root.
    DownstreamPort,
    /// Another bridge, conventional PCI included.
    #[serde(rename = "bridge")]
    OtherBridge,
    /// An NVMe controller.
    Nvme,
    /// A display or 3D controller, or a processing accelerator of a GPU vendor.
    Gpu,
    /// An FPGA card.
    Fpga,
    /// A network controller.
    Nic,
    /// Any other function.
    Other,
}

impl FunctionKind {
    /// Returns whether other functions hang from it.
    pub fn is_bridge(self) -> bool {
        matches!(
            self,
            Self::RootPort | Self::UpstreamPort | Self::DownstreamPort | Self::OtherBridge
        )
    }

    /// Returns whether an Ethernet may be behind it: a network controller, or a switch whose two
    /// parts frames join.
    pub fn is_on_ethernet(self) -> bool {
        matches!(self, Self::Nic | Self::UpstreamPort)
    }
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Unique in the fabric: `nvme2` for a discovered NVMe controller, the PCI address for any other
    /// discovered function, the name in the TOML file for a described one.
    pub name: String,
    /// The PCI address; `None` in a description that leaves numbering to the firmware.
    pub address: Option<Bdf>,
    /// The place that it hangs from.
    pub parent: Parent,
    /// Its kind.
    pub kind: FunctionKind,
    /// PCI vendor.
    pub vendor: Option<u16>,
    /// PCI device.
    pub device: Option<u16>,
    /// PCI class, 24 bits: base, sub, interface.
    pub class: Option<u32>,
    /// The link above this function; `None` where there is none (root port, integrated endpoint).
    pub link: Option<Link>,
    /// The most that a root port or downstream port supports on the link below it.
    pub link_below: Option<LinkSpeed>,
    /// Access control services of this function.
    pub acs: Acs,
    /// Memory node.
    pub numa_node: Option<u32>,
    /// IOMMU group.
    pub iommu_group: Option<u32>,
    /// Translation of that group, in the kernel's words: `identity`, `DMA`, `DMA-FQ`.
    pub iommu_type: Option<String>,
    /// Bound kernel driver, if it is known.
    pub driver: DriverBinding,
    /// Other names that the kernel gives it: `eth0`, `mlx5_0`, `card0`, `renderD128`.
    pub kernel_names: Vec<String>,
    /// Windows of its memory; those of bridges are left out.
    pub bars: Vec<Bar>,
    /// Further windows, without address space.
    pub unassigned_bars: Vec<UnassignedBar>,
    /// Set when an FPGA card lends its memory to peers (`p2p_enable` of the `xocl` driver).
    pub fpga_p2p: Option<bool>,
    /// Memory that the kernel offers to peers.
    pub p2pmem: Option<P2pMem>,
    /// Rates at which a drive reads and writes its medium; only a machine file has them.
    pub rates: Rates,
    /// The most that the shares of both rates of a drive add up to where it is read and written at once, in
    /// thousandths: 1000 for one thing after the other, 2000 for both at full rate; only a machine file says so.
    pub mixed_per_mille: Option<u32>,
    /// Rate of the Ethernet in each direction, frames and gaps included. It lies behind a network
    /// controller, or behind all that is below a switch; only a machine file has it.
    pub ethernet: Option<ByteRate>,
    /// Set for NVMe controllers.
    pub nvme: Option<NvmeController>,
    /// The physical function that this SR-IOV virtual function belongs to.
    pub physical_function: Option<Bdf>,
    /// Memory of a GPU as its maker's tool states it; `None` where no such text was given.
    pub memory_size: Option<Bytes>,
    /// True if its registers read as ones: it fell off the bus, or sleeps (D3cold).
    pub is_silent: bool,
    /// Set for a GPU that programs compute on by its maker's word, as a topology of NCCL or RCCL shows. Those of
    /// NVIDIA, AMD and Intel need no such word; of other makers many only show the console.
    pub is_accelerator: bool,
    /// Number of MIG instances of an NVIDIA GPU; `None` where it is unknown.
    pub mig_instances: Option<u32>,
    /// Lines of the text it was read from.
    pub lines: Option<LineNumbers>,
    /// Its emulation in the lab.
    pub lab: LabDrive,
}

/// Lines of a pasted text, counted from 1, that facts of a function come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineNumbers {
    /// Its heading.
    pub heading: u32,
    /// Its ACS control register.
    pub acs: Option<u32>,
    /// The state of its link.
    pub link: Option<u32>,
    /// The heading of an earlier function, which has the address that this one states.
    pub repeats: Option<u32>,
}

impl Function {
    /// A function with a name and a parent, and nothing else known.
    pub fn unknown(name: String, parent: Parent) -> Self {
        Self {
            name,
            address: None,
            parent,
            kind: FunctionKind::Other,
            vendor: None,
            device: None,
            class: None,
            link: None,
            link_below: None,
            acs: Acs::Unknown,
            numa_node: None,
            iommu_group: None,
            iommu_type: None,
            driver: DriverBinding::Unknown,
            kernel_names: Vec::new(),
            bars: Vec::new(),
            unassigned_bars: Vec::new(),
            fpga_p2p: None,
            p2pmem: None,
            rates: Rates::default(),
            mixed_per_mille: None,
            ethernet: None,
            nvme: None,
            physical_function: None,
            memory_size: None,
            is_silent: false,
            is_accelerator: false,
            mig_instances: None,
            lines: None,
            lab: LabDrive::default(),
        }
    }

    /// Returns whether the kind of the function is open: it may be a GPU or a drive as well. Text
    /// without classes has such functions; [`FunctionKind::Other`] with a class is known to be
    /// neither.
    pub fn is_unclassified(&self) -> bool {
        self.kind == FunctionKind::Other && self.class.is_none()
    }

    /// The word for memory of this function that the kernel keeps as a pool: `cmb:NAME` of a drive.
    pub fn pool_word(&self) -> String {
        let prefix = if self.kind == FunctionKind::Nvme { "cmb" } else { "p2pmem" };
        format!("{prefix}:{}", self.name)
    }

    /// The address; the name where there is none.
    pub fn address_or_name(&self) -> String {
        self.address.map_or_else(|| self.name.clone(), |address| address.to_string())
    }
}

/// Access control services of a function (PCIe 6.0 section 7.7.11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Acs {
    /// Configuration space beyond byte 64 could not be read.
    #[default]
    Unknown,
    /// No ACS capability: the kernel counts that as not redirecting.
    Absent,
    /// The redirect bits are clear and the others unknown, as a kernel parameter may leave them.
    NotRedirecting,
    /// The ACS control register.
    Present {
        /// Register at offset 6 of the capability.
        control: u16,
    },
}

/// Speed and width of a link, trained and maximal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The speed and width that the link trained to.
    pub current: Option<LinkSpeed>,
    /// The most the function supports.
    pub maximum: Option<LinkSpeed>,
}

/// One speed and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpeed {
    /// Transfers per second and lane, in megatransfers: 2500, 5000, 8000, 16000, 32000, 64000.
    pub megatransfers: u32,
    /// Lanes.
    pub width: u8,
}

/// Peer-to-peer memory that a driver registered with the kernel (`p2pmem/` in sysfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct P2pMem {
    /// Pool size.
    pub size: Bytes,
    /// Not allocated when it was read.
    pub available: Bytes,
    /// Offered to other kernel users. A CMB that supports only reads or only writes is not.
    pub published: bool,
    /// Permission bits of the file that gives programs the memory (`p2pmem/allocate`); `None` where
    /// it is unknown, or not there (before Linux 6.2).
    pub allocate: Option<u32>,
    /// Rates of reads and writes; only a machine file has them.
    pub rates: Rates,
}

impl Acs {
    /// Request Redirect, Completion Redirect and Egress Control (PCIe 6.0 section 7.7.11.3), as
    /// `pci_bridge_has_acs_redir` in drivers/pci/p2pdma.c tests them.
    pub const REDIRECT: u16 = 0x04 | 0x08 | 0x20;

    /// Returns whether the function sends peer traffic to the root complex; `None` where it is unknown.
    pub fn redirects(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Absent | Self::NotRedirecting => Some(false),
            Self::Present { control } => Some(control & Self::REDIRECT != 0),
        }
    }
}

impl Fabric {
    /// A machine without any known fact.
    pub fn unknown(name: impl Into<String>, origin: Origin) -> Self {
        Self {
            name: name.into(),
            origin,
            kernel: Kernel::default(),
            cpu: Cpu::default(),
            iommu: IommuMode::Unknown,
            bridges: Vec::new(),
            functions: Vec::new(),
            product: None,
            libraries: None,
            remote_drives: Vec::new(),
            rdma_devices: Vec::new(),
            stacked: Vec::new(),
            mounts: None,
            nvlinks: None,
            xgmi: None,
            peer_access: Vec::new(),
            nvidia: None,
            cufile: None,
            environment: Environment::default(),
            lab: None,
            account: None,
        }
    }

    /// The function at `id`.
    ///
    /// # Panics
    /// When `id` comes from another fabric.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0]
    }

    /// Every function with its position.
    pub fn iter(&self) -> impl Iterator<Item = (FunctionId, &Function)> {
        self.functions.iter().enumerate().map(|(index, function)| (FunctionId(index), function))
    }

    /// The function, then each port above it, up to the root bus.
    pub fn upward(&self, id: FunctionId) -> impl Iterator<Item = FunctionId> + '_ {
        std::iter::successors(Some(id), |&id| match self.function(id).parent {
            Parent::Function(parent) => Some(parent),
            Parent::Bridge(_) => None,
        })
    }

    /// The host bridge above a function.
    ///
    /// # Panics
    /// When `id` comes from another fabric.
    pub fn bridge_of(&self, id: FunctionId) -> BridgeId {
        let top = self.upward(id).last().unwrap_or(id);
        match self.function(top).parent {
            Parent::Bridge(bridge) => bridge,
            Parent::Function(_) => unreachable!("upward() ends below a host bridge"),
        }
    }

    /// Returns true if two functions are in one machine, of the several that a description may have.
    ///
    /// # Panics
    /// When an identifier comes from another fabric.
    pub fn are_in_one_machine(&self, one: FunctionId, other: FunctionId) -> bool {
        let [one, other] = [one, other].map(|id| self.bridges[self.bridge_of(id).0].machine());
        one == other
    }

    /// The function as kernel parameters name it, by the way to it from the root bus
    /// (`0000:00:01.0/00.0`): bus numbers may change from boot to boot. `None` where an address on the
    /// way is unknown (`pci_dev_str_match_path` in drivers/pci/pci.c).
    pub fn path_of(&self, id: FunctionId) -> Option<String> {
        let addresses: Option<Vec<Bdf>> =
            self.upward(id).map(|above| self.function(above).address).collect();
        let mut downward = addresses?.into_iter().rev();
        let top = downward.next()?.to_string();
        Some(downward.fold(top, |path, below| {
            format!("{path}/{:02x}.{}", below.devfn() >> 3, below.devfn() & 7)
        }))
    }

    /// The most that the link above a function can train to: the lesser of both ends' support, in
    /// speed and in width each.
    pub fn trainable(&self, id: FunctionId) -> Option<LinkSpeed> {
        LinkSpeed::lesser(self.function(id).link?.maximum, self.supported_above(id))
    }

    /// The working speed of the link above a function: as trained, else the most that it supports,
    /// and no more than the port above it supports; `None` where neither end is known. A virtual
    /// function has the link of its physical function (SR-IOV 1.1 section 3.5).
    pub fn speed_above(&self, id: FunctionId) -> Option<LinkSpeed> {
        let id = self.function(id).physical_function.map_or(id, |physical| {
            let is_physical = |(_, one): &(FunctionId, &Function)| one.address == Some(physical);
            self.iter().find(is_physical).map_or(id, |(physical, _)| physical)
        });
        let own = self.function(id).link.and_then(|link| link.speed());
        LinkSpeed::lesser(own, self.supported_above(id))
    }

    /// The speed that the port above a function supports on the link between them.
    fn supported_above(&self, id: FunctionId) -> Option<LinkSpeed> {
        match self.function(id).parent {
            Parent::Function(port) => self.function(port).link_below,
            Parent::Bridge(_) => None,
        }
    }

    /// Returns whether the link above a function trained to less than both ends support.
    pub fn is_downgraded(&self, id: FunctionId) -> bool {
        let current = self.function(id).link.and_then(|link| link.current);
        match (current, self.trainable(id)) {
            (Some(current), Some(most)) => {
                current.megatransfers < most.megatransfers || current.width < most.width
            }
            _ => false,
        }
    }

    /// Returns whether a downgraded link may be so on purpose: GPUs slow their links while idle,
    /// and keep the width.
    pub fn may_save_power(&self, id: FunctionId) -> bool {
        let function = self.function(id);
        let width = |speed: Option<LinkSpeed>| speed.map(|speed| speed.width);
        let current = function.link.and_then(|link| link.current);
        function.kind == FunctionKind::Gpu && width(current) == width(self.trainable(id))
    }

    /// The devices that are stacked on the block device `name`, directly.
    pub fn holders<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a StackedDevice> {
        self.stacked.iter().filter(move |device| device.below.iter().any(|below| below == name))
    }

    /// Mounts of the block device `name` itself.
    pub fn mounts_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.mounts.iter().flatten().filter(move |mount| mount.device == name)
    }

    /// The network controller that leads to a drive of another machine; `None` unless the
    /// connection was told which interface to use.
    pub fn nic_of(&self, drive: &RemoteDrive) -> Option<FunctionId> {
        let interface = drive.location.interface.as_ref()?;
        let has_it = |(_, one): &(FunctionId, &Function)| {
            one.kind == FunctionKind::Nic && one.kernel_names.contains(interface)
        };
        self.iter().find(has_it).map(|(id, _)| id)
    }

    /// Returns whether the description is of the running machine; data may move on no other.
    pub fn is_this_machine(&self) -> bool {
        self.origin == Origin::ThisMachine
    }
}
