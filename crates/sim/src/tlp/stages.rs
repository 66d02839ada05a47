//! Stages inside nodes: media of drives, and root complexes' limits for traffic between peers.
//!
//! A medium that some flows read and others write is one stage for both, each with its own time, so packets obey
//! the law of `media`.

use std::collections::BTreeMap;

use super::hops::PathPort;
use super::network::{PacketNetworkBuilder, intern};
use super::port::{COMPLETION, NONE, POSTED, Port, REQUEST};
use crate::model::{Credits, Leg, NodeIndex, Op, Picos, RootComplex, picos_per_kib};

/// Bytes that a stage holds in front of its next port.
const STAGE_BUFFER: u32 = 64 << 10;
/// The stage of a medium that is both read and written, next to those of the classes.
const MIXED: u8 = 3;
/// The stage of a device without a medium.
const NO_MEDIUM: u8 = 4;

/// Ports of stages, by node and by class or one of the above.
pub(super) type Stages = BTreeMap<(NodeIndex, u8), u32>;

impl PacketNetworkBuilder<'_> {
    /// Returns the stages that limit a device's posts or fetches, all flows together; none without a limit.
    pub(super) fn medium(&mut self, leg: &Leg, unit: u32) -> Vec<PathPort> {
        let side = self.mixed.side(self.topology, leg);
        let class = match leg.op {
            Op::Write => POSTED,
            Op::Read => REQUEST,
        };
        let side = side.map(|side| {
            let step = self.stage((leg.initiator, class), picos_per_kib(side.own), unit);
            self.network.ports[step.port as usize].is_by_bytes |= side.is_by_bytes;
            step
        });
        side.into_iter().chain(self.shared_medium(leg, unit)).collect()
    }

    /// Returns the stage of a medium that is both read and written: one access after the other, each in its time, in
    /// turns of equal bytes.
    fn shared_medium(&mut self, leg: &Leg, unit: u32) -> Option<PathPort> {
        let (reached, rate) =
            self.mixed.of_drive(leg.initiator).zip(leg.medium_rate(self.topology))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a time of picoseconds, far below 2^53"
        )]
        let time = (picos_per_kib(rate) as f64 / reached).round() as u64;
        let step = self.stage((leg.initiator, MIXED), time, unit);
        self.network.ports[step.port as usize].is_by_bytes = true;
        Some(step)
    }

    /// Returns the stage of a device whose medium takes no time.
    pub(super) fn free_stage(&mut self, node: NodeIndex, unit: u32) -> PathPort {
        self.stage((node, NO_MEDIUM), 0, unit)
    }

    /// Returns the limit of a root complex for a class of packets between peers.
    pub(super) fn root_stage(
        &mut self,
        node: NodeIndex,
        root: &RootComplex,
        class: u8,
        unit: u32,
    ) -> Option<PathPort> {
        let limit = match class {
            POSTED => root.p2p_write,
            COMPLETION => root.p2p_read,
            _ => None,
        };
        limit.map(|rate| self.stage((node, class), picos_per_kib(rate), unit))
    }

    fn stage(&mut self, key: (NodeIndex, u8), picos_per_kib: u64, unit: u32) -> PathPort {
        let new = || Port::new(picos_per_kib, NONE, 0);
        let port = intern(&mut self.stages, &mut self.network.ports, key, new);
        let (headers, data) = (STAGE_BUFFER >> unit.min(8), STAGE_BUFFER / 16);
        PathPort {
            port,
            picos_per_kib,
            is_stage: true,
            receiver: key.0,
            unit,
            overhead: 0,
            propagation: Picos::ZERO,
            credits: Credits { headers, data },
        }
    }
}
