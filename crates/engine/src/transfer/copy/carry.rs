//! Moves the payload of a copy, and decides what becomes of it when something ends the copy early.

use std::mem;
use std::rc::Rc;

use peerlane_results::{
    Evidence, MemoryFacts, PhaseKind, Route, RouteChoice, RouteEvidence, RouteVerdict, Tail,
    Verification, VerifyMode, Warning,
};
use peerlane_units::Bytes;

use super::attempt::AttachedMemory;
use super::gone::drive_of;
use super::ledger::{Account, Keeper, Ledger, NextStart};
use super::pieces::{CopyLayout, Lack, Pieces};
use super::{CopyError, CopyJob, Tools, check};
use crate::endpoints::lane::{GpuSide, RouteFault};
use crate::io::failure::error_in_words;
use crate::io::failure::{RequestError, Role};
use crate::io::journal::{Identity, Recorder};
use crate::io::ranges::RangeSet;
use crate::io::ring::{Around as _, Ring};
use crate::transfer::relay::{Moved, RelayError, Relayed, Transfer, merge_in_host, relay_to};
use crate::transfer::verify::VerifyError;

impl CopyJob<'_> {
    /// Judges the route by what was seen of it, and compares target and source.
    pub(super) fn check(
        &mut self,
        ready: &mut AttachedMemory,
        route: Route,
        tools: &mut Tools<'_>,
    ) -> Result<Verification, CopyError> {
        self.judge_gpu(ready, route)?;
        self.judge_route(route)?;
        let verification =
            check::verify(self.machine, ready, (self.plan, &self.before), &self.stages, tools)
                .map_err(|error| self.name_the_stuck(error, route))?;
        if self.source_has_changed() {
            return Err(CopyError::SourceChanged { path: self.plan.source.path.clone().into() });
        }
        let is_compared = tools.options.stages.twin.is_some() || !self.stages.changes_content();
        if !is_compared && self.plan.asked.verify != VerifyMode::None {
            let changes = self.stages.names().iter().filter(|name| name.changes_content());
            let stages: Vec<String> = changes.map(ToString::to_string).collect();
            self.warnings.push(Warning::NotComparable { stages: stages.join(", ") });
        }
        Ok(verification)
    }

    /// Judges by which way cuFile says that payload went: direct was what its memory was taken for.
    fn judge_gpu(&mut self, ready: &AttachedMemory, route: Route) -> Result<(), CopyError> {
        let Some(gpu) = &ready.gpu else { return Ok(()) };
        self.evidence.extend(gpu.evidence(route));
        let Err(fault) = gpu.all_direct() else { return Ok(()) };
        let memory = ready.memory.name.clone();
        match fault {
            _ if route == Route::Host => Ok(()),
            RouteFault::FellBack(source) => {
                let offset = self.layout.source_offset;
                let range = offset..offset + self.layout.length;
                let is_sparse = gpu.meets_hole(&self.source.file, range);
                let sparse = is_sparse.then(|| self.plan.source.path.clone());
                Err(CopyError::CuFileFellBack { memory, sparse, source })
            }
            RouteFault::NotKnown(_) if self.is_shown() => Ok(()),
            RouteFault::NotKnown(source) if self.plan.asked.route == RouteChoice::P2p => {
                Err(CopyError::CuFileNotCounted { memory, source })
            }
            RouteFault::NotKnown(none) => {
                self.warnings.push(Warning::RouteNotKnown { reason: none.to_string() });
                Ok(())
            }
        }
    }

    /// True when a witness shows the route.
    fn is_shown(&self) -> bool {
        self.evidence.iter().any(|one| one.says == RouteVerdict::Shown)
    }

    /// Reads the witnesses of the move that has just ended.
    pub(super) fn ask_witnesses(&mut self, route: Route, memory: &MemoryFacts, payload: &Payload) {
        let (taken, moved) = ((route, memory), self.moved_bytes(payload));
        self.evidence.extend(self.witnesses.end(self.fabric, self.plan, taken, &moved));
    }

    /// Refuses a copy whose peer-to-peer route a witness contradicts.
    fn judge_route(&self, route: Route) -> Result<(), CopyError> {
        let against = |one: &&RouteEvidence| one.says == RouteVerdict::Contradicted;
        match self.evidence.iter().find(against) {
            Some(RouteEvidence { evidence, .. }) if route == Route::P2p => {
                let Evidence { looked_at, showed } = evidence.clone();
                Err(CopyError::Contradicted { route, looked_at, showed })
            }
            _ => Ok(()),
        }
    }

    /// Moves the tail of a target that got all else, and flushes the target, also one that failed.
    pub(super) fn end_move(
        &mut self,
        so_far: SoFar,
        ready: &mut AttachedMemory,
        route: Route,
        tools: &mut Tools<'_>,
    ) -> Result<Payload, CopyError> {
        let SoFar { moved, failed, is_interrupted, flush_failed, refused } = so_far;
        let is_stuck = failed.as_ref().is_some_and(RequestError::is_stuck);
        let idle = ready.ring.in_flight();
        let tail = match (failed, is_interrupted, refused) {
            (Some(source), ..) => Err(self.stopped(source, &moved, ready)),
            (None, true, _) => {
                let (done, total) = (Bytes(moved.contiguous()), Bytes(self.layout.length));
                Err(CopyError::Interrupted { done, total, journal: None })
            }
            (None, false, Some(error)) => Err(error),
            (None, false, None) => self.merge_tail(ready, tools),
        };
        if is_stuck || flush_failed || ready.ring.in_flight() > idle {
            let copies = ready.ring.inner().inner().copies();
            let named = |error| name_the_engine(error, &ready.memory.name, copies, route);
            return match tail {
                Ok(tail) => Ok(self.payload(moved, tail)),
                Err(error) => Err(self.name_the_stuck(named(error), route)),
            };
        }
        self.recorder.flush_begins();
        let flushed = check::flush(ready, tools.clock);
        self.recorder.flush_ended(flushed.is_ok());
        let tail = tail.and_then(|tail| match flushed {
            Ok(()) => Ok(tail),
            Err(source) => Err(self.stopped(source, &moved, ready)),
        });
        let tail = tail.map_err(|error| self.name_the_stuck(error, route))?;
        // All of it, whatever a bounded set of ranges may have forgotten.
        let mut all = RangeSet::new();
        all.insert(0..self.layout.length);
        if let Some(keeper) = self.keeper.as_mut().filter(|keeper| keeper.is_on_disk()) {
            keeper.save(&all)?;
        }
        self.recorder = Recorder::new(tools.options.cadence, all, tools.clock.now());
        Ok(self.payload(moved, tail))
    }

    fn payload(&self, moved: Moved, tail: Bytes) -> Payload {
        let by_lost_memory = self.by_lost_memory.less(&moved, tail, self.layout.length);
        let this_run = moved.total() + tail.0 + by_lost_memory.total();
        // A tail that was there may lie in a block of which other bytes were missing.
        let before = Bytes(self.layout.length.saturating_sub(this_run));
        Payload { moved, tail, before, by_lost_memory }
    }

    /// Keeps the account of a move by memory that went away, as far as the copy goes on from it.
    pub(super) fn keep_account(&mut self) {
        let moved = mem::take(&mut self.moved);
        self.by_lost_memory.add(&moved, self.recorder.done(), self.layout.length);
    }

    fn stopped(&self, source: RequestError, moved: &Moved, ready: &AttachedMemory) -> CopyError {
        let source = RelayError::Stopped { source, moved: Box::new(moved.clone()) };
        self.name_the_stage(source, ready)
    }

    /// Says which stage failed, where that is why the copy ended.
    fn name_the_stage(&self, source: RelayError, ready: &AttachedMemory) -> CopyError {
        let number = match &source {
            RelayError::Stopped { source: RequestError::Stage { number, .. }, .. } => *number,
            _ => return self.not_moved(source),
        };
        let stage = usize::try_from(number).ok().and_then(|at| self.stages.names().get(at));
        let said = ready.ring.inner().fault().map(ToString::to_string);
        let stage = stage.map_or_else(String::new, ToString::to_string);
        CopyError::StageFailed { stage, said, source }
    }

    fn not_moved(&self, source: RelayError) -> CopyError {
        let [from, path] =
            [&self.plan.source, &self.plan.target].map(|end| end.path.clone().into());
        CopyError::Move { from, path, source }
    }

    fn merge_tail(
        &mut self,
        ready: &mut AttachedMemory,
        tools: &Tools<'_>,
    ) -> Result<Bytes, CopyError> {
        let transfer = &ready.transfer;
        let rest = transfer.body()..transfer.length;
        let is_there = self.recorder.done().contains_range(rest.clone());
        if transfer.tail != Tail::MergeInHost || is_there {
            return Ok(Bytes::ZERO);
        }
        let bytes = merge_in_host(&mut ready.ring, transfer, ready.host, tools.clock)
            .map_err(|source| self.name_the_stage(source, ready))?;
        self.recorder.wrote(rest);
        Ok(Bytes(bytes))
    }

    /// Says which drive does not answer, where that is why the copy ended.
    pub(super) fn name_the_stuck(&self, error: CopyError, route: Route) -> CopyError {
        let stuck = match &error {
            CopyError::Move {
                source: RelayError::Stopped { source: RequestError::Stuck(stuck), .. },
                ..
            }
            | CopyError::Check {
                source: VerifyError::Request(RequestError::Stuck(stuck)), ..
            } => *stuck,
            _ => return error,
        };
        let end = match stuck.role {
            Role::Source => &self.plan.source,
            Role::Target => &self.plan.target,
        };
        CopyError::Stuck { drive: drive_of(end), route, source: stuck }
    }

    /// True when the content of a source file was changed since the copy began; a device does not
    /// tell.
    pub(super) fn source_has_changed(&self) -> bool {
        let now = self.machine.identify(self.source_live, &self.source.file);
        match (&self.source_identity, now) {
            (Identity::File(then), Ok(Identity::File(now))) => {
                (then.size, then.modified_ns) != (now.size, now.modified_ns)
            }
            _ => false,
        }
    }

    /// Takes a claim back that nothing followed.
    pub(super) fn withdraw(&mut self) {
        if let (false, Some(keeper)) = (self.is_touched, &mut self.keeper) {
            keeper.discard();
        }
    }

    /// Keeps what is done of a copy that did not come to its end, where that is worth anything.
    pub(super) fn conclude(&mut self, error: CopyError) -> CopyError {
        let error = self.name_the_gone(error);
        // A device that may hold part of the copy stays claimed, so that the copy can go on.
        let is_claimed = self.is_touched && self.keeper.as_ref().is_some_and(Keeper::is_on_disk);
        let is_worthless = matches!(error, CopyError::Differs { .. })
            || self.recorder.done().is_empty() && !is_claimed
            || self.source_has_changed()
            || !self.target.is_there();
        let Some(keeper) = &mut self.keeper else { return error };
        if is_worthless {
            // The journal goes first: without it no copy trusts what is left if the rest fails.
            keeper.discard();
            self.target.set_kept(false);
            return error;
        }
        let done = self.recorder.done();
        if !keeper.is_on_disk() || keeper.journal().done != *done {
            if let Err(unsaved) = keeper.save(done) {
                tracing::warn!(error = %unsaved, "cannot save the journal");
            }
        }
        self.target.set_kept(keeper.is_on_disk());
        if !keeper.is_on_disk() {
            return error;
        }
        let (done, journal) = (Bytes(keeper.journal().done.total()), keeper.path().to_owned());
        let total = Bytes(self.layout.length);
        match error {
            CopyError::Interrupted { .. } => {
                CopyError::Interrupted { done, total, journal: Some(journal) }
            }
            source => CopyError::Kept { source: Box::new(source), done, total, journal },
        }
    }
}

/// Outcome of a relay for one target.
pub(super) struct SoFar {
    pub(super) moved: Moved,
    pub(super) failed: Option<RequestError>,
    pub(super) is_interrupted: bool,
    /// Set when a flush failed on the way.
    pub(super) flush_failed: bool,
    /// Reason to go no further although no request failed.
    pub(super) refused: Option<CopyError>,
}

/// Payload of one target.
#[derive(Debug, Clone)]
pub(super) struct Payload {
    pub(super) moved: Moved,
    /// Payload that went through host memory although the route did not.
    pub(super) tail: Bytes,
    /// Bytes that an earlier run moved.
    pub(super) before: Bytes,
    /// What this run moved before.
    pub(super) by_lost_memory: MovedByLostMemory,
}

impl Default for Payload {
    fn default() -> Self {
        let (tail, before) = (Bytes::ZERO, Bytes::ZERO);
        Self { moved: Moved::nothing(), tail, before, by_lost_memory: MovedByLostMemory::default() }
    }
}

/// Bytes that a run moved by device memory that went away since, and that are done.
#[derive(Debug, Clone, Default)]
pub(super) struct MovedByLostMemory {
    pub(super) data: u64,
    /// Payload that host memory carried.
    pub(super) tail: u64,
    pub(super) skipped: u64,
    pub(super) zeroed: u64,
    pub(super) zeroes_written: u64,
    ranges: RangeSet,
}

impl MovedByLostMemory {
    fn total(&self) -> u64 {
        self.data + self.tail + self.skipped + self.zeroed + self.zeroes_written
    }

    /// Adds a move, as far as it is done.
    fn add(&mut self, Payload { moved, tail, .. }: &Payload, done: &RangeSet, length: u64) {
        self.data += moved.bytes;
        self.tail += tail.0;
        self.zeroed += moved.zeroed;
        self.zeroes_written += moved.zeroes_written;
        self.skipped += moved.skipped;
        self.ranges.union(&moved.written);
        self.ranges.insert(length - tail.0..length);
        done.missing(0..length).for_each(|undone| self.ranges.subtract(undone));
        self.keep(self.ranges.total());
    }

    /// Takes out what is moved again, in whole blocks.
    fn less(&self, moved: &Moved, Bytes(tail): Bytes, length: u64) -> Self {
        let mut less = self.clone();
        moved.written.iter().for_each(|range| less.ranges.subtract(range));
        less.ranges.subtract(length - tail..length);
        less.keep(less.ranges.total());
        less
    }

    /// Reduces the counts to so many bytes; payload is first.
    fn keep(&mut self, total: u64) {
        let mut over = self.total().saturating_sub(total);
        let counts = [
            &mut self.data,
            &mut self.tail,
            &mut self.zeroed,
            &mut self.zeroes_written,
            &mut self.skipped,
        ];
        for count in counts {
            let less = over.min(*count);
            *count -= less;
            over -= less;
        }
    }
}

/// Outcome of a relay for several jobs.
pub(super) struct Carried {
    pub(super) relayed: Relayed,
    /// Per target: true when a flush failed on the way.
    pub(super) flush_failed: Vec<bool>,
}

/// Moves what the targets of these jobs lack out of the same slots, and keeps an account of each.
///
/// # Errors
/// When nothing was moved.
pub(super) fn relay_jobs(
    jobs: &mut [&mut CopyJob<'_>],
    ready: &mut AttachedMemory,
    transfers: &[Transfer],
    tools: &mut Tools<'_>,
) -> Result<Carried, CopyError> {
    let first = &jobs[0];
    let stages = Rc::clone(&first.stages);
    let source = (first.source.file.try_clone()).map_err(|source| CopyError::File {
        action: "attach",
        path: first.plan.source.path.clone().into(),
        source,
    })?;
    // A request that touches a hole goes through host memory as a whole.
    let reads_holes = ready.gpu.as_ref().is_some_and(GpuSide::reads_holes_by_host);
    let hole_min = if reads_holes { 0 } else { first.layout.hole_min };
    let blocks = transfers.iter().flat_map(|one| [one.source_block, one.target_block]);
    let block = blocks.fold(first.layout.block, u64::max);
    let layout = CopyLayout { hole_min, block, ..first.layout };
    let lacks = jobs.iter().map(|job| Lack { done: job.recorder.done(), holes: job.holes });
    let pieces = Pieces::new(source, layout, &lacks.collect::<Vec<_>>());
    let done_before = pieces.done_before.iter().min().copied().unwrap_or(0);
    tools.watch.begin(Bytes(done_before), Bytes(layout.length));
    let is_there = |(job, one): (&&mut CopyJob<'_>, &Transfer)| {
        job.recorder.done().contains_range(0..one.relayed())
    };
    let is_all_there = jobs.iter().zip(transfers).all(is_there);
    let accounts = jobs.iter_mut().map(|job| Account::new(&mut job.recorder, job.keeper.as_mut()));
    let (turn, clock) = (NextStart::from_options(&tools.options), tools.clock);
    let mut ledger = Ledger { pieces, accounts: accounts.collect(), turn, clock, stages: &stages };
    ready.ring.phase(PhaseKind::Move);
    let (ring, zeroes, watch) = (&mut ready.ring, ready.zeroes, &mut *tools.watch);
    let relayed = if is_all_there {
        Ok(Relayed::nothing(transfers.len()))
    } else {
        relay_to(ring, transfers, &mut ledger, zeroes, clock, watch)
    };
    let ends = ledger.accounts.into_iter().map(|account| (account.unsaved, account.flush_failed));
    let ends: Vec<_> = ends.collect();
    let mut flush_failed = Vec::with_capacity(ends.len());
    for (job, (unsaved, failed)) in jobs.iter_mut().zip(ends) {
        flush_failed.push(failed);
        job.warnings.extend(
            unsaved.map(|error| Warning::JournalNotSaved { reason: error_in_words(&error) }),
        );
    }
    let said = ready.ring.inner().inner().said();
    let has_failed = |relayed: &Relayed| {
        relayed.stopped.is_some() || relayed.targets.iter().any(|(_, failed)| failed.is_some())
    };
    if let (true, Some(said)) = (relayed.as_ref().map_or(true, has_failed), said) {
        tools.watch.caution(&format!("{} says: {said}", ready.memory.name));
    }
    let relayed = relayed.map_err(|source| jobs[0].not_moved(source))?;
    Ok(Carried { relayed, flush_failed })
}

/// Says that it is a GPU that does not answer, where one has copies under way.
fn name_the_engine(error: CopyError, memory: &str, copies: usize, route: Route) -> CopyError {
    match error {
        CopyError::Move {
            source: RelayError::Stopped { source: RequestError::Stuck(source), .. },
            ..
        } if copies > 0 => {
            CopyError::Stuck { drive: format!("the copy engine of {memory}"), route, source }
        }
        error => error,
    }
}
