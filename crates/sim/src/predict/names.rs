//! What limits a flow, in words, and the loads of links.

use peerlane_results::{Direction as Way, Limit, LinkLoad};
use peerlane_units::ByteRate;

use super::setting::whole;
use crate::flow::build::{Built, What};
use crate::model::{Direction, LinkIndex, NodeIndex, Op, Topology};
use crate::way::{PacketKind, rate_of};

/// A resource as a person would name it.
pub(super) fn of(topology: &Topology, what: What) -> String {
    let node = |index: NodeIndex| topology.node(index).name.as_str();
    let link = |link: LinkIndex, direction| {
        let way = match direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        format!("link of {} {way}", node(topology.link(link).lower))
    };
    match what {
        What::Link(index, direction) => link(index, direction),
        What::Buffer(index, direction, kind, _) => {
            format!("credits for {} on the {}", packets(kind), link(index, direction))
        }
        What::Memory(at, _) => format!("memory of {}", node(at)),
        What::Medium(at, Op::Write) => format!("medium of {}, read", node(at)),
        What::Medium(at, Op::Read) => format!("medium of {}, written", node(at)),
        What::Tags(at) => format!("read tags of {}", node(at)),
        What::Peers(at, kind) | What::PeersBuffer(at, kind, _) => {
            format!("{} between peers through {}", packets(kind), node(at))
        }
        What::Walkers(at) => format!("page walks of the IOMMU at {}", node(at)),
        What::Answers(at, _) => format!("completions of {}", node(at)),
    }
}

fn packets(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Posted => "writes",
        PacketKind::NonPosted => "read requests",
        PacketKind::Completion => "completions",
    }
}

/// Payload that crossed each direction of each link that carried some, over a time in nanoseconds.
/// `moved` has the payload of each class.
pub(super) fn loads(topology: &Topology, built: &Built, moved: &[f64], time: f64) -> Vec<LinkLoad> {
    let mut payload = vec![0.0; built.what.len()];
    let mut wire = vec![0.0; built.what.len()];
    for (class, moved) in built.network.classes.iter().zip(moved) {
        for hop in class.legs.iter().flatten() {
            wire[hop.resource as usize] += hop.cost * moved;
            // Requests carry no payload: they cost less than a byte for each.
            if hop.cost >= 1.0 {
                payload[hop.resource as usize] += moved;
            }
        }
    }
    let mut loads = Vec::new();
    for (position, what) in built.what.iter().enumerate() {
        let What::Link(link, direction) = *what else { continue };
        // What stays inside a chip is no link that anybody could look at.
        if payload[position] <= 0.0 || topology.link(link).wire.speed.is_none() {
            continue;
        }
        let share = payload[position] / wire[position];
        loads.push(LinkLoad {
            below: topology.node(topology.link(link).lower).name.clone(),
            direction: match direction {
                Direction::Up => Way::Up,
                Direction::Down => Way::Down,
            },
            payload: per_second(payload[position] / time.max(1.0)),
            ceiling: per_second(rate_of(topology, link) * share),
        });
    }
    loads
}

/// Bytes a nanosecond as a rate.
pub(super) fn per_second(rate: f64) -> ByteRate {
    ByteRate(whole(rate.max(0.0) * 1e9))
}

/// A ceiling of a case.
pub(super) fn limit(object: String, rate: f64) -> Limit {
    Limit { object, bytes_per_second: per_second(rate) }
}
