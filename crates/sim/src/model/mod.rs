//! The data that all engines share: nodes, links, memories, and flows.
//!
//! A [`Topology`] is a tree for each root complex. Socket links join root complexes, so there is one path between two
//! nodes. Drives and processors appear as rates and latencies only, in a [`Leg`] and in [`ProcessorWork`].

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
    HostMemory, Iommu, ModelEndpoint, Node, NodeKind, RootComplex, Switch, TargetMemory,
};
pub use parameters::{Ethernet, ModelParameters, SocketLink};
pub(crate) use path::Hop;
pub use path::PathError;
pub use picos::{Picos, as_f64};
pub(crate) use picos::{per_nano, picos, picos_per_kib};
pub use topology::{LinkDirection, LinkIndex, ModelLink, NodeIndex, ResourceOrigin, Topology};
pub use transfer::{Arrival, FlowSpec, Leg, Op, PayloadStore, ProcessorWork, StageWork, egress};
pub use wire::{Credits, Framing, PacketKind, Wire};
