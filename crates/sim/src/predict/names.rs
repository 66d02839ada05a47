//! What limits a flow, in words, and the loads of links.

use peerlane_results::{Direction as Way, Limit, LinkLoad};
use peerlane_units::ByteRate;

use super::setting::whole;
use crate::flow::build::{Built, What};
use crate::model::{Direction, Framing, Link, LinkIndex, Node, NodeIndex, NodeKind, Op, Topology};
use crate::way::{PacketKind, rate_of};

/// A resource as a person would name it.
pub(super) fn of(topology: &Topology, what: What) -> String {
    let node = |index: NodeIndex| topology.node(index).name.as_str();
    let link = |link: LinkIndex, direction| match direction {
        _ if topology.is_between_sockets(link) => format!(
            "link between sockets from {} to {}",
            node(topology.sender(link, direction)),
            node(topology.receiver(link, direction))
        ),
        Direction::Up => format!("link of {} up", node(topology.link(link).lower)),
        Direction::Down => format!("link of {} down", node(topology.link(link).lower)),
    };
    match what {
        What::Link(index, direction) => link(index, direction),
        What::Buffer(index, direction, kind, _) => {
            format!("credits for {} on the {}", packets(kind), link(index, direction))
        }
        What::Memory(at, _) => format!("memory of {}", node(at)),
        What::Medium(at, done) => format!("medium of {}, {}", node(at), words(done)),
        What::Tags(at) => format!("read tags of {}", node(at)),
        What::Peers(at, kind) | What::PeersBuffer(at, kind, _) => {
            format!("{} between peers through {}", packets(kind), node(at))
        }
        What::Walkers(at) => format!("page walks of the IOMMU at {}", node(at)),
        What::Answers(at, _) => format!("completions of {}", node(at)),
        What::Processors(at) => processors(topology, at),
        What::Copies(at) => format!("copies in {}", node(at)),
    }
}

/// The processors beside a host memory, which a machine mostly has one of.
pub(super) fn processors(topology: &Topology, at: NodeIndex) -> String {
    let is_host = |node: &&Node| matches!(node.kind, NodeKind::HostMemory(_));
    match topology.nodes().iter().filter(is_host).count() {
        0 | 1 => "the processors".to_owned(),
        _ => format!("the processors beside {}", topology.node(at).name),
    }
}

/// Several resources of one kind, all of which limit something; `None` for what there is one of.
pub(super) fn several(what: What, count: usize) -> Option<String> {
    (count > 1).then(|| match what {
        What::Link(_, Direction::Up) => format!("{count} links up"),
        What::Link(_, Direction::Down) => format!("{count} links down"),
        What::Buffer(..) => format!("credits on {count} links"),
        What::Memory(..) => format!("{count} memories"),
        What::Medium(_, done) => format!("media of {count} drives, {}", words(done)),
        What::Tags(_) => format!("read tags of {count} devices"),
        What::Peers(..) | What::PeersBuffer(..) => format!("{count} ways between peers"),
        What::Walkers(_) => format!("page walks of {count} IOMMUs"),
        What::Answers(..) => format!("completions of {count} memories"),
        What::Processors(_) => format!("the processors beside {count} memories"),
        What::Copies(_) => format!("copies in {count} memories"),
    })
}

/// What is done to a medium while its initiator does this to a memory.
fn words(done: Option<Op>) -> &'static str {
    match done {
        Some(Op::Write) => "read",
        Some(Op::Read) => "written",
        None => "read and written",
    }
}

fn packets(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Posted => "writes",
        PacketKind::NonPosted => "read requests",
        PacketKind::Completion => "completions",
    }
}

/// Load of each direction of each link that carried anything, over a time in nanoseconds. `moved` has the
/// payload of each class.
pub(super) fn loads(topology: &Topology, built: &Built, moved: &[f64], time: f64) -> Vec<LinkLoad> {
    let mut payload = vec![0.0; built.what.len()];
    let mut wire = vec![0.0; built.what.len()];
    // Acknowledgements of what goes the other way come on top.
    let mut ahead = vec![0.0; built.what.len()];
    for (class, moved) in built.network.classes.iter().zip(moved) {
        for hop in class.legs.iter().flatten() {
            wire[hop.resource as usize] += hop.cost * moved;
            // Requests carry no payload: they cost less than a byte for each.
            if hop.cost >= 1.0 {
                payload[hop.resource as usize] += moved;
            }
        }
        for &(resource, cost) in &class.priority {
            ahead[resource as usize] += cost * moved;
        }
    }
    let mut loads = Vec::new();
    for (position, what) in built.what.iter().enumerate() {
        let What::Link(link, direction) = *what else { continue };
        let sent = wire[position] + ahead[position];
        if sent <= 0.0 || is_inside_a_chip(topology, link) {
            continue;
        }
        // Of requests and acknowledgements alone: as much as a link carries of anything.
        let share = if payload[position] > 0.0 { payload[position] / wire[position] } else { 1.0 };
        let rate = rate_of(topology, link);
        let Link { upper, lower, .. } = *topology.link(link);
        let name = |node| topology.node(node).name.clone();
        loads.push(LinkLoad {
            below: name(lower),
            other_end: topology.is_between_sockets(link).then(|| name(upper)),
            direction: match direction {
                Direction::Up => Way::Up,
                Direction::Down => Way::Down,
            },
            payload: per_second(payload[position] / time.max(1.0)),
            ceiling: per_second(rate * share),
            busy: Some(sent / (rate * time.max(1.0))),
        });
    }
    loads
}

/// Whether a link stays inside a chip, where nobody could look at it.
fn is_inside_a_chip(topology: &Topology, link: LinkIndex) -> bool {
    topology.link(link).wire.framing == Framing::Bare && !topology.is_between_sockets(link)
}

/// Bytes a nanosecond as a rate.
pub(super) fn per_second(rate: f64) -> ByteRate {
    ByteRate(whole(rate.max(0.0) * 1e9))
}

/// A ceiling of a case.
pub(super) fn limit(object: String, rate: f64) -> Limit {
    Limit { object, bytes_per_second: per_second(rate) }
}
