//! `peerlane report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `peerlane report`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Any mix of records: of bench, bench compare, copy (one target, several, a batch), verify, doctor and \
plan, as --json or -o wrote them. Figures of a prediction stand next to those of a measurement whose \
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
    /// Write to FILE instead of standard output
    ///
    /// An existing file that is not a report is not overwritten.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Choose the format; the default follows FILE's name
    ///
    /// By name: .html, .md, .csv; without FILE it is Markdown.
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// Write every figure as SVG into DIR, too
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// Set the title of the report
    ///
    /// The default is the name of the workload or of the records.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Draw loads on this machine; may be repeated
    ///
    /// WHAT is as for `peerlane topo --machine`. Records that hold their machine, and those of this
    /// one, need none.
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
