//! Moves the payload of a copy, and keeps or gives it up when something ends the copy early.

use std::rc::Rc;

use peerlane_results::{
    MemoryFacts, PhaseKind, Route, RouteChoice, Tail, Verification, VerifyMode, Warning,
};
use peerlane_units::Bytes;

use super::account::Payload;
use super::attempt::AttachedMemory;
use super::gone::{drive_of, name_the_gone};
use super::ledger::{Ledger, LedgerEntry, NextStart};
use super::pieces::{CopyLayout, Lack, Pieces};
use super::target::KeptPart;
use super::witness::MovedBytes;
use super::{CopyError, CopyJob, Tools, check};
use crate::endpoints::lane::{GpuSide, RouteFault};
use crate::io::extents::DeviceReads;
use crate::io::failure::{RequestError, Role, error_in_words};
use crate::io::ring::{Around as _, Ring};
use crate::transfer::relay::{Moved, RelayError, Relayed, Transfer, merge_in_host, relay_to};
use crate::transfer::verify::VerifyError;

impl CopyJob<'_> {
    /// Judges the route by the evidence, and compares target and source.
    pub(super) fn check(
        &mut self,
        ready: &mut AttachedMemory,
        route: Route,
        tools: &mut Tools<'_>,
    ) -> Result<Verification, CopyError> {
        self.judge_gpu(ready, route)?;
        self.account.judge_route(route)?;
        let verification = check::verify(
            self.machine,
            ready,
            self.plan,
            &self.account.before,
            &self.stages,
            tools,
        )
        .map_err(|error| self.name_the_stuck(error, route))?;
        if self.source.has_changed(self.machine) {
            return Err(CopyError::SourceChanged { path: self.plan.source.path.clone().into() });
        }
        let is_compared = tools.options.stages.twin.is_some() || !self.stages.changes_content();
        if !is_compared && self.plan.asked.verify != VerifyMode::None {
            let changes = self.stages.names().iter().filter(|name| name.changes_content());
            let stages: Vec<String> = changes.map(ToString::to_string).collect();
            self.account.warnings.push(Warning::NotComparable { stages: stages.join(", ") });
        }
        Ok(verification)
    }

    /// Judges the route by cuFile's counts: its memory was taken for a direct one.
    fn judge_gpu(&mut self, ready: &AttachedMemory, route: Route) -> Result<(), CopyError> {
        let Some(gpu) = &ready.gpu else { return Ok(()) };
        self.account.evidence.extend(gpu.evidence(route));
        let Err(fault) = gpu.all_direct() else { return Ok(()) };
        let memory = ready.memory.name.clone();
        match fault {
            _ if route == Route::Host => Ok(()),
            RouteFault::FellBack(source) => {
                let offset = self.layout.source_offset;
                let range = offset..offset + self.layout.length;
                let is_sparse = gpu.meets_hole(&self.source.opened.file, range);
                let sparse = is_sparse.then(|| self.plan.source.path.clone());
                Err(CopyError::CuFileFellBack { memory, sparse, source })
            }
            RouteFault::NotKnown(_) if self.account.is_shown() => Ok(()),
            RouteFault::NotKnown(source) if self.plan.asked.route == RouteChoice::P2p => {
                Err(CopyError::CuFileNotCounted { memory, source })
            }
            RouteFault::NotKnown(none) => {
                self.account.warnings.push(Warning::RouteNotKnown { reason: none.to_string() });
                Ok(())
            }
        }
    }

    /// Reads the witnesses of the move that has just ended.
    pub(super) fn ask_witnesses(&mut self, route: Route, memory: &MemoryFacts, payload: &Payload) {
        let moved = self.moved_bytes(payload);
        self.account.evidence.extend(self.account.witnesses.end(
            self.fabric,
            self.plan,
            route,
            memory,
            &moved,
        ));
    }

    /// Payload as it moved in this run, with the reads from the source's drive.
    fn moved_bytes(&self, payload: &Payload) -> MovedBytes {
        let Payload { moved, tail, .. } = payload;
        let mut ranges = moved.written.clone();
        ranges.insert(self.layout.length - tail.0.min(self.layout.length)..self.layout.length);
        let offset = self.layout.source_offset;
        let of_source = ranges.iter().map(|range| offset + range.start..offset + range.end);
        // What a file that was changed meanwhile held in holes is unknown.
        let source = match self.source.has_changed(self.machine) {
            false => DeviceReads::count(&self.source.opened.file, of_source).unwrap_or_default(),
            true => None,
        };
        let (relayed, zeroes) = (Bytes(moved.bytes), Bytes(moved.zeroes_written));
        MovedBytes { relayed, tail: *tail, zeroes, source }
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
                Ok(tail) => Ok(self.account.payload(moved, tail, self.layout.length)),
                Err(error) => Err(self.name_the_stuck(named(error), route)),
            };
        }
        self.target.recorder.flush_begins();
        let flushed = check::flush(ready, tools.clock);
        self.target.recorder.flush_ended(flushed.is_ok());
        let tail = tail.and_then(|tail| match flushed {
            Ok(()) => Ok(tail),
            Err(source) => Err(self.stopped(source, &moved, ready)),
        });
        let tail = tail.map_err(|error| self.name_the_stuck(error, route))?;
        self.target.claim_all(self.layout.length, tools)?;
        Ok(self.account.payload(moved, tail, self.layout.length))
    }

    fn stopped(&self, source: RequestError, moved: &Moved, ready: &AttachedMemory) -> CopyError {
        let source = RelayError::Stopped { source, moved: Box::new(moved.clone()) };
        self.name_the_stage(source, ready)
    }

    /// Names the failed stage if one ended the copy.
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
        let is_there = self.target.recorder.done().contains_range(rest.clone());
        if transfer.tail != Tail::MergeInHost || is_there {
            return Ok(Bytes::ZERO);
        }
        let bytes = merge_in_host(&mut ready.ring, transfer, ready.host, tools.clock)
            .map_err(|source| self.name_the_stage(source, ready))?;
        self.target.recorder.wrote(rest);
        Ok(Bytes(bytes))
    }

    /// Names the drive that does not answer if one ended the copy.
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

    /// Keeps the part done of a copy that did not come to its end, if another run can use it.
    pub(super) fn conclude(&mut self, error: CopyError) -> CopyError {
        let error = name_the_gone(self, error);
        if matches!(error, CopyError::Differs { .. })
            || !self.target.has_claims()
            || self.source.has_changed(self.machine)
            || !self.target.place.is_there()
        {
            self.target.give_up();
            return error;
        }
        let Some(KeptPart { done, journal }) = self.target.keep() else { return error };
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

/// Outcome of a relay for several jobs.
pub(super) struct Carried {
    pub(super) relayed: Relayed,
    /// Per target: true when a flush failed on the way.
    pub(super) flush_failed: Vec<bool>,
}

/// Moves the pieces that the targets of these jobs lack out of the same slots, and keeps an account
/// of each.
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
    let source = (first.source.opened.file.try_clone()).map_err(|source| CopyError::File {
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
    let lacks =
        jobs.iter().map(|job| Lack { done: job.target.recorder.done(), holes: job.target.holes });
    let pieces = Pieces::new(source, layout, &lacks.collect::<Vec<_>>());
    let done_before = pieces.done_before.iter().min().copied().unwrap_or(0);
    tools.watch.begin(Bytes(done_before), Bytes(layout.length));
    let is_there = |(job, one): (&&mut CopyJob<'_>, &Transfer)| {
        job.target.recorder.done().contains_range(0..one.relayed())
    };
    let is_all_there = jobs.iter().zip(transfers).all(is_there);
    let entries = jobs
        .iter_mut()
        .map(|job| LedgerEntry::new(&mut job.target.recorder, job.target.keeper.as_mut()));
    let (turn, clock) = (NextStart::from_options(&tools.options), tools.clock);
    let mut ledger = Ledger { pieces, entries: entries.collect(), turn, clock, stages: &stages };
    ready.ring.phase(PhaseKind::Move);
    let (ring, zeroes, watch) = (&mut ready.ring, ready.zeroes, &mut *tools.watch);
    let relayed = if is_all_there {
        Ok(Relayed::nothing(transfers.len()))
    } else {
        relay_to(ring, transfers, &mut ledger, zeroes, clock, watch)
    };
    let ends = ledger.entries.into_iter().map(|entry| (entry.unsaved, entry.flush_failed));
    let ends: Vec<_> = ends.collect();
    let mut flush_failed = Vec::with_capacity(ends.len());
    for (job, (unsaved, failed)) in jobs.iter_mut().zip(ends) {
        flush_failed.push(failed);
        job.account.warnings.extend(
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

/// Names the GPU as the device that does not answer, if it has copies under way.
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
