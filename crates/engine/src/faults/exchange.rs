//! Exchanges between two runs of a copy: the drive behind a name, a file, the content of an end.
//!
//! A copy that goes on by a journal must refuse that and change nothing; one without a journal begins, and is of the
//! source that is there then.

use std::io;

use super::attempt::{Blame, RunEnding, RunPlan, attempt};
use super::world::{World, index};
use super::{FaultKind, check};
use crate::io::ring::sim::{Cache, SimFile};

/// Known old content of a target: blocks of its first bytes.
const END: usize = 256 << 10;
const BLOCK: usize = 4096;

/// Exchanges an end, if that is the fault of this run. Returns whether the copy is complete after
/// it.
pub(super) fn exchange(world: &mut World) -> Result<bool, String> {
    if world.kind != FaultKind::Exchanged {
        return Ok(false);
    }
    let is_file = world.targets[0].file_system.is_some();
    match world.random.below(4) {
        0 if is_file => other_file(world).map(|()| false),
        // A journal whose name nobody chose is of one drive: another one has another.
        0 if world.has_own_journal => other_target(world).map(|()| false),
        1 if !is_file => written_target(world).map(|()| false),
        _ => other_source(world),
    }
}

/// A run that must say that something was exchanged, or written to, and change neither targets nor journals.
pub(super) fn refused(world: &mut World, plan: RunPlan) -> Result<(), String> {
    let state = |world: &World| -> Vec<_> {
        world.targets.iter().map(|one| (one.content.bytes.clone(), one.journal.clone())).collect()
    };
    let before = state(world);
    let (verdicts, seen) = attempt(world, plan);
    let is_refused = |end: &RunEnding| match end {
        RunEnding::Failed(Blame::Changed) => !plan.is_unforced,
        RunEnding::Failed(Blame::Refused(_)) => plan.is_unforced,
        _ => false,
    };
    if !verdicts.iter().all(|verdict| is_refused(&verdict.end)) {
        let ends: Vec<_> = verdicts.iter().map(|verdict| &verdict.end).collect();
        return Err(format!("what was exchanged is not refused: {ends:?}"));
    }
    if state(world) != before || !seen.left.is_empty() {
        return Err("a copy that was refused changed something".to_owned());
    }
    seen.untrue.map_or(Ok(()), Err)
}

/// Another drive is behind the name of the target.
fn other_target(world: &mut World) -> Result<(), String> {
    let target = &mut world.targets[0];
    let mut bytes = vec![0; target.content.bytes.len()];
    world.random.fill(&mut bytes);
    let other = SimFile { cache: Some(Cache::over(&bytes)), bytes, ..target.content.clone() };
    if target.journal.is_none() {
        return Ok(());
    }
    let kept = std::mem::replace(&mut target.content, other);
    target.version += 1;
    let refused = refused(world, RunPlan::default());
    let target = &mut world.targets[0];
    target.content = kept;
    target.version -= 1;
    refused
}

/// Writes to a target whose every block must be explained: the next run must refuse it.
fn written_target(world: &mut World) -> Result<(), String> {
    let needs_force = world.needs_force();
    let target = &mut world.targets[world.broken];
    let blocks = target.content.bytes.len().min(END) / BLOCK;
    if target.journal.is_none() || blocks == 0 || needs_force {
        return Ok(());
    }
    let kept = target.content.clone();
    let at = index(world.random.below(blocks as u64)) * BLOCK;
    world.random.fill(&mut target.content.bytes[at..at + BLOCK]);
    target.content.cache = Some(Cache::over(&target.content.bytes));
    let refused = refused(world, RunPlan { is_unforced: true, ..RunPlan::default() });
    world.targets[world.broken].content = kept;
    refused
}

/// Another file has the name of the unfinished one.
fn other_file(world: &mut World) -> Result<(), String> {
    let (Some(folder), Some(_)) = (world.folder.clone(), &world.targets[0].journal) else {
        return Ok(());
    };
    let Some(name) = folder.borrow().partial_name() else { return Ok(()) };
    let failed = |error: io::Error| error.to_string();
    let kept = folder.borrow_mut().exchange(&name).map_err(failed)?;
    let refused = refused(world, RunPlan::default());
    folder.borrow_mut().put_back(&name, kept).map_err(failed)?;
    refused
}

/// The source is another drive, or has other content.
fn other_source(world: &mut World) -> Result<bool, String> {
    let has_journal = world.targets.iter().any(|target| target.journal.is_some());
    let is_any_complete = world.targets.iter().any(|target| target.is_complete);
    if is_any_complete && !has_journal {
        return Ok(false);
    }
    let kept = (world.source.clone(), world.full_source.clone(), world.payload.clone());
    world.random.fill(&mut world.source.bytes);
    world.full_source.clone_from(&world.source.bytes);
    let start = index(world.shape.source_offset);
    world.payload = world.source.bytes[start..start + index(world.shape.length)].to_vec();
    world.version += 1;
    if has_journal {
        refused(world, RunPlan::default())?;
        if is_any_complete || world.random.below(2) == 0 {
            (world.source, world.full_source, world.payload) = kept;
            world.version -= 1;
            return Ok(false);
        }
    }
    let plan = RunPlan { is_anew: has_journal, ..RunPlan::default() };
    let (verdicts, seen) = attempt(world, plan);
    check::after(world, plan, &verdicts, &seen)?;
    if world.targets.iter().all(|target| target.is_complete) {
        return Ok(true);
    }
    Err(format!("a copy of another source does not begin: {verdicts:?}"))
}
