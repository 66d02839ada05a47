//! `peerlane plan`.

use clap::Args;

use super::{FabricArgs, TransferArgs};

/// Arguments of `peerlane plan`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("batch", |batch| batch.hide(true)))]
#[command(after_help = "\
The exit status is 0 when a copy would start, 1 when it would be refused. On a described machine,
source and target are names of its drives.

Examples:
  peerlane plan /dev/nvme0n1 /dev/nvme1n1
  peerlane plan /dev/nvme0n1 /data/copy.img --route p2p --via cmb:nvme2
  peerlane plan a b --machine pair")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}
