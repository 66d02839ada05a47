//! The only writer to the terminal.
//!
//! Data goes to standard output, everything else to standard error. A reader that goes away ends
//! output quietly and never changes the exit status; any other failure to write data is an error.

mod bench_progress;
mod count;
mod elapsed;
mod meter;
mod progress;
mod progress_writer;
mod question;
mod wrap;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::AutoStream;
use clap::builder::styling::{AnsiColor, Style};
use peerlane_results::{ERROR_SCHEMA, ErrorRecord};
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{ColorChoice, GlobalArgs, as_shown};
use crate::error::{Failure, Tried};
use crate::render::one_line;

pub(crate) use bench_progress::BenchProgress;
pub(crate) use count::CountLine;
pub(crate) use elapsed::Elapsed;
pub(crate) use progress::ProgressPrinter;
pub(crate) use question::Reply;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Set once the object of a result was written.
static HAS_OBJECT: AtomicBool = AtomicBool::new(false);

/// Writes to the terminal, as far as the options permit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    verbose: u8,
    color: ColorChoice,
}

impl Printer {
    /// A printer that heeds the global options.
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color: global.color,
        }
    }

    /// A printer for messages before the options are known.
    pub(crate) fn plain(color: ColorChoice) -> Self {
        Self { json: false, quiet: false, verbose: 0, color }
    }

    /// True when one JSON object is printed instead of text.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// True if `-v` asks for details.
    pub(crate) fn is_verbose(self) -> bool {
        self.verbose > 0
    }

    /// Sends the log of the libraries to standard error, as far as `-v` asks for it.
    pub(crate) fn start_log(self) {
        let level = match self.verbose {
            0 => LevelFilter::OFF,
            1 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        let color = self.is_colored_stderr();
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(io::stderr)
            .with_ansi(color)
            .without_time()
            .init();
    }

    fn is_quiet(self) -> bool {
        self.quiet
    }

    fn is_colored_stderr(self) -> bool {
        AutoStream::new(io::stderr(), self.choice()).current_choice()
            != anstream::ColorChoice::Never
    }

    /// Writes a result in words, wrapped; nothing with `-q`.
    ///
    /// # Errors
    /// When standard output does not take it, unless its reader went away.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        self.data(&wrap::wrapped(text, wrap::columns()))
    }

    /// Writes text for other programs as it is; nothing with `-q`.
    ///
    /// # Errors
    /// As [`Printer::text`].
    pub(crate) fn data(self, text: &str) -> Result<(), Failure> {
        if self.quiet { Ok(()) } else { self.stdout(&visible(text)) }
    }

    /// Writes one JSON object, also with `-q`.
    ///
    /// # Errors
    /// As [`Printer::text`].
    pub(crate) fn object(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text =
            serde_json::to_string_pretty(value).map_err(Tried::to("write the result as JSON"))?;
        text.push('\n');
        HAS_OBJECT.store(true, Ordering::Relaxed);
        self.stdout(&text)
    }

    /// Writes the object of a failure with `--json`, unless the object of a result was written.
    pub(crate) fn failure_object(self, failure: &Failure) {
        if HAS_OBJECT.load(Ordering::Relaxed) {
            return;
        }
        let mut what = failure.chain();
        let record = ErrorRecord {
            schema: ERROR_SCHEMA.to_owned(),
            what: what.next().unwrap_or_default(),
            causes: what.collect(),
            hint: failure.hint_text().map(str::to_owned),
            status: failure.status().number(),
        };
        // In one line, for readers of `scan`; the failure stands on standard error in any case.
        let _ = self.json_line(&record);
    }

    /// Writes one JSON object of several as a line; also with `-q`.
    ///
    /// # Errors
    /// As [`Printer::text`].
    pub(crate) fn json_line(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text =
            serde_json::to_string(value).map_err(Tried::to("write the result as JSON"))?;
        text.push('\n');
        self.stdout(&text)
    }

    /// Writes a line about an event; nothing with `-q`.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            self.message(format!("{}\n", entry(&one_line(text))));
        }
    }

    /// Writes lines of the program's own, which hold no names of files or devices; not with `-q`.
    pub(crate) fn lines(self, text: &str) {
        if !self.quiet {
            self.stderr(&format!("{}\n", visible(text)));
        }
    }

    /// Writes a line that a program reads, also with `-q`.
    fn line(self, text: &str) {
        self.stderr(&format!("{text}\n"));
    }

    /// Writes a warning; nothing with `-q`, when the record alone tells of a fallback.
    pub(crate) fn warning(self, text: &str) {
        if self.quiet {
            return;
        }
        self.message(format!("{WARNING}warning:{WARNING:#} {}\n", entry(&one_line(text))));
    }

    /// Writes an error with its causes and its hint.
    pub(crate) fn failure(self, failure: &Failure) {
        let mut text = String::new();
        for (index, line) in failure.shown().enumerate() {
            let label = if index == 0 { "error:" } else { "caused by:" };
            text.push_str(&format!("{ERROR}{label}{ERROR:#} {}\n", entry(&line)));
        }
        if let Some(hint) = failure.hint_text() {
            text.push_str(&format!("\n{HINT}hint:{HINT:#} {}\n", entry(&one_line(hint))));
        }
        self.message(text);
    }

    /// Writes the output of the argument parser: help to standard output, errors to standard error.
    pub(crate) fn usage(self, error: &clap::Error) {
        let text = as_shown(&error.render().ansi().to_string());
        if error.use_stderr() {
            self.stderr(&text);
        } else {
            // A reader of help that goes away, or a full disk, is nothing to report about help.
            let _ = self.stdout(&text);
        }
    }

    /// Takes the standard output of a command in the lab, byte for byte; a reader that goes away is
    /// an error, upon which the lab ends the command.
    ///
    /// # Errors
    /// When the system has no further descriptor.
    pub(crate) fn pass_on_stdout(self) -> io::Result<File> {
        // Past the lock of `io::stdout`, which a write that is waited for would hold.
        io::stdout().as_fd().try_clone_to_owned().map(File::from)
    }

    /// Takes the standard error of a command in the lab, byte for byte.
    ///
    /// # Errors
    /// As [`Printer::pass_on_stdout`].
    pub(crate) fn pass_on_stderr(self) -> io::Result<PassOn<File>> {
        io::stderr().as_fd().try_clone_to_owned().map(|open| PassOn(open.into()))
    }

    fn stdout(self, text: &str) -> Result<(), Failure> {
        let mut out = AutoStream::new(io::stdout(), self.choice()).lock();
        finish(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
    }

    /// Writes a message, wrapped on a terminal only: in a log each stays one line.
    fn message(self, text: String) {
        match wrap::columns_of_stderr() {
            Some(columns) => self.stderr(&wrap::wrapped(&text, columns)),
            None => self.stderr(&text),
        }
    }

    fn stderr(self, text: &str) {
        // There is no third place to report that standard error cannot be written to.
        let _ = AutoStream::new(io::stderr(), self.choice()).lock().write_all(text.as_bytes());
    }

    fn choice(self) -> anstream::ColorChoice {
        match self.color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
    }
}

/// Most characters of a line of an entry: the longest path (4095 bytes) and the words about it. A
/// parser quotes the line that it does not understand, which may be all of a file.
const LINE_MAX: usize = 4500;

/// A text with further lines indented and of bounded length: a name with a line end in it forges no
/// warning and no hint.
fn entry(text: &str) -> String {
    let line = |line: &str| match line.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line.to_owned(),
    };
    visible(text).split('\n').map(line).collect::<Vec<_>>().join("\n  ")
}

/// A word with all that a terminal would obey in escaped form.
pub(crate) fn escaped(word: &str) -> String {
    visible(&one_line(word).replace('\t', "\\t")).into_owned()
}

/// Text with control characters of names in it, which a terminal would obey, in escaped form; line
/// ends and tabs stay, direction marks (Unicode annex 9, section 2) do not.
fn visible(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| {
        matches!(c, '\n' | '\t')
            || !(c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_plain(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    Cow::Owned(shown)
}

fn finish(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Tried::to("write to standard output")(error))
        }
        _ => Ok(()),
    }
}

/// Passes bytes on; a reader that goes away is not an error.
pub(crate) struct PassOn<T>(T);

impl<T: Write> Write for PassOn<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}

/// Makes a panic a plain message that asks for a report; the caller turns it into an exit status.
pub(crate) fn report_panics(printer: Printer) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic
            .payload()
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let failure = Failure::new(format!("internal error at {place}: {what}")).hint(
            "this is a fault in peerlane: please report it with the command line and the output \
             of `peerlane --version`"
                .to_owned(),
        );
        printer.failure(&failure);
    }));
}

#[cfg(test)]
mod tests {
    use super::{LINE_MAX, entry, visible};

    #[test]
    fn names_cannot_forge_lines() {
        let name = "/data/a\nerror: all is lost\nhint: rm -r /data";
        assert_eq!(entry(name), "/data/a\n  error: all is lost\n  hint: rm -r /data");
    }

    #[test]
    fn overlong_lines_are_cut() {
        let path = format!("/{}", "\u{e4}".repeat(LINE_MAX - 1));
        assert_eq!(entry(&path), path);
        let text = format!("cannot understand\n{}\n  ^\n", "[".repeat(LINE_MAX * 9));
        let cut = format!("cannot understand\n  {} ...\n    ^\n  ", "[".repeat(LINE_MAX));
        assert_eq!(entry(&text), cut);
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        let name = "a\x1b[2Jb\x07\u{9b}31m\r\u{202e}";
        assert_eq!(visible(name), "a\\u{1b}[2Jb\\u{7}\\u{9b}31m\\r\\u{202e}");
        let text = "two lines\n\tof text, \u{e4}\u{1f600}";
        assert_eq!(visible(text), text);
    }
}
