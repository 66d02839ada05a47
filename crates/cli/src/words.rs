//! The words of a command line, read, and the messages on those that cannot be.
//!
//! The argument parser quotes words as they are. So its messages are made of words with everything
//! escaped that a terminal would obey.

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;

use crate::args::{self, Cli};
use crate::commands::quoted;
use crate::error::{Failure, usage_message};
use crate::exit::Exit;
use crate::printer::{Printer, escaped};

/// Reads a command line, or reports its fault.
pub(crate) fn read(words: &[OsString], printer: Printer) -> Result<Cli, Exit> {
    let error = match args::try_parse(words) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let is_no_text = error.kind() == ErrorKind::InvalidUtf8;
    if let Some(word) = no_text(words).filter(|_| is_no_text) {
        let hint = format!("name a file by a link to it: `ln -s {} NAME`", quoted(word));
        let failure = Failure::new(format!("the argument {word:?} is not UTF-8 text"));
        let failure = failure.hint(hint);
        printer.failure(&failure);
        if wants_json(words) {
            printer.failure_object(&failure);
        }
        return Err(Exit::Failed);
    }
    let shown: Vec<OsString> =
        words.iter().map(|word| escaped(&word.to_string_lossy()).into()).collect();
    let error = match args::try_parse(&shown) {
        _ if shown == words => error,
        Err(error) => error,
        Ok(_) => args::command().error(ErrorKind::InvalidValue, "a word has control characters"),
    };
    printer.usage(&error);
    if error.use_stderr() && wants_json(words) {
        printer.failure_object(&as_failure(&error));
    }
    Err(if error.use_stderr() { Exit::Failed } else { Exit::Done })
}

/// True when the words ask for JSON.
pub(crate) fn wants_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// The message of the argument parser, with its tip as the hint.
fn as_failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    Failure::new(usage_message(error)).hint(tip.map(str::to_owned))
}

/// The word that has to be text and is none: others, such as names of files, need not be.
fn no_text(words: &[OsString]) -> Option<&OsStr> {
    let is_it = |index: &usize| {
        let alone = words.iter().enumerate().map(|(other, word)| match other {
            _ if other == *index => word.clone(),
            _ => word.to_string_lossy().into_owned().into(),
        });
        let alone: Vec<OsString> = alone.collect();
        args::try_parse(&alone).is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8)
    };
    let found = (0..words.len()).filter(|index| words[*index].to_str().is_none()).find(is_it)?;
    Some(&words[found])
}
