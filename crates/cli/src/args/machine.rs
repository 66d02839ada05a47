//! The machine that a command looks at.

use std::path::PathBuf;

use clap::Args;

/// The machine that a command looks at; the running one when nothing is given.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Machine")]
pub(crate) struct FabricArgs {
    /// Use another machine: lspci text, NCCL XML, capture, or name
    ///
    /// WHAT is recognised by content: the text of `lspci -Dvvvnn`; topology XML of NCCL or RCCL
    /// (NCCL_TOPO_DUMP_FILE); an archive of `peerlane capture` (tar; gzip, bzip2, xz, Zstandard); a
    /// folder with sys/ and proc/; a machine file (TOML); a name from `peerlane lab machines`; or -
    /// for text on standard input.
    #[arg(long, value_name = "WHAT")]
    pub(crate) machine: Option<PathBuf>,
}
