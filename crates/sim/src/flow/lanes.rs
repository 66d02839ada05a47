//! Which share of a flow takes which buffers, where nodes couple some of their packets only.
//!
//! Leaves out how often a command is in which: a flow is a fluid, and all its shares flow at once. The one
//! thing to know: a command is drawn once for its whole way, so that nodes which couple equally much couple
//! the same commands. Shares are differences of couplings, never products.

use crate::model::{Coupling, NodeKind, Topology};
use crate::way::{PacketKind, Way};

/// A share of what takes a way, with the buffers that it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lane {
    /// The share, above 0.
    pub(super) share: f64,
    /// What of the commands has a lower number, in 65536ths: nodes that couple more couple these, too.
    from: u32,
}

impl Lane {
    /// Whether it takes the buffer that all outputs of a node have in common.
    pub(super) fn is_shared(self, coupling: Coupling) -> bool {
        self.from < coupling.in_65536ths()
    }
}

/// How the node behind a step of a way couples what goes on by several outputs. What comes from host memory waits
/// for its output in the memory controller, behind nothing for another one.
pub(super) fn coupling(topology: &Topology, way: &Way, position: usize) -> Coupling {
    let step = &way.steps[position];
    let link = topology.link(step.link);
    let is_host = matches!(topology.node(link.lower).kind, NodeKind::HostMemory(_));
    if way.kind == PacketKind::Completion && position == 0 && is_host {
        return Coupling::ISOLATED;
    }
    topology.node(topology.receiver(step.link, step.direction)).kind.hol()
}

/// Whether some node on a way couples a share of the packets.
pub(super) fn has_lanes(topology: &Topology, way: &Way) -> bool {
    partial(topology, way).next().is_some()
}

/// The couplings on a way that are neither all nor nothing.
fn partial<'a>(topology: &'a Topology, way: &'a Way) -> impl Iterator<Item = u32> + 'a {
    let last = way.steps.len().saturating_sub(1);
    let couplings = (0..last).map(|position| coupling(topology, way, position).in_65536ths());
    couplings.filter(|coupling| (1..Coupling::SHARED.in_65536ths()).contains(coupling))
}

/// The lanes of a way: one, unless a node on it couples a share of the packets.
pub(super) fn lanes(topology: &Topology, way: &Way) -> impl Iterator<Item = Lane> + use<> {
    let whole = Coupling::SHARED.in_65536ths();
    let mut edges: Vec<u32> = partial(topology, way).collect();
    edges.sort_unstable();
    edges.dedup();
    edges.into_iter().chain([whole]).scan(0, move |edge, to| {
        let from = std::mem::replace(edge, to);
        Some(Lane { share: f64::from(to - from) / f64::from(whole), from })
    })
}
