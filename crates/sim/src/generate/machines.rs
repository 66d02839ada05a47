//! Machines of any size.

use peerlane_fabric::LinkSpeed;
use peerlane_units::Bytes;

use super::Draws;
use crate::model::{
    Endpoint, FlowSpec, HostMemory, NodeIndex, NodeKind, Picos, RootComplex, SocketLink, Switch,
    Topology, Wire,
};

/// A machine, or several that nothing joins, with the devices that flows can go between.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The machine.
    pub topology: Topology,
    /// Its devices, in groups: flows within a group have a path.
    pub groups: Vec<Vec<NodeIndex>>,
}

/// Ports of a switch that face away from the root.
const PORTS: usize = 8;

/// One root complex with as few switches of eight ports as hold so many devices, in a tree as flat as it
/// gets: Gen4, sixteen lanes between switches, four to devices.
pub fn tree(devices: usize) -> Machine {
    let mut machine = Machine::default();
    let root = machine.root("root");
    let devices = machine.below(root, devices, "");
    machine.groups.push(devices);
    machine
}

/// So many machines with sixteen devices each, and nothing between them.
pub fn servers(count: usize) -> Machine {
    let mut machine = Machine::default();
    for server in 0..count {
        let root = machine.root(&format!("s{server}-root"));
        let devices = machine.below(root, 16, &format!("s{server}-"));
        machine.groups.push(devices);
    }
    machine
}

/// So many machines of two sockets; below each socket two switches with four to eight devices, of one of
/// several generations and widths that the seed decides.
pub fn pods(count: usize, seed: u64) -> Machine {
    let mut machine = Machine::default();
    let mut draws = Draws::new(seed);
    for pod in 0..count {
        let mut devices = Vec::new();
        let mut sockets = Vec::new();
        for socket in 0..2 {
            let root = machine.root(&format!("p{pod}-root{socket}"));
            sockets.push(root);
            for switch in 0..2 {
                let name = format!("p{pod}-s{socket}{switch}");
                let wire = wire(draws.one_of(&[8_000, 16_000, 32_000]), 16);
                let kind = NodeKind::Switch(Switch::default());
                let upper = machine.topology.add_below(root, name.clone(), kind, wire);
                for device in 0..draws.between(4, 8) {
                    let speed = draws.one_of(&[8_000, 16_000]);
                    let wire = self::wire(speed, draws.one_of(&[4, 4, 4, 8, 16]));
                    devices.push(machine.device(upper, &format!("{name}-d{device}"), wire));
                }
            }
        }
        let SocketLink { rate, latency } = SocketLink::default();
        machine.topology.join(sockets[0], sockets[1], Wire::socket(rate, latency));
        machine.groups.push(devices);
    }
    machine
}

fn wire(megatransfers: u32, width: u8) -> Wire {
    Wire::pcie(LinkSpeed { megatransfers, width }, Bytes(256))
}

impl Machine {
    fn root(&mut self, name: &str) -> NodeIndex {
        let root = self.topology.add(name, NodeKind::RootComplex(RootComplex::default()));
        let host = NodeKind::HostMemory(HostMemory::default());
        let on_chip = Wire::bare(peerlane_units::ByteRate(1_000_000_000_000), Picos::ZERO);
        self.topology.add_below(root, format!("{name}-host"), host, on_chip);
        root
    }

    fn device(&mut self, upper: NodeIndex, name: &str, wire: Wire) -> NodeIndex {
        self.topology.add_below(upper, name, NodeKind::Endpoint(Endpoint::default()), wire)
    }

    fn below(&mut self, root: NodeIndex, devices: usize, prefix: &str) -> Vec<NodeIndex> {
        let mut level = vec![root];
        let mut switches = 0;
        while level.len() * PORTS < devices {
            let mut next = Vec::new();
            for &upper in &level {
                for _ in 0..PORTS {
                    let name = format!("{prefix}switch{switches}");
                    let kind = NodeKind::Switch(Switch::default());
                    next.push(self.topology.add_below(upper, name, kind, wire(16_000, 16)));
                    switches += 1;
                }
            }
            level = next;
        }
        let upper = |device: usize| level[device % level.len()];
        (0..devices)
            .map(|device| {
                self.device(upper(device), &format!("{prefix}d{device}"), wire(16_000, 4))
            })
            .collect()
    }

    /// Two different devices of one group, as the draws decide.
    pub fn pair(&self, draws: &mut Draws) -> (NodeIndex, NodeIndex) {
        let group = &self.groups[draws.below(self.groups.len())];
        let source = draws.below(group.len());
        let target = (source + 1 + draws.below(group.len().saturating_sub(1))) % group.len();
        (group[source], group[target])
    }

    /// So many writes between random devices.
    pub fn writes(&self, count: usize) -> Vec<FlowSpec> {
        let mut draws = Draws::new(1);
        let write = |_| {
            let (source, target) = self.pair(&mut draws);
            FlowSpec::write("write", source, target)
        };
        (0..count).map(write).collect()
    }
}
