//! What becomes of a request that was answered: the next of its slot, the account of its target, or the
//! end of either.

use std::ops::Range;

use peerlane_results::MemoryKind;
use peerlane_units::{Bytes, Nanos};

use super::slot::READ;
use super::{FanOut, Seat, SharedPiece, Targets};
use crate::Watch;
use crate::failure::{Cause, Failure, Role};
use crate::relay::FlushOutcome;
use crate::relay::shape::Kind;
use crate::ring::{Action, Completion};

impl FanOut<'_> {
    pub(super) fn settle(&mut self, completion: Completion, now: Nanos, watch: &mut dyn Watch) {
        // One that was given up, or of an earlier user of the ring.
        let Some((seat, since)) = self.flights.remove(&completion.tag) else { return };
        match seat {
            Seat::Flush { target } => self.flushed(target, completion),
            Seat::Leg { slot, leg } => self.settle_leg((slot, leg), completion, since, now, watch),
        }
    }

    fn flushed(&mut self, target: usize, completion: Completion) {
        self.lanes[target].flush = None;
        match completion.result {
            Ok(_) => self.work.flush_ended(target, FlushOutcome::Flushed),
            Err(errno) => {
                self.work.flush_ended(target, FlushOutcome::Failed);
                let cause = Cause::of(errno, Action::Flush, MemoryKind::Host);
                let (role, action) = (Role::Target, Action::Flush);
                let failure = Failure { role, action, offset: 0, length: 0, cause };
                self.lanes[target].failed.get_or_insert(failure.into());
            }
        }
    }

    fn settle_leg(
        &mut self,
        (index, leg): (usize, usize),
        completion: Completion,
        since: Nanos,
        now: Nanos,
        watch: &mut dyn Watch,
    ) {
        let seat = Seat::Leg { slot: index, leg };
        let Some(request) = self.slots[index].legs[leg].as_mut() else { return };
        let repeats = request.progress.repeats;
        let taken = request.take(completion.result);
        let (is_done, repeats) = (request.is_done(), request.progress.repeats - repeats);
        let lane = leg.checked_sub(1);
        self.lanes[lane.unwrap_or(0)].moved.repeats += u64::from(repeats);
        match (taken, lane) {
            (Err(failure), None) => {
                self.stopped.get_or_insert(failure.into());
                self.end_leg(index, leg);
            }
            (Err(failure), Some(target)) => self.failed_leg(index, target, failure),
            // Writes of a target that was dropped, or with nothing read, are not tried again.
            (Ok(()), _) if !is_done && self.is_in_vain(leg) => self.end_leg(index, leg),
            (Ok(()), _) if !is_done => self.waiting.push_back(seat),
            (Ok(()), None) => self.read(index, now.since(since)),
            (Ok(()), Some(target)) => self.written(index, target, now, now.since(since), watch),
        }
    }

    /// Payload is in the slot: all that want it write at once.
    fn read(&mut self, index: usize, latency: Nanos) {
        let slot = &mut self.slots[index];
        slot.legs[READ] = None;
        slot.is_read = true;
        self.read += slot.part.map_or(0, |part| part.length);
        self.lanes[0].moved.read_latency.saturating_record(latency.0);
        for leg in self.slots[index].writes() {
            if self.is_lost(leg - 1) {
                self.slots[index].legs[leg] = None;
            } else {
                self.waiting.push_back(Seat::Leg { slot: index, leg });
            }
        }
        self.end_leg(index, READ);
    }

    fn written(
        &mut self,
        index: usize,
        target: usize,
        now: Nanos,
        latency: Nanos,
        watch: &mut dyn Watch,
    ) {
        let Some(part) = self.slots[index].part else { return };
        let elapsed = now.since(self.start);
        // A target that was dropped meanwhile still has what it was seen to write.
        let moved = &mut self.lanes[target].moved;
        moved.last_done = elapsed;
        if moved.first_done == Nanos(0) {
            moved.first_done = elapsed;
        }
        match part.kind {
            Kind::Move | Kind::Merge => {
                moved.bytes += part.length;
                moved.write_latency.saturating_record(latency.0);
            }
            Kind::Zero => moved.zeroed += part.length,
            Kind::WriteZeroes => moved.zeroes_written += part.length,
        }
        self.account(target, part.offset..part.end(), watch);
        self.end_leg(index, target + 1);
    }

    fn failed_leg(&mut self, index: usize, target: usize, failure: Failure) {
        let part = self.slots[index].part;
        match part {
            Some(part) if part.kind == Kind::Zero => {
                // Whatever the reason, writing them is right, and says so when it is not possible.
                self.lanes[target].makes_zeroes = false;
                let none = Targets::default();
                let zeroes = Targets::of(self.lanes.len(), |one| one == target);
                let range = part.offset..part.end();
                self.pieces.push_front(SharedPiece { range, payload: none, zeroes, nothing: none });
            }
            _ => {
                self.lanes[target].failed.get_or_insert(failure.into());
            }
        }
        self.end_leg(index, target + 1);
    }

    /// Takes a leg away; the slot is free when it was the last.
    pub(super) fn end_leg(&mut self, index: usize, leg: usize) {
        let slot = &mut self.slots[index];
        slot.legs[leg] = None;
        if leg == READ && !slot.is_read {
            slot.legs.fill(None);
        }
        if !slot.is_over() {
            return;
        }
        if let Some(part) = slot.part.take() {
            if part.kind != Kind::Zero {
                self.work.ends(part.length);
            }
        }
    }

    /// Counts a range that reads at the target as it does at the source.
    pub(super) fn account(&mut self, target: usize, range: Range<u64>, watch: &mut dyn Watch) {
        let lane = &mut self.lanes[target];
        lane.accounted += range.end - range.start;
        lane.moved.written.insert(range.clone());
        self.work.wrote(target, range);
        let lanes = self.lanes.iter().filter(|lane| lane.failed.is_none());
        let Some(done) = lanes.map(|lane| lane.accounted).min() else { return };
        let total = self.transfers[0].length;
        watch.progress(Bytes(done.min(total)), Bytes(total));
    }
}
