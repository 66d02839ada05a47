//! The PCI functions below `sys/devices`, found by walking the tree itself.
//!
//! Host bridges are directories named `pci0000:00`. Most lie directly in `sys/devices`; those of
//! device trees and of some virtual machines lie deeper, and a volume management device has one of
//! its own below it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::config_space::{ConfigSpace, PortType};
use super::driver;
use super::nvme;
use super::rdma;
use super::resources;
use super::stacked::Numbers;
use super::tree::Tree;
use super::windows::{self, MemoryWindows};
use crate::RootBus;
use crate::gpu::VENDOR_INTEL;
use crate::tunnel::{self, THUNDERBOLT_VSEC};
use crate::{
    Bdf, BridgeId, DriverBinding, Function, FunctionId, FunctionKind, HostBridge, LabDrive, Link,
    LinkSpeed, P2pMem, Parent, Rates, RdmaDevice, UnassignedBar,
};

/// Directories of `sys/devices` with host bridges deeper in them.
const DEEPER: [&str; 2] = ["platform", "LNXSYSTM:00"];
/// Deepest known place: `LNXSYSTM:00/LNXSYBUS:00/PNP0A03:00/VMBUS:00/<guid>/pci0000:00`.
const DEEPEST: usize = 8;

const CLASS_STORAGE_NVM: u32 = 0x01_08;
const CLASS_BRIDGE_PCI: u32 = 0x06_04;
const BASE_CLASS_NETWORK: u32 = 0x02;
const BASE_CLASS_DISPLAY: u32 = 0x03;
const BASE_CLASS_ACCELERATOR: u32 = 0x12;
const VENDOR_XILINX: u16 = 0x10ee;
const VENDOR_ALTERA: u16 = 0x1172;
const VENDOR_AMD: u16 = 0x1002;
const VENDOR_NVIDIA: u16 = 0x10de;

/// Makers of displays that are no GPUs: management controllers (Matrox, ASPEED, XGI, Silicon Motion, HiSilicon) and
/// displays of virtual machines (Cirrus, virtio, QXL, Bochs, VMware, VirtualBox, Hyper-V, EC2).
const PLAIN_DISPLAYS: [u16; 13] = [
    0x102b, 0x1a03, 0x18ca, 0x126f, 0x19e5, 0x1013, 0x1af4, 0x1b36, 0x1234, 0x15ad, 0x80ee, 0x1414,
    0x1d0f,
];

/// Host bridges and functions, parents before children.
#[derive(Debug, Default)]
pub(super) struct FoundFunctions {
    pub(super) bridges: Vec<HostBridge>,
    pub(super) functions: Vec<Function>,
    /// Numbers of the drives' block devices.
    pub(super) numbers: Numbers,
    pub(super) rdma_devices: Vec<RdmaDevice>,
    addresses: HashSet<Bdf>,
    controllers: HashSet<String>,
    /// Set when the tree is that of the running machine.
    is_live: bool,
    /// Functions whose registers say that they are ports of Thunderbolt, by position.
    thunderbolt: HashSet<usize>,
    /// Functions that show neither a driver nor the lack of one.
    without_word: Vec<FunctionId>,
    /// Set when a window lies at an address other than 0, as in none of our captures.
    shows_addresses: bool,
    /// Memory windows that lie at address 0.
    at_zero: Vec<(FunctionId, u8)>,
}

/// Walks `sys/devices`.
pub(super) fn walk(tree: &Tree, is_this_machine: bool) -> FoundFunctions {
    let devices = Path::new("sys/devices");
    let mut bridges = Vec::new();
    for name in tree.directories(devices) {
        if is_host_bridge(&name) {
            bridges.push(devices.join(name));
        } else if DEEPER.contains(&name.as_str()) {
            find_bridges(tree, &devices.join(name), DEEPEST, &mut bridges);
        }
    }
    bridges.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    let mut found = FoundFunctions { is_live: is_this_machine, ..FoundFunctions::default() };
    for bridge in bridges {
        found.bridge(tree, &bridge);
    }
    found.settle_drivers();
    found.settle_windows();
    let FoundFunctions { functions, thunderbolt, .. } = &mut found;
    tunnel::forget_rates(functions, |at| thunderbolt.contains(&at));
    found
}

/// Returns whether a directory name is that of a host bridge: `pci`, a domain, a bus.
pub(crate) fn is_host_bridge(name: &str) -> bool {
    let parts = name.strip_prefix("pci").and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(domain, bus)| {
        let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
        (4..=8).contains(&domain.len()) && bus.len() == 2 && hex(domain) && hex(bus)
    })
}

fn find_bridges(tree: &Tree, at: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for name in tree.directories(at) {
        if is_host_bridge(&name) {
            found.push(at.join(name));
        } else if depth > 1 {
            find_bridges(tree, &at.join(name), depth - 1, found);
        }
    }
}

/// The address in a directory name, domain included.
pub(super) fn address(name: &str) -> Option<Bdf> {
    name.parse().ok().filter(|_| name.matches(':').count() == 2)
}

impl FoundFunctions {
    fn bridge(&mut self, tree: &Tree, at: &Path) {
        let Some(name) = at.file_name().and_then(|name| name.to_str()) else { return };
        if self.bridges.iter().any(|bridge| bridge.name == name) {
            return;
        }
        let id = BridgeId(self.bridges.len());
        self.bridges.push(HostBridge {
            name: name.to_owned(),
            numa_node: None,
            peer: Rates::default(),
            socket_link: None,
            root_bus: RootBus::Whole,
        });
        self.children(tree, at, Parent::Bridge(id));
        self.bridges[id.0].numa_node = self.functions.iter().find_map(|function| {
            function.numa_node.filter(|_| function.parent == Parent::Bridge(id))
        });
    }

    fn children(&mut self, tree: &Tree, at: &Path, parent: Parent) {
        let names = tree.directories(at);
        let mut functions: Vec<(Bdf, &String)> =
            names.iter().filter_map(|name| Some((address(name)?, name))).collect();
        functions.sort();
        for (address, name) in functions {
            if !self.addresses.insert(address) {
                continue;
            }
            let id = FunctionId(self.functions.len());
            let below = at.join(name);
            let function = self.function(tree, &below, address, parent);
            if function.kind == FunctionKind::Nic {
                let found = rdma::devices(tree, &below.join("infiniband"), Some(id));
                self.rdma_devices.extend(found);
            }
            self.functions.push(function);
            self.children(tree, &below, Parent::Function(id));
            self.call_it_a_bridge_if_something_hangs_from_it(id);
        }
        for name in names.iter().filter(|name| is_host_bridge(name)) {
            self.bridge(tree, &at.join(name));
        }
    }

    /// The driver of the next function.
    fn driver(&mut self, tree: &Tree, at: &Path) -> DriverBinding {
        if self.is_live {
            return driver::live(tree, at);
        }
        driver::captured(tree, at).unwrap_or_else(|| {
            self.without_word.push(FunctionId(self.functions.len()));
            DriverBinding::Unknown
        })
    }

    /// The windows of the next function.
    fn windows(
        &mut self,
        tree: &Tree,
        at: &Path,
        kind: FunctionKind,
        config: ConfigSpace<'_>,
    ) -> MemoryWindows {
        let windows = windows::read(tree, at, kind, config);
        let id = FunctionId(self.functions.len());
        self.shows_addresses |= windows.show_addresses;
        self.at_zero.extend(windows.at_zero.iter().map(|&index| (id, index)));
        windows
    }

    /// Takes the address space from windows at address 0 in a tree that shows addresses.
    fn settle_windows(&mut self) {
        if !self.shows_addresses {
            return;
        }
        for (id, index) in self.at_zero.drain(..) {
            let Function { bars, unassigned_bars, .. } = &mut self.functions[id.0];
            let lost = bars.iter().position(|bar| bar.index == index).map(|at| bars.remove(at));
            unassigned_bars.extend(lost.map(|bar| UnassignedBar { index, size: Some(bar.size) }));
            unassigned_bars.sort_by_key(|bar| bar.index);
        }
    }

    /// Marks functions as unbound that show no driver in a tree where others do.
    fn settle_drivers(&mut self) {
        if self.functions.iter().any(|function| function.driver.name().is_some()) {
            for id in self.without_word.drain(..) {
                self.functions[id.0].driver = DriverBinding::Unbound;
            }
        }
    }

    fn call_it_a_bridge_if_something_hangs_from_it(&mut self, id: FunctionId) {
        let has_children =
            self.functions[id.0..].iter().any(|below| below.parent == Parent::Function(id));
        let function = &mut self.functions[id.0];
        let is_port = matches!(
            function.kind,
            FunctionKind::RootPort
                | FunctionKind::UpstreamPort
                | FunctionKind::DownstreamPort
                | FunctionKind::OtherBridge
        );
        if has_children && !is_port {
            function.kind = FunctionKind::OtherBridge;
            function.nvme = None;
        }
    }

    fn function(&mut self, tree: &Tree, at: &Path, address: Bdf, parent: Parent) -> Function {
        let file = |name: &str| at.join(name);
        let id = |name: &str| tree.hex(&file(name)).and_then(|id| u16::try_from(id).ok());
        let (vendor, class) = (id("vendor"), tree.hex(&file("class")));
        let config = tree.bytes(&file("config")).unwrap_or_default();
        let config = ConfigSpace(&config);
        if vendor == Some(VENDOR_INTEL) && config.has_vendor_specific(THUNDERBOLT_VSEC) {
            self.thunderbolt.insert(self.functions.len());
        }
        let driver = self.driver(tree, at);
        let nvme = nvme::controller(tree, at, &mut self.numbers);
        let kind = match nvme {
            Some(_) => FunctionKind::Nvme,
            None => {
                let above = match parent {
                    Parent::Bridge(_) => None,
                    Parent::Function(id) => Some(self.functions[id.0].kind),
                };
                kind(class, vendor, port(config.port_type(), driver.name(), above))
            }
        };
        let windows = self.windows(tree, at, kind, config);
        let iommu_group: Option<u32> =
            tree.link_name(&file("iommu_group")).and_then(|group| group.parse().ok());
        Function {
            name: nvme
                .as_ref()
                .and_then(|nvme| nvme.name.clone())
                .filter(|name| self.controllers.insert(name.clone()))
                .unwrap_or_else(|| address.to_string()),
            address: Some(address),
            parent,
            kind,
            vendor,
            device: id("device"),
            class,
            link: link(tree, at, kind, parent),
            link_below: link_below(tree, at, kind),
            acs: config.acs(),
            numa_node: tree.number(&file("numa_node")),
            iommu_group,
            iommu_type: iommu_group.and_then(|group| {
                tree.word(Path::new(&format!("sys/kernel/iommu_groups/{group}/type")))
            }),
            driver,
            kernel_names: resources::kernel_names(tree, at, kind),
            bars: windows.assigned,
            unassigned_bars: windows.unassigned,
            fpga_p2p: if kind == FunctionKind::Fpga { resources::fpga_p2p(tree, at) } else { None },
            p2pmem: p2pmem(tree, &file("p2pmem")),
            rates: Rates::default(),
            mixed_per_mille: None,
            ethernet: None,
            nvme,
            physical_function: tree
                .link_name(&file("physfn"))
                .and_then(|name| self::address(&name)),
            memory_size: None,
            is_silent: config.is_silent(),
            is_accelerator: false,
            mig_instances: if kind == FunctionKind::Gpu && vendor == Some(VENDOR_NVIDIA) {
                resources::mig_instances(tree, address)
            } else {
                None
            },
            lines: None,
            lab: LabDrive::default(),
        }
    }
}

/// The port type, by position where configuration space cannot be read.
///
/// The `pcieport` driver binds to ports alone, and a port's position tells which it is: root ports
/// lie on root buses, an upstream port hangs from a root port or downstream port, a downstream port
/// from an upstream port (PCIe 6.0 1.3).
pub(crate) fn port(read: PortType, driver: Option<&str>, above: Option<FunctionKind>) -> PortType {
    match (read, above) {
        (PortType::Unknown, _) if driver != Some("pcieport") => PortType::Unknown,
        (PortType::Unknown, None) => PortType::RootPort,
        (PortType::Unknown, Some(FunctionKind::RootPort | FunctionKind::DownstreamPort)) => {
            PortType::UpstreamPort
        }
        (PortType::Unknown, Some(FunctionKind::UpstreamPort)) => PortType::DownstreamPort,
        (known, _) => known,
    }
}

/// The kind of a function, by its port type, class and maker.
pub(crate) fn kind(class: Option<u32>, vendor: Option<u16>, port: PortType) -> FunctionKind {
    let class = class.unwrap_or_default() >> 8;
    match port {
        PortType::RootPort => return FunctionKind::RootPort,
        PortType::UpstreamPort => return FunctionKind::UpstreamPort,
        PortType::DownstreamPort => return FunctionKind::DownstreamPort,
        PortType::OtherPcie | PortType::NotPcie | PortType::Unknown => {}
    }
    match (class, class >> 8, vendor) {
        (CLASS_BRIDGE_PCI, _, _) => FunctionKind::OtherBridge,
        (CLASS_STORAGE_NVM, _, _) => FunctionKind::Nvme,
        (_, _, Some(VENDOR_XILINX)) | (_, BASE_CLASS_ACCELERATOR, Some(VENDOR_ALTERA)) => {
            FunctionKind::Fpga
        }
        (_, BASE_CLASS_DISPLAY, Some(vendor)) if PLAIN_DISPLAYS.contains(&vendor) => {
            FunctionKind::Other
        }
        (_, BASE_CLASS_DISPLAY, _)
        | (_, BASE_CLASS_ACCELERATOR, Some(VENDOR_AMD | VENDOR_NVIDIA)) => FunctionKind::Gpu,
        (_, BASE_CLASS_NETWORK, _) => FunctionKind::Nic,
        _ => FunctionKind::Other,
    }
}

/// The link above a function; the files of a root port or downstream port describe the one below.
fn link(tree: &Tree, at: &Path, kind: FunctionKind, parent: Parent) -> Option<Link> {
    let is_below_a_port = matches!(parent, Parent::Function(_));
    if !is_below_a_port || matches!(kind, FunctionKind::RootPort | FunctionKind::DownstreamPort) {
        return None;
    }
    let link = Link { current: speed(tree, at, "current"), maximum: speed(tree, at, "max") };
    (link.current.is_some() || link.maximum.is_some()).then_some(link)
}

/// The speed that a port facing away from the root supports.
fn link_below(tree: &Tree, at: &Path, kind: FunctionKind) -> Option<LinkSpeed> {
    matches!(kind, FunctionKind::RootPort | FunctionKind::DownstreamPort)
        .then(|| speed(tree, at, "max"))
        .flatten()
}

fn speed(tree: &Tree, at: &Path, which: &str) -> Option<LinkSpeed> {
    let text = |what: &str| tree.text(&at.join(format!("{which}_link_{what}"))).ok();
    LinkSpeed::from_sysfs(&text("speed")?, &text("width")?)
}

fn p2pmem(tree: &Tree, at: &Path) -> Option<P2pMem> {
    use peerlane_units::Bytes;
    let size = tree.number(&at.join("size")).map(Bytes)?;
    Some(P2pMem {
        size,
        available: tree.number(&at.join("available")).map(Bytes)?,
        published: tree.is_set(&at.join("published")),
        allocate: tree.mode(&at.join("allocate")),
        rates: Rates::default(),
    })
}
