//! Implements `--resume`: goes on by a journal, finds the copy complete, or begins.
//!
//! So the same command, given again and again, ends with the copy done. Without a journal it does
//! no more than a copy that begins, and has the same obstacles.

use peerlane_results::{Plan, ResumedWithout, Warning};
use peerlane_units::Bytes;

use super::begin::{BeginOutcome, Beginning, Begun};
use super::compare::OpenPair;
use super::files::OpenTarget;
use super::options::{CopyOptions, Start};
use super::pieces::Holes;
use super::{CopyError, Tools};
use crate::endpoints::PathNode;
use crate::io::ranges::RangeSet;

/// Begins a copy, or goes on with one.
pub(super) fn begin_or_go_on<'m>(
    beginning: Beginning<'_, 'm>,
    plan: &Plan,
    tools: &mut Tools<'_>,
) -> Result<Begun<'m>, CopyError> {
    let (mut journal, mut reason) = (None, None);
    match beginning.clone().begin()? {
        BeginOutcome::Begun(begun) => return Ok(*begun),
        BeginOutcome::NoJournal { journal: path } => journal = Some(path.display().to_string()),
        BeginOutcome::NotResumable { reason: why } => reason = Some(why.to_string()),
    }
    let warning = |outcome| match &journal {
        Some(journal) => Warning::NothingToResume { journal: journal.clone(), outcome },
        None => Warning::NotResumable { reason: reason.clone().unwrap_or_default() },
    };
    if beginning.held.is_empty() {
        let anew = CopyOptions { start: Start::Anew, ..beginning.options.clone() };
        let beginning = Beginning { options: &anew, ..beginning };
        let BeginOutcome::Begun(begun) = beginning.begin()? else {
            let reason = "it was asked to begin, and did not".to_owned();
            return Err(CopyError::WithOthers { reason });
        };
        let mut warnings = begun.warnings;
        let warning = warning(ResumedWithout::Begun);
        if !warnings.contains(&warning) {
            warnings.insert(0, warning);
        }
        return Ok(Begun { warnings, ..*begun });
    }
    // What stages did to a target that is complete is not to be known any more.
    let found =
        if beginning.staged.row.is_empty() { complete(&beginning, plan, tools)? } else { None };
    let Some(target) = found else {
        return Err(CopyError::Refused(beginning.held));
    };
    let mut done = RangeSet::new();
    done.insert(0..beginning.layout.length);
    Ok(Begun {
        target,
        keeper: None,
        source: beginning.source_identity()?,
        done,
        holes: Holes::Moved,
        is_resumed: false,
        manifest: None,
        warnings: vec![warning(ResumedWithout::Equal)],
    })
}

/// The target, open for reading, if it holds all of the copy and nothing else.
fn complete<'m>(
    beginning: &Beginning<'_, 'm>,
    plan: &Plan,
    tools: &mut Tools<'_>,
) -> Result<Option<OpenTarget<'m>>, CopyError> {
    let target = beginning.target_live;
    if target.node == PathNode::NewFile {
        return Ok(None);
    }
    let is_whole =
        target.node == PathNode::Block || plan.target.size == Bytes(beginning.layout.length);
    if !is_whole {
        return Ok(None);
    }
    let machine = beginning.machine;
    let target = OpenTarget::open_finished(machine, target, tools.deadline)?;
    let pair = OpenPair {
        machine,
        plan,
        layout: beginning.layout,
        source: beginning.source,
        target: target.opened(),
    };
    Ok(pair.is_complete(tools)?.then_some(target))
}
