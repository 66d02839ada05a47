//! A topology out of a fabric.

use std::collections::BTreeMap;

use peerlane_fabric::{Acs, Fabric, Function, FunctionId, HostBridge, Kind, Parent};
use peerlane_units::{ByteRate, Bytes};

use super::{
    Endpoint, Ethernet, Memory, NodeIndex, NodeKind, Parameters, Picos, SocketLink, Switch,
    Topology, Wire,
};
use crate::devices::ethernet::stream;
use crate::way::as_f64;

/// P2P request redirect (bit 2) and P2P completion redirect (bit 3) of the ACS control register (PCIe
/// base specification, "ACS control register").
const ACS_REDIRECT: u16 = 0b1100;
/// What stays inside a chip is no bottleneck of its own.
const ON_CHIP: ByteRate = ByteRate(1_000_000_000_000);

/// Why a fabric makes no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A machine without PCI.
    #[error("fabric {0} has no host bridge")]
    NoHostBridge(String),
    /// Two nodes that cannot be told apart.
    #[error("fabric {fabric} has two nodes called {name}")]
    SameName {
        /// The fabric.
        fabric: String,
        /// The name.
        name: String,
    },
}

impl Topology {
    /// The topology of a fabric: a root complex and a host memory (`host0`) for each memory node, every
    /// host bridge of the node in it, and a node for each switch and device, named as in the fabric. A root complex is
    /// called as its host bridge is, or `the host bridges of node 0` where it has several.
    ///
    /// A fabric may hold several machines, which nothing joins: what stands before a slash in the name of a
    /// host bridge is its machine, and stands before the names of its host memories.
    ///
    /// A switch that an Ethernet divides is two nodes: `bridge`, and `bridge-ethernet` beyond it.
    ///
    /// Root ports and downstream ports are ends of links, not nodes. Functions of one device share the
    /// link above it.
    ///
    /// # Errors
    /// When the fabric has no host bridge, or names that are not unique.
    pub fn from_fabric(fabric: &Fabric, parameters: &Parameters) -> Result<Self, TopologyError> {
        if fabric.bridges.is_empty() {
            return Err(TopologyError::NoHostBridge(fabric.name.clone()));
        }
        let mut build = Build {
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

/// A machine, and a memory node of it.
pub(crate) type Place<'a> = (&'a str, u32);

/// The machine of a host bridge, and its memory node.
pub(crate) fn place(bridge: &HostBridge) -> Place<'_> {
    let machine = bridge.name.split_once('/').map_or("", |(machine, _)| machine);
    (machine, bridge.numa_node.unwrap_or(0))
}

/// What the root complex of each memory node is called.
pub(crate) fn root_names(fabric: &Fabric) -> BTreeMap<Place<'_>, String> {
    let mut bridges: BTreeMap<Place<'_>, Vec<&HostBridge>> = BTreeMap::new();
    for bridge in &fabric.bridges {
        bridges.entry(place(bridge)).or_default().push(bridge);
    }
    let name = |(machine, numa), bridges: &[&HostBridge]| match bridges {
        [only] => only.name.clone(),
        _ if bridges.iter().all(|bridge| bridge.numa_node.is_none()) => {
            format!("the host bridges{}", of_machine(machine))
        }
        _ => format!("the host bridges of node {numa}{}", of_machine(machine)),
    };
    bridges.into_iter().map(|(place, bridges)| (place, name(place, &bridges))).collect()
}

fn of_machine(machine: &str) -> String {
    if machine.is_empty() { String::new() } else { format!(" of {machine}") }
}

struct Build<'a> {
    fabric: &'a Fabric,
    parameters: &'a Parameters,
    topology: Topology,
    /// The root complex of each memory node of each machine.
    roots: BTreeMap<Place<'a>, NodeIndex>,
    /// The node in which each function ends up.
    at: Vec<NodeIndex>,
}

impl Build<'_> {
    fn roots(&mut self) {
        let Parameters { root, host, .. } = self.parameters;
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

    /// The link between two sockets: the least that host bridges of either state of it.
    fn between(&self, ends: [Place<'_>; 2]) -> Wire {
        let SocketLink { rate, latency } = self.parameters.socket;
        let bridges = self.fabric.bridges.iter().filter(|bridge| ends.contains(&place(bridge)));
        let stated = bridges.filter_map(|bridge| bridge.socket_link).min();
        Wire::socket(stated.unwrap_or(rate), latency)
    }

    /// Where the function hangs: the root complex of its bridge, or the node of its parent.
    fn above(&self, function: &Function) -> NodeIndex {
        match function.parent {
            Parent::Function(parent) => self.at[parent.0],
            Parent::Bridge(bridge) => self.roots[&place(&self.fabric.bridges[bridge.0])],
        }
    }

    fn function(&mut self, id: FunctionId, function: &Function) -> NodeIndex {
        let above = self.above(function);
        let kind = match function.kind {
            Kind::RootPort | Kind::DownstreamPort => return above,
            Kind::UpstreamPort | Kind::OtherBridge => NodeKind::Switch(self.switch(id)),
            Kind::Nvme | Kind::Gpu | Kind::Fpga | Kind::Nic | Kind::Other => {
                NodeKind::Endpoint(self.endpoint(function))
            }
        };
        let is_on_chip = matches!(function.parent, Parent::Bridge(_));
        let wire = match self.fabric.speed_above(id) {
            None if is_on_chip => Wire::bare(ON_CHIP, Picos::ZERO),
            speed => Wire::pcie(speed.unwrap_or(self.parameters.link), self.parameters.mps),
        };
        let node = self.topology.add_below(above, function.name.clone(), kind, wire);
        match function.ethernet {
            Some(rate) if function.kind == Kind::UpstreamPort => self.beyond(id, node, rate),
            _ => node,
        }
    }

    /// What a switch is beyond the Ethernet between its two parts, where everything below it hangs.
    fn beyond(&mut self, id: FunctionId, near: NodeIndex, rate: ByteRate) -> NodeIndex {
        let Ethernet { tunnel, latency, .. } = self.parameters.ethernet;
        let wire = Wire::ethernet(rate, self.parameters.mps, tunnel, latency);
        let name = format!("{}-ethernet", self.fabric.function(id).name);
        self.topology.add_below(near, name, NodeKind::Switch(self.switch(id)), wire)
    }

    /// A device; what goes to the memory of a network controller is on its way, and comes as fast as
    /// full frames carry it.
    fn endpoint(&self, function: &Function) -> Endpoint {
        let mut endpoint = self.parameters.endpoint.clone();
        if let Some(wire) = function.ethernet {
            let Ethernet { mtu, headers, .. } = self.parameters.ethernet;
            let payload = stream(as_f64(Bytes(wire.0)), as_f64(mtu), as_f64(headers));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
            let rate = Some(ByteRate(payload.max(1.0) as u64));
            let (write, read) = (rate, rate);
            endpoint.memory = Memory { write, read, is_shared: false, ..endpoint.memory };
        }
        endpoint
    }

    /// A switch redirects where the ports below it do.
    fn switch(&self, id: FunctionId) -> Switch {
        let redirects = self.fabric.functions.iter().any(|function| {
            let is_port = function.parent == Parent::Function(id);
            let control = match function.acs {
                Acs::Present { control } => control,
                Acs::Absent | Acs::NotRedirecting | Acs::Unknown => 0,
            };
            is_port && function.kind == Kind::DownstreamPort && control & ACS_REDIRECT != 0
        });
        Switch { redirects, ..self.parameters.switch.clone() }
    }

    fn named(self) -> Result<Topology, TopologyError> {
        let mut names: Vec<&str> =
            self.topology.nodes().iter().map(|node| node.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(self.topology),
            Some(pair) => Err(TopologyError::SameName {
                fabric: self.fabric.name.clone(),
                name: pair[0].to_owned(),
            }),
        }
    }
}
