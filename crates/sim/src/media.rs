//! Media of drives: which flows use them, and what reads and writes of one drive take from each other.
//!
//! Leaves out caches, and dies and channels behind a controller. The one thing to know: a drive that flows only
//! read, or only write, in one way has its rate and no law here; where they do both, its medium is one resource in
//! shares of time, `x_r / R + x_w / W <= mixed`. So it is, with 1 in place of `mixed`, where all is read, or all
//! written, but some by requests of the drive and some through the memory that it lends.

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

/// Drives whose medium flows use in several ways, each with the most that the shares of those add up to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Mixed(BTreeMap<NodeIndex, f64>);

/// How flows use a medium: by requests of its drive, and through the memory that it lends.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    /// Read, written.
    by_legs: [bool; 2],
    inside: [bool; 2],
}

impl Uses {
    /// The most that the shares add up to, for a drive that reaches so much where it is read and written.
    fn most(self, reached: f64) -> Option<f64> {
        let side = |side: usize| self.by_legs[side] || self.inside[side];
        let is_twice = |side: usize| self.by_legs[side] && self.inside[side];
        match [side(0), side(1)] {
            [true, true] => (reached < APART).then_some(reached),
            // Two ways to one side of it.
            _ => (is_twice(0) || is_twice(1)).then_some(1.0),
        }
    }
}

impl Mixed {
    /// Those of flows on a topology; drives that do both at full rate are not among them.
    pub(crate) fn of(topology: &Topology, flows: &[FlowSpec]) -> Self {
        let mut uses: BTreeMap<NodeIndex, Uses> = BTreeMap::new();
        let mut note = |used: Use, is_inside: bool| {
            if used.rate(topology).is_some() {
                let uses = uses.entry(used.drive).or_default();
                let sides = if is_inside { &mut uses.inside } else { &mut uses.by_legs };
                sides[usize::from(used.op == Op::Read)] = true;
            }
        };
        for flow in flows {
            flow.used_by_legs().for_each(|used| note(used, false));
            flow.used_inside().into_iter().for_each(|used| note(used, true));
        }
        let most = uses.into_iter().filter_map(|(drive, uses)| match &topology.node(drive).kind {
            NodeKind::Endpoint(endpoint) => Some((drive, uses.most(endpoint.mixed)?)),
            _ => None,
        });
        Self(most.collect())
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
