//! Stages inside nodes: what devices post and fetch, and what root complexes pass between peers.
//!
//! Leaves out which paths have them. The one thing to know: a medium that some flows read and others write is one
//! stage for both, each with the time that it takes there, so that packets obey the law of `media`.

use crate::media::Use;
use crate::model::{Credits, NodeIndex, Op, Picos, picos_per_kib};

use super::network::{Build, Step};
use super::parts::{NONE, POSTED, REQUEST};

/// What a stage inside a node can hold in front of its next port, in bytes.
const STAGE_BUFFER: u32 = 64 << 10;
/// The stage of a medium that is read and written at once, beside those of the classes.
const MIXED: u8 = 3;

impl Build<'_> {
    /// The stages that limit what a device posts or fetches, all flows together; nothing where it has
    /// no limit.
    pub(super) fn medium(&mut self, used: Use, unit: u32) -> Vec<Step> {
        let side = self.mixed.side(self.topology, used);
        let what = match used.op {
            Op::Write => POSTED,
            Op::Read => REQUEST,
        };
        let side = side.map(|side| {
            let step = self.stage((used.drive, what), picos_per_kib(side.own), unit);
            self.network.ports[step.port as usize].is_by_bytes |= side.is_by_bytes;
            step
        });
        side.into_iter().chain(self.shared_medium(used, unit)).collect()
    }

    /// The stage of a medium that is read and written at once: one thing after the other, each in its time, in turns
    /// of equal bytes (start-time fair queueing; Goyal, Vin, Cheng, SIGCOMM 1996).
    fn shared_medium(&mut self, used: Use, unit: u32) -> Option<Step> {
        let (reached, rate) = self.mixed.of_drive(used.drive).zip(used.rate(self.topology))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a time of picoseconds, far below 2^53"
        )]
        let time = (picos_per_kib(rate) as f64 / reached).round() as u64;
        let step = self.stage((used.drive, MIXED), time, unit);
        self.network.ports[step.port as usize].is_by_bytes = true;
        Some(step)
    }

    pub(super) fn stage(
        &mut self,
        (node, what): (NodeIndex, u8),
        picos_per_kib: u64,
        unit: u32,
    ) -> Step {
        let port = match self.stages.get(&(node, what)) {
            Some(&port) => port,
            None => {
                let port = self.port(picos_per_kib, NONE, 0);
                self.stages.insert((node, what), port);
                port
            }
        };
        let credits = Credits {
            posted_headers: STAGE_BUFFER >> unit.min(8),
            posted_data: STAGE_BUFFER / 16,
            nonposted_headers: STAGE_BUFFER >> unit.min(8),
            completion_headers: STAGE_BUFFER >> unit.min(8),
            completion_data: STAGE_BUFFER / 16,
        };
        Step {
            port,
            picos_per_kib,
            stage: true,
            receiver: node,
            unit,
            overhead: 0,
            propagation: Picos::ZERO,
            credits,
        }
    }
}
