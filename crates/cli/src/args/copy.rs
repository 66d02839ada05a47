//! `peerlane copy`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane_engine::stages::Stages;
use peerlane_engine::{Metadatum, Sparse};
use peerlane_units::ByteRate;

use super::named::named;
use super::{ProgressArgs, TransferArgs, size};

/// Arguments of `peerlane copy`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  peerlane copy /dev/nvme0n1 /dev/nvme1n1 --force
  peerlane copy /data/set.bin /dev/nvme1n1 --route p2p --via cmb:nvme2 --verify full
  peerlane copy 0000:41:00.0 0000:42:00.0 --length 1G --dry-run
  peerlane copy /dev/nvme0n1 /dev/nvme1n1 --force --resume
  peerlane copy golden.img /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 --force
  peerlane copy --batch jobs.toml --jobs 2 --limit 2G
  peerlane copy /dev/nvme0n1 /dev/nvme1n1 --force --trace copy.pftrace
  peerlane copy set.bin /dev/nvme1n1 --force --stage digest --manifest set.digests

With several targets, a target that fails keeps its journal; the others are completed. \
Copies of a batch that share a drive or a link get equal room on it. The exit status of several is \
that of the worst (interrupted, failure, difference); 77 only where nothing at all was changed.

A device that is not blank (every 4 KiB all 0x00 or all 0xFF) needs --force, or a yes at the terminal. \
Up to 1 GiB of it is read to tell; beyond that, its start, its end and samples of the range. `blkdiscard -f DEVICE` or \
`nvme format DEVICE` (NVMe only) makes a drive blank.

An interrupted copy (Ctrl-C, a failed drive, a loss of power) leaves a journal of what is at the \
target and flushed, and prints the command that continues it. The same command with --resume, given \
again and again, ends with the copy done.")]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    /// Print the plan and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Resume an interrupted copy from its journal
    ///
    /// Without a journal the copy begins. A target that equals the source is left unchanged.
    #[arg(long, conflicts_with_all = ["dry_run", "batch"])]
    pub(crate) resume: bool,
    /// Keep the journal in FILE
    ///
    /// The default is next to a target file, and below $XDG_STATE_HOME/peerlane for a device.
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    pub(crate) journal: Option<PathBuf>,
    /// Skip holes of a source file: auto, or never
    ///
    /// auto skips holes and zeroes them on a target that contains data; never moves them like data.
    #[arg(long, value_name = "WHEN", value_parser = named::<Sparse>(), default_value = "auto")]
    pub(crate) sparse: Sparse,
    /// Preserve metadata of a source file, e.g. mode,timestamps
    ///
    /// mode includes the access control list.
    #[arg(long, value_name = "LIST", value_parser = named::<Metadatum>(), value_delimiter = ',')]
    pub(crate) preserve: Vec<Metadatum>,
    /// Limit the payload rate to RATE a second, e.g. 200M
    ///
    /// RATE is decimal. It holds after the first block, for all copies of a batch together; proof and
    /// verification do not count.
    #[arg(long, alias = "bwlimit", value_name = "RATE", value_parser = size::rate)]
    pub(crate) limit: Option<ByteRate>,
    /// Run N copies of a batch at a time
    #[arg(long, value_name = "N", default_value_t = 1, requires = "batch", conflicts_with_all = ["source", "targets"],
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: u16,
    /// Write the digest of each chunk to a new FILE
    ///
    /// One JSON object a line, for `peerlane verify`; needs --stage digest.
    #[arg(long, value_name = "FILE", requires = "stages", conflicts_with = "dry_run")]
    manifest: Option<PathBuf>,
    /// Compare what stages changed with the output of PROGRAM
    ///
    /// PROGRAM does the same: it reads a chunk from standard input and writes it to standard output;
    /// its argument is the offset in the copy.
    #[arg(long, value_name = "PROGRAM", requires = "stages", conflicts_with = "dry_run")]
    stage_twin: Option<PathBuf>,
    /// Write a trace to a new FILE, for Perfetto
    ///
    /// It has every read, write, flush and wait, per drive and per memory.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) trace: Option<PathBuf>,
    /// Observe the kernel's DMA mappings, as root (docs/evidence.md)
    ///
    /// A contradicted route is an error.
    #[arg(long, value_name = "SOURCE", value_enum, conflicts_with = "dry_run")]
    evidence: Option<EvidenceArg>,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

impl CopyArgs {
    /// Options of the stages, next to their names.
    pub(crate) fn stages(&self) -> Stages {
        Stages { manifest: self.manifest.clone(), twin: self.stage_twin.clone() }
    }

    /// True when the DMA of the drives is watched.
    pub(crate) fn watch_dma(&self) -> bool {
        self.evidence.is_some()
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EvidenceArg {
    Dma,
}
