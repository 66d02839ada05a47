//! The machine that a command looks at.

use std::path::PathBuf;

use clap::Args;

/// The machine that a command looks at; the running one when nothing is given.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Machine")]
pub(crate) struct FabricArgs {
    /// Look at this machine: a folder with sys/ and proc/, an archive of one (tar; gzip, bzip2, xz, Zstandard), a
    /// machine file, a name from `peerlane lab machines`, or - for the text of one on standard input
    #[arg(long, value_name = "WHAT")]
    pub(crate) machine: Option<PathBuf>,
}
