//! `peerlane bench calibrate`.

use std::path::PathBuf;

use clap::Args;
use peerlane_bench::workload::Brief;
use peerlane_results::WorkloadKind;
use peerlane_units::{Bytes, Nanos};

use super::common::{HowArgs, seconds};
use crate::args::size;

/// Arguments of `peerlane bench calibrate`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Reads the drive at five block sizes by three depths, and in random order at two sizes by two
depths, and writes it, too, if --scratch names it; copies and maps by one core; reads the drive by
the page cache; moves data between the drive and each --via memory; and reads how packets are cut
out of configuration space. A quarter of the rows makes the parameters; the error that is printed is
that of all others. Random blocks are taken from the range: --length says how much of the drive they
touch.

Three runs of five seconds each: 28 rows and 7 minutes for a drive that is read, 46 rows and 11
minutes for one that is written, too, and 6 more rows, 1.5 minutes, for each direction of each
memory. Copies take 512 MiB of memory.

Examples:
  peerlane bench calibrate /dev/nvme0n1 --parameters nvme0n1.toml
  peerlane bench calibrate /dev/nvme1n1 --scratch /dev/nvme1n1 --parameters nvme1n1.toml -o rows.json
  peerlane bench calibrate /dev/nvme1n1 --scratch /dev/nvme1n1 --via cmb:nvme2 --parameters all.toml
  peerlane sim machine.toml workload.toml --parameters all.toml")]
pub(crate) struct CalibrateArgs {
    /// The drive
    #[arg(value_name = "DRIVE")]
    pub(crate) drive: String,
    /// Memory of a device that is written and read, too, such as cmb:nvme2, p2pmem:0000:41:00.0, gpu:0 or
    /// fpga:0000:04:00.1; once for each. Its drive is written only if --scratch names it
    #[arg(long, value_name = "MEMORY")]
    via: Vec<String>,
    /// Write the parameters to FILE, which must not be there, with their provenance and error
    #[arg(long, value_name = "FILE")]
    pub(crate) parameters: Option<PathBuf>,
    /// Length of the range; 1G when not given, or as much as fits
    #[arg(long, value_name = "SIZE", value_parser = size::length)]
    length: Option<Bytes>,
    /// Time of each run in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    time: Nanos,
    /// Runs of each row
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

impl CalibrateArgs {
    /// What these say of a workload.
    pub(crate) fn brief(&self, seed: u64) -> Brief {
        let written = self.how.scratch.iter().filter(|scratch| **scratch == self.drive);
        Brief {
            drives: vec![self.drive.clone()],
            memories: self.via.clone(),
            target: written.take(1).cloned().collect(),
            length: self.length,
            time_ns: Some(self.time),
            warm_up: Some(0),
            repeats: Some(self.repeats),
            seed,
            ..Brief::of(WorkloadKind::Calibrate)
        }
    }
}
