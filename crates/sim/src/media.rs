//! Media of drives: which flows use them, and what reads and writes of one drive take from each other.
//!
//! Leaves out caches, and dies and channels behind a controller. The one thing to know: a drive that flows only
//! read, or only write, has no law here; where they do both, its medium is one resource in shares of time,
//! `x_r / R + x_w / W <= mixed`.

use std::collections::BTreeMap;

use peerlane_units::ByteRate;

use crate::model::{FlowSpec, NodeIndex, NodeKind, Op, Topology};

/// Reads and writes that together come to both rates in full take nothing from each other.
const APART: f64 = 2.0;

/// A medium that a flow uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    /// The drive.
    pub(crate) drive: NodeIndex,
    /// What its initiator does, or would do if it moved the data itself: [`Op::Write`] where it is read.
    pub(crate) op: Op,
    /// Most that it does of the commands of this flow, where that is less than its rate.
    commands: Option<ByteRate>,
}

impl Use {
    /// Bytes a second of the medium with the flow alone; `None` for a device without one.
    pub(crate) fn rate(self, topology: &Topology) -> Option<ByteRate> {
        let NodeKind::Endpoint(endpoint) = &topology.node(self.drive).kind else { return None };
        let rate = match self.op {
            Op::Write => endpoint.posts,
            Op::Read => endpoint.fetches,
        };
        rate.map(|rate| self.commands.map_or(rate, |commands| commands.min(rate)))
    }
}

impl FlowSpec {
    /// The media of its legs, in their order.
    pub(crate) fn used_by_legs(&self) -> impl Iterator<Item = Use> {
        self.legs().map(|leg| Use { drive: leg.initiator, op: leg.op, commands: leg.commands })
    }

    /// The medium behind its memory, where the drive that lends it moves the data on.
    pub(crate) fn used_inside(&self) -> Option<Use> {
        // What is written into the memory is fetched from there, and what is read was posted.
        let op = match self.first.op {
            Op::Write => Op::Read,
            Op::Read => Op::Write,
        };
        self.inside.map(|commands| Use { drive: self.memory, op, commands: Some(commands) })
    }
}

/// Drives that some flows both read and write, each with the sum of the shares of its two rates that it reaches.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Mixed(BTreeMap<NodeIndex, f64>);

impl Mixed {
    /// Those of flows on a topology; drives that do both at full rate are not among them.
    pub(crate) fn of(topology: &Topology, flows: &[FlowSpec]) -> Self {
        let mut done: BTreeMap<NodeIndex, [bool; 2]> = BTreeMap::new();
        for used in flows.iter().flat_map(|flow| flow.used_by_legs().chain(flow.used_inside())) {
            if used.rate(topology).is_some() {
                done.entry(used.drive).or_default()[usize::from(used.op == Op::Read)] = true;
            }
        }
        let mixed = done.into_iter().filter(|(_, done)| *done == [true; 2]);
        let reached = mixed.filter_map(|(drive, _)| match &topology.node(drive).kind {
            NodeKind::Endpoint(endpoint) => Some((drive, endpoint.mixed)),
            _ => None,
        });
        Self(reached.filter(|&(_, reached)| reached < APART).collect())
    }

    /// What a drive reaches, if it is one of them.
    pub(crate) fn of_drive(&self, drive: NodeIndex) -> Option<f64> {
        self.0.get(&drive).copied()
    }

    /// Whether reads alone, or writes alone, can be the narrower limit of a drive.
    pub(crate) fn has_sides(&self, drive: NodeIndex) -> bool {
        self.of_drive(drive).is_none_or(|reached| reached > 1.0)
    }
}

#[cfg(test)]
mod tests;
