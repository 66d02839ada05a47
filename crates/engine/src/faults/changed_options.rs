//! Options that a person changes between two runs of a copy.
//!
//! A changed option that decides which byte goes where must be refused, with nothing changed; the
//! rest may change, and the copy is right.

use super::attempt::{RunPlan, attempt};
use super::exchange::refused;
use super::world::{SimTarget, World};
use super::{FaultKind, check};

/// Changes an option, if that is the fault of this run.
pub(super) fn change_options(world: &mut World) -> Result<(), String> {
    if world.kind != FaultKind::OptionsChanged {
        return Ok(());
    }
    let is_unfinished = |one: &SimTarget| !one.is_complete && one.journal.is_some();
    let Some(number) = world.targets.iter().position(is_unfinished) else { return Ok(()) };
    match world.random.below(6) {
        0 => other_length(world),
        1 => other_source_offset(world),
        2 if world.targets[number].file_system.is_none() => other_target_offset(world, number),
        3 => with_stage(world),
        4 => fewer_targets(world, number),
        _ => {
            other_requests(world);
            Ok(())
        }
    }
}

fn other_length(world: &mut World) -> Result<(), String> {
    let kept = world.shape;
    if kept.length <= kept.block {
        return Ok(());
    }
    world.shape.length -= kept.block;
    let refused = refused(world, RunPlan::default());
    world.shape = kept;
    refused
}

fn other_source_offset(world: &mut World) -> Result<(), String> {
    let kept = world.shape;
    if kept.source_offset == 0 {
        return Ok(());
    }
    world.shape.source_offset -= kept.source_block;
    let refused = refused(world, RunPlan::default());
    world.shape = kept;
    refused
}

fn other_target_offset(world: &mut World, number: usize) -> Result<(), String> {
    let kept = world.targets[number].shape;
    if kept.offset == 0 {
        return Ok(());
    }
    world.targets[number].shape.offset -= kept.block;
    let refused = refused(world, RunPlan::default());
    world.targets[number].shape = kept;
    refused
}

fn with_stage(world: &mut World) -> Result<(), String> {
    world.stages = vec!["digest".to_owned()];
    let refused = refused(world, RunPlan::default());
    world.stages.clear();
    refused
}

/// Goes on with one target of several; the others are as they were.
fn fewer_targets(world: &mut World, number: usize) -> Result<(), String> {
    let others = |world: &World| -> Vec<_> {
        let others = world.targets.iter().enumerate().filter(|(one, _)| *one != number);
        others.map(|(_, one)| (one.content.bytes.clone(), one.journal.clone())).collect()
    };
    let before = others(world);
    let plan = RunPlan { only: Some(number), ..RunPlan::default() };
    let (verdicts, seen) = attempt(world, plan);
    check::after(world, plan, &verdicts, &seen)?;
    if others(world) != before {
        return Err("a target that was not named is changed".to_owned());
    }
    match world.targets[number].is_complete {
        true => Ok(()),
        false => Err(format!("one target of several does not go on: {verdicts:?}")),
    }
}

fn other_requests(world: &mut World) {
    let random = &mut world.random;
    world.shape.request = world.shape.block * (1 + random.below(4));
    world.shape.slots = u32::try_from(1 + random.below(6)).unwrap_or(1);
    world.shape.entries += world.shape.slots;
}
