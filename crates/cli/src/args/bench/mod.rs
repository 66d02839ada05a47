//! `peerlane bench`.

mod attach;
mod common;
mod compare;
mod kinds;
mod rules;

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) use attach::AttachArgs;
pub(crate) use common::{BenchArgs, HowArgs, ModelArgs, On};
pub(crate) use compare::CompareArgs;
pub(crate) use kinds::{CrowdArgs, MatrixArgs, RoundtripArgs, StreamArgs, SweepArgs};
pub(super) use rules::{check, hide_refused, shared_options};

/// Arguments of `peerlane bench`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Options stand before or after the command. `run` takes those of Run and Model, `compare` and `attach` \
take none of them.

Examples:
  peerlane bench stream /data/set.bin host
  peerlane bench sweep /dev/nvme0n1 /dev/nvme1n1 --scratch /dev/nvme1n1 -o sweep.json
  peerlane bench matrix /dev/nvme{0,1,2}n1 --length 1G --scratch /dev/nvme0n1 \\
    --scratch /dev/nvme1n1 --scratch /dev/nvme2n1
  peerlane bench stream --source /dev/nvme0n1 --source /dev/nvme1n1 --target cmb:nvme2 --time 30s

Only what --scratch names is written, within the range of --offset and --length (and behind it where a \
drive is both read and written); nothing is put back. Content is checked after every run that writes.")]
pub(crate) struct BenchCommandArgs {
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// The benchmark to run.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BenchCommand {
    /// Block sizes by routes, from one drive or file to another
    Sweep(SweepArgs),
    /// Every ordered pair of drives, one at a time
    Matrix(MatrixArgs),
    /// Many transfers at once, in rising numbers
    Crowd(CrowdArgs),
    /// Drives against one memory, in either direction
    Stream(StreamArgs),
    /// A drive against device memory, out and back, and the drive alone
    Roundtrip(RoundtripArgs),
    /// Run a workload that a TOML file describes
    Run(RunFileArgs),
    /// Say whether the later of two runs is faster or slower, by how much, and how sure that is
    Compare(CompareArgs),
    /// Add what the recorder of the lab saw to the records of what ran in it
    Attach(AttachArgs),
}

/// Arguments of `peerlane bench run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A workload in its short form, which docs/bench.md shows next to the full one:
  kind = 'sweep'
  source = '/dev/nvme0n1'
  target = '/dev/nvme1n1'
  blocks = ['64K', '1M']
  routes = ['p2p', 'host']
  repeats = 5")]
pub(crate) struct RunFileArgs {
    /// The workload: `kind`, `source`, `target`, `blocks` and so on, as the options are called; or its
    /// full form, which names every transfer
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
