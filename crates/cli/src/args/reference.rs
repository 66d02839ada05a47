//! `peerlane reference`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `peerlane reference`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReferenceArgs {
    /// Write the pages into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "check", required_unless_present = "check")]
    pub(crate) write: Option<PathBuf>,
    /// Fail when a page in this directory is not what would be written
    #[arg(long, value_name = "DIR")]
    pub(crate) check: Option<PathBuf>,
}
