//! Options of all benchmarks. `bench` declares them, and each kind takes them before or after its name.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane_bench::workload::{Brief, DEPTH_MAX};
use peerlane_results::{Path, WorkloadKind};
use peerlane_units::{ByteRate, Bytes, Nanos};

use crate::args::named::named;
use crate::args::size;

/// Heading of the options that describe a workload, of which `bench run` reads a file instead.
pub(super) const WORKLOAD: &str = "Workload";
/// Heading of the options of every run.
pub(super) const RUN: &str = "Run";
/// Heading of the options for predictions.
pub(super) const MODEL: &str = "Model";

/// Options of all benchmarks.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Routes, size, depth and repeats of the transfers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = WORKLOAD)]
pub(crate) struct WorkloadArgs {
    /// Measure these routes [default: p2p,host; p2p for a matrix]
    ///
    /// To or from a GPU p2p is cuFile without its fallback, host-cufile its compatibility mode; p2p is
    /// left out, with a note, where the plan or cuFile refuses it.
    #[arg(long, value_name = "LIST", value_parser = named::<Path>(), value_delimiter = ',')]
    routes: Vec<Path>,
    /// Move data in blocks of these sizes, e.g. 64K,1M
    #[arg(long = "block", alias = "bs", value_name = "LIST", value_delimiter = ',', value_parser = size::block)]
    blocks: Vec<Bytes>,
    /// Keep N blocks in flight (queue depth)
    ///
    /// They are those of one transfer.
    #[arg(long, alias = "iodepth", value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)))]
    depth: u32,
    /// Start at this byte of the source
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// Stop after SIZE bytes
    ///
    /// The default is 1G, or as much as fits.
    #[arg(long, value_name = "SIZE", value_parser = size::length)]
    length: Option<Bytes>,
    /// Start at this byte of the target
    ///
    /// The default is the start of the range that is read, and behind that range where a drive is
    /// both.
    #[arg(long, value_name = "SIZE")]
    target_offset: Option<Bytes>,
    /// Run each case for this time, over the range repeatedly
    #[arg(long, value_name = "TIME", value_parser = size::duration)]
    time: Option<Nanos>,
    /// Limit the payload rate to RATE a second, e.g. 200M
    ///
    /// RATE is decimal. It holds for each transfer.
    #[arg(long, alias = "bwlimit", value_name = "RATE", value_parser = size::rate)]
    limit: Option<ByteRate>,
    /// Run each case N times before the runs that count
    #[arg(long, alias = "warmup", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    warm_up: u32,
    /// Run each case N times; at most, with --until
    #[arg(long, alias = "runs", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeats: Option<u32>,
    /// Run until the 95 % confidence interval is within PERCENT
    ///
    /// The interval is that of the mean of a case; PERCENT holds on either side, e.g. 2%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    until: Option<u32>,
    /// Set the seed of orders, patterns and random blocks
    ///
    /// A random one is drawn and printed when it is not given.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl WorkloadArgs {
    /// Options that were given and change nothing on the model.
    pub(crate) fn without_effect_on_model(&self) -> Vec<&'static str> {
        let offset = (self.offset != Bytes::ZERO).then_some("--offset");
        let target = self.target_offset.map(|_| "--target-offset");
        offset.into_iter().chain(target).collect()
    }

    /// Returns the workload that these options describe.
    pub(crate) fn brief(&self, kind: WorkloadKind, seed: u64) -> Brief {
        Brief {
            routes: self.routes.clone(),
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

/// Execution of a workload, and the file for its record.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = RUN)]
pub(crate) struct HowArgs {
    /// Permit writes to this drive or file; may be repeated
    ///
    /// One that is a source is filled with a pattern first.
    #[arg(long, value_name = "DRIVE|FILE")]
    pub(crate) scratch: Vec<String>,
    /// Overwrite targets that contain data
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Write the record to FILE
    ///
    /// It is saved after every run.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Resume the interrupted benchmark of this record
    ///
    /// The same options are given again; the record stays in this file.
    #[arg(long, value_name = "RUN.json")]
    pub(crate) resume: Option<PathBuf>,
    /// Write a trace to a new FILE, for Perfetto
    ///
    /// It has every read, write and flush of every run.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Treat a request as stuck after TIME without an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = size::duration)]
    pub(crate) timeout: Nanos,
}

/// Place where a workload runs: this machine, or the model, which writes nothing but the record.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = MODEL)]
pub(crate) struct ModelArgs {
    /// Measure on this machine, or predict by the model
    #[arg(long, value_name = "WHERE", value_enum, default_value = "this")]
    pub(crate) on: On,
    /// Use another machine: lspci text, NCCL XML, capture, or name
    ///
    /// The model predicts for it; WHAT is as for `peerlane topo --machine`.
    #[arg(long, value_name = "WHAT")]
    pub(crate) machine: Option<PathBuf>,
    /// Take parameters from FILE before the built-in ones
    ///
    /// They are parameters of drives and host, for --on model.
    #[arg(long, value_name = "FILE")]
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
