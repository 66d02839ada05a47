//! Invariants of the claims, journals and names that a run leaves for the next one, also after a
//! loss of power.

use super::FaultKind;
use super::attempt::{Blame, RunEnding};
use super::check::{TargetCase, holds};
use super::folder::TARGET;
use crate::io::journal;

/// A drive that holds part of the copy, and no journal that says so, would need `--force`.
pub(super) fn the_claim_is_there(case: &TargetCase<'_>) -> Result<(), String> {
    let TargetCase { run, world, target, verdict, .. } = case;
    let is_worthless = match verdict.end {
        RunEnding::Differs | RunEnding::Failed(Blame::SourceChanged) => true,
        // A file tells that it was changed; nothing of what it was then can be gone on with.
        _ => world.kind == FaultKind::SourceShrinks && world.is_file,
    };
    let is_touched = verdict.figures.is_written || !verdict.before.is_empty();
    let is_exempt = target.is_complete || is_worthless || run.plan.is_anew;
    // The journal goes when all is on stable storage, before anybody is told.
    let is_exempt = is_exempt || holds(world, target, &case.after_loss, 0..world.shape.length);
    if target.file_system.is_none() && is_touched && !is_exempt && target.journal.is_none() {
        return Err(format!(
            "the drive was written to, and no journal claims it: {:?}",
            verdict.end
        ));
    }
    Ok(())
}

/// Bytes that an error reports as kept are in a journal on stable storage, and in a file that has a
/// name there.
pub(super) fn what_was_kept_outlasts(case: &TargetCase<'_>) -> Result<(), String> {
    let TargetCase { world, target, verdict, .. } = case;
    // What is unplugged under a file has its folder, too.
    let is_gone = target.file_system.is_some() && world.kind == FaultKind::TargetGone;
    let is_told = !verdict.end.is_of_the_program() && !is_gone;
    let (Some(done), Some(folder)) = (verdict.kept.filter(|_| is_told), &world.folder) else {
        return Ok(());
    };
    let folder = folder.borrow();
    let name = world.name(verdict.target, &folder).map_err(|error| error.to_string())?;
    let text = folder.disk.stable_text(&name.journal);
    let Some(journal) = text.and_then(|text| journal::decode(text).ok()) else {
        return Err(format!("{done} are said to be kept, by a journal that a loss of power takes"));
    };
    if journal.done.total() != done.0 {
        let total = journal.done.total();
        return Err(format!("{done} are said to be kept, and the journal has {total} bytes"));
    }
    match journal.partial {
        Some(partial) if folder.disk.stable_inode(partial.as_ref()) != folder.target => {
            Err("the unfinished file of a journal has a name that a loss of power takes".to_owned())
        }
        _ => Ok(()),
    }
}

/// A loss of power after the end takes neither the name of a complete file nor brings a journal back.
pub(super) fn the_name_outlasts(case: &TargetCase<'_>) -> Result<(), String> {
    let TargetCase { world, target, verdict, .. } = case;
    let is_complete = matches!(verdict.end, RunEnding::Complete { .. });
    let Some(folder) = world.folder.as_ref().filter(|_| is_complete) else { return Ok(()) };
    let folder = folder.borrow();
    if target.file_system.is_some() && folder.disk.stable_inode(TARGET.as_ref()) != folder.target {
        return Err("the file is reported complete, and a loss of power takes its name".to_owned());
    }
    let name = world.name(verdict.target, &folder).map_err(|error| error.to_string())?;
    match folder.disk.stable_inode(&name.journal) {
        Some(_) => Err("a loss of power brings the journal of a complete copy back".to_owned()),
        None => Ok(()),
    }
}
