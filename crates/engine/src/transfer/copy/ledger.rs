//! The account of a copy under way, and the journal that keeps it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use peerlane_results::Route;
use peerlane_units::Nanos;

use super::options::CopyOptions;
use super::pieces::Pieces;
use crate::io::clock::Clock;
use crate::io::journal::{Journal, JournalError, Recorder, Store};
use crate::io::ranges::RangeSet;
use crate::transfer::relay::{FlushOutcome, Pace, RelayWork, WorkPiece};
use crate::transfer::shares::Share;
use crate::transfer::stages::StageRow;

/// The journal of a copy, in its place.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    store: Store<'a>,
    journal: Journal,
    is_on_disk: bool,
    time_of_day: fn() -> u64,
}

impl<'a> Keeper<'a> {
    /// A keeper of a journal that is to be saved when the first part of the copy is flushed.
    ///
    /// # Errors
    /// When the place has no room or permission for it.
    pub(super) fn begin(
        store: Store<'a>,
        journal: Journal,
        time_of_day: fn() -> u64,
    ) -> Result<Self, JournalError> {
        store.probe(&journal)?;
        Ok(Self { store, journal, is_on_disk: false, time_of_day })
    }

    /// A keeper of a journal that is saved before the first byte: it claims a device as the copy's.
    ///
    /// # Errors
    /// When it cannot be saved.
    pub(super) fn claim(
        store: Store<'a>,
        journal: Journal,
        time_of_day: fn() -> u64,
    ) -> Result<Self, JournalError> {
        store.save(&journal)?;
        Ok(Self { store, journal, is_on_disk: true, time_of_day })
    }

    /// A keeper of a journal that was found.
    pub(super) fn go_on(store: Store<'a>, journal: Journal, time_of_day: fn() -> u64) -> Self {
        Self { store, journal, is_on_disk: true, time_of_day }
    }

    pub(super) fn path(&self) -> &Path {
        self.store.path()
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(super) fn is_on_disk(&self) -> bool {
        self.is_on_disk
    }

    pub(super) fn set_route(&mut self, route: Route) {
        self.journal.route = route;
    }

    /// Saves the ranges done, which were flushed before; ranges that cannot be saved are not
    /// claimed either.
    pub(super) fn save(&mut self, done: &RangeSet) -> Result<(), JournalError> {
        // A clock that was set back must not make the journal contradict itself.
        let updated = self.journal.updated.max((self.time_of_day)());
        let journal = Journal { done: done.clone(), updated, ..self.journal.clone() };
        self.store.save(&journal)?;
        self.journal = journal;
        self.is_on_disk = true;
        Ok(())
    }

    /// Removes a journal that is no longer true.
    pub(super) fn discard(&mut self) {
        if !self.is_on_disk {
            return;
        }
        match self.store.clear() {
            Ok(()) => self.is_on_disk = false,
            Err(error) => tracing::warn!(%error, "the journal of this copy is not to be used"),
        }
    }

    /// Removes the journal of a copy that is complete.
    pub(super) fn end(self) -> Result<(), JournalError> {
        if self.is_on_disk { self.store.remove() } else { Ok(()) }
    }
}

/// The limit on the start of the next part: the copy's own rate, and its share of a batch.
#[derive(Debug)]
pub(super) struct NextStart {
    pace: Option<Pace>,
    share: Option<Arc<Share>>,
    /// Bytes begun that are not over.
    open: u64,
}

impl NextStart {
    pub(super) fn from_options(options: &CopyOptions) -> Self {
        Self { pace: options.limit.map(Pace::new), share: options.share.clone(), open: 0 }
    }

    pub(super) fn wait(&self, now: Nanos) -> Nanos {
        match self.pace.as_ref().map_or(Nanos(0), |pace| pace.wait(now)) {
            Nanos(0) => self.share.as_ref().map_or(Nanos(0), |share| share.wait(now)),
            pause => pause,
        }
    }

    pub(super) fn begin(&mut self, bytes: u64, now: Nanos) {
        self.open += bytes;
        if let Some(pace) = &mut self.pace {
            pace.begin(bytes, now);
        }
        if let Some(share) = &self.share {
            share.begin(bytes, now);
        }
    }

    pub(super) fn end(&mut self, bytes: u64) {
        self.open = self.open.saturating_sub(bytes);
        if let Some(share) = &self.share {
            share.end(bytes);
        }
    }
}

impl Drop for NextStart {
    /// Parts of a copy that stopped are over as well.
    fn drop(&mut self) {
        if let Some(share) = &self.share {
            share.end(self.open);
        }
    }
}

/// The account of one target: its written ranges, and the journal for them.
pub(super) struct LedgerEntry<'a, 'm> {
    pub(super) recorder: &'a mut Recorder,
    pub(super) keeper: Option<&'a mut Keeper<'m>>,
    /// The last failure to save; the copy goes on, and its journal knows less than it could.
    pub(super) unsaved: Option<JournalError>,
    pub(super) flush_failed: bool,
}

impl<'a, 'm> LedgerEntry<'a, 'm> {
    pub(super) fn new(recorder: &'a mut Recorder, keeper: Option<&'a mut Keeper<'m>>) -> Self {
        Self { recorder, keeper, unsaved: None, flush_failed: false }
    }

    pub(super) fn flush_is_due(&self, now: Nanos) -> bool {
        self.keeper.is_some() && self.recorder.is_due(now)
    }

    pub(super) fn flush_ended(&mut self, outcome: FlushOutcome, clock: &dyn Clock) {
        self.recorder.flush_ended(outcome == FlushOutcome::Flushed);
        if outcome == FlushOutcome::Failed {
            self.flush_failed = true;
            return;
        }
        let Some(keeper) = &mut self.keeper else { return };
        match keeper.save(self.recorder.done()) {
            Ok(()) => self.unsaved = None,
            Err(error) => {
                tracing::warn!(%error, "cannot save the journal");
                self.unsaved = Some(error);
            }
        }
        // Also after a failure: the next attempt is due when the next save would be.
        self.recorder.saved(clock.now());
    }
}

/// The pieces of a copy under way, and an account for each target.
pub(super) struct Ledger<'a, 'm> {
    pub(super) pieces: Pieces,
    pub(super) entries: Vec<LedgerEntry<'a, 'm>>,
    pub(super) turn: NextStart,
    pub(super) clock: &'a dyn Clock,
    pub(super) stages: &'a StageRow,
}

impl RelayWork for Ledger<'_, '_> {
    fn next_piece(&mut self) -> Option<io::Result<WorkPiece>> {
        self.pieces.next_piece()
    }

    fn done_before(&self, target: usize) -> u64 {
        self.pieces.done_before[target]
    }

    fn wrote(&mut self, target: usize, range: Range<u64>) {
        self.entries[target].recorder.wrote(range);
    }

    fn is_zero(&mut self, range: Range<u64>) {
        if let Some(mut digests) = self.stages.digests() {
            digests.take_zeroes(range);
        }
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
        self.entries[target].flush_is_due(now)
    }

    fn flush_begins(&mut self, target: usize) {
        // A chunk whose line does not get there is copied again when the copy goes on.
        if let Some(Err(error)) = self.stages.digests().map(|mut digests| digests.flush()) {
            tracing::warn!(%error, "cannot write the manifest");
        }
        self.entries[target].recorder.flush_begins();
    }

    fn flush_ended(&mut self, target: usize, outcome: FlushOutcome) {
        self.entries[target].flush_ended(outcome, self.clock);
    }
}
