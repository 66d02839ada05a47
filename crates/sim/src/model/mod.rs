//! The data that all engines share: nodes, links, memories, and flows.
//!
//! A [`Topology`] is a tree for each root complex. Socket links join root complexes, so that there is one path between two
//! nodes. Drives and processors appear as rates and latencies only, in a [`Leg`] and in [`Work`].

mod from_fabric;
mod node;
mod parameters;
mod path;
mod picos;
mod topology;
mod transfer;
mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use from_fabric::TopologyError;
pub(crate) use from_fabric::{place, root_names};
pub use node::{
    Coupling, Endpoint, HostMemory, Iommu, Memory, Node, NodeKind, RootComplex, Switch,
};
pub use parameters::{Ethernet, Parameters, SocketLink};
pub use path::{Hop, PathError};
pub use picos::{Picos, picos_per_kib};
pub use topology::{Direction, Link, LinkIndex, NodeIndex, Topology};
pub use transfer::{Arrival, FlowSpec, Leg, Op, StageWork, Store, Work, egress};
pub use wire::{Credits, Framing, Wire};
