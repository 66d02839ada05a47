//! `peerlane plan`.

use clap::Args;

use super::{FabricArgs, TransferArgs};

/// Arguments of `peerlane plan`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("batch", |batch| batch.hide(true)))]
#[command(after_help = "\
Source and target are the two sides of a copy, or any two PCI functions: gpu:0, mlx5_0, eth0, nvme2, an address. \
The exit status is 0 when a copy would start, 1 when it would be refused. Where there is nothing to \
copy, it is 0 when peer-to-peer is possible, or depends on the CPU, and 1 when it is refused or unknown.

Examples:
  peerlane plan /dev/nvme0n1 /dev/nvme1n1
  peerlane plan /dev/nvme0n1 /data/copy.img --route p2p --via cmb:nvme2
  peerlane plan /dev/nvme0n1 /dev/nvme1n1 --probe
  peerlane plan /data/set.bin gpu:0 --probe
  peerlane plan a b --machine acs --explain
  peerlane plan mlx5_0 gpu:0
  peerlane plan gpu:0 gpu:1 --probe")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    /// Show each step of the kernel's decision, with its source
    #[arg(long)]
    pub(crate) explain: bool,
    /// Ask the kernel, or CUDA and cuFile, about each path
    ///
    /// The kernel reads the first block of source and target into each memory, where it stays. For a
    /// GPU, cuFile registers the file and 64 KiB of the GPU, and CUDA pins 64 KiB of host memory.
    /// Each of two GPUs of NVIDIA stores a pattern in 64 MiB of the other, whose own copy engine
    /// reads it back.
    #[arg(long)]
    pub(crate) probe: bool,
    /// Judge both devices as passed to one virtual machine
    #[arg(long)]
    pub(crate) guest: bool,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}
