//! Options common to `copy` and `plan`: endpoints, and the route from one to the others.

use std::path::PathBuf;

use clap::Args;
use peerlane_engine::stage::StageName;
use peerlane_results::{Asked, RouteChoice, VerifyMode};
use peerlane_units::{Bytes, Nanos};

use super::named::named;
use super::size;

/// Endpoints and how data gets from one to the others.
#[derive(Debug, Clone, Args)]
pub(crate) struct TransferArgs {
    /// Source: file, block device or passthrough node, PCI address, or nvme://HOST/NQN
    #[arg(value_name = "SOURCE", required_unless_present = "batch")]
    source: Option<String>,
    /// Target, in the same notation, or a folder; several are written from one read
    ///
    /// A folder that exists takes a file with the name of the source. There are 16 targets at most.
    #[arg(value_name = "TARGET", required_unless_present = "batch")]
    targets: Vec<String>,
    /// Run the copies that FILE lists (TOML)
    ///
    /// Each is a table `[[copy]]` with source, target or targets, and any of route, via, block, depth,
    /// offset, length, target-offset, verify, force, sparse, preserve, limit, timeout. Values
    /// that it leaves out are those of the command line. Relative paths begin at the current
    /// directory.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "targets"])]
    pub(crate) batch: Option<PathBuf>,
    /// Choose the route; auto falls back to host memory, p2p refuses instead
    #[arg(long, value_name = "ROUTE", value_parser = named::<RouteChoice>(), default_value = "auto")]
    route: RouteChoice,
    /// Move data through MEMORY, e.g. cmb:nvme2 or gpu:0
    ///
    /// Others: p2pmem:0000:06:00.0, fpga:0000:04:00.1, host.
    #[arg(long, value_name = "MEMORY")]
    via: Option<String>,
    /// Move data in blocks of SIZE, e.g. 64K or 1M
    #[arg(long, alias = "bs", value_name = "SIZE", default_value = "1M", value_parser = size::block)]
    block: Bytes,
    /// Keep N blocks in flight (queue depth)
    #[arg(long, alias = "iodepth", value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    #[command(flatten)]
    range: RangeArgs,
    /// Compare the target afterwards: a sample, all, or nothing
    ///
    /// A sample has the first and the last block, and one of each stretch between them.
    #[arg(long, value_name = "MODE", value_parser = named::<VerifyMode>(), default_value = "sample")]
    verify: VerifyMode,
    /// Overwrite targets that contain data
    ///
    /// Without it, a terminal asks for confirmation.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Run STAGE on each chunk between read and write (docs/stages.md)
    ///
    /// Stages: digest, cuda:FILE.cu:KERNEL, xrt:FILE.xclbin:KERNEL. Several run one after the other.
    #[arg(long = "stage", value_name = "STAGE", conflicts_with = "batch")]
    stages: Vec<StageName>,
    /// Treat a request as stuck after TIME without an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = size::duration)]
    pub(crate) timeout: Nanos,
}

/// Bytes of source and target.
#[derive(Debug, Clone, Args)]
pub(crate) struct RangeArgs {
    /// Start at this byte of the source
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(super) offset: Bytes,
    /// Stop after SIZE bytes
    ///
    /// The default is all behind the offset.
    #[arg(long, value_name = "SIZE", value_parser = size::length)]
    pub(super) length: Option<Bytes>,
    /// Start at this byte of the target
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(super) target_offset: Bytes,
}

impl TransferArgs {
    /// The longest wait for a device.
    pub(crate) fn deadline(&self) -> Nanos {
        self.timeout
    }

    /// The same as the record keeps it, once for each target.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let asked = |target: &String| Asked {
            source: self.source.clone().unwrap_or_default(),
            target: target.clone(),
            route: self.route,
            via: self.via.clone(),
            block: self.block,
            depth: self.depth,
            offset: self.range.offset,
            length: self.range.length,
            target_offset: self.range.target_offset,
            verify: self.verify,
            force: self.force,
            stages: self.stages.iter().map(StageName::to_string).collect(),
        };
        self.targets.iter().map(asked).collect()
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
