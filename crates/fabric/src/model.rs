//! The types of a fabric: plain data, no files, no decisions.
//!
//! Functions lie in one list in which parents precede children; [`FunctionId`] is a position in it.
//! What could not be read is a value (`None`, [`Acs::Unknown`], [`IommuMode::Unknown`]), so that an
//! unprivileged reader gets a smaller truth, never a wrong one.

use std::path::PathBuf;

use peerlane_units::{ByteRate, Bytes};

use crate::Bdf;

/// A machine as data.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// A word for the machine: host name, or the name in the TOML file.
    pub name: String,
    /// Where the description comes from.
    pub origin: Origin,
    /// What is known of the kernel.
    pub kernel: Kernel,
    /// What is known of the CPU.
    pub cpu: Cpu,
    /// How device addresses are translated.
    pub iommu: IommuMode,
    /// Entries from CPU to PCI, in address order.
    pub bridges: Vec<HostBridge>,
    /// Every PCI function; parents precede children.
    pub functions: Vec<Function>,
    /// How the lab boots this machine; only in descriptions meant for it.
    pub lab: Option<LabBoot>,
}

/// Where a fabric comes from; only [`Origin::ThisMachine`] may move data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Read from `/sys` of the running machine.
    ThisMachine,
    /// Read from a captured tree.
    Tree(PathBuf),
    /// Read from a machine file, or built by a program.
    Description,
}

/// What is known of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// Whether it is built with `CONFIG_PCI_P2PDMA`; `None` where that cannot be seen.
    pub has_p2pdma: Option<bool>,
}

impl Kernel {
    /// Major and minor number of the release.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.as_deref()?.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// What is known of the CPU; the kernel's decision looks at vendor and family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// `vendor_id` of `/proc/cpuinfo`, for instance `AuthenticAMD`.
    pub vendor: Option<String>,
    /// `cpu family` of `/proc/cpuinfo`.
    pub family: Option<u32>,
    /// `model name` of `/proc/cpuinfo`.
    pub model: Option<String>,
}

/// How device addresses are translated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IommuMode {
    /// No IOMMU, or none in use.
    Off,
    /// An IOMMU that passes addresses through (`iommu=pt`).
    Passthrough,
    /// An IOMMU that translates; requests are limited to 128 KiB.
    Translating,
    /// Not to be seen from here.
    #[default]
    Unknown,
}

/// Position of a host bridge in [`Fabric::bridges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId(pub usize);

/// Position of a function in [`Fabric::functions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub usize);

/// The CPU-side entry from which PCI buses hang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBridge {
    /// Unique in the fabric; `pci0000:00` when discovered.
    pub name: String,
    /// Memory node it belongs to.
    pub numa_node: Option<u32>,
}

/// What a function hangs from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// The root bus of a host bridge.
    Bridge(BridgeId),
    /// The secondary bus of a port.
    Function(FunctionId),
}

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A port of the root complex.
    RootPort,
    /// The port of a switch that faces the root.
    UpstreamPort,
    /// A port of a switch that faces away from the root.
    DownstreamPort,
    /// Another bridge, conventional PCI included.
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

/// One PCI function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Unique in the fabric: `nvme2` for a discovered NVMe controller, the PCI address for any other
    /// discovered function, the name in the TOML file for a described one.
    pub name: String,
    /// The PCI address; `None` in a description that leaves numbering to the firmware.
    pub address: Option<Bdf>,
    /// What it hangs from.
    pub parent: Parent,
    /// What it is.
    pub kind: Kind,
    /// PCI vendor.
    pub vendor: Option<u16>,
    /// PCI device.
    pub device: Option<u16>,
    /// PCI class, 24 bits: base, sub, interface.
    pub class: Option<u32>,
    /// The link above this function; `None` where there is none (root port, integrated endpoint).
    pub link: Option<Link>,
    /// Access control services of this function.
    pub acs: Acs,
    /// Memory node.
    pub numa_node: Option<u32>,
    /// IOMMU group.
    pub iommu_group: Option<u32>,
    /// Bound kernel driver.
    pub driver: Option<String>,
    /// Memory that the kernel offers to peers.
    pub p2pmem: Option<P2pMem>,
    /// Set for NVMe controllers.
    pub nvme: Option<NvmeController>,
    /// How the lab emulates it.
    pub lab: LabDrive,
}

/// Access control services of a function (PCIe 6.0 section 7.7.11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acs {
    /// Configuration space beyond byte 64 could not be read.
    #[default]
    Unknown,
    /// No ACS capability: the kernel counts that as not redirecting.
    Absent,
    /// The ACS control register.
    Present {
        /// Register at offset 6 of the capability.
        control: u16,
    },
}

/// Speed and width of a link, trained and maximal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// What the link trained to.
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
}

/// An NVMe controller.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NvmeController {
    /// Kernel name, `nvme2`; `None` in a description.
    pub name: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// Its namespaces as block devices.
    pub namespaces: Vec<Namespace>,
}

/// A namespace as a block device.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Block device name, `nvme2n1`; `None` in a description.
    pub name: Option<String>,
    /// Namespace identifier.
    pub nsid: Option<u32>,
    /// Capacity.
    pub size: Bytes,
    /// What one request may carry.
    pub limits: QueueLimits,
    /// Partitions, in order of start.
    pub partitions: Vec<Partition>,
}

/// A partition of a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Block device name, `nvme2n1p1`.
    pub name: String,
    /// Offset from the start of the device.
    pub start: Bytes,
    /// Capacity.
    pub size: Bytes,
}

/// Request limits of a block device (`queue/` in sysfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Logical block size.
    pub logical_block: Bytes,
    /// Physical block size.
    pub physical_block: Bytes,
    /// Largest request (`max_sectors_kb`).
    pub max_request: Option<Bytes>,
    /// Most segments in a request (`max_segments`); each peer-to-peer page is one.
    pub max_segments: Option<u32>,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            logical_block: Bytes(512),
            physical_block: Bytes(512),
            max_request: None,
            max_segments: None,
        }
    }
}

/// How the lab boots a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabBoot {
    /// QEMU CPU model; `max` has no host-bridge peer-to-peer in the kernel's eyes, `EPYC` has.
    pub cpu: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Guest memory.
    pub memory: Bytes,
    /// Further kernel parameters.
    pub kernel_args: Vec<String>,
}

impl Default for LabBoot {
    fn default() -> Self {
        Self { cpu: "max".to_owned(), cpus: 2, memory: Bytes::mib(1024), kernel_args: Vec::new() }
    }
}

/// How the lab emulates a drive; empty for what is not one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabDrive {
    /// Rate limit, reads and writes together.
    pub throttle: Option<ByteRate>,
    /// NVMe MDTS as a power of two of 4 KiB pages.
    pub mdts: Option<u8>,
    /// Requests that fail.
    pub errors: Vec<InjectedError>,
}

/// Requests of an emulated drive that fail with an error of the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectedError {
    /// Which kind of request.
    pub on: FailingRequest,
    /// The sector of 512 bytes whose touch fails, whatever the drive's block size is.
    pub sector: u32,
    /// How often.
    pub times: FailureCount,
}

/// A kind of request that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailingRequest {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// How often a request fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailureCount {
    /// The first one only: a transient error.
    Once,
    /// Every one: a permanent error.
    #[default]
    Always,
}

impl Fabric {
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

    /// The function, then what it hangs from, up to the root bus.
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

    /// Finds a function by what a person types: name, PCI address, NVMe controller name or serial,
    /// or the name of one of its namespaces or partitions (`nvme2n1p1`).
    pub fn find(&self, text: &str) -> Option<FunctionId> {
        let address = text.parse::<Bdf>().ok();
        let is_it = |function: &Function| {
            function.name == text
                || (address.is_some() && function.address == address)
                || function.nvme.as_ref().is_some_and(|nvme| nvme.is_called(text))
        };
        self.iter().find(|(_, function)| is_it(function)).map(|(id, _)| id)
    }

    /// Whether the description is of the running machine; data may move on no other.
    pub fn is_this_machine(&self) -> bool {
        self.origin == Origin::ThisMachine
    }
}

impl NvmeController {
    fn is_called(&self, text: &str) -> bool {
        let of_namespace = |namespace: &Namespace| {
            namespace.name.as_deref() == Some(text)
                || namespace.partitions.iter().any(|partition| partition.name == text)
        };
        self.name.as_deref() == Some(text)
            || self.serial.as_deref() == Some(text)
            || self.namespaces.iter().any(of_namespace)
    }
}
