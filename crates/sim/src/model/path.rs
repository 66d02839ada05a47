//! The way between two nodes.

use std::collections::{BTreeMap, VecDeque};

use peerlane_units::Bytes;

use super::{Direction, LinkIndex, NodeIndex, NodeKind, Topology};

/// One link of a path, and the way it is crossed.
pub type Hop = (LinkIndex, Direction);

/// Why there is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Two trees that no socket link joins.
    #[error("no link joins the root complexes above {from} and {to}")]
    Apart {
        /// One node.
        from: String,
        /// The other.
        to: String,
    },
    /// Both ends are the same node.
    #[error("{0} is both ends of a flow")]
    SameNode(String),
    /// The root complex passes writes only.
    #[error("root complex {0} passes no reads between peers")]
    ReadsNotForwarded(String),
}

impl Topology {
    /// The links from one node to another in the order in which a packet crosses them: up to the first
    /// node that both lie below (to the root complex where a switch on the way redirects), over socket
    /// links where there are any between, and down.
    ///
    /// # Errors
    /// When both are one node, or no socket link joins their trees.
    pub fn path(&self, from: NodeIndex, to: NodeIndex) -> Result<Vec<Hop>, PathError> {
        if from == to {
            return Err(PathError::SameNode(self.node(from).name.clone()));
        }
        let mut up = self.climb(from);
        let mut down = self.climb(to);
        let (root, other) = (self.top(from, &up), self.top(to, &down));
        let mut between = Vec::new();
        if root == other {
            self.cut_common(&mut up, &mut down);
        } else {
            between = self.across(root, other).ok_or_else(|| PathError::Apart {
                from: self.node(from).name.clone(),
                to: self.node(to).name.clone(),
            })?;
        }
        let up = up.into_iter().map(|link| (link, Direction::Up));
        let down = down.into_iter().rev().map(|link| (link, Direction::Down));
        Ok(up.chain(between).chain(down).collect())
    }

    /// The root complexes that a path passes between peers, in order: all of them, unless one of its
    /// ends is host memory.
    pub fn peer_roots(&self, path: &[Hop]) -> Vec<NodeIndex> {
        let (Some(&first), Some(&last)) = (path.first(), path.last()) else { return Vec::new() };
        let ends = [self.sender(first.0, first.1), self.receiver(last.0, last.1)];
        let is_host = |end: NodeIndex| matches!(self.node(end).kind, NodeKind::HostMemory(_));
        if ends.into_iter().any(is_host) {
            return Vec::new();
        }
        let receivers = path[..path.len() - 1].iter().map(|&(link, way)| self.receiver(link, way));
        receivers.filter(|&at| matches!(self.node(at).kind, NodeKind::RootComplex(_))).collect()
    }

    /// Most payload that a packet may have on every link of a path.
    pub fn mps(&self, path: &[Hop]) -> Bytes {
        let links = path.iter().map(|&(link, _)| self.link(link).wire.mps);
        links.min().unwrap_or(Bytes(4096))
    }

    fn climb(&self, from: NodeIndex) -> Vec<LinkIndex> {
        let above = |&link: &LinkIndex| self.link_above(self.link(link).upper);
        std::iter::successors(self.link_above(from), above).collect()
    }

    fn top(&self, from: NodeIndex, climbed: &[LinkIndex]) -> NodeIndex {
        climbed.last().map_or(from, |&link| self.link(link).upper)
    }

    /// Takes off the links that both ways share above the node where they turn.
    fn cut_common(&self, up: &mut Vec<LinkIndex>, down: &mut Vec<LinkIndex>) {
        while let (Some(&one), Some(&other)) = (up.last(), down.last()) {
            let turn = self.link(one).lower;
            let redirects = match &self.node(turn).kind {
                NodeKind::Switch(switch) => switch.redirects && up.len() > 1 && down.len() > 1,
                _ => false,
            };
            if one != other || redirects {
                break;
            }
            up.pop();
            down.pop();
        }
    }

    /// The fewest socket links between two root complexes; of equally few, those added first.
    fn across(&self, from: NodeIndex, to: NodeIndex) -> Option<Vec<Hop>> {
        let mut reached: BTreeMap<NodeIndex, Option<(NodeIndex, Hop)>> = BTreeMap::new();
        reached.insert(from, None);
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                break;
            }
            for (next, hop) in self.socket_links(at) {
                if let std::collections::btree_map::Entry::Vacant(entry) = reached.entry(next) {
                    entry.insert(Some((at, hop)));
                    queue.push_back(next);
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = to;
        while let Some((before, hop)) = *reached.get(&at)? {
            hops.push(hop);
            at = before;
        }
        hops.reverse();
        Some(hops)
    }

    fn socket_links(&self, at: NodeIndex) -> impl Iterator<Item = (NodeIndex, Hop)> + '_ {
        let links = self.links().iter().enumerate();
        links.filter_map(move |(position, link)| {
            let index = LinkIndex(u32::try_from(position).ok()?);
            if !self.is_between_sockets(index) {
                return None;
            }
            match (link.upper == at, link.lower == at) {
                (true, _) => Some((link.lower, (index, Direction::Down))),
                (_, true) => Some((link.upper, (index, Direction::Up))),
                _ => None,
            }
        })
    }
}
