//! One slot of a fan-out: a part that is read once and written to several targets.

use peerlane_results::MemoryKind;

use crate::failure::Role;
use crate::relay::Transfer;
use crate::relay::shape::{Kind, Part};
use crate::request::{End, Progress, Request};
use crate::ring::{Action, RegionId};

use super::work::Targets;

/// The leg of a slot that reads; the leg of target `n` is `n + 1`.
pub(super) const READ: usize = 0;

/// A part on its way. A leg that is over, or was never wanted, is `None`.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) part: Option<Part>,
    pub(super) legs: Vec<Option<Request>>,
    /// Payload has arrived; before that no write begins.
    pub(super) is_read: bool,
}

impl Slot {
    pub(super) fn is_free(&self) -> bool {
        self.part.is_none()
    }

    pub(super) fn is_reading(&self) -> bool {
        self.part.is_some() && !self.is_read
    }

    /// Whether nothing is left to do of the part.
    pub(super) fn is_over(&self) -> bool {
        self.part.is_some() && self.legs.iter().all(Option::is_none)
    }

    /// Takes a part that is read and written to `wanted`.
    pub(super) fn load(
        &mut self,
        index: usize,
        transfers: &[Transfer],
        part: Part,
        wanted: Targets,
    ) {
        let write = |(target, transfer): (usize, &Transfer)| {
            wanted.contains(target).then(|| leg(index, transfer, part, Role::Target))
        };
        let mut legs = vec![transfers.first().map(|any| leg(index, any, part, Role::Source))];
        legs.extend(transfers.iter().enumerate().map(write));
        *self = Self { part: Some(part), legs, is_read: false };
    }

    /// Takes a part of zeroes for one target, written out of `zeroes` unless the target makes them.
    pub(super) fn load_zeroes(
        &mut self,
        transfers: &[Transfer],
        target: usize,
        part: Part,
        zeroes: RegionId,
    ) {
        let transfer = &transfers[target];
        let request = Request {
            action: if part.kind == Kind::Zero { Action::Zero } else { Action::Write },
            region: zeroes,
            region_offset: 0,
            memory: MemoryKind::Host,
            need: part.length,
            ask: part.length,
            ..leg(0, transfer, part, Role::Target)
        };
        let mut legs = vec![None; transfers.len() + 1];
        legs[target + 1] = Some(request);
        *self = Self { part: Some(part), legs, is_read: true };
    }

    /// Targets whose write is still to be done.
    pub(super) fn writes(&self) -> Vec<usize> {
        (READ + 1..self.legs.len()).filter(|&leg| self.legs[leg].is_some()).collect()
    }
}

fn leg(index: usize, transfer: &Transfer, part: Part, role: Role) -> Request {
    let (action, file, start, block) = match role {
        Role::Source => {
            (Action::Read, transfer.source, transfer.source_offset, transfer.source_block)
        }
        Role::Target => {
            (Action::Write, transfer.target, transfer.target_offset, transfer.target_block)
        }
    };
    let ask = part.length.next_multiple_of(block);
    Request {
        role,
        action,
        file,
        file_offset: start + part.offset,
        region: transfer.region,
        region_offset: index as u64 * transfer.slot_stride,
        memory: transfer.memory,
        // The source may end within its last block; what counts is the payload.
        need: if role == Role::Source { part.length } else { ask },
        ask,
        block,
        end: End::Fails,
        progress: Progress::default(),
    }
}
