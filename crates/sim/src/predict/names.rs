//! Limits of a transfer, by the names that people read.

use peerlane_results::Order;
use peerlane_units::ByteRate;

use super::setting::whole;
use crate::model::{
    LinkDirection, LinkIndex, Node, NodeIndex, NodeKind, Op, PacketKind, ResourceOrigin, Topology,
};

/// The limit of a transfer: a resource of the machine, or a bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limiter {
    /// A resource of the network.
    Resource(ResourceOrigin),
    /// Commands a second of a drive, of blocks one after the other.
    Commands(NodeIndex),
    /// Commands a second of a drive, of blocks in random order.
    RandomCommands(NodeIndex),
    /// The processor that its thread runs on.
    Processor,
    /// The rate that its workload caps it at.
    Cap,
    /// Blocks in flight.
    Depth,
    /// Stages of one block after the other, on a path with slots of its own.
    Stages,
}

impl Limiter {
    /// Commands of a drive.
    pub(super) fn commands(drive: NodeIndex, order: Order) -> Self {
        match order {
            Order::Sequential => Self::Commands(drive),
            Order::Random => Self::RandomCommands(drive),
        }
    }

    /// Returns the drive whose commands these are.
    pub(super) fn drive(self) -> Option<NodeIndex> {
        match self {
            Self::Commands(drive) | Self::RandomCommands(drive) => Some(drive),
            _ => None,
        }
    }

    /// Names it, for one transfer.
    pub(super) fn name(self, topology: &Topology) -> String {
        let of = |thing, drive| format!("{thing} of {}", topology.node(drive).name);
        match self {
            Self::Resource(what) => resource_name(topology, what),
            Self::Commands(drive) => of("commands", drive),
            Self::RandomCommands(drive) => of("random commands", drive),
            Self::Processor => "the processor".to_owned(),
            Self::Cap => "its limit".to_owned(),
            Self::Depth => "its depth".to_owned(),
            Self::Stages => "stages of a block, one after the other".to_owned(),
        }
    }

    /// Names several of its kind; `None` for a thing that there is one of.
    pub(super) fn several(self, count: usize) -> Option<String> {
        Some(match self {
            Self::Resource(ResourceOrigin::Link(_, LinkDirection::Up)) => {
                format!("{count} links up")
            }
            Self::Resource(ResourceOrigin::Link(_, LinkDirection::Down)) => {
                format!("{count} links down")
            }
            Self::Resource(ResourceOrigin::Buffer(..)) => format!("credits on {count} links"),
            Self::Resource(ResourceOrigin::Memory(..)) => format!("{count} memories"),
            Self::Resource(ResourceOrigin::Wire(_, op)) => {
                format!("wires of {count} NICs, {}", way_out(op))
            }
            Self::Resource(ResourceOrigin::Medium(_, op)) => {
                format!("media of {count} drives, {}", done_to_medium(op))
            }
            Self::Resource(ResourceOrigin::Tags(_)) => format!("read tags of {count} devices"),
            Self::Resource(ResourceOrigin::Walkers(_)) => format!("page walks of {count} IOMMUs"),
            Self::Resource(ResourceOrigin::Answers(..)) => {
                format!("completions of {count} memories")
            }
            Self::Resource(ResourceOrigin::Processors(_)) => {
                format!("the processors next to {count} memories")
            }
            Self::Resource(ResourceOrigin::Stage(_)) => format!("{count} stages"),
            Self::Resource(ResourceOrigin::Copies(_)) => format!("copies in {count} memories"),
            Self::Resource(_) => format!("{count} paths between peers"),
            Self::Commands(_) => format!("commands of {count} drives"),
            Self::RandomCommands(_) => format!("random commands of {count} drives"),
            Self::Processor | Self::Cap | Self::Depth | Self::Stages => return None,
        })
    }
}

/// Names a resource.
pub(crate) fn resource_name(topology: &Topology, what: ResourceOrigin) -> String {
    let node = |index: NodeIndex| topology.node(index).name.as_str();
    let link = |link: LinkIndex, direction| match direction {
        _ if topology.is_between_sockets(link) => format!(
            "link between sockets from {} to {}",
            node(topology.sender(link, direction)),
            node(topology.receiver(link, direction))
        ),
        LinkDirection::Up => format!("link of {} up", node(topology.link(link).lower)),
        LinkDirection::Down => format!("link of {} down", node(topology.link(link).lower)),
    };
    match what {
        ResourceOrigin::Link(index, direction) => link(index, direction),
        ResourceOrigin::Buffer(index, direction, kind, _) => {
            format!("credits for {} on the {}", packets(kind), link(index, direction))
        }
        ResourceOrigin::Memory(at, _) => format!("memory of {}", node(at)),
        ResourceOrigin::Wire(at, op) => format!("wire of {}, {}", node(at), way_out(op)),
        ResourceOrigin::Medium(at, op) => format!("medium of {}, {}", node(at), done_to_medium(op)),
        ResourceOrigin::Tags(at) => format!("read tags of {}", node(at)),
        ResourceOrigin::Peers(at, kind) | ResourceOrigin::PeersBuffer(at, kind, _) => {
            format!("{} between peers through {}", packets(kind), node(at))
        }
        ResourceOrigin::Walkers(at) => format!("page walks of the IOMMU at {}", node(at)),
        ResourceOrigin::Answers(at, _) => format!("completions of {}", node(at)),
        ResourceOrigin::Processors(at) => processors(topology, at),
        ResourceOrigin::Stage(at) => node(at).to_owned(),
        ResourceOrigin::Copies(at) => format!("copies in {}", node(at)),
    }
}

/// Names the processors next to a host memory; most machines have one.
pub(super) fn processors(topology: &Topology, at: NodeIndex) -> String {
    let is_host = |node: &&Node| matches!(node.kind, NodeKind::HostMemory(_));
    match topology.nodes().iter().filter(is_host).count() {
        0 | 1 => "the processors".to_owned(),
        _ => format!("the processors next to {}", topology.node(at).name),
    }
}

/// Names the use of a medium while its initiator does this to a memory.
fn done_to_medium(op: Option<Op>) -> &'static str {
    match op {
        Some(Op::Write) => "read",
        Some(Op::Read) => "written",
        None => "read and written",
    }
}

/// Names the direction of a wire by what is done to it as a memory.
fn way_out(op: Op) -> &'static str {
    match op {
        Op::Write => "out",
        Op::Read => "in",
    }
}

fn packets(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Posted => "writes",
        PacketKind::NonPosted => "read requests",
        PacketKind::Completion => "completions",
    }
}

/// Bytes a nanosecond as a rate.
pub(super) fn per_second(rate: f64) -> ByteRate {
    ByteRate(whole(rate.max(0.0) * 1e9))
}
