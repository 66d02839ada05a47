//! Invariants after every step of a run, one function each.

use std::ops::Range;

use peerlane_results::{MemoryKind, Route, Warning};
use peerlane_units::Bytes;
use rustix::io::Errno;

use super::attempt::{Blame, RunEnding, RunObservations, RunPlan, TargetVerdict};
use super::world::{CopySizes, QueueEvent, SimTarget, World, index};
use super::{FaultKind, final_name};
use crate::failure::{Cause, RequestError, RequestFailure, Role};
use crate::journal;
use crate::ring::Action;

type Check = Result<(), String>;

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
    for verdict in verdicts {
        let (number, count) = (verdict.target, world.targets.len());
        of_one_target(world, verdict, seen).map_err(|what| match count {
            1 => what,
            _ => format!("target {number} of {count}: {what}"),
        })?;
    }
    the_source_is_read_once(world, verdicts, seen)?;
    the_memory_is_clear(world, verdicts, seen)?;
    nothing_is_left(world, verdicts, seen)?;
    if seen.is_begun { each_has_its_own_verdict(world, plan, verdicts) } else { Ok(()) }
}

/// Checks one target, whatever becomes of the others.
fn of_one_target(world: &mut World, verdict: &TargetVerdict, seen: &RunObservations) -> Check {
    let target = &world.targets[verdict.target];
    let after_loss = target.after_loss(&mut world.random);
    if target.file_system.is_some() {
        final_name::check(world, target, &verdict.end, seen)?;
    } else {
        nothing_beside_the_copy_changed(world, target, &target.content.bytes)?;
        nothing_beside_the_copy_changed(world, target, &after_loss)?;
    }
    the_journal_is_whole(target)?;
    the_journal_claims_what_is_there(world, target, &after_loss)?;
    no_byte_is_lost_or_doubled(world, verdict, seen)?;
    complete_is_complete(world, target, &after_loss)?;
    a_bad_route_is_not_taken(world.kind, &verdict.end)?;
    the_cause_is_named(world, target, &verdict.end)
}

/// Whatever happened while it was saved.
fn the_journal_is_whole(target: &SimTarget) -> Check {
    match target.journal.as_deref().map(journal::decode) {
        Some(Err(error)) => Err(format!("a journal that nobody can read is left: {error}")),
        _ => Ok(()),
    }
}

/// Memory of a device goes back without payload in it, where the record says so.
fn the_memory_is_clear(world: &World, verdicts: &[TargetVerdict], seen: &RunObservations) -> Check {
    for record in verdicts.iter().filter_map(|verdict| verdict.record.as_ref()) {
        if seen.is_last_unclean && record.scrubbed.bytes > Bytes::ZERO {
            return Err("the memory is said to be cleared, and holds payload".to_owned());
        }
        // A memory that was tried before the one of the record is told of when that happens.
        let caution = Warning::NotScrubbed { reason: String::new() }.to_string();
        let is_told = record.warnings.iter().any(|one| matches!(one, Warning::NotScrubbed { .. }))
            || seen.cautions.iter().any(|one| one.starts_with(&caution));
        let is_gone = world.kind == FaultKind::MemoryGone;
        if seen.is_unclean && !is_told && !is_gone {
            return Err("payload is left in the memory, and nobody says so".to_owned());
        }
    }
    Ok(())
}

fn nothing_beside_the_copy_changed(world: &World, target: &SimTarget, now: &[u8]) -> Check {
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
fn the_journal_claims_what_is_there(world: &World, target: &SimTarget, after_loss: &[u8]) -> Check {
    // Data that are lost while every request succeeds are found by verification, not before.
    let Some(text) = target.journal.as_ref().filter(|_| world.kind != FaultKind::LostLater) else {
        return Ok(());
    };
    let Ok(journal) = journal::decode(text) else { return Ok(()) };
    for range in journal.done.iter() {
        if !holds(world, target, after_loss, range.clone()) {
            return Err(format!("the journal claims {range:?}, which is not there"));
        }
    }
    Ok(())
}

fn no_byte_is_lost_or_doubled(
    world: &World,
    verdict: &TargetVerdict,
    seen: &RunObservations,
) -> Check {
    if seen.progress.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err("progress went back".to_owned());
    }
    let Some(record) = &verdict.record else { return Ok(()) };
    let content = &record.content;
    let sum = content.before.0 + content.data.0 + content.holes.0;
    if sum == world.shape.length {
        return Ok(());
    }
    Err(format!("{content:?} are no {} bytes", world.shape.length))
}

/// Also of a target that was complete before.
fn complete_is_complete(world: &World, target: &SimTarget, after_loss: &[u8]) -> Check {
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

/// Once for all targets; a tail behind the last block that all have in common is read for each, and what was in slots
/// of a memory that went away is read again.
fn the_source_is_read_once(
    world: &World,
    verdicts: &[TargetVerdict],
    seen: &RunObservations,
) -> Check {
    let Bytes(read) = seen.read;
    let CopySizes { block, request, slots, .. } = world.shape;
    let lost = if world.kind == FaultKind::MemoryGone { u64::from(slots) * request } else { 0 };
    let again = block * (verdicts.len() as u64 - 1) + lost;
    for record in verdicts.iter().filter_map(|verdict| verdict.record.as_ref()) {
        let Bytes(data) = record.content.data;
        let is_too_little = read + block <= data;
        let is_too_much = read > data + again && record.content.before == Bytes::ZERO;
        if is_too_little || is_too_much {
            return Err(format!("{read} bytes of the source are read, and a target takes {data}"));
        }
    }
    Ok(())
}

/// A target fails by a fault of its own, or by one of what all use.
fn each_has_its_own_verdict(world: &World, plan: RunPlan, verdicts: &[TargetVerdict]) -> Check {
    let is_of_target = matches!(
        world.kind,
        FaultKind::WriteErrorOnce
            | FaultKind::WriteErrorStays
            | FaultKind::FlushError
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
    for verdict in verdicts {
        let is_fine = match &verdict.end {
            RunEnding::Complete { .. } => true,
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

fn a_bad_route_is_not_taken(kind: FaultKind, end: &RunEnding) -> Check {
    let is_bad = matches!(
        kind,
        FaultKind::ReadsLost
            | FaultKind::WritesLost
            | FaultKind::WholeWritesLost
            | FaultKind::RouteRefused
    );
    match end {
        RunEnding::Complete { route: Route::P2p } if is_bad => {
            Err("a route that loses data passed its proof".to_owned())
        }
        _ => Ok(()),
    }
}

fn nothing_is_left(world: &World, verdicts: &[TargetVerdict], seen: &RunObservations) -> Check {
    if !seen.left.is_empty() {
        return Err(format!("{:?} are left beside the journal", seen.left));
    }
    // A proof that is not answered by one memory is left behind for the next.
    let is_stuck =
        matches!(world.kind, FaultKind::ReadStuck | FaultKind::WriteStuck | FaultKind::FlushStuck);
    let is_ended = |verdict: &TargetVerdict| {
        matches!(verdict.end, RunEnding::PowerLost | RunEnding::Failed(Blame::Nobody))
    };
    if seen.in_flight == 0 || is_stuck || verdicts.iter().any(is_ended) {
        return Ok(());
    }
    Err(format!("{} requests are left in flight after {verdicts:?}", seen.in_flight))
}

fn the_cause_is_named(world: &World, target: &SimTarget, end: &RunEnding) -> Check {
    let kind = world.kind;
    let is_named = match end {
        RunEnding::Complete { .. } => true,
        RunEnding::Stopped => matches!(
            kind,
            FaultKind::Stopped
                | FaultKind::JournalDamaged
                | FaultKind::JournalFull
                | FaultKind::Exchanged
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
            FaultKind::FlushError => *action == "flush",
            FaultKind::TargetFull | FaultKind::JournalFull => *errno == Some(Errno::NOSPC),
            _ => false,
        },
        RunEnding::Differs => kind == FaultKind::LostLater,
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
        FaultKind::FlushError => {
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
fn holds(world: &World, target: &SimTarget, now: &[u8], range: Range<u64>) -> bool {
    let start = index(target.shape.offset);
    let at = start + index(range.start)..start + index(range.end);
    now.get(at) == world.payload.get(index(range.start)..index(range.end))
}
