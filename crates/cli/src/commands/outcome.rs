//! Outcome of each of several targets: for the record, the terminal and the exit status.

use peerlane_engine::{CopyError, FanOut};
use peerlane_results::{Asked, CompletedCopy, CopyFailure, CopyRecord, JobOutcome, TargetOutcome};
use peerlane_units::Bytes;

use super::copy::exit_of;
use super::resume::ResumeCommand;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// One target's outcome, and its exit status.
pub(super) struct EndedTarget {
    outcome: TargetOutcome,
    pub(super) exit: Exit,
    failure: Option<Failure>,
}

impl EndedTarget {
    /// Outcome of a target.
    fn new(target: &str, result: Result<CompletedCopy, CopyError>) -> Self {
        let outcome =
            |copied, failure| TargetOutcome { target: target.to_owned(), copied, failure };
        let error = match result {
            Ok(copied) => {
                let outcome = outcome(Some(copied), None);
                return Self { outcome, exit: Exit::Done, failure: None };
            }
            Err(error) => error,
        };
        let (exit, hint) = (exit_of(&error), error.hint());
        let journal = error.journal().map(|path| path.display().to_string());
        let failure = Tried::to(format!("copy to {target}"))(error).hint(hint.clone());
        let errors = failure.chain().collect();
        let failed = CopyFailure { errors, hint, journal, exit: exit.number() };
        Self { outcome: outcome(None, Some(failed)), exit, failure: Some(failure) }
    }

    /// Writes why it is not complete.
    fn report(&self, printer: Printer) {
        if let Some(failure) = &self.failure {
            printer.failure(failure);
        }
    }

    /// True when the copy to it can be resumed.
    fn has_journal(&self) -> bool {
        self.outcome.failure.as_ref().is_some_and(|failure| failure.journal.is_some())
    }
}

/// A job that ended.
pub(super) struct EndedJob {
    source: String,
    read: Bytes,
    pub(super) targets: Vec<EndedTarget>,
}

impl EndedJob {
    /// The end of the copies that were asked for with one source.
    pub(super) fn new(asked: &[Asked], copied: FanOut) -> Self {
        let targets = (asked.iter().zip(copied.targets))
            .map(|(asked, result)| EndedTarget::new(&asked.target, result));
        Self {
            source: asked.first().map(|asked| asked.source.clone()).unwrap_or_default(),
            read: copied.read,
            targets: targets.collect(),
        }
    }

    fn outcome(&self) -> JobOutcome {
        JobOutcome {
            source: self.source.clone(),
            read: self.read,
            targets: self.targets.iter().map(|one| one.outcome.clone()).collect(),
        }
    }

    /// The command that goes on with the targets that can.
    pub(super) fn command(&self, asked: &[Asked], resume: &ResumeCommand) -> Option<String> {
        let left: Vec<&Asked> = (asked.iter().zip(&self.targets))
            .filter(|(_, ended)| ended.has_journal())
            .map(|(asked, _)| asked)
            .collect();
        (!left.is_empty()).then(|| resume.for_targets(&left))
    }
}

/// Prints the record, and why targets are not complete.
///
/// # Errors
/// When one of them is not complete.
pub(super) fn show(
    jobs: &[EndedJob],
    hint: Option<String>,
    printer: Printer,
) -> Result<Exit, Failure> {
    let record = CopyRecord::new(jobs.iter().map(EndedJob::outcome).collect());
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.text(&render::copies(&record, printer.is_verbose()))?;
    }
    let ended: Vec<&EndedTarget> = jobs.iter().flat_map(|job| &job.targets).collect();
    ended.iter().for_each(|one| one.report(printer));
    end(&ended, hint)
}

/// The end of a command with several targets: names those that are not complete.
fn end(ended: &[&EndedTarget], hint: Option<String>) -> Result<Exit, Failure> {
    let exits: Vec<Exit> = ended.iter().map(|one| one.exit).collect();
    let missing: Vec<&str> = ended
        .iter()
        .filter(|one| one.exit != Exit::Done)
        .map(|one| one.outcome.target.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(Exit::Done);
    }
    let words = format!(
        "{} of {} targets are not complete: {}",
        missing.len(),
        ended.len(),
        missing.join(", ")
    );
    Err(Failure::new(words).hint(hint).exit(Exit::worst(&exits)))
}
