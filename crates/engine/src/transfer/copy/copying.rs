//! The phases of a copy to 1 to 16 targets: one memory and one read for all; for each target a journal, a
//! proof, a verification and a name of its own.
//!
//! A target that fails is dropped with its journal kept, and the others go on.

use std::mem;
use std::rc::Rc;

use peerlane_evidence::CpuMark;
use peerlane_results::{Plan, RouteChoice, StageRecord};
use peerlane_units::{Bytes, Nanos};

use super::account::Payload;
use super::carry::{Carried, SoFar, relay_jobs};
use super::record::Settled;
use super::settle::Agreed;
use super::{CopyError, CopyJob, Done, FanOut, Tools, gone};
use crate::io::failure::{RequestError, error_in_words};
use crate::io::ring::Ring as _;
use crate::io::stage::StageName;
use crate::io::watch::Phase;
use crate::transfer::relay::{StageTally, Transfer};
use crate::transfer::stages::{StageError, StageRow};

/// One target of the copy.
pub(super) struct TargetLane<'a> {
    pub(super) job: CopyJob<'a>,
    pub(super) failed: Option<CopyError>,
    /// The settled terms and the result, once it lacks only its name.
    finished: Option<(Settled, Done)>,
}

/// A copy under way, to one target or several.
pub(super) struct Copying<'a> {
    pub(super) lanes: Vec<TargetLane<'a>>,
    pub(super) stages: Rc<StageRow>,
    /// The account of each stage.
    tallies: Vec<StageTally>,
    read: Bytes,
}

impl<'a> Copying<'a> {
    pub(super) fn new(jobs: Vec<CopyJob<'a>>, stages: Rc<StageRow>) -> Self {
        let lane = |job| TargetLane { job, failed: None, finished: None };
        let tallies = stages.names().iter().map(|_| StageTally::default()).collect();
        Self { lanes: jobs.into_iter().map(lane).collect(), stages, tallies, read: Bytes::ZERO }
    }

    /// Gives complete targets their names, and keeps journals of the others. Returns one outcome
    /// for each target.
    pub(super) fn run(mut self, tools: &mut Tools<'_>) -> FanOut {
        if let Err(error) = self.copy(tools) {
            self.fail_all(error);
        }
        let stages = self.end_stages();
        for lane in &mut self.lanes {
            if let Some((_, done)) = &mut lane.finished {
                done.stages.clone_from(&stages);
            }
        }
        let row = Rc::clone(&self.stages);
        let targets =
            self.lanes.into_iter().map(|TargetLane { mut job, failed, finished }| {
                match (failed, finished) {
                    (None, Some((settled, done))) => {
                        job.complete(settled, done, tools.options.limit)
                    }
                    (failed, _) => {
                        let reason = "nothing was moved to this target".to_owned();
                        Err(job.conclude(failed.unwrap_or(CopyError::WithOthers { reason })))
                    }
                }
            });
        let targets: Vec<_> = targets.collect();
        let goes_on =
            |one: &Result<_, CopyError>| matches!(one, Err(error) if error.journal().is_some());
        if !targets.iter().any(goes_on) {
            row.discard();
        }
        FanOut { read: self.read, targets }
    }

    /// Ends the digests if a target is complete. Returns the record of each stage.
    fn end_stages(&mut self) -> Vec<StageRecord> {
        let is_complete = |lane: &TargetLane<'_>| lane.failed.is_none() && lane.finished.is_some();
        let ended = if self.lanes.iter().any(is_complete) { self.stages.end() } else { None };
        let (root, no_root) = match ended {
            None => (None, None),
            Some(Ok(root)) => (Some(root), None),
            // Part of the copy was done by a run before, which kept no digests.
            Some(Err(error)) if !self.stages.has_manifest() => (None, Some(error.to_string())),
            Some(Err(error)) => {
                self.lanes.iter_mut().for_each(|lane| lane.finished = None);
                self.fail_all(StageError::from(error).into());
                (None, None)
            }
        };
        let row = self.stages.names().iter().zip(&self.tallies);
        row.map(|(name, tally)| {
            let is_digest = *name == StageName::Digest;
            StageRecord {
                root: root.clone().filter(|_| is_digest),
                no_root: no_root.clone().filter(|_| is_digest),
                ..tally.record(name.to_string())
            }
        })
        .collect()
    }

    /// Everything up to the names of the targets; the ring, which holds files, is gone after it.
    fn copy(&mut self, tools: &mut Tools<'_>) -> Result<(), CopyError> {
        let start = tools.clock.now();
        tools.watch.phase(Phase::Check);
        let agreed = self.settle(tools)?;
        let proving = tools.clock.now().since(start);
        self.carry(agreed, proving, tools);
        let Some(reason) = self.take_back_the_lost() else { return Ok(()) };
        let agreed = self.fall_back(&reason, tools)?;
        self.carry(agreed, proving, tools);
        Ok(())
    }

    /// Targets that failed for want of memory that went away may go on by host memory; says why.
    fn take_back_the_lost(&mut self) -> Option<String> {
        let mut lost = None;
        for TargetLane { job, failed, .. } in &mut self.lanes {
            let is_lost = failed.as_ref().is_some_and(gone::is_memory_gone);
            if is_lost && job.plan.asked.route == RouteChoice::Auto {
                *failed = None;
                job.account.keep_lost(job.target.recorder.done(), job.layout.length);
                let memory = job.account.memory.take().unwrap_or_default();
                lost.get_or_insert((memory, Bytes(job.target.recorder.done().total())));
            }
        }
        let (memory, done) = lost?;
        Some(format!("{memory} is gone: it was unplugged after {done}, or its driver unbound"))
    }

    /// The targets that are still in it.
    pub(super) fn live(&self) -> Vec<usize> {
        let is_live = |lane: &TargetLane<'_>| lane.failed.is_none() && lane.finished.is_none();
        (0..self.lanes.len()).filter(|&lane| is_live(&self.lanes[lane])).collect()
    }

    pub(super) fn for_live(&mut self, mut each: impl FnMut(&mut CopyJob<'a>)) {
        for lane in self.live() {
            each(&mut self.lanes[lane].job);
        }
    }

    pub(super) fn plans(&self) -> Vec<&'a Plan> {
        self.lanes.iter().map(|lane| lane.job.plan).collect()
    }

    /// The first target in line gets the error itself, the others its words.
    fn fail_all(&mut self, error: CopyError) {
        let mut first = Some(error);
        let words = match &first {
            Some(CopyError::NotPossible { reason, hint }) => Err((reason.clone(), hint.clone())),
            Some(other) => Ok(error_in_words(other)),
            None => return,
        };
        for lane in self.live() {
            let again = || match &words {
                Err((reason, hint)) => {
                    CopyError::NotPossible { reason: reason.clone(), hint: hint.clone() }
                }
                Ok(reason) => CopyError::WithOthers { reason: reason.clone() },
            };
            self.lanes[lane].failed = Some(first.take().unwrap_or_else(again));
        }
    }

    /// Moves, flushes, verifies.
    fn carry(&mut self, mut agreed: Agreed, proving: Nanos, tools: &mut Tools<'_>) {
        let (seats, route) = (agreed.seats.clone(), agreed.route);
        self.for_live(|job| {
            job.target.is_touched = true;
            let are_direct = [job.source.opened.is_direct, job.target.place.is_direct()];
            job.account.witnesses.begin(job.plan, are_direct);
        });
        tools.watch.phase(Phase::Move);
        let (start, cpu) = (tools.clock.now(), CpuMark::now());
        let moved = self.move_payload(&mut agreed, tools);
        let (end, cpu) = (tools.clock.now(), CpuMark::now().since(cpu));
        for (seat, payload) in seats.iter().zip(&moved) {
            let Some(payload) = payload else { continue };
            let job = &mut self.lanes[seat.lane].job;
            job.ask_witnesses(route, &agreed.ready.memory, payload);
        }
        let given_up = agreed.ready.ring.in_flight();
        tools.watch.phase(Phase::Verify);
        for (seat, payload) in moved.into_iter().enumerate() {
            let TargetLane { job, failed, finished } = &mut self.lanes[seats[seat].lane];
            let Some(payload) = payload.filter(|_| failed.is_none()) else { continue };
            if let Some(error) = agreed.refuse_busy(given_up) {
                *failed = Some(error);
                continue;
            }
            agreed.take(seat);
            match job.check(&mut agreed.ready, route, tools) {
                Ok(verification) => {
                    let check = tools.clock.now().since(end).after(proving);
                    let (elapsed, stages) = (end.since(start), Vec::new());
                    let done = Done { payload, elapsed, check, cpu, stages, verification };
                    *finished = Some((agreed.settled(seat), done));
                }
                Err(error) => *failed = Some(error),
            }
        }
        if agreed.ready.ring.in_flight() > 0 {
            // A driver may wait for a GPU that does not answer where its pinned memory is given back.
            mem::forget(agreed.ready.gpu.take());
        }
    }

    /// Moves the pieces that the targets lack out of the same slots, then the tail of each. Returns
    /// one payload for each seat.
    fn move_payload(&mut self, agreed: &mut Agreed, tools: &mut Tools<'_>) -> Vec<Option<Payload>> {
        let seats = agreed.seats.clone();
        let transfers: Vec<Transfer> = seats.iter().map(|seat| seat.transfer).collect();
        let is_seated = |lane: usize| seats.iter().any(|seat| seat.lane == lane);
        let mut jobs: Vec<&mut CopyJob<'_>> = (self.lanes.iter_mut().enumerate())
            .filter(|(lane, _)| is_seated(*lane))
            .map(|(_, lane)| &mut lane.job)
            .collect();
        let carried = match relay_jobs(&mut jobs, &mut agreed.ready, &transfers, tools) {
            Ok(carried) => carried,
            Err(error) => {
                self.fail_all(error);
                return seats.iter().map(|_| None).collect();
            }
        };
        let Carried { relayed, flush_failed } = carried;
        self.read = Bytes(self.read.0 + relayed.read.0);
        for (tally, more) in self.tallies.iter_mut().zip(&relayed.stages) {
            tally.add(more);
        }
        let given_up = agreed.ready.ring.in_flight();
        let mut payloads = Vec::with_capacity(seats.len());
        for (seat, (moved, failed)) in relayed.targets.into_iter().enumerate() {
            agreed.take(seat);
            let TargetLane { job, failed: end, .. } = &mut self.lanes[seats[seat].lane];
            job.account.moved = Payload { moved: moved.clone(), ..Payload::default() };
            let failed = failed.or(relayed.stopped.as_ref().map(RequestError::again));
            let so_far = SoFar {
                moved,
                failed,
                is_interrupted: relayed.interrupted,
                flush_failed: flush_failed[seat],
                refused: agreed.refuse_busy(given_up),
            };
            match job.end_move(so_far, &mut agreed.ready, agreed.route, tools) {
                Ok(payload) => {
                    job.account.moved.tail = payload.tail;
                    payloads.push(Some(payload));
                }
                Err(error) => {
                    *end = Some(error);
                    payloads.push(None);
                }
            }
        }
        payloads
    }
}
