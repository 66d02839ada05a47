//! `peerlane reference`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `peerlane reference`.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ReferenceArgs {
    /// Write the pages into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Option<PathBuf>,
    /// Fail when a page in this directory is outdated
    #[arg(long, value_name = "DIR")]
    pub(crate) check: Option<PathBuf>,
    /// Write man pages and shell completions into a new directory
    ///
    /// They lie there as below /usr/share.
    #[arg(long, value_name = "DIR")]
    pub(crate) share: Option<PathBuf>,
}
