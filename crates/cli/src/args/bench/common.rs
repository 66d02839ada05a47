//! Options common to all benchmarks.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane_bench::workload::{Brief, DEPTH_MAX};
use peerlane_results::{Path, WorkloadKind};
use peerlane_units::{ByteRate, Bytes, Nanos};

use crate::args::size;

/// Size, depth and repeats of the transfers.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// Block sizes, with commas between them
    #[arg(long = "block", alias = "bs", value_name = "LIST", value_delimiter = ',', value_parser = size::block)]
    blocks: Vec<Bytes>,
    /// Queue depth: blocks in flight of each transfer
    #[arg(long, alias = "iodepth", value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)))]
    depth: u32,
    /// Start of the range that is read
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// Length of the range; 1G when not given, or as much as fits
    #[arg(long, value_name = "SIZE", value_parser = size::length)]
    length: Option<Bytes>,
    /// Start of the range that is written; that of the range that is read when not given, and behind it
    /// where a drive is both
    #[arg(long, value_name = "SIZE")]
    target_offset: Option<Bytes>,
    /// Time of each run, such as 500ms, 10s or 2m; the range is moved again and again
    #[arg(long, value_name = "TIME", value_parser = size::duration)]
    time: Option<Nanos>,
    /// Move no more than RATE of each transfer in a second
    #[arg(long, alias = "bwlimit", value_name = "RATE", value_parser = size::rate)]
    limit: Option<ByteRate>,
    /// Runs of each case before those that count
    #[arg(long, alias = "warmup", value_name = "N", default_value_t = 1, conflicts_with = "machine",
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    warm_up: u32,
    /// Runs of each case that count; with --until the most of them
    #[arg(long, alias = "runs", value_name = "N", conflicts_with = "machine",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeats: Option<u32>,
    /// Run each case until the 95 % confidence interval of its mean is no wider than this on either
    /// side, such as 2%
    #[arg(long, value_name = "PERCENT", conflicts_with = "machine", value_parser = percent)]
    until: Option<u32>,
    /// Seed of the order of the runs, of patterns and of random blocks; drawn and printed when not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

impl BenchArgs {
    /// Options that were given and change nothing on the model.
    pub(crate) fn without_effect_on_model(&self) -> Vec<&'static str> {
        let offset = (self.offset != Bytes::ZERO).then_some("--offset");
        let target = self.target_offset.map(|_| "--target-offset");
        offset.into_iter().chain(target).collect()
    }

    /// Returns the workload that these options describe.
    pub(crate) fn brief(&self, kind: WorkloadKind, seed: u64) -> Brief {
        Brief {
            blocks: self.blocks.clone(),
            depth: Some(self.depth),
            offset: self.offset,
            length: self.length,
            target_offset: self.target_offset,
            time_ns: self.time,
            limit: self.limit,
            warm_up: Some(self.warm_up),
            repeats: self.repeats,
            until_per_mille: self.until,
            seed: self.seed.unwrap_or(seed),
            ..Brief::new(kind)
        }
    }
}

/// Routes to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct RoutesArgs {
    /// Ways to be measured, with commas between them [default: p2p,host; p2p for a matrix]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    routes: Vec<BenchRouteArg>,
}

impl RoutesArgs {
    /// The routes as a workload has them.
    pub(crate) fn paths(&self) -> Vec<Path> {
        self.routes.iter().copied().map(Into::into).collect()
    }
}

/// Routes from drive to drive, and the memory between them.
#[derive(Debug, Clone, Args)]
pub(crate) struct WayArgs {
    #[command(flatten)]
    pub(crate) routes: RoutesArgs,
    /// Memory between them for p2p, such as cmb:nvme2
    #[arg(long, value_name = "MEMORY")]
    pub(crate) via: Option<String>,
}

/// Execution of a workload, and the file for its record.
#[derive(Debug, Clone, Args)]
pub(crate) struct HowArgs {
    /// A drive or file that may be written; once for each. One that is a source is filled with a pattern
    #[arg(long, value_name = "DRIVE|FILE")]
    pub(crate) scratch: Vec<String>,
    /// Overwrite targets that contain data
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Keep the record in FILE, saved after every run
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Go on with a record that was interrupted, and keep it there; the same options are given again
    #[arg(long, value_name = "RUN.json", conflicts_with = "output")]
    pub(crate) resume: Option<PathBuf>,
    /// Write a trace to FILE, which must not be there: every read, write and flush of every run;
    /// opens in the Perfetto UI
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Time to wait for a device before a request counts as stuck and the benchmark ends
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = size::duration)]
    pub(crate) timeout: Nanos,
}

/// Place where a workload runs: this machine, or the model, which writes nothing but the record.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// Measure on this machine, or predict by the model of --machine
    #[arg(long, value_name = "WHERE", value_enum, default_value = "this")]
    pub(crate) on: On,
    /// The machine that the model is of, as `peerlane topo --machine` takes it
    #[arg(long, value_name = "WHAT", required_if_eq("on", "model"), requires = "on",
          conflicts_with_all = ["scratch", "force", "resume", "timeout"])]
    pub(crate) machine: Option<PathBuf>,
    /// Take parameters of drives and host from this file before the built-in ones, for --on model
    #[arg(long, value_name = "FILE", requires = "machine")]
    pub(crate) parameters: Option<PathBuf>,
}

/// Place where a workload runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// This machine.
    This,
    /// The model.
    Model,
}

/// A way that bytes travel, as it is typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BenchRouteArg {
    P2p,
    Host,
    HostSerial,
    HostPageCache,
    HostMapped,
    HostCufile,
}

impl From<BenchRouteArg> for Path {
    fn from(route: BenchRouteArg) -> Self {
        match route {
            BenchRouteArg::P2p => Self::P2p,
            BenchRouteArg::Host => Self::HostPipelined,
            BenchRouteArg::HostSerial => Self::HostSerial,
            BenchRouteArg::HostPageCache => Self::HostPageCache,
            BenchRouteArg::HostMapped => Self::HostMapped,
            BenchRouteArg::HostCufile => Self::HostCufile,
        }
    }
}

/// Reads a share in percent as thousandths: `2%`, `0.5`.
pub(super) fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(percent) if (0.1..=50.0).contains(&percent) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "1 to 500 by the line above"
            )]
            let per_mille = (percent * 10.0).round() as u32;
            Ok(per_mille)
        }
        _ => Err("a share lies between 0.1% and 50%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded() {
        assert_eq!((percent("2%"), percent("0.5")), (Ok(20), Ok(5)));
        assert!(percent("0").is_err() && percent("nan").is_err() && percent("60%").is_err());
    }
}
