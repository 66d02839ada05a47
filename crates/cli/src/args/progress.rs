//! How progress is shown.

use clap::Args;

use crate::printer::ProgressFor;

/// How progress is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProgressArgs {
    /// Write progress to standard error as lines of JSON, one every 500 ms at most and one at the end
    #[arg(long)]
    json_progress: bool,
}

impl ProgressArgs {
    /// Who progress is for.
    pub(crate) fn readers(&self) -> ProgressFor {
        if self.json_progress { ProgressFor::Programs } else { ProgressFor::People }
    }
}
