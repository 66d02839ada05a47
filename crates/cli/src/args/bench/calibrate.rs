//! `peerlane bench calibrate`.

use std::path::PathBuf;

use clap::Args;
use peerlane_bench::workload::Brief;
use peerlane_results::WorkloadKind;
use peerlane_units::{Bytes, Nanos};

use super::common::HowArgs;
use crate::args::size;

/// Arguments of `peerlane bench calibrate`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Reads the drive at five block sizes by three depths, and in random order at two sizes by two \
depths. Writes it, too, if --scratch names it. Reads packet sizes and tags from configuration \
space. Four rows of a direction give its parameters; the printed error is that of the others. \
Random blocks come from the range: --length says how much of the drive they touch.

With three runs of five seconds, a drive that is read takes 18 rows and 5 minutes; one that is \
written, too, takes 36 rows and 9 minutes.

Examples:
  peerlane bench calibrate /dev/nvme0n1 --parameters nvme0n1.toml
  peerlane bench calibrate /dev/nvme1n1 --scratch /dev/nvme1n1 --parameters nvme1n1.toml -o rows.json
  peerlane sim machine.toml workload.toml --parameters nvme1n1.toml")]
pub(crate) struct CalibrateArgs {
    /// Drive
    #[arg(value_name = "DRIVE")]
    pub(crate) drive: String,
    /// Write the parameters to a new FILE, with source and error
    #[arg(long, value_name = "FILE")]
    pub(crate) parameters: Option<PathBuf>,
    /// Stop after SIZE bytes
    ///
    /// The default is 1G, or as much as fits.
    #[arg(long, value_name = "SIZE", value_parser = size::length)]
    length: Option<Bytes>,
    /// Run each measurement for this time
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = size::duration)]
    time: Nanos,
    /// Run each row N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
}

impl CalibrateArgs {
    /// The workload in brief.
    pub(crate) fn brief(&self, how: &HowArgs, seed: u64) -> Brief {
        let written = how.scratch.iter().filter(|scratch| **scratch == self.drive);
        Brief {
            drives: vec![self.drive.clone()],
            target: written.take(1).cloned().collect(),
            length: self.length,
            time_ns: Some(self.time),
            warm_up: Some(0),
            repeats: Some(self.repeats),
            seed,
            ..Brief::new(WorkloadKind::Calibrate)
        }
    }
}
