//! Carries a plan with several targets out: one memory, one read, and for each target a journal, a
//! proof, a verification and a name of its own.
//!
//! A target that fails is dropped with its journal kept, and the others go on. Each target is a
//! [`Job`] like that of a copy to it alone; only the payload that all of them take is moved together.

mod ledger;
mod pieces;
mod settle;

use peerlane_evidence::CpuMark;
use peerlane_fabric::Fabric;
use peerlane_results::{CopyRecord, FanOutPlan, PhaseKind, Plan, Refusal, RouteChoice, Warning};
use peerlane_units::{Bytes, Nanos};

use super::ledger::{Account, Turn};
use super::pieces::Layout;
use super::record::Settled;
use super::witness::MovedBytes;
use super::{CopyError, Done, Job, Tools, begin_job, check, gone, ready_to_start, unfinished};
use crate::Phase;
use crate::failure::RequestError;
use crate::failure::error_in_words;
use crate::guard::{self, Span, Surveyor, System};
use crate::machine::{Machine, host};
use crate::plan::Prepared;
use crate::relay::{FannedOut, Moved, RelayError, Transfer, fan_out, shared_length};
use crate::ring::Ring as _;
use ledger::SharedLedger;
use pieces::{Lack, SharedPieces};
use settle::Agreed;

/// What became of a copy with several targets.
#[derive(Debug)]
pub struct FanOut {
    /// Payload read from the source to be written, each byte once besides tails.
    pub read: Bytes,
    /// Each target's record, or why it is not complete.
    pub targets: Vec<Result<CopyRecord, CopyError>>,
}

/// Carries a plan for several targets out on this machine.
///
/// # Errors
/// [`CopyError`] when nothing was begun; what ends the copy later is the outcome of each target.
pub fn copy_fan_out(
    fabric: &Fabric,
    plan: &FanOutPlan,
    tools: &mut Tools<'_>,
) -> Result<FanOut, CopyError> {
    copy_fan_out_on(host(), fabric, plan, tools)
}

fn copy_fan_out_on(
    machine: &dyn Machine,
    fabric: &Fabric,
    plan: &FanOutPlan,
    tools: &mut Tools<'_>,
) -> Result<FanOut, CopyError> {
    if tools.options.journal.is_some() && plan.targets.len() > 1 {
        let reason = "one file cannot be the journal of several targets".to_owned();
        let hint = Some("leave `--journal` out".to_owned());
        return Err(CopyError::Refused(vec![Refusal { reason, hint, forceable: false }]));
    }
    let system = machine.system();
    let surveyor = Surveyor::on(machine, tools.clock, tools.deadline);
    let mut ends = Vec::with_capacity(plan.targets.len());
    let mut held = Vec::with_capacity(plan.targets.len());
    for one in &plan.targets {
        let (now, stands) = ready_to_start(system, &surveyor, fabric, one, tools.options.start)
            .map_err(|error| unfinished::name(error, system, one, &tools.options))?;
        ends.push(now);
        held.push(stands);
    }
    refuse_same(system, &ends)?;
    fan_out_prepared(machine, fabric, plan, (&ends, held), tools)
}

/// Carries out what was planned and looked at again, as [`copy_prepared`](super::copy_prepared) for one target.
pub(crate) fn fan_out_prepared(
    machine: &dyn Machine,
    fabric: &Fabric,
    plan: &FanOutPlan,
    (ends, held): (&[Prepared], Vec<Vec<Refusal>>),
    tools: &mut Tools<'_>,
) -> Result<FanOut, CopyError> {
    let mut jobs: Vec<Job<'_>> = Vec::with_capacity(ends.len());
    for ((one, now), held) in plan.targets.iter().zip(ends).zip(held) {
        match begin_job(machine, fabric, one, (now, held), tools) {
            Ok(job) => jobs.push(job),
            Err(error) => {
                jobs.iter_mut().for_each(Job::withdraw);
                return Err(error);
            }
        }
    }
    Ok(Copying::of(jobs).run(tools))
}

/// Names may have come to mean the same thing since the plan was made.
fn refuse_same(system: &System, ends: &[Prepared]) -> Result<(), CopyError> {
    let span = |one: &Prepared| {
        let asked = &one.plan.asked;
        (asked.target_offset, guard::length_of(asked, &one.source.facts))
    };
    for (later, one) in ends.iter().enumerate() {
        for other in &ends[..later] {
            let [mine, yours] = [one, other].map(|end| {
                let (offset, length) = span(end);
                Span { end: &end.target, offset, length }
            });
            let found = guard::between(system, &one.plan.asked, yours, mine, "two targets");
            if let Some(refusal) = found {
                return Err(CopyError::Refused(vec![refusal]));
            }
        }
    }
    Ok(())
}

/// One target of the copy.
struct Lane<'a> {
    job: Job<'a>,
    failed: Option<CopyError>,
    /// What is known of it when it is complete but for its name.
    finished: Option<(Settled, Done)>,
}

/// A copy under way, to one target or several.
pub(super) struct Copying<'a> {
    lanes: Vec<Lane<'a>>,
    read: Bytes,
}

impl<'a> Copying<'a> {
    pub(super) fn of(jobs: Vec<Job<'a>>) -> Self {
        let lane = |job| Lane { job, failed: None, finished: None };
        Self { lanes: jobs.into_iter().map(lane).collect(), read: Bytes::ZERO }
    }

    /// Gives names to what is complete, and keeps journals of what is not. One outcome for each target.
    pub(super) fn run(mut self, tools: &mut Tools<'_>) -> FanOut {
        if let Err(error) = self.copy(tools) {
            self.fail_all(error);
        }
        let targets = self.lanes.into_iter().map(|Lane { mut job, failed, finished }| {
            match (failed, finished) {
                (None, Some((settled, done))) => job.complete(settled, done, tools.options.limit),
                (failed, _) => {
                    let reason = "nothing was moved to this target".to_owned();
                    Err(job.conclude(failed.unwrap_or(CopyError::WithOthers { reason })))
                }
            }
        });
        FanOut { read: self.read, targets: targets.collect() }
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
        for Lane { job, failed, .. } in &mut self.lanes {
            let is_lost = failed.as_ref().is_some_and(gone::is_memory_gone);
            if is_lost && job.plan.asked.route == RouteChoice::Auto {
                *failed = None;
                let memory = job.memory.take().unwrap_or_default();
                lost.get_or_insert((memory, Bytes(job.recorder.done().total())));
            }
        }
        let (memory, done) = lost?;
        Some(format!("{memory} is gone: it was unplugged after {done}, or its driver unbound"))
    }

    /// The targets that are still in it.
    fn live(&self) -> Vec<usize> {
        let is_live = |lane: &Lane<'_>| lane.failed.is_none() && lane.finished.is_none();
        (0..self.lanes.len()).filter(|&lane| is_live(&self.lanes[lane])).collect()
    }

    fn for_live(&mut self, mut each: impl FnMut(&mut Job<'a>)) {
        for lane in self.live() {
            each(&mut self.lanes[lane].job);
        }
    }

    fn plans(&self) -> Vec<&'a Plan> {
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

    /// Moves, flushes, clears the memory, verifies.
    fn carry(&mut self, mut agreed: Agreed, proving: Nanos, tools: &mut Tools<'_>) {
        let (seats, route) = (agreed.seats.clone(), agreed.route);
        self.for_live(|job| {
            job.is_touched = true;
            job.witnesses.begin(job.plan);
        });
        tools.watch.phase(Phase::Move);
        let (start, cpu) = (tools.clock.now(), CpuMark::now());
        let together = self.move_together(&mut agreed, tools);
        // Only tags that nobody uses again are in flight now, if any.
        let given_up = agreed.ready.ring.in_flight();
        let mut moved: Vec<Option<(Moved, Bytes, u64)>> = Vec::new();
        for (seat, together) in together.into_iter().enumerate() {
            self.refuse_busy(seats[seat].lane, &agreed, given_up);
            moved.push(self.move_rest(seat, together, &mut agreed, tools));
        }
        let (end, cpu) = (tools.clock.now(), CpuMark::now().since(cpu));
        for (seat, moved) in seats.iter().zip(&moved) {
            let Some((moved, tail, _)) = moved else { continue };
            let job = &mut self.lanes[seat.lane].job;
            job.ask_witnesses(route, &agreed.ready.memory, MovedBytes::new(moved, *tail));
        }
        tools.watch.phase(Phase::Check);
        // Also after a failure.
        let scrubbed = self.scrub(&mut agreed, tools);
        tools.watch.phase(Phase::Verify);
        for (seat, moved) in moved.into_iter().enumerate() {
            let lane = seats[seat].lane;
            let Some((moved, tail, done_before)) = moved else { continue };
            self.refuse_busy(lane, &agreed, given_up);
            if self.lanes[lane].failed.is_some() {
                continue;
            }
            agreed.take(seat);
            match self.lanes[lane].job.check(&mut agreed.ready, route, tools) {
                Ok(verification) => {
                    let check = tools.clock.now().since(end).after(proving);
                    let (elapsed, before) = (end.since(start), Bytes(done_before));
                    let scrubbed = scrubbed.clone();
                    let done =
                        Done { moved, tail, before, elapsed, check, cpu, scrubbed, verification };
                    self.lanes[lane].finished = Some((agreed.settled(seat), done));
                }
                Err(error) => self.lanes[lane].failed = Some(error),
            }
        }
    }

    /// A request of another target's tail or check that is not answered could be taken for one of this
    /// target: it goes no further on this ring.
    fn refuse_busy(&mut self, lane: usize, agreed: &Agreed, given_up: u32) {
        if agreed.seats.len() > 1 && agreed.ready.ring.in_flight() > given_up {
            let reason = "a request to another target is not answered".to_owned();
            self.lanes[lane].failed.get_or_insert(CopyError::WithOthers { reason });
        }
    }

    /// Moves what all targets take out of the same slots. One result for each seat.
    fn move_together(
        &mut self,
        agreed: &mut Agreed,
        tools: &mut Tools<'_>,
    ) -> Vec<Result<Moved, CopyError>> {
        let count = agreed.seats.len();
        if count == 1 {
            return vec![Ok(Moved::nothing())];
        }
        let transfers: Vec<Transfer> = agreed.seats.iter().map(|seat| seat.transfer).collect();
        let seats: Vec<usize> = agreed.seats.iter().map(|seat| seat.lane).collect();
        let first = &self.lanes[seats[0]].job;
        let source = match first.source.file.try_clone() {
            Ok(file) => file,
            Err(source) => {
                let path = first.plan.source.path.clone().into();
                self.fail_all(CopyError::File { action: "attach", path, source });
                return (0..count).map(|_| Ok(Moved::nothing())).collect();
            }
        };
        let blocks = transfers.iter().flat_map(|one| [one.source_block, one.target_block]);
        let layout = Layout {
            length: shared_length(&transfers),
            block: blocks.max().unwrap_or(1).max(first.layout.block),
            ..first.layout
        };
        let total = first.layout.length;
        let mut in_it: Vec<&mut Job<'_>> = (self.lanes.iter_mut().enumerate())
            .filter(|(lane, _)| seats.contains(lane))
            .map(|(_, lane)| &mut lane.job)
            .collect();
        let lacks: Vec<Lack<'_>> = (in_it.iter())
            .map(|job| Lack { done: job.recorder.done(), holes: job.holes })
            .collect();
        let pieces = SharedPieces::new(source, layout, &lacks);
        let done_before = pieces.done_before.iter().min().copied().unwrap_or(0);
        tools.watch.begin(Bytes(done_before), Bytes(total));
        let accounts =
            in_it.iter_mut().map(|job| Account::of(&mut job.recorder, job.keeper.as_mut()));
        let mut ledger = SharedLedger {
            pieces,
            accounts: accounts.collect(),
            turn: Turn::of(&tools.options),
            clock: tools.clock,
        };
        agreed.ready.ring.phase(PhaseKind::Move);
        let (ring, zeroes) = (&mut agreed.ready.ring, agreed.ready.zeroes);
        let (clock, watch) = (tools.clock, &mut *tools.watch);
        let fanned = fan_out(ring, &transfers, &mut ledger, zeroes, clock, watch);
        let ends: Vec<_> = (ledger.accounts.into_iter())
            .map(|account| (account.unsaved, account.flush_failed))
            .collect();
        for (job, (unsaved, _)) in in_it.iter_mut().zip(&ends) {
            job.warnings.extend(
                unsaved
                    .as_ref()
                    .map(|error| Warning::JournalNotSaved { reason: error_in_words(error) }),
            );
        }
        let flush_failed: Vec<bool> = ends.into_iter().map(|(_, failed)| failed).collect();
        match fanned {
            Ok(fanned) => {
                self.read = Bytes(self.read.0 + fanned.read.0);
                self.judge(agreed, fanned, &flush_failed, tools)
            }
            Err(source) => {
                let plan = self.lanes[seats[0]].job.plan;
                let [from, path] = [&plan.source, &plan.target].map(|end| end.path.clone().into());
                self.fail_all(CopyError::Move { from, path, source });
                (0..count).map(|_| Ok(Moved::nothing())).collect()
            }
        }
    }

    /// Flushes each target, also one that is not to go on, and says what ended it.
    fn judge(
        &mut self,
        agreed: &mut Agreed,
        fanned: FannedOut,
        flush_failed: &[bool],
        tools: &mut Tools<'_>,
    ) -> Vec<Result<Moved, CopyError>> {
        let FannedOut { targets, stopped, interrupted, .. } = fanned;
        let mut results = Vec::with_capacity(targets.len());
        for (seat, (moved, failed)) in targets.into_iter().enumerate() {
            let lane = &mut self.lanes[agreed.seats[seat].lane];
            agreed.take(seat);
            let path = || lane.job.plan.target.path.clone().into();
            let stop = |source| CopyError::Move {
                from: lane.job.plan.source.path.clone().into(),
                path: path(),
                source: RelayError::Stopped { source, moved: Box::new(moved.clone()) },
            };
            let is_stuck = matches!(failed, Some(RequestError::Stuck(_)));
            let mut ended = failed.or(stopped.as_ref().map(RequestError::again)).map(stop);
            if !flush_failed[seat] && !is_stuck {
                lane.job.recorder.flush_begins();
                let flushed = check::flush(&mut agreed.ready, tools.clock);
                lane.job.recorder.flush_ended(flushed.is_ok());
                ended = ended.or(flushed.err().map(stop));
            }
            if interrupted && ended.is_none() {
                let (done, total) = (Bytes(moved.contiguous()), Bytes(lane.job.layout.length));
                ended = Some(CopyError::Interrupted { done, total, journal: None });
            }
            results.push(match ended {
                Some(error) => Err(lane.job.name_the_stuck(error, agreed.route)),
                None => Ok(moved),
            });
        }
        results
    }

    /// The tail of one target, and whatever a bounded account forgot of the rest.
    fn move_rest(
        &mut self,
        seat: usize,
        together: Result<Moved, CopyError>,
        agreed: &mut Agreed,
        tools: &mut Tools<'_>,
    ) -> Option<(Moved, Bytes, u64)> {
        let lane = agreed.seats[seat].lane;
        if self.lanes[lane].failed.is_some() {
            return None;
        }
        agreed.take(seat);
        let is_alone = agreed.seats.len() == 1;
        let job = &mut self.lanes[lane].job;
        let outcome = together.and_then(|mut moved| {
            let (rest, tail, _) = job.move_payload(&mut agreed.ready, agreed.route, tools)?;
            if is_alone {
                self.read = Bytes(self.read.0 + rest.bytes);
                moved = rest;
            } else {
                moved.add(&rest);
            }
            let before = job.layout.length.saturating_sub(moved.total() + tail.0);
            Ok((moved, tail, before))
        });
        match outcome {
            Ok(moved) => Some(moved),
            Err(error) => {
                self.lanes[lane].failed = Some(error);
                None
            }
        }
    }

    /// Clears the memory once, out of the first target that is well.
    fn scrub(&mut self, agreed: &mut Agreed, tools: &mut Tools<'_>) -> peerlane_results::Scrubbed {
        let well = agreed.seats.iter().position(|seat| self.lanes[seat.lane].failed.is_none());
        let seat = well.unwrap_or(0);
        let lane = agreed.seats[seat].lane;
        agreed.take(seat);
        match self.lanes[lane].job.scrub(&mut agreed.ready, tools) {
            Ok(scrubbed) => scrubbed,
            Err(error) => {
                let reason = error_in_words(&error);
                let error = self.lanes[lane].job.name_the_stuck(error, agreed.route);
                self.lanes[lane].failed.get_or_insert(error);
                peerlane_results::Scrubbed { bytes: Bytes::ZERO, reason }
            }
        }
    }
}

#[cfg(test)]
mod tests;
