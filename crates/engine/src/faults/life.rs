//! A copy from its beginning to its end, over as many runs of the program as it takes.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::attempt::{Blame, RunEnding, RunPlan, attempt};
use super::changed_options::change_options;
use super::exchange::exchange;
use super::machine::Life;
use super::world::{QueueEvent, SimTarget, World};
use super::{FaultKind, check};
use crate::io::failure::RequestError;
use crate::io::journal;
use crate::transfer::verify::Coverage;

/// Runs after which a copy whose faults were repaired must be complete.
const RUNS_MAX: u32 = 12;

/// Ending of the first run of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Complete by device memory.
    Peer,
    /// Complete by host memory, since the route was refused or failed its proof.
    FellBack,
    /// An error that names the cause.
    Failed,
    /// A request that was not answered in time.
    Stuck,
    /// Verification found that the content differs.
    Differs,
    /// Stopped by a person.
    Stopped,
    /// Power was lost.
    PowerLost,
}

/// Outcome of a copy; every one is complete and equal in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultedOutcome {
    /// Ending of the first run, for the target whose fault it is.
    pub first: Ending,
    /// Targets that were complete after it.
    pub complete: u32,
    /// Runs of the program, the last included.
    pub runs: u32,
    /// Runs that found something done in their journal.
    pub resumed: u32,
    /// Requests of all runs.
    pub operations: u64,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, fault {}, run {run}: {what}", kind.name())]
pub struct Untrue {
    /// Replays it, together with the kind.
    pub seed: u64,
    /// Fault of the drives.
    pub kind: FaultKind,
    /// Number of the run of the program, from 1; 0 if it is not known.
    pub run: u32,
    /// The invariant that was broken.
    pub what: String,
}

/// Copies with one kind of fault, all of it drawn from the seed: one in four has several targets, and
/// one a file.
///
/// # Errors
/// [`Untrue`] when a promise was broken, or the program panicked.
pub fn run(kind: FaultKind, seed: u64) -> Result<FaultedOutcome, Untrue> {
    guarded(kind, seed, |run| copy(kind, seed, run))
}

/// Runs a copy, and makes a panic a finding of the run under way.
pub(super) fn guarded(
    kind: FaultKind,
    seed: u64,
    copy: impl FnOnce(&Cell<u32>) -> Result<FaultedOutcome, Untrue>,
) -> Result<FaultedOutcome, Untrue> {
    let runs = Cell::new(1);
    catch_unwind(AssertUnwindSafe(|| copy(&runs))).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or(payload.downcast_ref::<&str>().copied()).unwrap_or_default();
        Err(Untrue { seed, kind, run: runs.get(), what: format!("panic: {words}") })
    })
}

/// The same, with the number of the run under way.
fn copy(kind: FaultKind, seed: u64, run: &Cell<u32>) -> Result<FaultedOutcome, Untrue> {
    let mut world = World::draw(kind, seed);
    let mut outcome =
        FaultedOutcome { first: Ending::Stopped, complete: 0, runs: 0, resumed: 0, operations: 0 };
    world.break_things();
    let breaks = breaks(&mut world);
    loop {
        let is_faulty = outcome.runs < breaks;
        if !is_faulty {
            world.repair();
        }
        let is_last_faulty = outcome.runs + 1 == breaks;
        if world.kind == FaultKind::SectorLost && is_last_faulty {
            world.lose_sector(outcome.runs > 0);
        }
        let plan = draw_plan(&mut world, is_faulty);
        let stops = world.kind == FaultKind::SectorLost && is_faulty && !is_last_faulty;
        let stop = stops.then(|| (world.random.below(60), QueueEvent::Stop));
        let plan = RunPlan { event: plan.event.or(stop), ..plan };
        let is_resumed = world.targets.iter().any(|target| !target.claims().is_empty());
        run.set(outcome.runs + 1);
        let (verdicts, seen) = attempt(&mut world, plan);
        outcome.runs += 1;
        outcome.resumed += u32::from(is_resumed);
        outcome.operations += seen.operations;
        let untrue = |what| Untrue { seed, kind, run: outcome.runs, what };
        check::after(&mut world, plan, &verdicts, &seen).map_err(untrue)?;
        if outcome.runs == 1 {
            outcome.first = ending(&verdicts[world.broken].end);
            let complete = world.targets.iter().filter(|target| target.is_complete).count();
            outcome.complete = u32::try_from(complete).unwrap_or(u32::MAX);
        }
        if world.targets.iter().all(|target| target.is_complete) {
            return Ok(outcome);
        }
        if !is_faulty {
            return Err(untrue(format!("nothing is broken any more, and yet: {verdicts:?}")));
        }
        if outcome.runs >= RUNS_MAX {
            return Err(untrue("the copy never ends".to_owned()));
        }
        damage_journal(&mut world).and_then(|()| replace_damaged(&mut world)).map_err(untrue)?;
        if exchange(&mut world).map_err(untrue)? {
            outcome.runs += 1;
            return Ok(outcome);
        }
        change_options(&mut world).map_err(untrue)?;
        if world.targets.iter().all(|target| target.is_complete) {
            outcome.runs += 1;
            return Ok(outcome);
        }
    }
}

fn ending(end: &RunEnding) -> Ending {
    match end {
        RunEnding::Complete { route: peerlane_results::Route::P2p } => Ending::Peer,
        RunEnding::Complete { .. } => Ending::FellBack,
        RunEnding::Failed(Blame::Request(RequestError::Stuck(_))) => Ending::Stuck,
        RunEnding::Failed(_) => Ending::Failed,
        RunEnding::Differs => Ending::Differs,
        RunEnding::Stopped => Ending::Stopped,
        RunEnding::PowerLost => Ending::PowerLost,
    }
}

/// Number of runs with the fault.
fn breaks(world: &mut World) -> u32 {
    let more = u32::try_from(world.random.below(3)).unwrap_or(0);
    match world.kind {
        FaultKind::ReadErrorStays | FaultKind::WriteErrorStays => 2 + more,
        FaultKind::PowerCut
        | FaultKind::PowerCutAtSave
        | FaultKind::Killed
        | FaultKind::Stopped => 1 + 2 * more,
        FaultKind::JournalDamaged
        | FaultKind::SectorLost
        | FaultKind::JournalFull
        | FaultKind::Exchanged
        | FaultKind::OptionsChanged => 1 + more,
        _ => 1,
    }
}

fn draw_plan(world: &mut World, is_faulty: bool) -> RunPlan {
    let parts = world.shape.length.div_ceil(world.shape.request);
    let count = world.targets.len() as u64;
    let random = &mut world.random;
    let seed = random.next();
    let mut coverage = [None, Some(Coverage::Sample { seed }), Some(Coverage::Full)]
        [usize::try_from(random.below(3)).unwrap_or(0)];
    // A proof is 13 requests; then come two for each part, flushes, and those of verification.
    let at = random.below(20 * count + (1 + 2 * count) * parts);
    let at_change = random.below(24 * count);
    let only_host = random.below(6) == 0;
    let flip = random.below(2) == 0;
    let names_all = count > 1 && random.below(4) == 0;
    match world.kind {
        FaultKind::LostLater => coverage = Some(Coverage::Full),
        FaultKind::SectorLost => coverage = coverage.or(Some(Coverage::Sample { seed })),
        _ => {}
    }
    if !is_faulty {
        return RunPlan { coverage, only_host, names_all, ..RunPlan::default() };
    }
    let is_file = world.targets[0].file_system.is_some();
    let cut_at_change = match world.kind {
        FaultKind::PowerCutAtSave => Some((at_change, Life::Dark)),
        FaultKind::Killed if is_file && flip => Some((at_change, Life::Killed)),
        _ => None,
    };
    let event = match world.kind {
        FaultKind::Killed if cut_at_change.is_some() => None,
        FaultKind::PowerCut => Some(QueueEvent::PowerCut),
        FaultKind::Killed => Some(QueueEvent::Killed),
        FaultKind::SourceGone => Some(QueueEvent::SourceGone),
        FaultKind::TargetGone => Some(QueueEvent::TargetGone),
        FaultKind::MemoryGone => Some(QueueEvent::MemoryGone),
        FaultKind::SourceShrinks => Some(QueueEvent::SourceShrinks),
        FaultKind::LostLater if flip => Some(QueueEvent::ReadsLost),
        FaultKind::LostLater => Some(QueueEvent::WritesLost),
        FaultKind::Stopped
        | FaultKind::JournalDamaged
        | FaultKind::JournalFull
        | FaultKind::Exchanged
        | FaultKind::OptionsChanged => Some(QueueEvent::Stop),
        _ => None,
    };
    RunPlan {
        event: event.map(|event| (at, event)),
        cut_at_change,
        journal_is_full: world.kind == FaultKind::JournalFull,
        only_host,
        coverage,
        names_all,
        ..RunPlan::default()
    }
}

/// A person takes a damaged journal away, which no copy goes on by.
fn replace_damaged(world: &mut World) -> Result<(), String> {
    let is_damaged = |target: &SimTarget| {
        target.journal.as_deref().is_some_and(|text| journal::decode(text).is_err())
    };
    if !world.targets.iter().any(is_damaged) {
        return Ok(());
    }
    let state = |world: &World| -> Vec<_> {
        world.targets.iter().map(|one| (one.content.bytes.clone(), one.journal.clone())).collect()
    };
    let before = state(world);
    let (verdicts, _) = attempt(world, RunPlan::default());
    let is_refused = |end: &RunEnding| matches!(end, RunEnding::Failed(Blame::JournalNotSaved));
    if !verdicts.iter().all(|verdict| is_refused(&verdict.end)) || state(world) != before {
        return Err(format!("a copy goes on by a damaged journal: {verdicts:?}"));
    }
    let target = &mut world.targets[world.broken];
    (target.journal, target.may_need_force) = (None, true);
    match &world.folder {
        Some(folder) => {
            folder.borrow_mut().remove_partial_files().map_err(|error| error.to_string())
        }
        None => Ok(()),
    }
}

/// Tears or changes the journal's text. Text that is then accepted must say the same as before.
fn damage_journal(world: &mut World) -> Result<(), String> {
    if world.kind != FaultKind::JournalDamaged {
        return Ok(());
    }
    let Some(text) = &mut world.targets[world.broken].journal else { return Ok(()) };
    let before = journal::decode(text).map_err(|error| error.to_string())?;
    let at = usize::try_from(world.random.below(text.len() as u64)).unwrap_or(0);
    if world.random.below(2) == 0 {
        text.truncate(at);
    } else {
        text[at] ^= 1 << world.random.below(8);
    }
    match journal::decode(text) {
        Ok(after) if after != before => Err("a damaged journal is believed".to_owned()),
        _ => Ok(()),
    }
}
