//! The meaning of an answer: the next request of its slot, the account of its target, or the end of
//! either.

use std::ops::Range;

use peerlane_results::MemoryKind;
use peerlane_units::{Bytes, Nanos};
use rustix::io::Errno;

use super::moved::count;
use super::shape::PartKind;
use super::slot::PartRequest;
use super::state::{Flight, RelayState};
use super::{FlushOutcome, Targets, Transfer, WorkPiece};
use crate::io::failure::{Cause, RequestFailure, Role};
use crate::io::ring::{Action, Completion};

impl RelayState<'_> {
    /// Takes the answer to a request.
    pub(super) fn ended(&mut self, completion: Completion, now: Nanos) {
        // One that was given up, or of an earlier user of the ring.
        let Some((flight, since)) = self.flights.remove(&completion.tag) else { return };
        let result = completion.result;
        match flight {
            Flight::Flush { target } => self.flushed(target, result),
            Flight::Leg { slot, leg } => self.leg_ended(slot, leg, result, since, now),
        }
    }

    fn flushed(&mut self, target: usize, result: Result<u32, Errno>) {
        self.lanes[target].is_flushing = false;
        match result {
            Ok(_) => self.work.flush_ended(target, FlushOutcome::Flushed),
            Err(errno) => {
                self.work.flush_ended(target, FlushOutcome::Failed);
                let cause = Cause::from_errno(errno, Action::Flush, MemoryKind::Host);
                let (role, action) = (Role::Target, Action::Flush);
                let failure = RequestFailure { role, action, offset: 0, length: 0, cause };
                self.lanes[target].failed.get_or_insert(failure.into());
            }
        }
    }

    fn leg_ended(
        &mut self,
        slot: usize,
        leg: PartRequest,
        result: Result<u32, Errno>,
        since: Nanos,
        now: Nanos,
    ) {
        let Some(request) = self.slots[slot].request(leg) else { return };
        let repeats = request.progress.repeats;
        let is_stage = matches!(leg, PartRequest::Stage(_));
        let taken = request.take(result);
        let (is_done, repeats) = (request.is_done(), request.progress.repeats - repeats);
        if !is_stage {
            self.lanes[leg.target().unwrap_or(0)].moved.repeats += u64::from(repeats);
        }
        if let Some(stage) = self.stage(leg) {
            stage.ends(now);
        }
        match taken {
            Err(failure) => self.leg_failed(slot, leg, failure),
            Ok(()) if is_done => self.leg_done(slot, leg, since, now),
            // Writes of a target that was dropped, or with nothing read, are not tried again.
            Ok(()) if self.is_in_vain(leg) => self.drop_leg(slot, leg),
            Ok(()) => self.waiting.push_back((slot, leg)),
        }
    }

    fn leg_failed(&mut self, slot: usize, leg: PartRequest, failure: RequestFailure) {
        match (leg, self.slots[slot].part) {
            (PartRequest::Write(target), Some(part)) if part.kind == PartKind::Zero => {
                // Whatever the reason, writing them is right, and says so when it is not possible.
                self.lanes[target].makes_zeroes = false;
                let only = Targets::only(target);
                self.pieces.push_front(WorkPiece::zeroes(part.offset..part.end(), only));
            }
            _ => self.blame(leg, failure.into()),
        }
        self.drop_leg(slot, leg);
    }

    /// Counts a leg that is over, and goes on to those that wait for it.
    fn leg_done(&mut self, slot: usize, leg: PartRequest, since: Nanos, now: Nanos) {
        let latency = now.since(since);
        match leg {
            PartRequest::Merge(_) => {}
            PartRequest::Read => {
                self.read += self.slots[slot].part.map_or(0, |part| part.length);
                count(&mut self.lanes[0].moved.read_latency, latency);
            }
            PartRequest::Stage(_) => {
                let bytes = self.slots[slot].part.map_or(0, |part| part.length);
                if let Some(stage) = self.stage(leg) {
                    stage.done(bytes, latency);
                }
            }
            PartRequest::Write(target) => self.written(slot, target, now, latency),
        }
        self.slots[slot].remove(leg);
        match leg {
            PartRequest::Merge(_) | PartRequest::Read | PartRequest::Stage(_) => self.begin(slot),
            PartRequest::Write(_) => self.free(slot),
        }
    }

    /// Lets the next legs of a part begin.
    pub(super) fn begin(&mut self, slot: usize) {
        self.waiting.extend(self.slots[slot].front().map(|leg| (slot, leg)));
    }

    fn written(&mut self, slot: usize, target: usize, now: Nanos, latency: Nanos) {
        let Some(part) = self.slots[slot].part else { return };
        let elapsed = now.since(self.start);
        // A target that was dropped meanwhile still has what it was seen to write.
        let moved = &mut self.lanes[target].moved;
        moved.last_done = elapsed;
        if moved.first_done == Nanos(0) {
            moved.first_done = elapsed;
        }
        match part.kind {
            PartKind::Move | PartKind::Merge => {
                moved.bytes += part.length;
                count(&mut moved.write_latency, latency);
            }
            // How long a drive takes to make zeroes is not the latency of a write.
            PartKind::Zero => moved.zeroed += part.length,
            PartKind::WriteZeroes => moved.zeroes_written += part.length,
        }
        if matches!(part.kind, PartKind::Zero | PartKind::WriteZeroes) {
            self.work.is_zero(part.offset..part.end());
        }
        self.account(target, part.offset..part.end());
    }

    /// Takes a leg away that brings nothing, and with one that was to fill the slot all that wait for
    /// it.
    pub(super) fn drop_leg(&mut self, slot: usize, leg: PartRequest) {
        if leg.fills() {
            self.slots[slot].clear();
        } else {
            self.slots[slot].remove(leg);
        }
        self.free(slot);
    }

    /// Frees a slot whose part is over.
    fn free(&mut self, slot: usize) {
        if !self.slots[slot].is_over() {
            return;
        }
        if let Some(part) = self.slots[slot].part.take() {
            if part.kind != PartKind::Zero {
                self.work.ends(part.length);
            }
        }
    }

    /// Counts a range that reads at the target as it does at the source.
    pub(super) fn account(&mut self, target: usize, range: Range<u64>) {
        let lane = &mut self.lanes[target];
        lane.accounted += range.end - range.start;
        lane.moved.written.insert(range.clone());
        self.work.wrote(target, range);
        let total = self.transfers.iter().map(Transfer::relayed).max().unwrap_or(0);
        let lanes = self.lanes.iter().zip(self.transfers).filter(|(lane, _)| lane.failed.is_none());
        // A target may lack a tail that the relay moves to others.
        let lacking =
            lanes.map(|(lane, transfer)| transfer.relayed().saturating_sub(lane.accounted));
        let Some(lacking) = lacking.max() else { return };
        self.watch.progress(Bytes(total.saturating_sub(lacking)), Bytes(total));
    }
}
