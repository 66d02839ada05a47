//! Progress of work whose end is unknown: a line that changes on a terminal, and nothing
//! elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Printer;

/// Least time between two changes.
const INTERVAL: Duration = Duration::from_millis(100);

/// A line on standard error.
pub(crate) struct CountLine {
    line: Option<ProgressBar>,
    shown: Instant,
}

impl CountLine {
    /// A line; none with `-q`, or if standard error is not a terminal.
    pub(crate) fn new(printer: Printer) -> Self {
        let line = Self::is_wanted(printer).then(|| {
            let style = ProgressStyle::with_template("{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Self { line, shown: Instant::now() }
    }

    /// True when a line is shown at all.
    pub(super) fn is_wanted(printer: Printer) -> bool {
        !printer.is_quiet() && io::stderr().is_terminal()
    }

    /// Shows the result of `words`, if it is time to.
    pub(crate) fn set(&mut self, words: impl FnOnce() -> String) {
        if let Some(line) = self.line.as_ref().filter(|_| self.shown.elapsed() >= INTERVAL) {
            line.set_message(words());
            line.tick();
            self.shown = Instant::now();
        }
    }

    /// Writes something else to the terminal without tearing the line.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.line {
            Some(line) => line.suspend(write),
            None => write(),
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
