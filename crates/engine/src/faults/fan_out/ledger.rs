//! What is at each target, as it is told on the way, and the journals that say so.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use peerlane_units::Nanos;

use super::once::Lane;
use crate::Clock;
use crate::faults::attempt::Plan;
use crate::faults::world::{Power, World};
use crate::journal::{self, Recorder};
use crate::relay::{FlushOutcome, Piece, SharedPiece, SharedWork, Work};
use crate::ring::sim::SimClock;

/// What one target lacks behind what all have.
pub(super) struct Rest<'a> {
    pub(super) pieces: VecDeque<Piece>,
    pub(super) recorder: &'a mut Recorder,
}

impl Work for Rest<'_> {
    fn next_piece(&mut self) -> Option<io::Result<Piece>> {
        self.pieces.pop_front().map(Ok)
    }

    fn wrote(&mut self, range: Range<u64>) {
        self.recorder.wrote(range);
    }
}

/// The accounts of a run: as in `copy`, on disks of memory.
pub(super) struct Ledger<'a, 'w> {
    pub(super) pieces: VecDeque<SharedPiece>,
    pub(super) before: Vec<u64>,
    pub(super) lanes: Vec<&'a mut Lane>,
    pub(super) disks: Vec<&'a mut World>,
    pub(super) plan: Plan,
    pub(super) power: Rc<std::cell::Cell<Power>>,
    pub(super) saves: &'w mut u64,
    pub(super) clock: SimClock,
}

impl SharedWork for Ledger<'_, '_> {
    fn next_piece(&mut self) -> Option<io::Result<SharedPiece>> {
        self.pieces.pop_front().map(Ok)
    }

    fn done_before(&self, target: usize) -> u64 {
        self.before[target]
    }

    fn wrote(&mut self, target: usize, range: Range<u64>) {
        self.lanes[target].recorder.wrote(range);
    }

    fn flush_is_due(&self, target: usize, now: Nanos) -> bool {
        self.lanes[target].recorder.is_due(now)
    }

    fn flush_begins(&mut self, target: usize) {
        self.lanes[target].recorder.flush_begins();
    }

    fn flush_ended(&mut self, target: usize, outcome: FlushOutcome) {
        let lane = &mut self.lanes[target];
        lane.recorder.flush_ended(outcome == FlushOutcome::Flushed);
        if outcome == FlushOutcome::Failed {
            lane.flush_failed = true;
            return;
        }
        lane.recorder.saved(self.clock.now());
        if self.power.get() == Power::Lost || self.plan.journal_is_full {
            return;
        }
        lane.journal.done = lane.recorder.done().clone();
        let text = journal::encode(&lane.journal).ok();
        *self.saves += 1;
        let is_cut = self.plan.cut_at_save.is_some_and(|at| at <= *self.saves);
        let disk = &mut self.disks[target];
        // A rename leaves the old journal or the new one.
        if !is_cut || disk.random.below(2) == 0 {
            disk.journal = text;
            lane.is_on_disk = true;
        }
        if is_cut {
            self.power.set(Power::Lost);
        }
    }
}
