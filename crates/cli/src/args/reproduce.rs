//! `peerlane reproduce`.

use clap::Args;

/// Arguments of `peerlane reproduce`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Roles: a predicted figure is compared with a model that does not know it; a fitted one decided a
parameter, an input is one; a bound limits the prediction; a structural one follows from who is
connected to whom; an excluded one is not comparable. Objects of --json have rows with source, figure,
says, stated, predicted, unit, error, interval, role and reason, and the count at their top.

A figure is shown as fitted when a parameter behind it was fitted on it, whatever its file says; then
the exit status is 1. Files: sources/*.toml in the repository, built into the program.

Examples:
  peerlane reproduce
  peerlane reproduce 003 004
  peerlane reproduce --fit
  peerlane reproduce --json 002")]
pub(crate) struct ReproduceArgs {
    /// Documents (000 to 004) and sets held out (donard-log, fabrics, aisio); all of them when left out
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// Show the fits in place of the figures: parameters, rows, residuals, degrees of freedom
    #[arg(long)]
    pub(crate) fit: bool,
    /// Print the page of predictions for what nobody has measured yet, in Markdown
    #[arg(long, conflicts_with_all = ["fit", "sources"])]
    pub(crate) predictions: bool,
}
