//! Media of drives: sharing of a medium between reads, writes and commands of several flows.
//!
//! A drive that flows only read, or only write, is limited by its rate. Where they do both, its medium is one resource in
//! shares of time: `x_r / R + x_w / W <= mixed`, with `x_r <= R` and `x_w <= W` (utilisation law; Lazowska and others,
//! Quantitative System Performance, 1984, chapter 3). One direction is a resource in shares of time as well where it is
//! used both by requests and by slots in the drive's own memory, or by several flows with slow commands. Caches, dies and
//! channels behind a controller are left out.

use std::collections::BTreeMap;

use peerlane_units::ByteRate;

use crate::model::{FlowSpec, Leg, NodeIndex, NodeKind, Op, PayloadStore, Topology};

/// Least sum of shares that lets reads and writes not limit each other.
const INDEPENDENT: f64 = 2.0;

impl Leg {
    /// Bytes a second of the medium with this leg alone; `None` for a device without a medium.
    pub(crate) fn medium_rate(&self, topology: &Topology) -> Option<ByteRate> {
        let rate = self.large_rate(topology)?;
        Some(self.commands.map_or(rate, |commands| commands.min(rate)))
    }

    /// Bytes a second of the medium in this direction, by large commands.
    fn large_rate(&self, topology: &Topology) -> Option<ByteRate> {
        match (&topology.node(self.initiator).kind, self.store) {
            (NodeKind::Endpoint(endpoint), PayloadStore::Medium) => {
                endpoint.rate_of_store(self.store, self.op)
            }
            _ => None,
        }
    }

    /// Index of the direction: 0 where the medium is read, 1 where it is written.
    fn side(&self) -> usize {
        usize::from(self.op == Op::Read)
    }

    /// True for the medium of a drive, in one direction or in any.
    pub(crate) fn is_on_medium(&self, drive: NodeIndex, op: Option<Op>) -> bool {
        let is_on_drive = self.initiator == drive && self.store == PayloadStore::Medium;
        is_on_drive && op.is_none_or(|op| op == self.op)
    }

    /// True where commands are slower than the medium.
    pub(crate) fn is_by_commands(&self, topology: &Topology) -> bool {
        let rate = self.large_rate(topology);
        rate.zip(self.commands).is_some_and(|(rate, commands)| commands < rate)
    }
}

/// Laws of the drives whose medium is shared.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Mixed(BTreeMap<NodeIndex, Law>);

/// Limits on the shares of time of a medium.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Law {
    /// Largest sum of both directions; `None` without a limit.
    most: Option<f64>,
    /// True where one direction alone can be the narrower limit.
    has_sides: bool,
    /// By direction: bytes are shares of time, each by its own commands.
    is_shared: [bool; 2],
}

/// One direction of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MediumSide {
    /// Bytes a second in this direction.
    pub(crate) rate: ByteRate,
    /// Bytes a second with the commands of this flow, where others share the time; else the same.
    pub(crate) own: ByteRate,
    /// True where turns are of equal bytes, false where the path decides.
    pub(crate) is_by_bytes: bool,
}

/// Legs that use a medium, by direction.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    /// By requests of the drive.
    by_requests: [u32; 2],
    /// By slots in the drive's own memory.
    own: [u32; 2],
    /// True with commands slower than the medium.
    has_slow: [bool; 2],
}

impl Uses {
    /// The law of a drive with this `mixed` limit; `None` where plain rates say it all.
    fn law(self, mixed: f64) -> Option<Law> {
        let legs = [0, 1].map(|side| self.by_requests[side] + self.own[side]);
        let is_shared = [0, 1].map(|side| {
            let is_both = self.by_requests[side] > 0 && self.own[side] > 0;
            is_both || self.has_slow[side] && legs[side] > 1
        });
        let most = (!legs.contains(&0) && mixed < INDEPENDENT).then_some(mixed);
        if most.is_none() && !is_shared.contains(&true) {
            return None;
        }
        Some(Law { most, has_sides: most.is_none_or(|most| most > 1.0), is_shared })
    }
}

impl Mixed {
    /// The laws of all drives that these flows share.
    pub(crate) fn from_flows<'a>(
        topology: &Topology,
        flows: impl IntoIterator<Item = &'a FlowSpec>,
    ) -> Self {
        let mut uses: BTreeMap<NodeIndex, Uses> = BTreeMap::new();
        for flow in flows.into_iter().flat_map(FlowSpec::parts) {
            for leg in flow.legs().filter(|leg| leg.large_rate(topology).is_some()) {
                let (side, uses) = (leg.side(), uses.entry(leg.initiator).or_default());
                let legs = if flow.is_own(leg) { &mut uses.own } else { &mut uses.by_requests };
                legs[side] += 1;
                uses.has_slow[side] |= leg.is_by_commands(topology);
            }
        }
        let laws = uses.into_iter().filter_map(|(drive, uses)| match &topology.node(drive).kind {
            NodeKind::Endpoint(endpoint) => Some((drive, uses.law(endpoint.mixed)?)),
            _ => None,
        });
        Self(laws.collect())
    }

    /// Largest sum of the shares of both directions; `None` without a limit.
    pub(crate) fn of_drive(&self, drive: NodeIndex) -> Option<f64> {
        self.0.get(&drive)?.most
    }

    /// True where bytes of a leg are a share of time, in one direction or in both.
    pub(crate) fn is_share(&self, topology: &Topology, leg: &Leg, op: Option<Op>) -> bool {
        op.is_none() || self.side(topology, leg).is_some_and(|side| side.is_by_bytes)
    }

    /// The direction of a medium that a leg uses; `None` without a rate, or where the sum of both directions is always the
    /// narrower limit.
    pub(crate) fn side(&self, topology: &Topology, leg: &Leg) -> Option<MediumSide> {
        let rate = leg.large_rate(topology)?;
        let Some(law) = self.0.get(&leg.initiator) else {
            return Some(MediumSide { rate, own: rate, is_by_bytes: false });
        };
        let is_by_bytes = law.is_shared[leg.side()];
        let own = leg.medium_rate(topology).filter(|_| is_by_bytes).unwrap_or(rate);
        law.has_sides.then_some(MediumSide { rate, own, is_by_bytes })
    }
}

#[cfg(test)]
mod tests;
