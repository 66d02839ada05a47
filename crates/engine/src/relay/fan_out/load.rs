//! Giving slots their next part: what is begun of the work, and where nothing needs to be read.

use std::ops::Range;

use peerlane_units::Nanos;

use super::slot::READ;
use super::{FanOut, Seat, SharedPiece, Targets};
use crate::Watch;
use crate::failure::RequestError;
use crate::relay::ZERO_MAX;
use crate::relay::shape::{Kind, Part};

impl FanOut<'_> {
    /// Gives free slots their next part. Half of them read at most, as in a relay.
    pub(super) fn load(&mut self, watch: &mut dyn Watch) {
        self.pause = Nanos(0);
        let most_reading = self.slots.len().div_ceil(2);
        let mut reading = self.slots.iter().filter(|slot| slot.is_reading()).count();
        for index in 0..self.slots.len() {
            if !self.goes_on() || reading >= most_reading {
                return;
            }
            if !self.slots[index].is_free() {
                continue;
            }
            let pause = self.work.pause(self.clock.now());
            if pause > Nanos(0) {
                if self.has_more(watch) {
                    self.pause = pause;
                }
                return;
            }
            if !self.load_one(index, watch) {
                return;
            }
            reading += usize::from(self.slots[index].is_reading());
        }
    }

    /// False when there is nothing more.
    fn load_one(&mut self, index: usize, watch: &mut dyn Watch) -> bool {
        while self.has_more(watch) {
            let Some(mut piece) = self.pieces.pop_front() else { return false };
            piece.payload = self.remaining(piece.payload);
            piece.zeroes = self.remaining(piece.zeroes);
            if let Some(target) = piece.zeroes.iter().next() {
                let wants = |one: usize| one != target && piece.zeroes.contains(one);
                let others = Targets::of(self.lanes.len(), wants);
                self.load_zeroes(index, target, &piece);
                piece.zeroes = others;
                if !piece.zeroes.is_empty() || !piece.payload.is_empty() {
                    self.pieces.push_front(piece);
                }
                if self.slots[index].is_free() {
                    continue;
                }
                return true;
            }
            let Range { start, end } = piece.range;
            if piece.payload.is_empty() || start >= end {
                continue;
            }
            let length = (end - start).min(self.transfers[0].request);
            let part = Part { offset: start, length, kind: Kind::Move };
            if part.end() < end {
                piece.range = part.end()..end;
                self.pieces.push_front(piece.clone());
            }
            self.work.begins(length, self.clock.now());
            self.slots[index].load(index, self.transfers, part, piece.payload);
            self.waiting.push_back(Seat::Leg { slot: index, leg: READ });
            return true;
        }
        false
    }

    /// Gives a slot the first part of a hole for one target; what is left of it comes next. Without
    /// zeroes in host memory, or where it is no whole block, it is moved like data.
    fn load_zeroes(&mut self, index: usize, target: usize, piece: &SharedPiece) {
        let Range { start, end } = piece.range;
        let block = self.transfers[target].target_block;
        let only = Targets::of(self.lanes.len(), |one| one == target);
        let none = Targets::default();
        let rest = |range: Range<u64>, zeroes, payload| SharedPiece {
            range,
            payload,
            zeroes,
            nothing: none,
        };
        let whole = (end - start) / block * block;
        let room = self.zeroes.map_or(0, |(_, room)| room / block * block);
        let (most, kind) = if self.lanes[target].makes_zeroes {
            (ZERO_MAX, Kind::Zero)
        } else {
            (room.min(self.transfers[0].request / block * block), Kind::WriteZeroes)
        };
        let length = whole.min(most);
        let (Some((region, _)), 1..) = (self.zeroes, length) else {
            self.pieces.push_front(rest(start..end, none, only));
            return;
        };
        if start + length < end {
            self.pieces.push_front(rest(start + length..end, only, none));
        }
        let part = Part { offset: start, length, kind };
        if kind != Kind::Zero {
            self.work.begins(length, self.clock.now());
        }
        self.slots[index].load_zeroes(self.transfers, target, part, region);
        self.waiting.push_back(Seat::Leg { slot: index, leg: target + 1 });
    }

    /// Whether anything is left to be begun; what is zero at both ends is done by it.
    pub(super) fn has_more(&mut self, watch: &mut dyn Watch) -> bool {
        let is_alone = self.lanes.iter().all(|lane| lane.failed.is_some());
        while self.pieces.is_empty() && self.stopped.is_none() && !is_alone {
            match self.work.next_piece() {
                None => break,
                Some(Ok(piece)) => {
                    for target in self.remaining(piece.nothing).iter() {
                        self.lanes[target].moved.skipped += piece.range.end - piece.range.start;
                        self.account(target, piece.range.clone(), watch);
                    }
                    let wanted = self.remaining(piece.payload).is_empty()
                        && self.remaining(piece.zeroes).is_empty();
                    if !wanted {
                        self.pieces.push_back(piece);
                    }
                }
                Some(Err(error)) => self.stopped = Some(RequestError::Holes(error)),
            }
        }
        !self.pieces.is_empty() && !is_alone
    }
}
