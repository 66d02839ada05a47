//! `peerlane doctor`.

use std::path::PathBuf;

use clap::Args;
use peerlane_reach::Use;

use super::FabricArgs;

/// Arguments of `peerlane doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Uses: storage-gpu, network-gpu, gpu-gpu, drive-drive, network-drive, storage-fpga

The exit status is 0 when nothing was found, 1 when something was. Facts that cannot be read without \
privileges are listed and are no finding.

With --check it is that of monitoring plugins: 0 nothing found, 1 slower than it could be, 2 a route is \
missing (of the uses of --expect, else of any), 3 not known, or failure.

Examples:
  peerlane doctor
  sudo peerlane doctor
  peerlane doctor gpu:0 mlx5_0
  sudo peerlane doctor /dev/nvme0n1 /dev/nvme1n1 --probe
  peerlane doctor --machine acs --write-fix fix
  peerlane doctor --machine acs --assume fix
  sudo peerlane doctor --check --expect storage-gpu")]
pub(crate) struct DoctorArgs {
    /// Device: block device, file, or PCI function by name or address
    #[arg(requires = "target")]
    pub(crate) source: Option<String>,
    /// Second device
    pub(crate) target: Option<String>,
    /// Ask the kernel by reading one block into each memory
    ///
    /// It is the first block of each device; it stays in the memory.
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
    /// Print one line with performance data, for monitoring
    #[arg(long, conflicts_with_all = ["source", "probe", "write_fix"])]
    pub(crate) check: bool,
    /// Require direct pairs for USE; may be repeated
    #[arg(long, value_name = "USE", requires = "check")]
    pub(crate) expect: Vec<Use>,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}
