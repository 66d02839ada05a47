//! From elements to host bridges and functions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use roxmltree::{Document, Node, NodeId};

use super::attributes::{self, address};
use super::error::NcclError;
use super::gpu_links::{ElementKind, GpuLinkElement, GpuLinks, Searched};
use crate::gpu;
use crate::sysfs::config_space::PortType;
use crate::sysfs::functions::kind;
use crate::{
    Bdf, BridgeId, Cpu, Function, FunctionId, FunctionKind, HostBridge, LineNumbers, Parent, Rates,
    RootBus,
};

/// Most functions, those included that the text leaves out; as in a machine file.
const MOST_FUNCTIONS: usize = 40_000;
/// Most functions of the text one below another: each is two, and a PCI segment has 256 buses.
pub(super) const DEEPEST: usize = 100;
/// Longest part of the text in a message.
const LONGEST: usize = 40;

/// Machine as the elements have it.
pub(super) struct ParsedMachine {
    pub(super) cpu: Cpu,
    pub(super) bridges: Vec<HostBridge>,
    pub(super) functions: Vec<Function>,
    pub(super) links: GpuLinks,
}

/// An element that functions hang from.
#[derive(Debug, Clone, Copy, Default)]
struct Above {
    /// The function; `None` for a processor.
    function: Option<FunctionId>,
    numa_node: Option<u32>,
    depth: usize,
}

/// Reads the elements in the order of the document, parents first.
#[derive(Default)]
pub(super) struct TopologyReader {
    /// Lines of the text before the document.
    before: u32,
    /// The offset of each line of the document.
    lines: Vec<usize>,
    bridges: Vec<HostBridge>,
    /// Host bridges by name.
    known_bridges: HashMap<String, BridgeId>,
    functions: Vec<Function>,
    links: Vec<GpuLinkElement>,
    searched: BTreeMap<FunctionId, Searched>,
    elements: HashMap<NodeId, Above>,
    /// The first line of each address, and the places where it stands.
    addresses: HashMap<Bdf, (u32, usize)>,
    /// Ports that the text leaves out, by parent, domain and bus below.
    ports: HashMap<(Parent, u32, u8), FunctionId>,
}

impl TopologyReader {
    /// Reads a document that has `before` lines of text above it.
    pub(super) fn read(document: &Document<'_>, before: u32) -> Result<ParsedMachine, NcclError> {
        let text = document.input_text();
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        let mut reader = Self { before, lines, ..Self::default() };
        let elements = || document.descendants().filter(Node::is_element);
        let cpus = || elements().filter(|node| node.has_tag_name("cpu"));
        let hosts: BTreeSet<&str> = cpus().filter_map(|cpu| cpu.attribute("host_hash")).collect();
        if hosts.len() > 1 {
            return Err(NcclError::SeveralHosts { hosts: hosts.len() });
        }
        for node in elements() {
            match node.tag_name().name() {
                "cpu" => {
                    let numa_node = node.attribute("numaid").and_then(|id| id.trim().parse().ok());
                    reader.elements.insert(node.id(), Above { numa_node, ..Above::default() });
                }
                "pci" => reader.function(node)?,
                "gpu" => reader.links(node),
                _ => {}
            }
        }
        if reader.functions.is_empty() {
            return Err(NcclError::NoFunction);
        }
        let Self { bridges, functions, links, searched, .. } = reader;
        let links = GpuLinks::new(&functions, &links, &searched)?;
        Ok(ParsedMachine { cpu: attributes::cpu(cpus()), bridges, functions, links })
    }

    fn line(&self, node: Node<'_, '_>) -> u32 {
        let line = self.lines.partition_point(|&start| start <= node.range().start);
        u32::try_from(line).unwrap_or(u32::MAX).saturating_add(self.before)
    }

    /// The parent of an element; a processor of unknown facts where there is none.
    fn above(&self, node: Node<'_, '_>) -> Above {
        let parent = node.parent().and_then(|parent| self.elements.get(&parent.id()));
        parent.copied().unwrap_or_default()
    }

    fn function(&mut self, node: Node<'_, '_>) -> Result<(), NcclError> {
        let above = self.above(node);
        let line = self.line(node);
        let text = node.attribute("busid").unwrap_or_default();
        let Some(address) = address(text) else {
            let text = text.chars().take(LONGEST).collect();
            return Err(NcclError::Address { line, text });
        };
        if above.depth >= DEEPEST {
            return Err(NcclError::TooLarge { most: DEEPEST, what: "functions one below another" });
        }
        let (first, places) = self.addresses.entry(address).or_insert((line, 0));
        *places += 1;
        // The first place keeps the address: which of them is right is unknown.
        let repeats = (*places > 1).then_some(*first);
        let name = match *places {
            1 => address.to_string(),
            place => format!("{address}-{place}"),
        };
        let is_switch = is_switch(node, address, above);
        let has_own_port = repeats.is_some() || is_made_up(address) || is_switch;
        let is_on_root_bus = above.function.is_none() && address.bus() == 0 && !is_switch;
        let parent = if is_on_root_bus {
            Parent::Bridge(self.bridge(above, address))
        } else {
            self.parent(above, address, has_own_port, &name)?
        };
        let link = attributes::link(node);
        let class = attributes::class(node);
        let vendor = attributes::vendor_id(node);
        let kind = function_kind(node, address, parent, vendor);
        let nics = node.children().filter(|child| child.has_tag_name("nic"));
        let function = Function {
            kind,
            address: Some(address).filter(|_| repeats.is_none()),
            is_accelerator: kind == FunctionKind::Gpu
                && has_child(node, "gpu")
                && vendor.is_some_and(|vendor| !gpu::MAKERS.contains(&vendor)),
            vendor,
            device: attributes::id(node, "device"),
            class: class.whole,
            link,
            numa_node: above.numa_node,
            kernel_names: nics.flat_map(attributes::kernel_names).collect(),
            lines: Some(LineNumbers {
                heading: line,
                link: link.map(|_| line),
                repeats,
                ..LineNumbers::default()
            }),
            ..Function::unknown(name, parent)
        };
        let function = self.push(function)?;
        let below = Above { function: Some(function), depth: above.depth + 1, ..above };
        self.elements.insert(node.id(), below);
        Ok(())
    }

    fn push(&mut self, function: Function) -> Result<FunctionId, NcclError> {
        if self.functions.len() >= MOST_FUNCTIONS {
            return Err(NcclError::TooLarge { most: MOST_FUNCTIONS, what: "functions" });
        }
        self.functions.push(function);
        Ok(FunctionId(self.functions.len() - 1))
    }

    /// The parent of the function at an address, a port that the text leaves out in between. A function whose
    /// address says nothing of its place has a port of its own.
    fn parent(
        &mut self,
        above: Above,
        address: Bdf,
        has_own_port: bool,
        name: &str,
    ) -> Result<Parent, NcclError> {
        let (parent, missing) = match above.function {
            None => (Parent::Bridge(self.bridge(above, address)), FunctionKind::RootPort),
            Some(id) => match self.functions[id.0].kind {
                FunctionKind::RootPort => (Parent::Function(id), FunctionKind::OtherBridge),
                _ => (Parent::Function(id), FunctionKind::DownstreamPort),
            },
        };
        let key = (parent, address.domain(), address.bus());
        if let Some(&port) = self.ports.get(&key).filter(|_| !has_own_port) {
            return Ok(Parent::Function(port));
        }
        let word = match missing {
            FunctionKind::RootPort => "root-port",
            FunctionKind::DownstreamPort => "downstream-port",
            _ => "bridge",
        };
        let port = Function {
            kind: missing,
            numa_node: above.numa_node,
            ..Function::unknown(format!("{word}-above-{name}"), parent)
        };
        let port = self.push(port)?;
        if !has_own_port {
            self.ports.insert(key, port);
        }
        Ok(Parent::Function(port))
    }

    /// The host bridge of a function below a processor: bus 00 is a root bus, of others it is unknown.
    fn bridge(&mut self, above: Above, address: Bdf) -> BridgeId {
        let domain = format!("pci{:04x}", address.domain());
        let name = match (address.bus(), above.numa_node) {
            (0, _) => format!("{domain}:00"),
            (_, Some(node)) => format!("{domain}-node{node}"),
            (_, None) => domain,
        };
        if let Some(&bridge) = self.known_bridges.get(&name) {
            return bridge;
        }
        let bridge = BridgeId(self.bridges.len());
        self.known_bridges.insert(name.clone(), bridge);
        self.bridges.push(HostBridge {
            name,
            numa_node: above.numa_node,
            peer: Rates::default(),
            socket_link: None,
            root_bus: RootBus::Partial,
        });
        bridge
    }

    /// The links of an element `<gpu>`.
    fn links(&mut self, node: Node<'_, '_>) {
        let Some(gpu) = self.above(node).function else { return };
        if self.functions[gpu.0].kind != FunctionKind::Gpu {
            return;
        }
        if node.has_attribute("gcn") {
            self.searched.insert(gpu, Searched::Rccl);
        } else if node.has_attribute("sm") {
            self.searched.insert(gpu, Searched::Nccl);
        }
        for link in node.children() {
            let Some(kind) = ElementKind::from_tag(link.tag_name().name()) else { continue };
            let Some(target) = link.attribute("target") else { continue };
            self.links.push(GpuLinkElement {
                kind,
                gpu,
                target: target.to_owned(),
                count: link.attribute("count").and_then(|count| count.trim().parse().ok()),
                class: link.attribute("tclass").map(|class| class.trim().to_owned()),
            });
        }
    }
}

/// Returns whether an address is that of a switch that is not there: files for virtual machines of
/// Azure and AWS join functions below `ffff:ff:01.0` to make NCCL take them for close.
pub(super) fn is_made_up(address: Bdf) -> bool {
    address.domain() == 0xffff && address.bus() == 0xff
}

/// Returns whether a bridge on bus 00 is a switch all the same: a root port leads to one bus.
fn is_switch(node: Node<'_, '_>, address: Bdf, above: Above) -> bool {
    let below = node.children().filter(|child| child.has_tag_name("pci"));
    let place = |node: Node<'_, '_>| {
        let address = attributes::address(node.attribute("busid")?)?;
        Some((address.domain(), address.bus()))
    };
    let mut buses = below.filter_map(place);
    let first = buses.next();
    address.bus() == 0 && above.function.is_none() && buses.any(|bus| Some(bus) != first)
}

fn has_child(node: Node<'_, '_>, tag: &str) -> bool {
    node.children().any(|child| child.has_tag_name(tag))
}

/// The kind of a function, by its class and by the elements below it.
fn function_kind(
    node: Node<'_, '_>,
    address: Bdf,
    parent: Parent,
    vendor: Option<u16>,
) -> FunctionKind {
    let attributes::ClassCode { whole, base } = attributes::class(node);
    let by_class = kind(whole.or(base.map(|base| base << 16)), vendor, PortType::Unknown);
    if has_child(node, "pci") || by_class == FunctionKind::OtherBridge {
        let is_on_root_bus = address.bus() == 0 && matches!(parent, Parent::Bridge(_));
        return if is_on_root_bus { FunctionKind::RootPort } else { FunctionKind::UpstreamPort };
    }
    match (has_child(node, "gpu"), has_child(node, "nic")) {
        (true, _) => FunctionKind::Gpu,
        (false, true) => FunctionKind::Nic,
        (false, false) => by_class,
    }
}
