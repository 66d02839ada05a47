//! The accounts of a fan-out under way: one for each target.

use std::io;
use std::ops::Range;

use peerlane_units::Nanos;

use super::pieces::SharedPieces;
use crate::Clock;
use crate::copy::ledger::{Account, Turn};
use crate::relay::{FlushOutcome, SharedPiece, SharedWork};

/// What a fan-out moves and keeps account of.
pub(super) struct SharedLedger<'a, 'm> {
    pub(super) pieces: SharedPieces,
    pub(super) accounts: Vec<Account<'a, 'm>>,
    pub(super) turn: Turn,
    pub(super) clock: &'a dyn Clock,
}

impl SharedWork for SharedLedger<'_, '_> {
    fn next_piece(&mut self) -> Option<io::Result<SharedPiece>> {
        self.pieces.next_piece()
    }

    fn done_before(&self, target: usize) -> u64 {
        self.pieces.done_before[target]
    }

    fn wrote(&mut self, target: usize, range: Range<u64>) {
        self.accounts[target].recorder.wrote(range);
    }

    fn pause(&self, now: Nanos) -> Nanos {
        self.turn.wait(now)
    }

    fn begins(&mut self, bytes: u64, now: Nanos) {
        self.turn.begin(bytes, now);
    }

    fn ends(&mut self, bytes: u64) {
        self.turn.end(bytes);
    }

    fn flush_is_due(&self, target: usize, now: Nanos) -> bool {
        self.accounts[target].flush_is_due(now)
    }

    fn flush_begins(&mut self, target: usize) {
        self.accounts[target].recorder.flush_begins();
    }

    fn flush_ended(&mut self, target: usize, outcome: FlushOutcome) {
        self.accounts[target].flush_ended(outcome, self.clock);
    }
}
