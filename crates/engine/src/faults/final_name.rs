//! Invariant of a target that is a file: its name shows all of the copy, or its former content.

use std::fs;

use super::attempt::{Blame, RunEnding};
use super::check::TargetCase;
use super::folder::{Folder, TARGET};
use super::world::{SimTarget, World};
use crate::io::journal;

/// Content under the name of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownTarget {
    Nothing,
    Old,
    Copy,
    Other,
}

pub(super) fn check(case: &TargetCase<'_>) -> Result<(), String> {
    let TargetCase { run, world, target, verdict, .. } = case;
    let (end, seen) = (&verdict.end, run.seen);
    let Some(folder) = world.folder.as_ref().filter(|_| target.file_system.is_some()) else {
        return Ok(());
    };
    let folder = folder.borrow();
    let shown = shown(world, target, &folder);
    let before = if target.old.is_some() { ShownTarget::Old } else { ShownTarget::Nothing };
    let is_as_before = shown == before || seen.had_its_name && shown == ShownTarget::Copy;
    let is_fitting = match end {
        RunEnding::Complete { .. } => shown == ShownTarget::Copy,
        // The name changes at one moment, before or after which it ended.
        RunEnding::PowerLost | RunEnding::Failed(Blame::Nobody) => {
            is_as_before || shown == ShownTarget::Copy
        }
        // What comes after the name: the flush of it, the end of the journal.
        RunEnding::Failed(Blame::File { action: "make durable", .. } | Blame::JournalNotSaved) => {
            is_as_before || shown == ShownTarget::Copy
        }
        _ => is_as_before,
    };
    if !is_fitting {
        return Err(format!("the name of the target shows {shown:?} after {end:?}"));
    }
    the_journal_has_its_file(target, &folder)
}

fn shown(world: &World, target: &SimTarget, folder: &Folder) -> ShownTarget {
    if folder.inode(TARGET).is_none() {
        return ShownTarget::Nothing;
    }
    if folder.is_named() {
        return if target.content.bytes == world.payload {
            ShownTarget::Copy
        } else {
            ShownTarget::Other
        };
    }
    let found = fs::read(folder.path(TARGET)).ok();
    if found == target.old { ShownTarget::Old } else { ShownTarget::Other }
}

/// A journal that claims something is of a file that can be found.
fn the_journal_has_its_file(target: &SimTarget, folder: &Folder) -> Result<(), String> {
    let journal = target.journal.as_deref().and_then(|text| journal::decode(text).ok());
    match journal.filter(|journal| !journal.done.is_empty()) {
        Some(journal) if !folder.has_file_of(&journal) => {
            Err("the journal claims parts of a file that is not found".to_owned())
        }
        _ => Ok(()),
    }
}
