//! Form of progress reports.

use clap::Args;

/// Readers of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressFor {
    /// A person: a bar or lines of text.
    People,
    /// A program: lines of JSON.
    Programs,
}

/// Form of progress reports.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProgressArgs {
    /// Write progress as JSON lines on standard error
    ///
    /// One line every 500 ms at most, and one at the end.
    #[arg(long)]
    json_progress: bool,
}

impl ProgressArgs {
    /// Returns the readers that progress is written for.
    pub(crate) fn readers(&self) -> ProgressFor {
        if self.json_progress { ProgressFor::Programs } else { ProgressFor::People }
    }
}
