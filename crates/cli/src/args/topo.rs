//! `peerlane topo`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::FabricArgs;

/// Arguments of `peerlane topo`.
#[derive(Debug, Clone, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  peerlane topo
  peerlane topo gpu:0
  peerlane topo --matrix
  peerlane topo --format toml > machine.toml
  peerlane topo --format svg > machine.svg
  peerlane topo --format html > machine.html
  peerlane topo --format nccl > topo.xml
  peerlane topo --format openmetrics -o peerlane.prom
  peerlane topo --format nfd -o peerlane.features
  peerlane topo --machine machine.tar.zst
  peerlane topo --machine pair
  peerlane topo diff before.tar.zst after.tar.zst"
)]
pub(crate) struct TopoArgs {
    /// Something else than to show one machine.
    #[command(subcommand)]
    pub(crate) command: Option<TopoCommand>,
    /// Show one device: its path to the CPU and its pairs
    #[arg(value_name = "DEVICE", conflicts_with_all = ["format", "matrix"])]
    pub(crate) device: Option<String>,
    /// Choose the form of the output
    ///
    /// text is a tree; json one object (as --json); toml a machine file; svg a drawing; html a page for any
    /// browser; nccl topology XML (NCCL_TOPO_FILE); openmetrics gauges for Prometheus; nfd labels of a
    /// Kubernetes node, for Node Feature Discovery.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) format: TopoFormat,
    /// Write gauges or labels to FILE, which is replaced whole
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["device", "matrix"])]
    pub(crate) output: Option<PathBuf>,
    /// Show every pair of GPUs, NICs and drives with its state
    #[arg(long, conflicts_with = "format")]
    pub(crate) matrix: bool,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}

/// Commands about machines.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TopoCommand {
    /// Say what changed between two machines: devices, links, ports, kernel, and who reaches whom
    Diff(TopoDiffArgs),
}

/// Arguments of `peerlane topo diff`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
BEFORE and AFTER are anything that --machine takes, and need not be of one form. Devices are known \
again by their place, serial number or product, so that shifted bus numbers are no removal.

The exit status is 0 when nothing changed and 1 when something did. A fact that one of the two does \
not show is listed as not compared, and is no change.

Examples:
  peerlane topo diff before.tar.zst after.tar.zst
  peerlane topo diff before.tar.zst /
  peerlane topo diff pair acs")]
pub(crate) struct TopoDiffArgs {
    /// Machine to compare with
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// Machine to judge; / is this one
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopoFormat {
    Text,
    Json,
    Toml,
    Svg,
    Html,
    Nccl,
    Openmetrics,
    Nfd,
}
