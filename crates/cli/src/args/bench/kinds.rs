//! One group of arguments for each kind of benchmark.

use std::path::PathBuf;

use clap::Args;
use peerlane_bench::workload::Pattern;
use peerlane_engine::stage::StageName;

use crate::args::named::named;

/// Memory between two drives.
#[derive(Debug, Clone, Args)]
pub(crate) struct MemoryArgs {
    /// Move data through MEMORY, e.g. cmb:nvme2 or gpu:0
    ///
    /// It is of the route p2p alone.
    #[arg(long, value_name = "MEMORY")]
    pub(crate) via: Option<String>,
}

/// Arguments of `peerlane bench sweep`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
With a memory as the target (`host`) only the source is read, by direct I/O. A run of a small block moves \
4096 blocks at most. Block sizes are powers of two from 4K to 128M unless --block names others.

host moves reads and writes side by side through several buffers; host-serial reads and then writes by one \
buffer with direct I/O, host-page-cache by one buffer and the page cache: what papers call classical.")]
pub(crate) struct SweepArgs {
    /// Source of the data
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
    /// Target of the data
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Arguments of `peerlane bench matrix`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MatrixArgs {
    /// Drives; each is a source and, named by --scratch, a target
    #[arg(value_name = "DRIVE", num_args = 2..=64, required = true)]
    pub(crate) drives: Vec<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Arguments of `peerlane bench crowd`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CrowdArgs {
    /// Drives
    #[arg(value_name = "DRIVE", num_args = 2..=64, required = true)]
    pub(crate) drives: Vec<String>,
    /// Choose the pattern of senders and receivers
    #[arg(long, value_name = "PATTERN", value_parser = named::<Pattern>(), default_value = "pairs")]
    pub(crate) pattern: Pattern,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Arguments of `peerlane bench stream`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamArgs {
    /// Source and target: a memory, and a drive or file
    #[arg(value_names = ["SOURCE", "TARGET"], num_args = 2, required_unless_present_any = ["source", "target"],
          conflicts_with_all = ["source", "target"])]
    ends: Vec<String>,
    /// Read from SOURCE: a drive, a file or a memory
    ///
    /// Drives or files are named once each.
    #[arg(long, value_name = "SOURCE", requires = "target")]
    source: Vec<String>,
    /// Write to TARGET: a drive, a file or a memory
    ///
    /// Memories: `host`, `null`, `cmb:NAME`, `p2pmem:NAME`, `fpga:ADDRESS`, `gpu:N`.
    #[arg(long, value_name = "TARGET", requires = "source")]
    target: Vec<String>,
    /// Run N transfers on each drive, each on its part
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) jobs: u32,
    /// Move blocks in random order
    #[arg(long)]
    pub(crate) random: bool,
    /// Run STAGE on each chunk between read and write (docs/stages.md)
    ///
    /// Stages: digest, cuda:FILE.cu:KERNEL, xrt:FILE.xclbin:KERNEL.
    #[arg(long, value_name = "STAGE", conflicts_with = "fio")]
    pub(crate) stage: Option<StageName>,
    /// Write the same as a fio job file, and compare with fio
    ///
    /// fio runs where it is installed, and its figure is shown next to ours.
    #[arg(long, value_name = "FILE")]
    pub(crate) fio: Option<PathBuf>,
}

impl StreamArgs {
    /// Sources, and targets.
    pub(crate) fn ends(&self) -> (Vec<String>, Vec<String>) {
        match self.ends.as_slice() {
            [source, target] => (vec![source.clone()], vec![target.clone()]),
            _ => (self.source.clone(), self.target.clone()),
        }
    }
}

/// Arguments of `peerlane bench roundtrip`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
p2p is the drive against the device memory, in either direction; host is the drive alone, against host \
memory. With a GPU --routes are the routes to it, and the drive alone is measured next to them. Times are the \
host's, from the hand-over of a request to its completion; nothing is timed on a device, and no CPU \
stores into the memory.

DRIVE is read and written. With --source and --target the source is read, and what --scratch names \
is written; without it only reads are measured.

Example, Donard's two tables:
  peerlane bench roundtrip --source /data/set.bin --target gpu:0 --scratch /data/new.bin --classical")]
pub(crate) struct RoundtripArgs {
    /// Drive
    #[arg(
        value_name = "DRIVE",
        required_unless_present = "source",
        conflicts_with = "source",
        requires = "via"
    )]
    pub(crate) drive: Option<String>,
    /// Move data through MEMORY, e.g. cmb:nvme2 or gpu:0
    #[arg(long, value_name = "MEMORY", conflicts_with = "source")]
    pub(crate) via: Option<String>,
    /// Read from SOURCE: a drive, a file or a memory
    ///
    /// It is read instead of DRIVE.
    #[arg(long, value_name = "SOURCE", requires = "target")]
    pub(crate) source: Option<String>,
    /// Write to TARGET: a drive, a file or a memory
    ///
    /// It is a device memory, as of --via.
    #[arg(long, value_name = "TARGET", requires = "source")]
    pub(crate) target: Option<String>,
    /// Measure the classical methods of papers, too, with page faults
    ///
    /// To and from a GPU: out of a map of the source, and by a buffer and the page cache into the
    /// target.
    #[arg(long)]
    pub(crate) classical: bool,
    /// Run STAGE on each chunk between read and write (docs/stages.md)
    ///
    /// Stages: digest, cuda:FILE.cu:KERNEL, xrt:FILE.xclbin:KERNEL.
    #[arg(long, value_name = "STAGE", conflicts_with = "classical")]
    pub(crate) stage: Option<StageName>,
}
