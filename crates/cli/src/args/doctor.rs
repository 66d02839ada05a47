//! `peerlane doctor`.

use std::path::PathBuf;

use clap::Args;
use peerlane_reach::Use;

use super::FabricArgs;

/// Arguments of `peerlane doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Uses: storage-gpu, network-gpu, gpu-gpu, drive-drive, network-drive, storage-fpga

States of a use or pair: direct; expected direct (unless a named, unlikely fact holds); via CPU (host \
bridge); through host memory; not possible; unknown.

Exit status: 1 if a fix is open or a use is unknown; of two devices, 1 unless they are direct, expected \
or via CPU. With --check, that of monitoring plugins: 0 direct or expected, 1 via CPU or through host \
memory, 2 through host memory for a use of --expect, 3 unknown, or failure.

Examples:
  peerlane doctor
  sudo peerlane doctor
  peerlane doctor gpu:0
  peerlane doctor gpu:0 mlx5_0
  sudo peerlane doctor /dev/nvme0n1 /dev/nvme1n1 --probe
  peerlane doctor gpu:0 gpu:1 --probe
  peerlane doctor --machine translating --write-fix fix
  peerlane doctor --machine translating --assume fix
  sudo peerlane doctor --check --expect storage-gpu")]
pub(crate) struct DoctorArgs {
    /// PCI function, alone for all its pairs; or block device or file
    pub(crate) source: Option<String>,
    /// Second device
    pub(crate) target: Option<String>,
    /// Ask the kernel, or CUDA and cuFile, about each path
    ///
    /// The kernel reads the first block of each device, which stays in the memory. Each of two GPUs of NVIDIA
    /// stores a pattern in 64 MiB of the other, whose own copy engine reads it back.
    #[arg(long, requires = "target", conflicts_with = "assume")]
    pub(crate) probe: bool,
    /// Judge with the settings of FILE or a folder in force
    ///
    /// They are kernel parameters and module options, such as --write-fix writes.
    #[arg(long, value_name = "FILE")]
    pub(crate) assume: Option<PathBuf>,
    /// Write the fixes as files and scripts into a new folder
    ///
    /// The files are drop-ins; the scripts install and undo them.
    #[arg(long, value_name = "DIR")]
    pub(crate) write_fix: Option<PathBuf>,
    /// Write a page that shows the machine in any browser
    ///
    /// What identifies the machine is left out, as in a capture. The page fetches nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "probe", "check", "expect"])]
    pub(crate) html: Option<PathBuf>,
    /// Print one line with performance data for monitoring
    #[arg(long, conflicts_with_all = ["source", "probe", "write_fix"])]
    pub(crate) check: bool,
    /// Require direct pairs for USE; implies --check; may be repeated
    #[arg(long, value_name = "USE", conflicts_with_all = ["source", "probe", "write_fix"])]
    pub(crate) expect: Vec<Use>,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}
