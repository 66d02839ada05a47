//! `peerlane copy`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane_engine::stages::Stages;
use peerlane_engine::{Metadatum, Scrub, Sparse};
use peerlane_units::ByteRate;

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

With several targets, one that fails is left behind with its journal and the others are completed.
Copies of a batch that share a drive or a link get equal room on it. The exit status of several is
that of the worst (interrupted, failure, difference); 77 only where nothing at all was changed.

A device that is not blank (every 4 KiB all 0x00 or all 0xFF) needs --force, or a yes at the terminal.
Up to 1 GiB of it is read to tell, else both ends and samples of the range. `blkdiscard -f DEVICE` or
`nvme format DEVICE` makes a drive blank.

An interrupted copy (Ctrl-C, a failed drive, a loss of power) leaves a journal of what is at the
target and flushed, and says the command that goes on with it. The same command with --resume, given
again and again, ends with the copy done.")]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    /// Print the plan and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Go on with a copy that was interrupted, by its journal; without one begin, or leave a target that
    /// equals the source as it is
    #[arg(long, conflicts_with_all = ["dry_run", "batch"])]
    pub(crate) resume: bool,
    /// Keep the journal in FILE; by default beside a target file, or below $XDG_STATE_HOME/peerlane
    /// for a device
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    pub(crate) journal: Option<PathBuf>,
    /// Holes of a source file: auto leaves them out and makes them zero at a target that holds
    /// something, never moves them like data
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    sparse: SparseArg,
    /// Device memory that was used: auto overwrites it by DMA before the next user can have it, never
    /// leaves payload in it
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    scrub: ScrubArg,
    /// Give a target file this of its source file: mode (with the access control list), timestamps,
    /// ownership, xattr; several with commas between them
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    preserve: Vec<PreserveArg>,
    /// Move no more than RATE of payload in a second, such as 200MB (decimal) or 200M (binary), after the first block, all
    /// copies of a batch together; proof and verification do not count
    #[arg(long, alias = "bwlimit", value_name = "RATE", value_parser = size::rate)]
    pub(crate) limit: Option<ByteRate>,
    /// Copies of a --batch that are carried out at a time
    #[arg(long, value_name = "N", default_value_t = 1, requires = "batch", conflicts_with_all = ["source", "targets"],
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: u16,
    /// Write the digest of each chunk to FILE, which must not be there: a JSON object a line, for
    /// `peerlane verify`; needs --stage digest
    #[arg(long, value_name = "FILE", requires = "stages", conflicts_with = "dry_run")]
    manifest: Option<PathBuf>,
    /// Compare what stages changed by PROGRAM, which does the same: a chunk from standard input to
    /// standard output, its offset in the copy as argument
    #[arg(long, value_name = "PROGRAM", requires = "stages", conflicts_with = "dry_run")]
    stage_twin: Option<PathBuf>,
    /// Write a trace to FILE, which must not be there: every read, write, flush and wait, per drive and
    /// per memory, for the Perfetto UI
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) trace: Option<PathBuf>,
    /// Watch where the kernel maps the DMA of the drives, as root; a contradicted route is an error
    /// (docs/evidence.md)
    #[arg(long, value_name = "SOURCE", value_enum, conflicts_with = "dry_run")]
    evidence: Option<EvidenceArg>,
    /// Account of the other machine, for the record: the file that `peerlane export --status` writes
    /// there; read before and after the copy
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "batch"])]
    pub(crate) far_status: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

impl CopyArgs {
    /// Metadata that a target file takes from its source file.
    pub(crate) fn preserve(&self) -> Vec<Metadatum> {
        let metadatum = |one: &PreserveArg| match one {
            PreserveArg::Mode => Metadatum::Mode,
            PreserveArg::Timestamps => Metadatum::Timestamps,
            PreserveArg::Ownership => Metadatum::Ownership,
            PreserveArg::Xattr => Metadatum::Xattr,
        };
        self.preserve.iter().map(metadatum).collect()
    }

    /// Treatment of holes.
    pub(crate) fn sparse(&self) -> Sparse {
        match self.sparse {
            SparseArg::Auto => Sparse::Auto,
            SparseArg::Never => Sparse::Never,
        }
    }

    /// Options of the stages, beside their names.
    pub(crate) fn stages(&self) -> Stages {
        Stages { manifest: self.manifest.clone(), twin: self.stage_twin.clone() }
    }

    /// True when the DMA of the drives is watched.
    pub(crate) fn watch_dma(&self) -> bool {
        self.evidence.is_some()
    }

    /// Treatment of device memory after the copy.
    pub(crate) fn scrub(&self) -> Scrub {
        match self.scrub {
            ScrubArg::Auto => Scrub::Auto,
            ScrubArg::Never => Scrub::Never,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EvidenceArg {
    Dma,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PreserveArg {
    Mode,
    Timestamps,
    Ownership,
    Xattr,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SparseArg {
    Auto,
    Never,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScrubArg {
    Auto,
    Never,
}
