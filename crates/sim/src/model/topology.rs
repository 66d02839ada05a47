//! Nodes and links.

use std::collections::HashMap;

use super::{Node, NodeKind, Op, PacketKind, Wire};

/// Position of a node in a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// Position of a link in a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub u32);

/// Direction on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkDirection {
    /// From the lower node to the upper one.
    Up,
    /// From the upper node to the lower one.
    Down,
}

impl LinkDirection {
    /// The other direction.
    pub fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// A link. Between two root complexes, either may be the upper node.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelLink {
    /// The node nearer to the root.
    pub upper: NodeIndex,
    /// The node further from it.
    pub lower: NodeIndex,
    /// Rate, framing and credits.
    pub wire: Wire,
}

/// A machine: nodes and links. Indices of another topology may panic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topology {
    nodes: Vec<Node>,
    links: Vec<ModelLink>,
    /// The link above each node; `None` for root complexes.
    above: Vec<Option<LinkIndex>>,
}

impl Topology {
    /// An empty topology.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the root of a tree, a root complex.
    ///
    /// # Panics
    /// On the 2^32nd node.
    pub fn add(&mut self, name: impl Into<String>, kind: NodeKind) -> NodeIndex {
        let index = NodeIndex(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.nodes.push(Node { name: name.into(), kind });
        self.above.push(None);
        index
    }

    /// Adds a node below another.
    pub fn add_below(
        &mut self,
        upper: NodeIndex,
        name: impl Into<String>,
        kind: NodeKind,
        wire: Wire,
    ) -> NodeIndex {
        let lower = self.add(name, kind);
        let link = self.push(ModelLink { upper, lower, wire });
        self.above[lower.0 as usize] = Some(link);
        lower
    }

    /// Joins two root complexes.
    ///
    /// # Panics
    /// When one of them is not a root complex.
    pub fn join(&mut self, one: NodeIndex, other: NodeIndex, wire: Wire) -> LinkIndex {
        for node in [one, other] {
            let kind = &self.node(node).kind;
            assert!(matches!(kind, NodeKind::RootComplex(_)), "only root complexes are joined");
        }
        self.push(ModelLink { upper: one, lower: other, wire })
    }

    fn push(&mut self, link: ModelLink) -> LinkIndex {
        let index = LinkIndex(u32::try_from(self.links.len()).expect("fewer than 2^32 links"));
        self.links.push(link);
        index
    }

    /// All nodes, by [`NodeIndex`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All links, by [`LinkIndex`].
    pub fn links(&self) -> &[ModelLink] {
        &self.links
    }

    /// The node at `index`.
    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.0 as usize]
    }

    /// The node at `index`, mutable.
    pub(crate) fn node_mut(&mut self, index: NodeIndex) -> &mut Node {
        &mut self.nodes[index.0 as usize]
    }

    /// The link at `index`.
    pub fn link(&self, index: LinkIndex) -> &ModelLink {
        &self.links[index.0 as usize]
    }

    /// The wire of the link at `index`, mutable.
    pub(crate) fn wire_mut(&mut self, index: LinkIndex) -> &mut Wire {
        &mut self.links[index.0 as usize].wire
    }

    /// The link above a node; `None` for root complexes.
    pub(crate) fn link_above(&self, index: NodeIndex) -> Option<LinkIndex> {
        self.above[index.0 as usize]
    }

    /// True for a link between two root complexes.
    pub(crate) fn is_between_sockets(&self, index: LinkIndex) -> bool {
        self.link_above(self.link(index).lower) != Some(index)
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeIndex> {
        let found = self.nodes.iter().position(|node| node.name == name)?;
        u32::try_from(found).ok().map(NodeIndex)
    }

    /// All nodes by name.
    pub fn by_name(&self) -> HashMap<String, NodeIndex> {
        self.nodes.iter().zip(0..).map(|(node, at)| (node.name.clone(), NodeIndex(at))).collect()
    }

    /// The sending node of a link, in one direction.
    pub fn sender(&self, link: LinkIndex, direction: LinkDirection) -> NodeIndex {
        let link = self.link(link);
        match direction {
            LinkDirection::Up => link.lower,
            LinkDirection::Down => link.upper,
        }
    }

    /// The receiving node of a link, in one direction.
    pub fn receiver(&self, link: LinkIndex, direction: LinkDirection) -> NodeIndex {
        self.sender(link, direction.reverse())
    }
}

/// The part of the machine that a resource stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceOrigin {
    /// A direction of a link.
    Link(LinkIndex, LinkDirection),
    /// The buffer for packets of a kind behind a direction of a link; of one output where outputs have queues of their
    /// own.
    Buffer(LinkIndex, LinkDirection, PacketKind, Option<LinkIndex>),
    /// A memory, by operation, or in shares of time where reads and writes share one bus.
    Memory(NodeIndex, Option<Op>),
    /// The wire of a network controller, written to send and read to receive.
    Wire(NodeIndex, Op),
    /// The medium of a drive, by operation of the initiator, or in shares of time where it is read and written at once.
    Medium(NodeIndex, Option<Op>),
    /// The tags of an initiator.
    Tags(NodeIndex),
    /// Peer-to-peer forwarding of a root complex.
    Peers(NodeIndex, PacketKind),
    /// The queue of one output behind that.
    PeersBuffer(NodeIndex, PacketKind, LinkIndex),
    /// Completions of a memory that wait for their link, by requester.
    Answers(NodeIndex, NodeIndex),
    /// The walkers of an IOMMU.
    Walkers(NodeIndex),
    /// The processors next to a host memory.
    Processors(NodeIndex),
    /// A unit that works on blocks between the legs of relays, in shares of time.
    Stage(NodeIndex),
    /// Copies of those at their memory; of a device, transfers between its own memory and others.
    Copies(NodeIndex),
}
