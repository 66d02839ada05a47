//! Outcome of each of several targets: for the record, the terminal and the exit status.

use peerlane_engine::{CopyError, FanOut};
use peerlane_results::{
    Asked, CopyFailure, CopyRecord, FAN_OUT_SCHEMA, FanOutRecord, TargetOutcome,
};

use super::copy::exit_of;
use super::resume::ResumeCommand;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// One target's outcome, and its exit status.
pub(super) struct EndedTarget {
    pub(super) outcome: TargetOutcome,
    pub(super) exit: Exit,
    failure: Option<Failure>,
}

impl EndedTarget {
    /// Outcome of a target; `copied` names it in words where there are more jobs than one.
    pub(super) fn new(target: &str, result: Result<CopyRecord, CopyError>) -> Self {
        let outcome =
            |record, failure| TargetOutcome { target: target.to_owned(), record, failure };
        let error = match result {
            Ok(record) => {
                let outcome = outcome(Some(record), None);
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
    pub(super) fn report(&self, printer: Printer) {
        if let Some(failure) = &self.failure {
            printer.failure(failure);
        }
    }

    /// True when the copy to it can be resumed.
    fn has_journal(&self) -> bool {
        self.outcome.failure.as_ref().is_some_and(|failure| failure.journal.is_some())
    }
}

/// Prints what became of several targets.
///
/// # Errors
/// When one of them is not complete.
pub(super) fn show(
    asked: &[Asked],
    copied: FanOut,
    resume: &ResumeCommand,
    printer: Printer,
) -> Result<Exit, Failure> {
    let ended: Vec<EndedTarget> = (asked.iter().zip(copied.targets))
        .map(|(asked, result)| EndedTarget::new(&asked.target, result))
        .collect();
    let record = FanOutRecord {
        schema: FAN_OUT_SCHEMA.to_owned(),
        read: copied.read,
        targets: ended.iter().map(|one| one.outcome.clone()).collect(),
    };
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.text(&render::fan_out(&record, printer.is_verbose()))?;
    }
    ended.iter().for_each(|one| one.report(printer));
    let command = command(asked, &ended, resume);
    let hint = command.map(|command| format!("`{command}` continues them"));
    end(&ended.iter().collect::<Vec<_>>(), hint)
}

/// The command that goes on with those that can, if any.
pub(super) fn command(
    asked: &[Asked],
    ended: &[EndedTarget],
    resume: &ResumeCommand,
) -> Option<String> {
    let left: Vec<&Asked> = (asked.iter().zip(ended))
        .filter(|(_, ended)| ended.has_journal())
        .map(|(asked, _)| asked)
        .collect();
    (!left.is_empty()).then(|| resume.for_targets(&left))
}

/// The end of a command with several targets: names those that are not complete.
pub(super) fn end(ended: &[&EndedTarget], hint: Option<String>) -> Result<Exit, Failure> {
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
