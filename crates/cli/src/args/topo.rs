//! `peerlane topo`.

use clap::{Args, ValueEnum};

use super::FabricArgs;

/// Arguments of `peerlane topo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  peerlane topo
  peerlane topo --format toml > machine.toml
  peerlane topo --machine pair")]
pub(crate) struct TopoArgs {
    /// Form of the output: a tree, one object (as --json), or a machine file
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) format: TopoFormat,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopoFormat {
    Text,
    Json,
    Toml,
}
