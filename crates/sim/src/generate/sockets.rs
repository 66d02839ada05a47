//! Cases on machines of two sockets, by seed: direct writes and reads, and relays, within a socket and across.
//!
//! Leaves out host memory, which other cases have. The one thing to know: half of the drives move on what others put
//! into their memory, so that their medium is read and written at once; the others have a slow memory and no medium.

use peerlane_fabric::LinkSpeed;
use peerlane_units::{ByteRate, Bytes};

use super::Draws;
use super::scenarios::{Family, Scenario};
use crate::model::{
    Credits, Endpoint, FlowSpec, Memory, NodeIndex, NodeKind, Op, Picos, RootComplex, SocketLink,
    Switch, Topology, Wire,
};

/// Two sockets with two or three switches each, two to four drives below each of those, and transfers between them.
pub(super) fn sockets(draws: &mut Draws) -> Scenario {
    let mut topology = Topology::new();
    let roots = ["root0", "root1"]
        .map(|name| topology.add(name, NodeKind::RootComplex(RootComplex::default())));
    topology.join(roots[0], roots[1], between(draws));
    let mut drives = Vec::new();
    for (socket, root) in roots.into_iter().enumerate() {
        for switch in 0..draws.between(2, 3) {
            let name = format!("s{socket}{switch}");
            let wire = wire(draws, &[8, 16]);
            let kind = NodeKind::Switch(Switch::default());
            let upper = topology.add_below(root, name.clone(), kind, wire);
            for number in 0..draws.between(2, 4) {
                let kind = NodeKind::Endpoint(drive(draws));
                let wire = self::wire(draws, &[4, 4, 4, 8]);
                drives.push(topology.add_below(upper, format!("{name}-d{number}"), kind, wire));
            }
        }
    }
    let count = draws.between(4, 16);
    let flows = (0..count).map(|number| flow(draws, &topology, &drives, number)).collect();
    Scenario { family: Family::Sockets, topology, flows }
}

/// A link between sockets, narrower than what is below them or wider, with more or less room than 2 us of its rate.
fn between(draws: &mut Draws) -> Wire {
    let rate = ByteRate(1_000_000_000 * draws.one_of(&[6, 12, 31, 62]));
    let room = Picos::nanos(draws.one_of(&[500, 1_000, 2_000, 4_000]));
    let credits = Credits::covering(rate, Bytes(256), room);
    Wire { credits, ..Wire::socket(rate, SocketLink::default().latency) }
}

fn wire(draws: &mut Draws, widths: &[u8]) -> Wire {
    let speed =
        LinkSpeed { megatransfers: draws.one_of(&[8_000, 16_000]), width: draws.one_of(widths) };
    Wire::pcie(speed, Bytes(256))
}

fn rate(draws: &mut Draws, least: usize, most: usize) -> Option<ByteRate> {
    Some(ByteRate(1_000_000 * draws.between(least, most) as u64))
}

fn drive(draws: &mut Draws) -> Endpoint {
    let mut endpoint = Endpoint { mps: Bytes(512), ..Endpoint::default() };
    if draws.share() < 0.5 {
        endpoint.posts = rate(draws, 1_000, 6_000);
        endpoint.fetches = rate(draws, 500, 4_000);
        endpoint.mixed = draws.one_of(&[0.5, 0.8, 1.0, 1.0, 1.0, 1.4]);
    } else {
        let rate = rate(draws, 800, 6_000);
        endpoint.memory = Memory { write: rate, read: rate, ..Memory::default() };
    }
    endpoint
}

fn flow(draws: &mut Draws, topology: &Topology, drives: &[NodeIndex], number: usize) -> FlowSpec {
    let name = format!("flow{number}");
    let source = draws.below(drives.len());
    let target = (source + 1 + draws.below(drives.len() - 1)) % drives.len();
    let (source, target) = (drives[source], drives[target]);
    let memory = draws.one_of(drives);
    let is_relay = draws.share() < 0.3 && memory != source && memory != target;
    let has_medium = |node| match &topology.node(node).kind {
        NodeKind::Endpoint(endpoint) => endpoint.posts.is_some(),
        _ => false,
    };
    let mut flow = if is_relay {
        FlowSpec::relay(name, source, memory, target)
    } else if draws.share() < 0.35 {
        // The initiator is where the payload goes.
        match has_medium(source) {
            true => FlowSpec::relay(name, source, source, target),
            false => FlowSpec::read(name, target, source),
        }
    } else {
        match has_medium(target) {
            true => FlowSpec::relay(name, source, target, target),
            false => FlowSpec::write(name, source, target),
        }
    };
    if draws.share() < 0.3 && flow.first.op == Op::Write {
        flow.first.bound = rate(draws, 400, 3_500);
    }
    flow
}
