//! What the engines share: nodes, links, memories, and the flows between them, as plain data.
//!
//! Leaves out drives and processors beyond a rate and a latency; those become the `bound` and
//! `latency` of a [`Leg`]. The one thing to know: a [`Topology`] is a tree for each root complex,
//! and root complexes are joined by socket links, so that between two nodes there is one path.

mod from_fabric;
mod node;
mod parameters;
mod path;
mod picos;
mod topology;
mod transfer;
mod wire;

#[cfg(test)]
mod tests;

pub use from_fabric::TopologyError;
pub(crate) use from_fabric::{place, root_names};
pub use node::{
    Coupling, Endpoint, HostMemory, Iommu, Memory, Node, NodeKind, RootComplex, Switch,
};
pub use parameters::{Ethernet, Parameters, SocketLink};
pub use path::{Hop, PathError};
pub use picos::{Picos, picos_per_kib};
pub use topology::{Direction, Link, LinkIndex, NodeIndex, Topology};
pub use transfer::{Arrival, FlowSpec, Leg, Op, Store, Work, egress};
pub use wire::{Credits, Framing, Wire};
