//! The accounts of a fan-out under way: one for each target.

use std::io;
use std::ops::Range;

use peerlane_units::Nanos;

use super::pieces::SharedPieces;
use crate::Clock;
use crate::copy::ledger::{Keeper, Turn};
use crate::journal::{JournalError, Recorder};
use crate::relay::{FlushOutcome, SharedPiece, SharedWork};

/// The account of one target.
pub(super) struct Account<'a> {
    pub(super) recorder: &'a mut Recorder,
    pub(super) keeper: Option<&'a mut Keeper>,
    /// The last failure to save; the copy goes on, and its journal knows less than it could.
    pub(super) unsaved: Option<JournalError>,
    pub(super) flush_failed: bool,
}

/// What a fan-out moves and keeps account of.
pub(super) struct SharedLedger<'a> {
    pub(super) pieces: SharedPieces,
    pub(super) accounts: Vec<Account<'a>>,
    pub(super) turn: Turn,
    pub(super) clock: &'a dyn Clock,
}

impl SharedWork for SharedLedger<'_> {
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
        let account = &self.accounts[target];
        account.keeper.is_some() && account.recorder.is_due(now)
    }

    fn flush_begins(&mut self, target: usize) {
        self.accounts[target].recorder.flush_begins();
    }

    fn flush_ended(&mut self, target: usize, outcome: FlushOutcome) {
        let account = &mut self.accounts[target];
        account.recorder.flush_ended(outcome == FlushOutcome::Flushed);
        if outcome == FlushOutcome::Failed {
            account.flush_failed = true;
            return;
        }
        let Some(keeper) = &mut account.keeper else { return };
        match keeper.save(account.recorder.done()) {
            Ok(()) => account.unsaved = None,
            Err(error) => {
                tracing::warn!(%error, "cannot save the journal");
                account.unsaved = Some(error);
            }
        }
        account.recorder.saved(self.clock.now());
    }
}
