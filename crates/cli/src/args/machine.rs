//! Which machine a command looks at.

use std::path::PathBuf;

use clap::Args;

/// Which machine a command looks at; the running one when nothing is given.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Machine")]
pub(crate) struct FabricArgs {
    /// Look at the sys/ and proc/ below this directory, or in an archive of `peerlane capture` or of tar (gzip, bzip2,
    /// xz, Zstandard), which may have a folder on top
    #[arg(long, value_name = "DIR|ARCHIVE", conflicts_with = "machine")]
    pub(crate) root: Option<PathBuf>,
    /// Look at a machine description: a TOML file, or a name from `peerlane lab machines`
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
}
