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
use peerlane_results::{CopyRecord, FanOutPlan, PhaseKind, Refusal, Route, Shape, Warning};
use peerlane_units::{Bytes, Nanos};

use super::attempt::Ready;
use super::ledger::{Account, Turn};
use super::pieces::Layout;
use super::record::Settled;
use super::witness::MovedBytes;
use super::{CopyError, Done, Job, Tools, begin_job, check, ready_to_start, unfinished};
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
    let mut lanes = Vec::with_capacity(ends.len());
    for ((one, now), held) in plan.targets.iter().zip(ends).zip(held) {
        match begin_job(machine, fabric, one, (now, held), tools) {
            Ok(job) => lanes.push(Lane { job, failed: None }),
            Err(error) => {
                lanes.iter_mut().for_each(|lane: &mut Lane<'_>| lane.job.withdraw());
                return Err(error);
            }
        }
    }
    let mut copy = Copy { plan, ends, lanes, warnings: Vec::new(), read: Bytes::ZERO };
    let done = copy.run(tools);
    Ok(copy.finish(done, tools))
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
}

/// A copy under way.
struct Copy<'a> {
    plan: &'a FanOutPlan,
    ends: &'a [Prepared],
    lanes: Vec<Lane<'a>>,
    /// What a reader of every target's record should know.
    warnings: Vec<Warning>,
    read: Bytes,
}

/// What is known of a target that is complete but for its name.
struct Finished {
    lane: usize,
    settled: Settled,
    done: Done,
}

impl Copy<'_> {
    /// The targets that are still in it.
    fn live(&self) -> Vec<usize> {
        (0..self.lanes.len()).filter(|&lane| self.lanes[lane].failed.is_none()).collect()
    }

    /// Everything up to the names of the targets; the ring is gone after it.
    fn run(&mut self, tools: &mut Tools<'_>) -> Vec<Finished> {
        let start = tools.clock.now();
        tools.watch.phase(Phase::Check);
        let agreed = match self.settle(tools) {
            Ok(agreed) => agreed,
            Err(error) => {
                self.fail_all(error);
                return Vec::new();
            }
        };
        for lane in self.live() {
            if let Some(keeper) = &mut self.lanes[lane].job.keeper {
                keeper.set_route(agreed.route);
            }
        }
        let proving = tools.clock.now().since(start);
        self.carry(agreed, proving, tools)
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
    fn carry(
        &mut self,
        mut agreed: Agreed,
        proving: Nanos,
        tools: &mut Tools<'_>,
    ) -> Vec<Finished> {
        let seats = agreed.seats.clone();
        let route = agreed.route;
        self.lanes.iter_mut().for_each(|lane| lane.job.is_touched = true);
        for Lane { job, .. } in &mut self.lanes {
            job.witnesses.begin(job.plan);
        }
        tools.watch.phase(Phase::Move);
        let (start, cpu) = (tools.clock.now(), CpuMark::now());
        let fanned = self.move_together(&mut agreed, tools);
        // Only tags that nobody uses again are in flight now, if any.
        let given_up = agreed.ready.ring.in_flight();
        let mut moved: Vec<Option<(Moved, Bytes, u64)>> = Vec::new();
        for (seat, (&lane, fanned)) in seats.iter().zip(fanned).enumerate() {
            self.refuse_busy(lane, &agreed.ready, given_up);
            agreed.take(seat);
            moved.push(self.move_rest(lane, fanned, &mut agreed.ready, route, tools));
        }
        let (end, cpu) = (tools.clock.now(), CpuMark::now().since(cpu));
        for (&lane, moved) in seats.iter().zip(&moved) {
            let Some((moved, tail, _)) = moved else { continue };
            let job = &mut self.lanes[lane].job;
            job.ask_witnesses(route, &agreed.ready.memory, MovedBytes::new(moved, *tail));
        }
        tools.watch.phase(Phase::Check);
        let scrubbed = self.scrub(&mut agreed, tools);
        tools.watch.phase(Phase::Verify);
        let mut finished = Vec::new();
        for (seat, (lane, moved)) in seats.into_iter().zip(moved).enumerate() {
            let Some((moved, tail, done_before)) = moved else { continue };
            self.refuse_busy(lane, &agreed.ready, given_up);
            if self.lanes[lane].failed.is_some() {
                continue;
            }
            let job = &mut self.lanes[lane].job;
            if let Err(error) = job.judge_route(route) {
                self.lanes[lane].failed = Some(error);
                continue;
            }
            agreed.take(seat);
            let verified =
                check::verify(job.machine, &mut agreed.ready, (job.plan, &job.before), tools)
                    .map_err(|error| job.name_the_stuck(error, route));
            let verification = match verified {
                Ok(verification) if !job.source_has_changed() => verification,
                outcome => {
                    let path = job.plan.source.path.clone().into();
                    let changed = CopyError::SourceChanged { path };
                    self.lanes[lane].failed = Some(outcome.err().unwrap_or(changed));
                    continue;
                }
            };
            let check = tools.clock.now().since(end).after(proving);
            let (elapsed, before) = (end.since(start), Bytes(done_before));
            let scrubbed = scrubbed.clone();
            let done = Done { moved, tail, before, elapsed, check, cpu, scrubbed, verification };
            let settled = agreed.settled(self.shape_of(lane, &agreed));
            finished.push(Finished { lane, settled, done });
        }
        finished
    }

    /// A request of another target's tail or check that is not answered could be taken for one of this
    /// target: it goes no further on this ring.
    fn refuse_busy(&mut self, lane: usize, ready: &Ready, given_up: u32) {
        if ready.ring.in_flight() > given_up {
            let reason = "a request to another target is not answered".to_owned();
            self.lanes[lane].failed.get_or_insert(CopyError::WithOthers { reason });
        }
    }

    fn shape_of(&self, lane: usize, agreed: &Agreed) -> Shape {
        let planned = self.plan.targets[lane].shape.as_ref();
        let tail = planned.map_or(agreed.ready.shape.tail, |shape| shape.tail);
        Shape { tail, ..agreed.ready.shape.clone() }
    }

    /// Moves what all targets take out of the same slots. One result for each seat.
    fn move_together(
        &mut self,
        agreed: &mut Agreed,
        tools: &mut Tools<'_>,
    ) -> Vec<Result<Moved, CopyError>> {
        let transfers = &agreed.transfers;
        let count = agreed.seats.len();
        let first = &self.lanes[agreed.seats[0]].job;
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
            length: shared_length(transfers),
            block: blocks.max().unwrap_or(1).max(first.layout.block),
            ..first.layout
        };
        let total = first.layout.length;
        let seats = &agreed.seats;
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
        let fanned = fan_out(ring, transfers, &mut ledger, zeroes, clock, watch);
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
                self.read = fanned.read;
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
            let lane = &mut self.lanes[agreed.seats[seat]];
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
        lane: usize,
        together: Result<Moved, CopyError>,
        ready: &mut Ready,
        route: Route,
        tools: &mut Tools<'_>,
    ) -> Option<(Moved, Bytes, u64)> {
        if self.lanes[lane].failed.is_some() {
            return None;
        }
        let job = &mut self.lanes[lane].job;
        let outcome = together.and_then(|mut moved| {
            let (rest, tail, _) = job.move_payload(ready, route, tools)?;
            moved.add(&rest);
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
        let well = agreed.seats.iter().position(|&lane| self.lanes[lane].failed.is_none());
        let seat = well.unwrap_or(0);
        let lane = agreed.seats[seat];
        agreed.take(seat);
        match self.lanes[lane].job.scrub(&mut agreed.ready, tools) {
            Ok(scrubbed) => scrubbed,
            Err(error) => {
                let reason = error_in_words(&error);
                self.lanes[lane].failed.get_or_insert(error);
                peerlane_results::Scrubbed { bytes: Bytes::ZERO, reason }
            }
        }
    }

    /// Gives names to what is complete, and keeps journals of what is not.
    fn finish(self, finished: Vec<Finished>, tools: &mut Tools<'_>) -> FanOut {
        let mut finished: Vec<Option<Finished>> = finished.into_iter().map(Some).collect();
        let targets = self.lanes.into_iter().enumerate().map(|(number, lane)| {
            let Lane { mut job, failed } = lane;
            let own = finished
                .iter_mut()
                .find(|one| one.as_ref().is_some_and(|finished| finished.lane == number));
            match (failed, own.and_then(Option::take)) {
                (None, Some(Finished { settled, done, .. })) => {
                    job.warnings.extend(self.warnings.iter().cloned());
                    job.complete(settled, done, tools.options.limit)
                }
                (failed, _) => {
                    let reason = "nothing was moved to this target".to_owned();
                    Err(job.conclude(failed.unwrap_or(CopyError::WithOthers { reason })))
                }
            }
        });
        FanOut { read: self.read, targets: targets.collect() }
    }
}

/// The transfers of all targets differ in these only.
fn transfer_of(
    any: &Transfer,
    target: crate::ring::FileId,
    job: &Job<'_>,
    tail: peerlane_results::Tail,
) -> Transfer {
    Transfer {
        target,
        target_offset: job.plan.asked.target_offset.0,
        target_block: super::attempt::block(job.target.is_direct(), &job.plan.target),
        tail: super::attempt::tail(tail, &job.target),
        ..*any
    }
}

#[cfg(test)]
mod tests;
