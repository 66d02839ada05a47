//! Paths between nodes.

use peerlane_units::Bytes;

use super::{LinkDirection, LinkIndex, NodeIndex, NodeKind, Topology};

/// A link of a path, and its direction.
pub(crate) type Hop = (LinkIndex, LinkDirection);

/// Reasons why there is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Two trees without a socket link between them.
    #[error("no link joins the root complexes above {from} and {to}")]
    Apart {
        /// One node.
        from: String,
        /// The other.
        to: String,
    },
    /// Both ends are the same node.
    #[error("{0} is both source and target of a flow")]
    SameNode(String),
    /// A root complex that passes writes only.
    #[error("root complex {0} passes no reads between peers")]
    ReadsNotForwarded(String),
}

impl Topology {
    /// The links from one node to another, in the order in which a packet crosses them: up to the lowest node above both
    /// (to the root complex where a switch redirects), over a socket link, and down.
    ///
    /// # Errors
    /// When both ends are one node, or no socket link joins their trees.
    pub fn path(&self, from: NodeIndex, to: NodeIndex) -> Result<Vec<Hop>, PathError> {
        if from == to {
            return Err(PathError::SameNode(self.node(from).name.clone()));
        }
        let mut up = self.climb(from);
        let mut down = self.climb(to);
        let (root, other) = (self.top(from, &up), self.top(to, &down));
        let socket = if root == other {
            self.cut_common(&mut up, &mut down);
            None
        } else {
            Some(self.across(root, other).ok_or_else(|| PathError::Apart {
                from: self.node(from).name.clone(),
                to: self.node(to).name.clone(),
            })?)
        };
        let up = up.into_iter().map(|link| (link, LinkDirection::Up));
        let down = down.into_iter().rev().map(|link| (link, LinkDirection::Down));
        Ok(up.chain(socket).chain(down).collect())
    }

    /// The root complexes on a path between peers, in order; none where one end is host memory.
    pub(crate) fn peer_roots(&self, path: &[Hop]) -> Vec<NodeIndex> {
        let (Some(&first), Some(&last)) = (path.first(), path.last()) else { return Vec::new() };
        let ends = [self.sender(first.0, first.1), self.receiver(last.0, last.1)];
        let is_host = |end: NodeIndex| matches!(self.node(end).kind, NodeKind::HostMemory(_));
        if ends.into_iter().any(is_host) {
            return Vec::new();
        }
        let receivers = path[..path.len() - 1].iter().map(|&(link, way)| self.receiver(link, way));
        receivers.filter(|&at| matches!(self.node(at).kind, NodeKind::RootComplex(_))).collect()
    }

    /// Maximum payload of a packet on all links of a path.
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

    /// Removes the links above the node where the path turns.
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

    /// The socket link between two root complexes. Those of one machine are joined pairwise.
    fn across(&self, from: NodeIndex, to: NodeIndex) -> Option<Hop> {
        let links = (0..).map(LinkIndex).zip(self.links());
        links.into_iter().find_map(|(index, link)| match (link.upper, link.lower) {
            ends if ends == (from, to) => Some((index, LinkDirection::Down)),
            ends if ends == (to, from) => Some((index, LinkDirection::Up)),
            _ => None,
        })
    }
}
