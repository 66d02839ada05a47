//! `peerlane ask-library`.

use clap::Args;

/// Arguments of `peerlane ask-library`, which `plan --probe` runs for each way to a GPU.
#[derive(Debug, Clone, Args)]
pub(crate) struct AskLibraryArgs {
    /// Ask about the way to a GPU of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) memory: String,
    /// Register the file that is standard input
    #[arg(long)]
    pub(crate) file: bool,
}
