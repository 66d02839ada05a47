//! `peerlane copy`.

use clap::Args;

use super::TransferArgs;

/// Arguments of `peerlane copy`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  peerlane copy /dev/nvme0n1 /dev/nvme1n1 --force
  peerlane copy /data/set.bin /dev/nvme1n1 --route p2p --via cmb:nvme2 --verify full
  peerlane copy 0000:41:00.0 0000:42:00.0 --length 1G --dry-run")]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
