//! Options common to `copy` and `plan`: endpoints, and the route from one to the others.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane_engine::stage::StageName;
use peerlane_results::{Asked, RouteChoice, VerifyMode};
use peerlane_units::{Bytes, Nanos};

use super::size;

/// Endpoints and how data gets from one to the others.
#[derive(Debug, Clone, Args)]
pub(crate) struct TransferArgs {
    /// Source: a file, a block device or passthrough node, a drive's PCI address, or nvme://HOST/NQN for a drive of another machine
    #[arg(value_name = "SOURCE", required_unless_present = "batch")]
    source: Option<String>,
    /// Target, written in the same way; several, 16 at most, are written from one read
    #[arg(value_name = "TARGET", required_unless_present = "batch")]
    targets: Vec<String>,
    /// Carry out the copies that FILE lists (TOML: `[[copy]]` with source, target or targets, and any of
    /// route, via, block, depth, offset, length, target-offset, verify, force, sparse, scrub, preserve,
    /// limit, timeout; what it leaves out is as on the command line); relative paths begin at the current
    /// directory, as on the command line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "targets"])]
    pub(crate) batch: Option<PathBuf>,
    /// Route: auto falls back to host memory and says so, p2p refuses instead
    #[arg(long, value_name = "ROUTE", value_enum, default_value = "auto")]
    route: RouteArg,
    /// Memory between source and target, such as cmb:nvme2, p2pmem:0000:06:00.0, fpga:0000:04:00.1 or gpu:0
    #[arg(long, value_name = "MEMORY")]
    via: Option<String>,
    /// Bytes that travel as one block, such as 64K or 1M
    #[arg(long, alias = "bs", value_name = "SIZE", default_value = "1M", value_parser = size::block)]
    block: Bytes,
    /// Queue depth: blocks in flight
    #[arg(long, alias = "iodepth", value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// First byte in the source
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// Bytes to copy; all that follows the offset when not given
    #[arg(long, value_name = "SIZE", value_parser = size::length)]
    length: Option<Bytes>,
    /// First byte in the target
    #[arg(long, value_name = "SIZE", default_value = "0")]
    target_offset: Bytes,
    /// Check of the content at the target: a sample with first and last block, all, or nothing
    #[arg(long, value_name = "MODE", value_enum, default_value = "sample")]
    verify: VerifyArg,
    /// Overwrite a target that is not blank; without it a person at a terminal is asked
    #[arg(short, long)]
    force: bool,
    /// Work on each chunk between its read and its write; several work one after the other: digest,
    /// cuda:FILE.cu:KERNEL, xrt:FILE.xclbin:KERNEL (docs/stages.md)
    #[arg(long = "stage", value_name = "STAGE", conflicts_with = "batch")]
    stages: Vec<StageName>,
    /// Time to wait for a device before a request counts as stuck and the command ends
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = size::duration)]
    pub(crate) timeout: Nanos,
}

impl TransferArgs {
    /// The longest wait for a device.
    pub(crate) fn deadline(&self) -> Nanos {
        self.timeout
    }

    /// The same as the record keeps it, once for each target.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.targets
            .iter()
            .map(|target| Asked { target: target.clone(), ..self.defaults() })
            .collect()
    }

    /// The same without a target.
    pub(crate) fn defaults(&self) -> Asked {
        Asked {
            source: self.source.clone().unwrap_or_default(),
            target: String::new(),
            route: self.route.into(),
            via: self.via.clone(),
            block: self.block,
            depth: self.depth,
            offset: self.offset,
            length: self.length,
            target_offset: self.target_offset,
            verify: self.verify.into(),
            force: self.force,
            stages: self.stages.iter().map(StageName::to_string).collect(),
        }
    }
}

/// The route to take.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RouteArg {
    Auto,
    P2p,
    Host,
}

impl From<RouteArg> for RouteChoice {
    fn from(route: RouteArg) -> Self {
        match route {
            RouteArg::Auto => Self::Auto,
            RouteArg::P2p => Self::P2p,
            RouteArg::Host => Self::Host,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VerifyArg {
    Sample,
    Full,
    None,
}

impl From<VerifyArg> for VerifyMode {
    fn from(mode: VerifyArg) -> Self {
        match mode {
            VerifyArg::Sample => Self::Sample,
            VerifyArg::Full => Self::Full,
            VerifyArg::None => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        transfer: TransferArgs,
    }

    #[test]
    fn ends_alone_ask_for_library_defaults() {
        let line = Line::try_parse_from(["copy", "a", "b"]).expect("two ends");
        assert_eq!(line.transfer.asked(), [Asked::between("a", "b")]);
    }
}
