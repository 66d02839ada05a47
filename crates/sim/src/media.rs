//! Media of drives: which flows use them, and what reads and writes of one drive take from each other.
//!
//! Leaves out caches, and dies and channels behind a controller. The one thing to know: a drive that flows only
//! read, or only write, in one way has its rate and no law here; where they do both, its medium is one resource in
//! shares of time, `x_r / R + x_w / W <= mixed`, and each direction one with a share of 1 at most. So is a direction
//! by itself where some goes by requests of the drive and some by slots in its own memory, and where several flows share
//! what it does of commands.

use std::collections::BTreeMap;

use peerlane_units::ByteRate;

use crate::model::{FlowSpec, NodeIndex, NodeKind, Op, Store, Topology};

/// Reads and writes that together come to both rates in full take nothing from each other.
const APART: f64 = 2.0;

/// A medium that a flow uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    /// The drive.
    pub(crate) drive: NodeIndex,
    /// What its initiator does: [`Op::Write`] where it is read.
    pub(crate) op: Op,
    /// Of what; only [`Store::Medium`] has a rate here.
    store: Store,
    /// Most that it does of the commands of this flow.
    commands: Option<ByteRate>,
}

impl Use {
    /// Bytes a second of the medium with the flow alone; `None` for a device without one.
    pub(crate) fn rate(self, topology: &Topology) -> Option<ByteRate> {
        let rate = self.direction(topology);
        rate.map(|rate| self.commands.map_or(rate, |commands| commands.min(rate)))
    }

    /// What the drive does in this direction, whatever its commands; `None` of what its memory does.
    fn direction(self, topology: &Topology) -> Option<ByteRate> {
        match (&topology.node(self.drive).kind, self.store) {
            (NodeKind::Endpoint(endpoint), Store::Medium) => {
                endpoint.rate_of_store(self.store, self.op)
            }
            _ => None,
        }
    }

    fn side(self) -> usize {
        usize::from(self.op == Op::Read)
    }

    /// Whether it is of a drive in this direction, or in any.
    pub(crate) fn is_of(self, drive: NodeIndex, op: Option<Op>) -> bool {
        self.drive == drive && self.store == Store::Medium && op.is_none_or(|op| op == self.op)
    }

    /// Whether the commands of the flow are slower than the medium.
    pub(crate) fn is_by_commands(self, topology: &Topology) -> bool {
        let rate = self.direction(topology);
        rate.zip(self.commands).is_some_and(|(rate, commands)| commands < rate)
    }
}

impl FlowSpec {
    /// The media of its legs, in their order.
    pub(crate) fn used_by_legs(&self) -> impl Iterator<Item = Use> {
        self.legs().map(|leg| Use {
            drive: leg.initiator,
            op: leg.op,
            store: leg.store,
            commands: leg.commands,
        })
    }
}

/// Drives whose medium flows use in several ways.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Mixed(BTreeMap<NodeIndex, Law>);

/// What bounds the shares of a medium.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Law {
    /// The most that those of both directions add up to, where that is a limit.
    most: Option<f64>,
    /// Whether one direction by itself can be the narrower limit.
    has_sides: bool,
    /// Read, written: whether bytes of flows are shares of its time, each by its own commands.
    is_shared: [bool; 2],
}

/// One direction of a medium that flows use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// What the drive does in it.
    pub(crate) rate: ByteRate,
    /// What it would do of the bytes of this flow: less where its commands are slow, and others share their time.
    pub(crate) own: ByteRate,
    /// Whether turns are equal bytes, as between both directions, and not what the way there makes of them.
    pub(crate) is_by_bytes: bool,
}

/// How many legs use a medium: read it, write it.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    /// By requests of its drive.
    by_requests: [u32; 2],
    /// Into slots in the memory of that drive, and out of them.
    own: [u32; 2],
    /// Whether commands of one are slower than the medium.
    has_slow: [bool; 2],
}

impl Uses {
    /// The law of a drive that reaches so much where it is read and written.
    fn law(self, reached: f64) -> Option<Law> {
        let legs = [0, 1].map(|side| self.by_requests[side] + self.own[side]);
        let is_shared = [0, 1].map(|side| {
            let is_both = self.by_requests[side] > 0 && self.own[side] > 0;
            // Those of one flow alone are its own bound.
            is_both || self.has_slow[side] && legs[side] > 1
        });
        let most = (!legs.contains(&0) && reached < APART).then_some(reached);
        if most.is_none() && !is_shared.contains(&true) {
            return None;
        }
        Some(Law { most, has_sides: most.is_none_or(|most| most > 1.0), is_shared })
    }
}

impl Mixed {
    /// Those of flows on a topology; drives that do both at full rate, each in one way by commands that are no limit,
    /// are not among them.
    pub(crate) fn of<'a>(
        topology: &Topology,
        flows: impl IntoIterator<Item = &'a FlowSpec>,
    ) -> Self {
        let mut uses: BTreeMap<NodeIndex, Uses> = BTreeMap::new();
        for flow in flows {
            for (leg, used) in flow.legs().zip(flow.used_by_legs()) {
                let (Some(own), Some(rate)) = (used.rate(topology), used.direction(topology))
                else {
                    continue;
                };
                let uses = uses.entry(used.drive).or_default();
                let sides = if flow.is_own(leg) { &mut uses.own } else { &mut uses.by_requests };
                sides[used.side()] += 1;
                uses.has_slow[used.side()] |= own < rate;
            }
        }
        let laws = uses.into_iter().filter_map(|(drive, uses)| match &topology.node(drive).kind {
            NodeKind::Endpoint(endpoint) => Some((drive, uses.law(endpoint.mixed)?)),
            _ => None,
        });
        Self(laws.collect())
    }

    /// What the shares of both directions of a drive add up to, if that is a limit.
    pub(crate) fn of_drive(&self, drive: NodeIndex) -> Option<f64> {
        self.0.get(&drive)?.most
    }

    /// Whether what a leg takes of a medium, in one direction or in both, is a share of time, by its own commands.
    pub(crate) fn is_share(&self, topology: &Topology, used: Use, op: Option<Op>) -> bool {
        op.is_none() || self.side(topology, used).is_some_and(|side| side.is_by_bytes)
    }

    /// The direction of a medium that a leg uses; `None` where it has no rate, or where both directions together are
    /// never the wider limit.
    pub(crate) fn side(&self, topology: &Topology, used: Use) -> Option<Side> {
        match self.0.get(&used.drive) {
            Some(law) => law.side(topology, used),
            None => {
                let rate = used.direction(topology)?;
                Some(Side { rate, own: rate, is_by_bytes: false })
            }
        }
    }
}

impl Law {
    fn side(self, topology: &Topology, used: Use) -> Option<Side> {
        let rate = used.direction(topology).filter(|_| self.has_sides)?;
        let is_by_bytes = self.is_shared[used.side()];
        let own = used.rate(topology).filter(|_| is_by_bytes).unwrap_or(rate);
        Some(Side { rate, own, is_by_bytes })
    }
}

#[cfg(test)]
mod tests;
