//! Invariants after every step of a run, one function each.

use std::ops::Range;

use peerlane_results::{CompletedCopy, MemoryKind, Route, Warning};
use peerlane_units::Bytes;
use rustix::io::Errno;

use super::attempt::{Blame, RunEnding, RunObservations, RunPlan, TargetVerdict};
use super::world::{QueueEvent, SimTarget, World, index};
use super::{FaultKind, accounts, final_name, keeping, sample};
use crate::io::failure::{Cause, RequestError, RequestFailure, Role};
use crate::io::journal;
use crate::io::ring::Action;

type Check = Result<(), String>;

/// A run of the program, after it.
pub(super) struct RunCase<'a> {
    pub(super) world: &'a World,
    pub(super) plan: RunPlan,
    pub(super) verdicts: &'a [TargetVerdict],
    pub(super) seen: &'a RunObservations,
}

/// One target of it, whatever becomes of the others.
pub(super) struct TargetCase<'a> {
    pub(super) run: &'a RunCase<'a>,
    pub(super) world: &'a World,
    pub(super) target: &'a SimTarget,
    pub(super) verdict: &'a TargetVerdict,
    /// Its content as a loss of power would leave it.
    pub(super) after_loss: Vec<u8>,
}

/// A question in words, and the check that asks it.
type TargetQuestion = (&'static str, fn(&TargetCase<'_>) -> Check);
type RunQuestion = (&'static str, fn(&RunCase<'_>) -> Check);

/// Questions about each target after every run.
pub(super) const OF_TARGETS: [TargetQuestion; 14] = [
    ("a drive changes within the range of the copy only", nothing_beside_the_copy_changed),
    ("the name of a file shows all of the copy, or what it showed before", final_name::check),
    ("a journal is whole, and its unfinished file is there", the_journal_is_whole),
    ("a journal claims only what is on stable storage", the_journal_claims_what_is_there),
    ("a drive that was written to is claimed until it is complete", keeping::the_claim_is_there),
    ("a journal that was reported outlasts a loss of power", keeping::what_was_kept_outlasts),
    ("a name that was reported outlasts a loss of power", keeping::the_name_outlasts),
    ("what is counted adds up, and progress only grows", no_byte_is_lost_or_doubled),
    ("each count is what the simulation counts by itself", accounts::each_count_is_right),
    ("a sample has every place that it promises", sample::has_what_is_promised),
    ("what verification reads is equal", sample::what_is_compared_is_equal),
    ("what a journal claims is looked at before a copy goes on", sample::claims_are_looked_at),
    ("what is reported complete is, and is on stable storage", complete_is_complete),
    ("the error names the cause, and no failure is passed over", the_cause_is_named),
];

/// Questions about all targets together after every run.
pub(super) const OF_RUNS: [RunQuestion; 5] = [
    ("a fall-back from the planned route is in the record", a_fall_back_is_told),
    ("the source is read once for all targets", accounts::the_source_is_read_once),
    ("no lock, unfinished file or request is left", nothing_is_left),
    ("a route that loses data is not taken", a_bad_route_is_not_taken),
    ("only targets fail whose fault it is", each_has_its_own_verdict),
];

/// Questions in the moment of a change, asked by the machine.
pub(super) const OF_MOMENTS: [&str; 5] = [
    "targets and journals are changed under the lock only",
    "a drive is written after a journal on stable storage claims it",
    "a journal that is put in place claims only what is flushed",
    "a file takes its name when all of it is flushed",
    "a run ends: within bounds of requests and of time, and without a panic",
];

/// Asks every check.
pub(super) fn after(
    world: &mut World,
    plan: RunPlan,
    verdicts: &[TargetVerdict],
    seen: &RunObservations,
) -> Check {
    if let Some(untrue) = &seen.untrue {
        return Err(untrue.clone());
    }
    let after_losses: Vec<_> = verdicts
        .iter()
        .map(|one| world.targets[one.target].after_loss(&mut world.random))
        .collect();
    let (world, count) = (&*world, world.targets.len());
    let run = RunCase { world, plan, verdicts, seen };
    for (verdict, after_loss) in verdicts.iter().zip(after_losses) {
        let target = &world.targets[verdict.target];
        let case = TargetCase { run: &run, world, target, verdict, after_loss };
        let asked = OF_TARGETS.iter().try_for_each(|(_, check)| check(&case));
        asked.map_err(|what| match count {
            1 => what,
            _ => format!("target {} of {count}: {what}", verdict.target),
        })?;
    }
    OF_RUNS.iter().try_for_each(|(_, check)| check(&run))
}

/// Whatever happened while it was saved.
fn the_journal_is_whole(case: &TargetCase<'_>) -> Check {
    match case.target.journal.as_deref().map(journal::decode) {
        Some(Err(error)) => Err(format!("an unreadable journal is left: {error}")),
        _ => Ok(()),
    }
}

fn nothing_beside_the_copy_changed(case: &TargetCase<'_>) -> Check {
    if case.target.file_system.is_some() {
        return Ok(());
    }
    let contents = [&case.target.content.bytes, &case.after_loss];
    contents.into_iter().try_for_each(|now| is_equal_beside_the_copy(case.world, case.target, now))
}

fn is_equal_beside_the_copy(world: &World, target: &SimTarget, now: &[u8]) -> Check {
    let mut range = world.range(target);
    if world.kind == FaultKind::LostLater {
        // The last block is written whole, out of memory whose content was lost.
        range.end = range.end.next_multiple_of(index(target.shape.block));
    }
    let before = &target.before;
    if before.len() != now.len() {
        return Err(format!("the target is {} bytes long, not {}", now.len(), before.len()));
    }
    let differs = |at: &usize| before[*at] != now[*at];
    match (0..range.start).chain(range.end..before.len()).find(differs) {
        Some(at) => Err(format!("byte {at} of the target changed; the copy has {range:?}")),
        None => Ok(()),
    }
}

/// On stable storage, whatever a loss of power takes away.
fn the_journal_claims_what_is_there(case: &TargetCase<'_>) -> Check {
    let TargetCase { world, target, after_loss, .. } = case;
    // Data that are lost while every request succeeds are found by verification, not before.
    if world.kind.loses_silently() {
        return Ok(());
    }
    for range in target.claims().iter() {
        if !holds(world, target, after_loss, range.clone()) {
            return Err(format!("the journal claims {range:?}, which is not there"));
        }
    }
    Ok(())
}

fn no_byte_is_lost_or_doubled(case: &TargetCase<'_>) -> Check {
    let TargetCase { run, world, verdict, .. } = case;
    let progress = &run.seen.progress;
    if progress.windows(2).any(|pair| pair[0][0] > pair[1][0]) {
        return Err("progress went back".to_owned());
    }
    let Some(record) = &verdict.record else { return Ok(()) };
    let are_all_complete = run.verdicts.iter().all(|one| one.record.is_some());
    let is_at_end = progress.last().is_none_or(|[done, total]| done == total);
    if are_all_complete && !is_at_end {
        return Err(format!(
            "the copy is complete, and its progress ends at {:?}",
            progress.last()
        ));
    }
    let content = &record.content;
    let sum = content.before.0 + content.data.0 + content.holes.0;
    if sum == world.shape.length {
        return Ok(());
    }
    Err(format!("{content:?} are no {} bytes", world.shape.length))
}

/// Also of a target that was complete before.
fn complete_is_complete(case: &TargetCase<'_>) -> Check {
    let TargetCase { world, target, after_loss, .. } = case;
    if !target.is_complete {
        return Ok(());
    }
    let all = 0..world.shape.length;
    if target.journal.is_some() {
        return Err("the copy is complete, and its journal is there".to_owned());
    }
    if !holds(world, target, &target.content.bytes, all.clone()) {
        return Err("the copy is reported complete, and its content differs".to_owned());
    }
    if !holds(world, target, after_loss, all) {
        return Err("the copy is reported complete, and is not on stable storage".to_owned());
    }
    Ok(())
}

/// A target fails by a fault of its own, or by one of the source or the memory that all use.
fn each_has_its_own_verdict(run: &RunCase<'_>) -> Check {
    let RunCase { world, plan, verdicts, seen } = run;
    if !seen.is_begun {
        return Ok(());
    }
    let is_of_target = matches!(
        world.kind,
        FaultKind::WriteErrorOnce
            | FaultKind::WriteErrorStays
            | FaultKind::FlushError
            | FaultKind::FlushErrorOnce
            | FaultKind::SectorLost
            | FaultKind::TargetGone
            | FaultKind::WriteStuck
            | FaultKind::FlushStuck
            | FaultKind::TargetFull
    ) || matches!(plan.event, Some((_, QueueEvent::WritesLost)));
    let is_stuck =
        matches!(world.kind, FaultKind::ReadStuck | FaultKind::WriteStuck | FaultKind::FlushStuck);
    let has_cause = |verdict: &TargetVerdict| {
        !matches!(verdict.end, RunEnding::Complete { .. } | RunEnding::Failed(Blame::Others(_)))
    };
    for verdict in *verdicts {
        let is_fine = match &verdict.end {
            RunEnding::Complete { .. } | RunEnding::Stopped => true,
            // What is never answered holds the ring that all use.
            RunEnding::Failed(Blame::Others(_)) => {
                (is_stuck || !is_of_target) && verdicts.iter().any(has_cause)
            }
            _ => !is_of_target || verdict.target == world.broken,
        };
        if !is_fine {
            let (number, end) = (verdict.target, &verdict.end);
            return Err(format!("target {number} fails with another: {end:?}"));
        }
    }
    Ok(())
}

fn a_fall_back_is_told(run: &RunCase<'_>) -> Check {
    let is_silent = |record: &CompletedCopy| {
        let is_told = record.warnings.iter().any(Warning::is_fall_back);
        record.route == Route::Host && record.content.data > Bytes::ZERO && !is_told
    };
    let records = || run.verdicts.iter().filter_map(|verdict| verdict.record.as_ref());
    match records().find(|record| is_silent(record)).filter(|_| !run.plan.only_host) {
        Some(record) => Err(format!("payload went by host memory in silence: {}", record.reason)),
        None => Ok(()),
    }
}

fn a_bad_route_is_not_taken(run: &RunCase<'_>) -> Check {
    let is_bad = matches!(
        run.world.kind,
        FaultKind::ReadsLost
            | FaultKind::WritesLost
            | FaultKind::WholeWritesLost
            | FaultKind::RouteRefused
    );
    let is_taken =
        |one: &TargetVerdict| matches!(one.end, RunEnding::Complete { route: Route::P2p });
    if is_bad && run.verdicts.iter().any(is_taken) {
        return Err("a route that loses data passed its proof".to_owned());
    }
    Ok(())
}

fn nothing_is_left(run: &RunCase<'_>) -> Check {
    let RunCase { world, verdicts, seen, .. } = run;
    if !seen.left.is_empty() {
        return Err(format!("{:?} are left next to the journal", seen.left));
    }
    // A proof that is not answered by one memory is left behind for the next.
    let is_stuck =
        matches!(world.kind, FaultKind::ReadStuck | FaultKind::WriteStuck | FaultKind::FlushStuck);
    let is_ended = verdicts.iter().any(|verdict| verdict.end.is_of_the_program());
    if seen.in_flight == 0 || is_stuck || is_ended {
        return Ok(());
    }
    Err(format!("{} requests are left in flight after {verdicts:?}", seen.in_flight))
}

fn the_cause_is_named(case: &TargetCase<'_>) -> Check {
    let TargetCase { world, target, verdict, .. } = case;
    let (kind, end) = (world.kind, &verdict.end);
    let is_named = match end {
        // A later flush vouches for nothing that an earlier one failed to keep.
        RunEnding::Complete { .. } => verdict.figures.failed_flushes == 0,
        RunEnding::Stopped => matches!(
            kind,
            FaultKind::Stopped
                | FaultKind::JournalDamaged
                | FaultKind::JournalFull
                | FaultKind::Exchanged
                | FaultKind::OptionsChanged
                | FaultKind::SectorLost
        ),
        RunEnding::PowerLost => matches!(kind, FaultKind::PowerCut | FaultKind::PowerCutAtSave),
        RunEnding::Failed(Blame::Nobody) => kind == FaultKind::Killed,
        RunEnding::Failed(Blame::SourceChanged) => kind == FaultKind::SourceShrinks,
        // What is unplugged under a file has its journal, too.
        RunEnding::Failed(Blame::JournalNotSaved) => {
            kind == FaultKind::JournalFull
                || kind == FaultKind::TargetGone && target.file_system.is_some()
        }
        RunEnding::Failed(Blame::File { action, errno }) => match kind {
            FaultKind::TargetGone => true,
            FaultKind::FlushError | FaultKind::FlushErrorOnce => *action == "flush",
            FaultKind::TargetFull | FaultKind::JournalFull => *errno == Some(Errno::NOSPC),
            _ => false,
        },
        RunEnding::Differs => kind.loses_silently(),
        RunEnding::Failed(Blame::Request(RequestError::Failed(failure))) => names(kind, failure),
        RunEnding::Failed(Blame::Request(RequestError::Stuck(stuck))) => match kind {
            FaultKind::ReadStuck => (stuck.role, stuck.action) == (Role::Source, Action::Read),
            FaultKind::WriteStuck => (stuck.role, stuck.action) == (Role::Target, Action::Write),
            FaultKind::FlushStuck => (stuck.role, stuck.action) == (Role::Target, Action::Flush),
            _ => false,
        },
        RunEnding::Failed(Blame::Others(_)) => world.targets.len() > 1,
        RunEnding::Failed(_) => false,
    };
    if is_named { Ok(()) } else { Err(format!("the end does not name the cause: {end:?}")) }
}

fn names(kind: FaultKind, failure: &RequestFailure) -> bool {
    let RequestFailure { role, action, cause, .. } = *failure;
    let is_bad_sector = |wanted| {
        cause == Cause::BadSector { action: wanted } || cause == Cause::Other { errno: Errno::IO }
    };
    let is_gone = matches!(cause, Cause::DriveGone { .. } | Cause::Other { errno: Errno::IO });
    match kind {
        FaultKind::ReadErrorOnce | FaultKind::ReadErrorStays => {
            (role, action) == (Role::Source, Action::Read) && is_bad_sector(Action::Read)
        }
        FaultKind::WriteErrorOnce | FaultKind::WriteErrorStays => {
            (role, action) == (Role::Target, Action::Write) && is_bad_sector(Action::Write)
        }
        FaultKind::TargetFull => role == Role::Target && cause == Cause::TargetFullOrGone,
        FaultKind::FlushError | FaultKind::FlushErrorOnce => {
            (role, action) == (Role::Target, Action::Flush)
                && cause == Cause::from_errno(Errno::IO, Action::Flush, MemoryKind::Host)
        }
        FaultKind::SourceGone => role == Role::Source && (is_gone || cause == Cause::EndedEarly),
        FaultKind::SourceShrinks => role == Role::Source && cause == Cause::EndedEarly,
        FaultKind::TargetGone => {
            role == Role::Target
                && (is_gone || matches!(cause, Cause::TargetFullOrGone | Cause::EndedEarly))
        }
        FaultKind::MemoryGone => cause == Cause::ProviderGone,
        _ => false,
    }
}

/// True when a range of the copy reads at the target as it does at the source.
pub(super) fn holds(world: &World, target: &SimTarget, now: &[u8], range: Range<u64>) -> bool {
    let start = index(target.shape.offset);
    let at = start + index(range.start)..start + index(range.end);
    now.get(at) == world.payload.get(index(range.start)..index(range.end))
}
