//! `peerlane report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `peerlane report`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Any mix of records: of bench, bench compare, copy (one target, several, a batch), verify, doctor and
plan, as --json or -o wrote them. Figures of a prediction stand beside those of a measurement whose
cases have the same names.

Examples:
  peerlane report sweep.json -o sweep.html
  peerlane report predicted.json measured.json -o both.html
  peerlane report old.json -o old.html --machine r7515-10-smartssd
  peerlane report *.json -o runs.csv
  peerlane report sweep.json --format markdown
  peerlane report sweep.json -o sweep.html --svg figures")]
pub(crate) struct ReportArgs {
    /// Records to report on, one JSON object a file
    #[arg(value_name = "RUN.json", required = true)]
    pub(crate) records: Vec<PathBuf>,
    /// Write to FILE in place of standard output; a file that is no report is left alone
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Form of the report; that of the name of FILE when not given (.html, .md, .csv), else Markdown
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// Write every figure as SVG into this folder, too; it is made where it is missing
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
    /// Title of the report; the name of the workload or of the records when not given
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Draw loads on this machine, as `peerlane topo --machine` takes it; once for each machine. Not needed for
    /// records that hold their machine, nor for those of this one
    #[arg(long = "machine", value_name = "WHAT")]
    pub(crate) machines: Vec<PathBuf>,
}

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Html,
    Markdown,
    Csv,
}
