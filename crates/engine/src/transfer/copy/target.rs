//! The target of a copy under way, with the journal of its ranges done.

use std::path::PathBuf;

use peerlane_units::Bytes;

use super::Tools;
use super::files::OpenTarget;
use super::ledger::Keeper;
use super::pieces::Holes;
use super::preserve::Preserved;
use crate::io::journal::{EndDigests, JournalError, Overwritten, Recorder};
use crate::io::ranges::RangeSet;
use crate::transfer::prove;

/// The open target of a copy, and the claims of its journal.
pub(super) struct Target<'a> {
    /// The open file or device, and the name that it takes in the end.
    pub(super) place: OpenTarget<'a>,
    pub(super) preserved: Preserved,
    pub(super) keeper: Option<Keeper<'a>>,
    pub(super) recorder: Recorder,
    pub(super) holes: Holes,
    /// Set when anything may have been written to it.
    pub(super) is_touched: bool,
}

/// Part of a copy that a journal on disk keeps.
pub(super) struct KeptPart {
    pub(super) done: Bytes,
    pub(super) journal: PathBuf,
}

impl Target<'_> {
    /// Takes the first bytes of the target out of the journal's claims, since a proof writes
    /// patterns there.
    pub(super) fn make_room_for_proof(
        &mut self,
        block: u64,
        tools: &Tools<'_>,
    ) -> Result<(), JournalError> {
        let proof = 0..prove::LENGTH_MAX.max(block);
        let mut done = self.recorder.done().clone();
        done.subtract(proof);
        if let (Some(keeper), true) = (&mut self.keeper, &done != self.recorder.done()) {
            keeper.save(&done)?;
            self.record_anew(done, tools);
        }
        Ok(())
    }

    /// Records from here on that this is done.
    fn record_anew(&mut self, done: RangeSet, tools: &Tools<'_>) {
        self.recorder = Recorder::new(tools.options.cadence, done, tools.clock.now());
    }

    /// Claims all of the copy, which is flushed.
    pub(super) fn claim_all(&mut self, length: u64, tools: &Tools<'_>) -> Result<(), JournalError> {
        // All of it, whatever a bounded set of ranges may have forgotten.
        let mut all = RangeSet::new();
        all.insert(0..length);
        if let Some(keeper) = self.keeper.as_mut().filter(|keeper| keeper.is_on_disk()) {
            keeper.save(&all)?;
        }
        self.record_anew(all, tools);
        Ok(())
    }

    /// Takes a claim back that nothing followed.
    pub(super) fn withdraw(&mut self) {
        if let (false, Some(keeper)) = (self.is_touched, &mut self.keeper) {
            keeper.discard();
        }
    }

    /// True when a copy can go on from here.
    pub(super) fn has_claims(&self) -> bool {
        // A device that may hold part of the copy stays claimed, so that the copy can go on.
        let is_claimed = self.is_touched && self.keeper.as_ref().is_some_and(Keeper::is_on_disk);
        !self.recorder.done().is_empty() || is_claimed
    }

    /// Gives up the ranges done: no copy goes on from here.
    pub(super) fn give_up(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        // The journal goes first: without it no copy trusts what is left if the rest fails.
        keeper.discard();
        self.place.set_kept(false);
    }

    /// Keeps the ranges done for a copy to go on from; `None` if no journal could be saved.
    pub(super) fn keep(&mut self) -> Option<KeptPart> {
        let keeper = self.keeper.as_mut()?;
        let done = self.recorder.done();
        if !keeper.is_on_disk() || keeper.journal().done != *done {
            if let Err(unsaved) = keeper.save(done) {
                tracing::warn!(error = %unsaved, "cannot save the journal");
            }
        }
        self.place.set_kept(keeper.is_on_disk());
        keeper.is_on_disk().then(|| KeptPart {
            done: Bytes(keeper.journal().done.total()),
            journal: keeper.path().to_owned(),
        })
    }

    /// Digests of both ends of the target from when overwriting it was permitted.
    pub(super) fn overwritten(&self) -> Option<EndDigests> {
        match &self.keeper.as_ref()?.journal().overwrites {
            Some(Overwritten::Device(ends)) => Some(ends.clone()),
            _ => None,
        }
    }
}
