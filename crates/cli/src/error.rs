//! Errors as a person reads them: the action on its object, the causes, a hint.

use std::error::Error;
use std::path::Path;
use std::{fmt, io};

use peerlane::small_file;
use peerlane_fabric::MachineFileError;
use peerlane_lab::LabError;
use peerlane_sim::reproduce::StudyError;

use crate::exit::Exit;
use crate::render::one_line;

/// The end of a command that did not do its task.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    exit: Exit,
}

impl Failure {
    /// A failure with exit status 2 and no hint.
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), hint: None, exit: Exit::Failed }
    }

    /// Sets the hint: a remedy, with a command to run.
    pub(crate) fn hint(self, hint: impl Into<Option<String>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Another exit status.
    pub(crate) fn exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> Exit {
        self.exit
    }

    /// The words of the hint.
    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The error and its causes, outermost first.
    pub(crate) fn chain(&self) -> impl Iterator<Item = String> + '_ {
        self.causes().map(ToString::to_string)
    }

    /// The same as a terminal shows them: each in one line, whatever names it holds, except for
    /// messages written in lines.
    pub(crate) fn shown(&self) -> impl Iterator<Item = String> + '_ {
        self.causes().map(|error| match error.to_string() {
            // The message of a parser ends with a line end.
            text if is_in_lines(error) => text.trim_end().to_owned(),
            text => one_line(&text),
        })
    }

    /// The same in one line, for a warning.
    pub(crate) fn in_one_line(&self) -> String {
        self.shown().collect::<Vec<_>>().join(": ")
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let mut next: Option<&(dyn Error + 'static)> = Some(self.error.as_ref());
        std::iter::from_fn(move || {
            let error = next?;
            next = error.source();
            Some(error)
        })
    }
}

/// True when the text of an error has line ends of its own: a parser quotes the line at fault, the
/// lab a console.
fn is_in_lines(error: &(dyn Error + 'static)) -> bool {
    error.is::<toml::de::Error>()
        || error.is::<Box<toml::de::Error>>()
        || error.is::<MachineFileError>()
        || error.is::<Box<MachineFileError>>()
        || error.is::<StudyError>()
        || error.is::<LabError>()
}

/// Something was tried on an object, and a lower layer said why it did not work.
#[derive(Debug)]
pub(crate) struct Tried {
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

impl Tried {
    /// A wrapper for `map_err`: `cannot {what}`, caused by the error it is given.
    pub(crate) fn to<E>(what: impl Into<String>) -> impl FnOnce(E) -> Failure
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let what = what.into();
        move |source| Failure::new(Self { what, source: source.into() })
    }

    /// The same for a file that the command line names, and that the user may not be allowed to read.
    pub(crate) fn to_read(
        what: impl Into<String>,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> Failure {
        let what = what.into();
        move |source| {
            let hint = small_file::hint(path, &source);
            if source.kind() == io::ErrorKind::NotFound {
                return Self::to(what)(format!("{} does not exist", path.display())).hint(hint);
            }
            Self::to(what)(source).hint(hint)
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.what)
    }
}

impl Error for Tried {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

/// The message of the argument parser in one line, without tip and usage.
pub(crate) fn usage_message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let what: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    what.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_one_line() {
        let failure = Tried::to("read /x")(std::io::Error::other("device gone"));
        assert_eq!(failure.chain().collect::<Vec<_>>(), ["cannot read /x", "device gone"]);
        assert_eq!(failure.status(), Exit::Failed);
    }

    #[test]
    fn names_are_escaped_and_parser_lines_kept() {
        let shown = |failure: &Failure| failure.shown().collect::<Vec<_>>();
        let named = Tried::to("read a\nhint: b")(io::Error::other("c\nd"));
        assert_eq!(shown(&named), ["cannot read a\\nhint: b", "c\\nd"]);
        assert_eq!(named.chain().next().unwrap(), "cannot read a\nhint: b", "records keep names");

        let parse = || toml::from_str::<toml::Table>("a = [").unwrap_err();
        let file = || MachineFileError::from(parse());
        for failure in [
            Failure::new(parse()),
            Failure::new(Box::new(parse())),
            Failure::new(file()),
            Failure::new(Box::new(file())),
        ] {
            let text = shown(&failure).remove(0);
            assert!(text.lines().count() > 2 && !text.ends_with('\n'), "{text:?}");
        }
    }
}
