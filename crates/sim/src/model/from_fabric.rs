//! Topologies from fabrics.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_fabric::{Acs, Fabric, Function, FunctionId, FunctionKind, HostBridge, Parent};
use peerlane_units::{ByteRate, Bytes};

use super::{
    Ethernet, ModelEndpoint, ModelParameters, NodeIndex, NodeKind, Picos, SocketLink, Switch,
    TargetMemory, Topology, Wire, as_f64, wire::FRAME,
};

/// P2P request redirect (bit 2) and P2P completion redirect (bit 3) of the ACS control register (PCIe
/// base specification, "ACS control register").
const ACS_REDIRECT: u16 = 0b1100;
/// Rate of on-chip paths, above every link.
const ON_CHIP: ByteRate = ByteRate(1_000_000_000_000);

/// Reasons why a fabric has no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A fabric without host bridges.
    #[error("fabric {0} has no host bridge")]
    NoHostBridge(String),
    /// Two nodes of one name.
    #[error("fabric {fabric} has two nodes called {name}")]
    SameName {
        /// The fabric.
        fabric: String,
        /// The name.
        name: String,
    },
}

impl Topology {
    /// The topology of a fabric: a root complex and a host memory (`host0`) for each memory node, and a node for each switch
    /// and device, with the names of the fabric.
    ///
    /// A root complex has the name of its host bridge, or `the host bridges of node 0` where there are several. A fabric may
    /// hold several machines: the part of a host bridge's name before a slash is its machine, which also prefixes its host
    /// memories. A switch divided by an Ethernet link is two nodes, `bridge` and `bridge-ethernet`. Root ports and
    /// downstream ports are ends of links. Functions of one device share the link above it.
    ///
    /// # Errors
    /// When the fabric has no host bridge, or two nodes of one name.
    pub fn from_fabric(
        fabric: &Fabric,
        parameters: &ModelParameters,
    ) -> Result<Self, TopologyError> {
        if fabric.bridges.is_empty() {
            return Err(TopologyError::NoHostBridge(fabric.name.clone()));
        }
        let mut build = TopologyBuild {
            fabric,
            parameters,
            topology: Self::new(),
            roots: BTreeMap::new(),
            at: Vec::with_capacity(fabric.functions.len()),
        };
        build.roots();
        for (id, function) in fabric.iter() {
            let node = build.function(id, function);
            build.at.push(node);
        }
        build.named()
    }
}

/// A machine and one of its memory nodes.
pub(crate) type MemoryNode<'a> = (&'a str, u32);

/// The machine and memory node of a host bridge.
pub(crate) fn place(bridge: &HostBridge) -> MemoryNode<'_> {
    (bridge.machine(), bridge.numa_node.unwrap_or(0))
}

/// Names of the root complexes, by memory node.
pub(crate) fn root_names(fabric: &Fabric) -> BTreeMap<MemoryNode<'_>, String> {
    let mut bridges: BTreeMap<MemoryNode<'_>, Vec<&HostBridge>> = BTreeMap::new();
    for bridge in &fabric.bridges {
        bridges.entry(place(bridge)).or_default().push(bridge);
    }
    let name = |(machine, numa): MemoryNode<'_>, bridges: &[&HostBridge]| {
        if let [only] = bridges {
            return only.name.clone();
        }
        let has_nodes = bridges.iter().any(|bridge| bridge.numa_node.is_some());
        let node = if has_nodes { format!(" of node {numa}") } else { String::new() };
        let of = if machine.is_empty() { "" } else { " of " };
        format!("the host bridges{node}{of}{machine}")
    };
    bridges.into_iter().map(|(node, bridges)| (node, name(node, &bridges))).collect()
}

struct TopologyBuild<'a> {
    fabric: &'a Fabric,
    parameters: &'a ModelParameters,
    topology: Topology,
    /// Root complexes by memory node.
    roots: BTreeMap<MemoryNode<'a>, NodeIndex>,
    /// Nodes of the functions, by position.
    at: Vec<NodeIndex>,
}

impl TopologyBuild<'_> {
    fn roots(&mut self) {
        let ModelParameters { root, host, .. } = self.parameters;
        let mut names = root_names(self.fabric);
        for bridge in &self.fabric.bridges {
            let (machine, numa) = place(bridge);
            let Some(name) = names.remove(&(machine, numa)) else { continue };
            let node = self.topology.add(name, NodeKind::RootComplex(root.clone()));
            let memory = NodeKind::HostMemory(host.clone());
            let on_chip = Wire::bare(ON_CHIP, Picos::ZERO);
            let before = if machine.is_empty() { "" } else { "/" };
            let host = format!("{machine}{before}host{numa}");
            self.topology.add_below(node, host, memory, on_chip);
            for (&other, &at) in self.roots.range((machine, 0)..=(machine, u32::MAX)) {
                let wire = self.between([other, (machine, numa)]);
                self.topology.join(at, node, wire);
            }
            self.roots.insert((machine, numa), node);
        }
    }

    /// The link between two sockets, at the lowest rate that a host bridge of either states.
    fn between(&self, ends: [MemoryNode<'_>; 2]) -> Wire {
        let SocketLink { rate, latency } = self.parameters.socket;
        let bridges = self.fabric.bridges.iter().filter(|bridge| ends.contains(&place(bridge)));
        let stated = bridges.filter_map(|bridge| bridge.socket_link).min();
        Wire::socket(stated.unwrap_or(rate), latency)
    }

    /// The node above a function: the root complex of its bridge, or the node of its parent.
    fn above(&self, function: &Function) -> NodeIndex {
        match function.parent {
            Parent::Function(parent) => self.at[parent.0],
            Parent::Bridge(bridge) => self.roots[&place(&self.fabric.bridges[bridge.0])],
        }
    }

    fn function(&mut self, id: FunctionId, function: &Function) -> NodeIndex {
        let above = self.above(function);
        let kind = match function.kind {
            FunctionKind::RootPort | FunctionKind::DownstreamPort => return above,
            FunctionKind::UpstreamPort | FunctionKind::OtherBridge => {
                NodeKind::Switch(self.switch(id))
            }
            FunctionKind::Nvme
            | FunctionKind::Gpu
            | FunctionKind::Fpga
            | FunctionKind::Nic
            | FunctionKind::Other => NodeKind::Endpoint(self.endpoint(function)),
        };
        let is_on_chip = matches!(function.parent, Parent::Bridge(_));
        let wire = match self.fabric.speed_above(id) {
            None if is_on_chip => Wire::bare(ON_CHIP, Picos::ZERO),
            speed => Wire::pcie(speed.unwrap_or(self.parameters.link), self.parameters.mps),
        };
        let node = self.topology.add_below(above, function.name.clone(), kind, wire);
        match function.ethernet {
            Some(rate) if function.kind == FunctionKind::UpstreamPort => {
                self.beyond(id, node, rate)
            }
            _ => node,
        }
    }

    /// The part of a switch beyond the Ethernet link, above its downstream ports.
    fn beyond(&mut self, id: FunctionId, near: NodeIndex, rate: ByteRate) -> NodeIndex {
        let Ethernet { tunnel, latency, .. } = self.parameters.ethernet;
        let wire = Wire::ethernet(rate, self.parameters.mps, tunnel, latency);
        let name = format!("{}-ethernet", self.fabric.function(id).name);
        self.topology.add_below(near, name, NodeKind::Switch(self.switch(id)), wire)
    }

    /// A device. The memory of a network controller is the wire, at the payload rate of full frames (arithmetic on IEEE
    /// 802.3, RFC 791 and 9293).
    fn endpoint(&self, function: &Function) -> ModelEndpoint {
        let mut endpoint = self.parameters.endpoint.clone();
        endpoint.is_network = function.kind == FunctionKind::Nic;
        let Ethernet { rate, mtu, headers, .. } = self.parameters.ethernet;
        if let Some(wire) = function.ethernet.or(rate.filter(|_| endpoint.is_network)) {
            let (mtu, headers) = (as_f64(mtu), as_f64(headers));
            let payload = as_f64(Bytes(wire.0)) * (mtu - headers) / (mtu + as_f64(Bytes(FRAME)));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
            let rate = Some(ByteRate(payload.max(1.0) as u64));
            endpoint.memory =
                TargetMemory { write: rate, read: rate, is_shared: false, ..endpoint.memory };
        }
        endpoint
    }

    /// A switch, which redirects where a port below it does.
    fn switch(&self, id: FunctionId) -> Switch {
        let redirects = self.fabric.functions.iter().any(|function| {
            function.kind == FunctionKind::DownstreamPort
                && function.parent == Parent::Function(id)
                && matches!(function.acs, Acs::Present { control } if control & ACS_REDIRECT != 0)
        });
        Switch { redirects, ..self.parameters.switch.clone() }
    }

    /// The topology, unless two nodes have one name.
    fn named(self) -> Result<Topology, TopologyError> {
        let mut names = BTreeSet::new();
        match self.topology.nodes().iter().find(|node| !names.insert(node.name.as_str())) {
            None => Ok(self.topology),
            Some(node) => Err(TopologyError::SameName {
                fabric: self.fabric.name.clone(),
                name: node.name.clone(),
            }),
        }
    }
}
