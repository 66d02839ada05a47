//! `peerlane reproduce`.

use clap::Args;

/// Arguments of `peerlane reproduce`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A predicted figure is compared with a model that does not know it. A fitted one decided a parameter, \
an input is one. A bound limits the prediction; a structural figure follows from the wiring; an \
excluded one is not comparable. -v prints the statement of the document, the reason, the interval \
and two baselines below each figure; --json has the same and the parameters.

A figure is shown as fitted when a parameter behind it was chosen to meet it, whatever its file \
declares; the exit status is then 1. Files: sources/*.toml in the repository, built into the program.

Examples:
  peerlane reproduce
  peerlane reproduce -v 003 004
  peerlane reproduce --json 002")]
pub(crate) struct ReproduceArgs {
    /// Documents (000 to 004) and held-out sets (donard-log, fabrics, aisio); default: all
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// Print predictions for cases without a measurement, in Markdown
    #[arg(long, conflicts_with = "sources")]
    pub(crate) predictions: bool,
}
