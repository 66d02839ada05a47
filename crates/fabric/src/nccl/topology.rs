//! From elements to host bridges and functions.

use std::collections::{BTreeSet, HashMap};

use roxmltree::{Document, Node, NodeId};

use super::attributes::{self, address};
use super::error::NcclError;
use super::nvlink::NvLinkElement;
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
    pub(super) links: Vec<NvLinkElement>,
}

/// An element that functions hang from.
#[derive(Debug, Clone, Copy, Default)]
struct Above {
    /// The function; `None` for a processor.
    function: Option<FunctionId>,
    numa_node: Option<u32>,
    depth: usize,
}

/// Reads the elements in the order of the document, in which parents come first.
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
    links: Vec<NvLinkElement>,
    elements: HashMap<NodeId, Above>,
    /// Lines of the addresses.
    addresses: HashMap<Bdf, u32>,
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
        let Self { bridges, functions, links, .. } = reader;
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
        if is_placeholder(address) {
            self.elements.insert(node.id(), above);
            return Ok(());
        }
        if let Some(&first) = self.addresses.get(&address) {
            return Err(NcclError::Twice { address, lines: (first, line) });
        }
        if above.depth >= DEEPEST {
            return Err(NcclError::TooLarge { most: DEEPEST, what: "functions one below another" });
        }
        self.addresses.insert(address, line);
        let parent = self.parent(above, address)?;
        let link = match parent {
            Parent::Function(_) => attributes::link(node),
            Parent::Bridge(_) => None,
        };
        let class = attributes::class(node);
        let nics = node.children().filter(|child| child.has_tag_name("nic"));
        let function = Function {
            kind: function_kind(node, address, parent),
            vendor: attributes::vendor_id(node),
            device: attributes::id(node, "device"),
            class: class.whole,
            link,
            numa_node: above.numa_node,
            kernel_names: nics.flat_map(attributes::kernel_names).collect(),
            lines: Some(LineNumbers {
                heading: line,
                link: link.map(|_| line),
                ..LineNumbers::default()
            }),
            ..Function::unknown(address.to_string(), parent)
        };
        let function = self.push(Function { address: Some(address), ..function })?;
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

    /// The parent of the function at an address, a port that the text leaves out in between.
    fn parent(&mut self, above: Above, address: Bdf) -> Result<Parent, NcclError> {
        let (parent, missing) = match above.function {
            None => {
                let bridge = Parent::Bridge(self.bridge(above, address));
                if address.bus() == 0 {
                    return Ok(bridge);
                }
                (bridge, FunctionKind::RootPort)
            }
            Some(id) => match self.functions[id.0].kind {
                FunctionKind::RootPort => (Parent::Function(id), FunctionKind::OtherBridge),
                _ => (Parent::Function(id), FunctionKind::DownstreamPort),
            },
        };
        let key = (parent, address.domain(), address.bus());
        if let Some(&port) = self.ports.get(&key) {
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
            ..Function::unknown(format!("{word}-above-{address}"), parent)
        };
        let port = self.push(port)?;
        self.ports.insert(key, port);
        Ok(Parent::Function(port))
    }

    /// The host bridge of a function below a processor: bus 00 is a root bus, of others it is not known.
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

    /// The NVLinks of an element `<gpu>`.
    fn links(&mut self, node: Node<'_, '_>) {
        let Some(gpu) = self.above(node).function else { return };
        if self.functions[gpu.0].kind != FunctionKind::Gpu {
            return;
        }
        for link in node.children().filter(|child| child.has_tag_name("nvlink")) {
            let Some(target) = link.attribute("target") else { continue };
            self.links.push(NvLinkElement {
                gpu,
                target: target.to_owned(),
                count: link.attribute("count").and_then(|count| count.trim().parse().ok()),
                class: link.attribute("tclass").map(|class| class.trim().to_owned()),
            });
        }
    }
}

/// Returns whether an address is that of a switch that is not there: files for virtual machines of Azure join functions
/// below `ffff:ff:01.0`, so that NCCL takes them for close.
fn is_placeholder(address: Bdf) -> bool {
    address.domain() == 0xffff && address.bus() == 0xff
}

/// The kind of a function, by what is below it and by its class.
fn function_kind(node: Node<'_, '_>, address: Bdf, parent: Parent) -> FunctionKind {
    let has = |tag: &str| node.children().any(|child| child.has_tag_name(tag));
    let vendor = attributes::vendor_id(node);
    let attributes::ClassCode { whole, base } = attributes::class(node);
    let by_class = kind(whole.or(base.map(|base| base << 16)), vendor, PortType::Unknown);
    if has("pci") || by_class == FunctionKind::OtherBridge {
        let is_on_root_bus = address.bus() == 0 && matches!(parent, Parent::Bridge(_));
        return if is_on_root_bus { FunctionKind::RootPort } else { FunctionKind::UpstreamPort };
    }
    match (has("gpu"), has("nic")) {
        (true, _) => FunctionKind::Gpu,
        (false, true) => FunctionKind::Nic,
        (false, false) => by_class,
    }
}
