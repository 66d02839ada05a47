//! `peerlane topo`.

use clap::{Args, ValueEnum};

use super::FabricArgs;

/// Arguments of `peerlane topo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  peerlane topo
  peerlane topo --format toml > machine.toml
  peerlane topo --format svg > machine.svg
  peerlane topo --format openmetrics > peerlane.prom
  peerlane topo --machine machine.tar.zst
  peerlane topo --machine pair")]
pub(crate) struct TopoArgs {
    /// Form of the output: a tree, one object (as --json), a machine file, a drawing, or gauges for Prometheus
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
    Svg,
    Openmetrics,
}
