//! Gives slots their next part, of a piece begun or a new one; holes are not read.

use std::ops::Range;

use peerlane_units::Nanos;

use super::shape::{CopyPart, PartKind};
use super::slot::PartSlot;
use super::state::RelayState;
use super::{Targets, WorkPiece};
use crate::io::failure::RequestError;

/// The most that a target is asked to make zero at once: a drive without a fast way writes it in a
/// second or two, far within any sensible deadline.
const ZERO_MAX: u64 = 1 << 30;

impl RelayState<'_> {
    /// Gives a free slot the next part; false if there is none, or it may not begin yet.
    ///
    /// Half of the slots read at most. A drive that serves its requests by turns ends them together;
    /// with every slot reading, all would then write while none reads, and so on by turns.
    pub(super) fn load(&mut self, now: Nanos) -> bool {
        self.pause = Nanos(0);
        let reading = self.slots.iter().filter(|slot| slot.is_reading()).count();
        let free = self.slots.iter().position(PartSlot::is_free);
        let Some(slot) = free.filter(|_| reading < self.slots.len().div_ceil(2)) else {
            return false;
        };
        if !self.goes_on() {
            return false;
        }
        let pause = self.work.pause(now);
        if pause > Nanos(0) {
            if self.has_more() {
                self.pause = pause;
            }
            return false;
        }
        let Some(part) = self.load_next(slot) else { return false };
        if part.kind != PartKind::Zero {
            self.work.begins(part.length, now);
        }
        self.begin(slot);
        true
    }

    fn load_next(&mut self, slot: usize) -> Option<CopyPart> {
        while self.has_more() {
            let WorkPiece { range, payload, zeroes, .. } = self.pieces.pop_front()?;
            let (payload, zeroes) = (self.remaining(payload), self.remaining(zeroes));
            let rest = |zeroes, payload| WorkPiece {
                payload,
                zeroes,
                ..WorkPiece::data(range.clone(), payload)
            };
            if let Some((target, others)) = zeroes.split() {
                self.keep(rest(others, payload));
                let part = self.load_zeroes(slot, target, range);
                if part.is_some() {
                    return part;
                }
                continue;
            }
            let (part, wanted) = if range.start < self.shared {
                let end = range.end.min(self.shared).min(range.start + self.transfers[0].request);
                let length = end.saturating_sub(range.start);
                (Some(CopyPart { offset: range.start, length, kind: PartKind::Move }), payload)
            } else if let Some((target, others)) = payload.split() {
                self.keep(rest(Targets::default(), others));
                (self.transfers[target].part(&range), Targets::only(target))
            } else {
                continue;
            };
            let Some(part) = part.filter(|part| part.length > 0 && !wanted.is_empty()) else {
                continue;
            };
            self.keep(WorkPiece::data(part.end()..range.end, wanted));
            self.slots[slot].load(slot, self.transfers, part, wanted);
            return Some(part);
        }
        None
    }

    /// Puts the rest of a piece back, to come next.
    fn keep(&mut self, piece: WorkPiece) {
        let is_wanted = !piece.payload.is_empty() || !piece.zeroes.is_empty();
        if is_wanted && !piece.range.is_empty() {
            self.pieces.push_front(piece);
        }
    }

    /// Gives a slot the first part of a hole for one target; the rest of it comes next. Without
    /// zeroes in host memory, or if it is not a whole block, it is moved like data.
    fn load_zeroes(&mut self, slot: usize, target: usize, range: Range<u64>) -> Option<CopyPart> {
        let Range { start: offset, end } = range;
        let (block, only) = (self.transfers[target].target_block, Targets::only(target));
        let whole = |bytes: u64| bytes / block * block;
        let (most, kind) = if self.lanes[target].makes_zeroes {
            let request = self.transfers[target].request;
            (ZERO_MAX / request * request, PartKind::Zero)
        } else {
            let room = self.zeroes.map_or(0, |(_, room)| room);
            (whole(room.min(self.transfers[target].request)), PartKind::WriteZeroes)
        };
        let length = whole(end - offset).min(most);
        let Some((region, _)) = self.zeroes.filter(|_| length > 0) else {
            self.keep(WorkPiece::data(range, only));
            return None;
        };
        self.keep(WorkPiece::zeroes(offset + length..end, only));
        let part = CopyPart { offset, length, kind };
        self.slots[slot].load_zeroes(self.transfers, target, part, region);
        Some(part)
    }

    /// True when anything is left to be begun. Accounts for ranges that are zero at both ends.
    pub(super) fn has_more(&mut self) -> bool {
        while self.pieces.is_empty() && self.stopped.is_none() && !self.are_all_lost() {
            match self.work.next_piece() {
                None => break,
                Some(Ok(piece)) => {
                    for target in self.remaining(piece.nothing).iter() {
                        self.lanes[target].moved.skipped += piece.range.end - piece.range.start;
                        self.account(target, piece.range.clone());
                    }
                    if !piece.nothing.is_empty() {
                        self.work.is_zero(piece.range.clone());
                    }
                    self.keep(piece);
                }
                Some(Err(error)) => self.stopped = Some(RequestError::Holes(error)),
            }
        }
        !self.pieces.is_empty() && !self.are_all_lost()
    }
}
