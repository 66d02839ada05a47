//! Trees of random machines, and the addresses that firmware gives their functions.

use std::fmt;

use peerlane_fabric::Bdf;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::devices::{
    Ids, Part, accelerator, bridge_to_pci, conventional, emulated, host_bridge, integrated,
    plugged, port, uncore,
};
use super::registers::{LinkValue, PortType, VirtualFunctionRegisters};

/// Functions after which ports stay empty.
const ENOUGH_FUNCTIONS: usize = 40;
/// First domain number of volume management devices (`vmd_find_free_domain` in drivers/pci/controller/vmd.c).
const VMD_DOMAIN: u32 = 0x1_0000;

/// A processor with the functions of its root complexes.
#[derive(Debug)]
struct Platform {
    /// Lines of `/proc/cpuinfo`.
    cpu: &'static str,
    host_bridges: &'static [Ids],
    root_ports: &'static [Ids],
}

const PLATFORMS: [Platform; 4] = [
    Platform {
        cpu: "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\n",
        host_bridges: &[(0x8086, 0x09a2), (0x8086, 0x2020), (0x8086, 0x3c00), (0x8086, 0x4660)],
        root_ports: &[(0x8086, 0x352a), (0x8086, 0x347a), (0x8086, 0x2030), (0x8086, 0x7abc)],
    },
    Platform {
        cpu: "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: AMD EPYC 9654 96-Core Processor\n",
        host_bridges: &[(0x1022, 0x1480), (0x1022, 0x14a4)],
        root_ports: &[(0x1022, 0x1483), (0x1022, 0x14ab)],
    },
    Platform {
        cpu: "vendor_id\t: AuthenticAMD\ncpu family\t: 21\nmodel name\t: AMD Opteron(tm) Processor 6376\n",
        host_bridges: &[(0x1002, 0x5a10)],
        root_ports: &[(0x1002, 0x5a16), (0x1002, 0x5a1c)],
    },
    Platform {
        cpu: "CPU implementer\t: 0x41\nCPU architecture: 8\n",
        host_bridges: &[(0x1def, 0xe100), (0x1ae0, 0x0001)],
        root_ports: &[(0x1def, 0xe101), (0x10de, 0x22b1)],
    },
];
const SWITCHES: &[Ids] = &[(0x1000, 0xc030), (0x10b5, 0x8747), (0x11f8, 0x4052), (0x15b3, 0x1979)];

/// A machine: its functions, in the order of its tree, and the files that say more.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(super) functions: Vec<PlacedFunction>,
    /// Lines of `/proc/cpuinfo`.
    pub(crate) cpu: &'static str,
    /// Release of the kernel.
    pub(crate) release: &'static str,
    pub(crate) iommu: Iommu,
}

/// Use of an IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Iommu {
    Off,
    Passthrough,
    Translating,
}

/// A function in its place.
#[derive(Debug, Clone)]
pub(super) struct PlacedFunction {
    pub(super) address: Bdf,
    /// Position of the function above it.
    pub(super) parent: Option<usize>,
    /// Domain and number of its root bus.
    pub(super) root: (u32, u8),
    pub(super) node: Option<u32>,
    pub(super) part: Part,
    /// Secondary and subordinate bus of a bridge, zeros where it has none.
    pub(super) buses: Option<(u8, u8)>,
    /// Its device has further functions.
    pub(super) is_one_of_several: bool,
    pub(super) registers: Option<VirtualFunctionRegisters>,
    /// The physical function of a virtual one.
    pub(super) physical: Option<usize>,
}

/// A failure shows the text of the machine, which says more.
impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} functions, {}, {:?}", self.functions.len(), self.release, self.iommu)
    }
}

impl Machine {
    /// Returns whether a domain has more than 16 bits.
    pub(super) fn has_wide_domains(&self) -> bool {
        self.functions.iter().any(|one| one.address.domain() > 0xffff)
    }

    /// Returns whether `lspci -t` draws it as it is: virtual functions of another bus are drawn on that of their
    /// physical ones, and a bridge without buses ends some versions by a signal.
    pub(crate) fn can_be_drawn(&self) -> bool {
        self.functions.iter().all(|one| {
            let physical = one.physical.map(|at| self.functions[at].address.bus());
            physical.is_none_or(|bus| bus == one.address.bus()) && one.buses != Some((0, 0))
        })
    }
}

#[derive(Debug, Clone)]
struct Host {
    kind: HostKind,
    node: Option<u32>,
    /// Unused buses before it.
    gap: u8,
}

#[derive(Debug, Clone)]
enum HostKind {
    /// A root complex of domain 0, or of a domain of its own as those of Arm processors.
    Complex { has_own_domain: bool, first: Option<Part>, devices: Vec<RootDevice> },
    /// Functions of an accelerator or of uncore on a root bus of their own.
    Functions(Vec<Part>),
    /// A domain of a hypervisor or of volume management.
    Domain { is_vmd: bool, ports: Vec<Port>, devices: Vec<Part> },
}

#[derive(Debug, Clone)]
enum RootDevice {
    Ports { dummy: Option<Part>, ports: Vec<Port> },
    Integrated(Vec<Part>),
}

#[derive(Debug, Clone)]
struct Port {
    part: Part,
    /// Buses kept for hot plug.
    spare: u8,
    below: Below,
}

#[derive(Debug, Clone)]
enum Below {
    Nothing { has_buses: bool },
    Device(Vec<Part>),
    Switch { up: Part, aside: Option<Part>, down: Vec<Port> },
    Conventional { bridge: Part, devices: Vec<Part> },
}

/// Any machine.
pub(crate) fn machine() -> impl Strategy<Value = Machine> {
    let iommu = select(vec![Iommu::Off, Iommu::Passthrough, Iommu::Translating]);
    let release = select(vec!["7.2.13-amd64", "6.8.0-60-generic", "5.14.0-503.el9.x86_64"]);
    let hosts = (0..PLATFORMS.len()).prop_flat_map(|platform| {
        let platform = &PLATFORMS[platform];
        (Just(platform), complex(platform), vec(host(platform), 0..3))
    });
    (hosts.boxed(), release, iommu).prop_map(|((platform, first, others), release, iommu)| {
        let mut numbering = Numbering::default();
        numbering.host(Host { gap: 0, ..first });
        for host in others {
            numbering.host(host);
        }
        Machine { functions: numbering.functions, cpu: platform.cpu, release, iommu }
    })
}

fn host(platform: &'static Platform) -> BoxedStrategy<Host> {
    let functions = prop_oneof![vec(accelerator(), 1..2), vec(uncore(), 1..4)];
    let domain = (any::<bool>(), vec(root_port(platform, 1), 1..3), vec(emulated(), 1..3));
    let domain =
        domain.prop_map(|(is_vmd, ports, devices)| HostKind::Domain { is_vmd, ports, devices });
    let other = prop_oneof![functions.prop_map(HostKind::Functions), domain];
    let other = (other, node(), 0u8..8).prop_map(|(kind, node, gap)| Host { kind, node, gap });
    prop_oneof![2 => complex(platform), 1 => other].boxed()
}

fn node() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![Just(None), (0u32..2).prop_map(Some)]
}

fn complex(platform: &'static Platform) -> BoxedStrategy<Host> {
    let first =
        prop_oneof![4 => host_bridge(platform.host_bridges).prop_map(Some), 1 => Just(None)];
    let ports = (
        proptest::option::weighted(0.3, host_bridge(platform.host_bridges)),
        vec(root_port(platform, 2), 1..3),
    );
    let device = prop_oneof![
        3 => ports.prop_map(|(dummy, ports)| RootDevice::Ports { dummy, ports }),
        1 => vec(integrated(), 1..3).prop_map(RootDevice::Integrated),
    ];
    let parts = (any::<bool>(), first, vec(device, 1..4), node(), 0u8..8);
    parts
        .prop_map(|(has_own_domain, first, devices, node, gap)| Host {
            kind: HostKind::Complex { has_own_domain, first, devices },
            node,
            gap,
        })
        .boxed()
}

fn root_port(platform: &'static Platform, depth: u8) -> BoxedStrategy<Port> {
    let parts = (port(platform.root_ports, PortType::RootPort), below(depth), spare());
    parts.prop_map(|(part, below, spare)| Port { part, spare, below }).boxed()
}

fn spare() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0u8), 1 => 1u8..5]
}

fn below(depth: u8) -> BoxedStrategy<Below> {
    let nothing = any::<bool>().prop_map(|has_buses| Below::Nothing { has_buses });
    let device = prop_oneof![2 => vec(plugged(), 1..2), 1 => vec(plugged(), 2..4)];
    let bridge = (bridge_to_pci(), vec(conventional(), 1..3))
        .prop_map(|(bridge, devices)| Below::Conventional { bridge, devices });
    let leaf = prop_oneof![1 => nothing, 5 => device.prop_map(Below::Device), 1 => bridge];
    if depth == 0 {
        return leaf.boxed();
    }
    let down = (port(SWITCHES, PortType::DownstreamPort), below(depth - 1), spare())
        .prop_map(|(part, below, spare)| Port { part, spare, below });
    let aside = proptest::option::weighted(0.3, plugged());
    let switch = (port(SWITCHES, PortType::UpstreamPort), aside, vec(down, 1..4))
        .prop_map(|(up, aside, down)| Below::Switch { up, aside, down });
    prop_oneof![3 => leaf, 2 => switch].boxed()
}

/// Gives buses depth first, as firmware does.
#[derive(Default)]
struct Numbering {
    functions: Vec<PlacedFunction>,
    domain: u32,
    next_bus: u8,
    /// First bus that is free in domain 0, and the number of domains of each kind.
    free_bus: u8,
    domains: u32,
    root: (u32, u8),
    node: Option<u32>,
}

impl Numbering {
    fn host(&mut self, host: Host) {
        if self.functions.len() > ENOUGH_FUNCTIONS {
            return;
        }
        let own_domain = match &host.kind {
            HostKind::Complex { has_own_domain: true, .. } if self.free_bus > 0 => Some((0, 0)),
            HostKind::Domain { is_vmd: true, .. } => Some((VMD_DOMAIN, 0x80)),
            HostKind::Domain { .. } => Some((0x2000, 0)),
            _ => None,
        };
        self.node = host.node;
        match own_domain {
            Some((first, bus)) => {
                self.domains += 1;
                (self.domain, self.next_bus) = (first + self.domains, bus);
            }
            None => {
                let gap = if self.free_bus == 0 { 0 } else { host.gap };
                (self.domain, self.next_bus) = (0, self.free_bus + gap);
            }
        }
        let bus = self.bus();
        self.root = (self.domain, bus);
        match host.kind {
            HostKind::Complex { first, devices, .. } => self.complex(bus, first, devices),
            HostKind::Functions(parts) => self.device(None, (bus, 0), parts),
            HostKind::Domain { is_vmd: true, ports, .. } => self.ports(None, bus, ports),
            HostKind::Domain { devices, .. } => {
                for (number, part) in (0..).zip(devices) {
                    self.device(None, (bus, number), vec![part]);
                }
            }
        }
        if self.domain == 0 {
            self.free_bus = self.next_bus;
        }
    }

    fn complex(&mut self, bus: u8, first: Option<Part>, devices: Vec<RootDevice>) {
        let skipped = u8::from(first.is_some());
        first.into_iter().for_each(|part| self.device(None, (bus, 0), vec![part]));
        // Devices may leave gaps, but the first one is at 0.
        let mut number = skipped;
        for device in devices {
            match device {
                RootDevice::Ports { dummy, ports } => {
                    let count = ports.len() + usize::from(dummy.is_some());
                    let functions = u8::from(dummy.is_some());
                    if let Some(part) = dummy {
                        self.push(None, (bus, number, 0), part, count > 1);
                    }
                    for (function, port) in (functions..).zip(ports) {
                        self.port(None, (bus, number, function), port, count > 1);
                    }
                }
                RootDevice::Integrated(parts) => self.device(None, (bus, number), parts),
            }
            number += 1 + u8::from(number % 3 == 2);
        }
    }

    fn bus(&mut self) -> u8 {
        let bus = self.next_bus;
        self.next_bus = bus.checked_add(1).expect("fewer than 256 buses");
        bus
    }

    fn push(
        &mut self,
        parent: Option<usize>,
        (bus, device, function): (u8, u8, u8),
        part: Part,
        is_one_of_several: bool,
    ) -> usize {
        self.functions.push(PlacedFunction {
            address: Bdf::new(self.domain, bus, device, function).expect("an address"),
            parent,
            root: self.root,
            node: self.node,
            part,
            buses: None,
            is_one_of_several,
            registers: None,
            physical: None,
        });
        self.functions.len() - 1
    }

    /// Adds the functions of one device, and their virtual ones.
    fn device(&mut self, parent: Option<usize>, (bus, device): (u8, u8), parts: Vec<Part>) {
        let count = parts.len();
        let mut physical = Vec::new();
        for (function, part) in (0..).zip(parts) {
            physical.push((function, self.push(parent, (bus, device, function), part, count > 1)));
        }
        let mut needs_bus = false;
        for (function, at) in physical {
            // A root bus has other devices behind this one.
            let is_alone = count == 1 && device == 0 || parent.is_some();
            let fits = parent.is_some() || count == 1;
            let wanted = self.functions[at].part.virtual_functions.filter(|_| fits);
            let Some(wanted) = wanted else { continue };
            let is_far = wanted.is_on_next_bus && is_alone && parent.is_some();
            needs_bus |= is_far && wanted.count > 0;
            let (first, base) = match parent {
                Some(_) => (8 + 4 * u16::from(function), u16::from(is_far) << 8),
                None => (1, 0),
            };
            let offset = if parent.is_some() { base + first - u16::from(function) } else { first };
            self.functions[at].registers = Some(VirtualFunctionRegisters {
                count: wanted.count,
                total: 8,
                offset,
                stride: 1,
                device: self.functions[at].part.ids.1 + 1,
                seed: self.functions[at].part.capabilities.layout,
            });
            for number in 0..wanted.count {
                self.virtual_function(parent, at, offset + number, wanted.has_driver);
            }
        }
        if needs_bus {
            self.bus();
        }
    }

    fn virtual_function(
        &mut self,
        parent: Option<usize>,
        physical: usize,
        offset: u16,
        has_driver: bool,
    ) {
        let above = &self.functions[physical];
        let own = u16::from(above.address.bus()) << 8 | u16::from(above.address.devfn());
        let [bus, devfn] = (own + offset).to_be_bytes();
        let mut part = above.part.clone();
        part.ids.1 += 1;
        part.driver = part.driver.filter(|_| has_driver);
        (part.resizable, part.virtual_functions, part.command) = (None, None, 0x0004);
        // Its link is that of the physical one (PCIe 6.0 section 9.3.5.7).
        part.express.iter_mut().for_each(|express| express.current = LinkValue::default());
        let at = self.push(parent, (bus, devfn >> 3, devfn & 7), part, false);
        self.functions[at].physical = Some(physical);
        self.functions[at].node = self.functions[physical].node;
    }

    fn ports(&mut self, parent: Option<usize>, bus: u8, ports: Vec<Port>) {
        for (number, port) in (0..).zip(ports) {
            self.port(parent, (bus, number, 0), port, false);
        }
    }

    fn port(
        &mut self,
        parent: Option<usize>,
        place: (u8, u8, u8),
        port: Port,
        is_one_of_several: bool,
    ) {
        let at = self.push(parent, place, port.part, is_one_of_several);
        let is_full = self.functions.len() > ENOUGH_FUNCTIONS || self.next_bus > 0xe0;
        let below = if is_full { Below::Nothing { has_buses: false } } else { port.below };
        if matches!(below, Below::Nothing { has_buses: false }) {
            self.functions[at].buses = Some((0, 0));
            return;
        }
        let bus = self.bus();
        match below {
            Below::Nothing { .. } => {}
            Below::Device(parts) => self.device(Some(at), (bus, 0), parts),
            Below::Switch { up, aside, down } => self.switch(at, bus, (up, aside), down),
            Below::Conventional { bridge, devices } => {
                let bridge = self.push(Some(at), (bus, 0, 0), bridge, false);
                let inner = self.bus();
                for (number, part) in (0..).zip(devices) {
                    self.device(Some(bridge), (inner, number), vec![part]);
                }
                self.functions[bridge].buses = Some((inner, self.next_bus - 1));
            }
        }
        self.next_bus += port.spare;
        self.functions[at].buses = Some((bus, self.next_bus - 1));
    }

    fn switch(
        &mut self,
        above: usize,
        bus: u8,
        (up, aside): (Part, Option<Part>),
        down: Vec<Port>,
    ) {
        let up = self.push(Some(above), (bus, 0, 0), up, aside.is_some());
        if let Some(aside) = aside {
            let part = Part { virtual_functions: None, ..aside };
            self.push(Some(above), (bus, 0, 1), part, true);
        }
        let inner = self.bus();
        self.ports(Some(up), inner, down);
        self.functions[up].buses = Some((inner, self.next_bus - 1));
    }
}
