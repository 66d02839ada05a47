//! `peerlane doctor`.

use std::path::PathBuf;

use clap::Args;
use peerlane_reach::Use;

use super::FabricArgs;

/// Arguments of `peerlane doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Uses: storage-gpu, network-gpu, gpu-gpu, drive-drive, network-drive, storage-fpga

The exit status is 0 when nothing was found, 1 when something was. Facts that cannot be read without
privileges are listed and are no finding.

With --check it is that of monitoring plugins: 0 nothing found, 1 slower than it could be, 2 a route is
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
    /// One device: a block device, a file, or a PCI function by name or address
    #[arg(requires = "target")]
    pub(crate) source: Option<String>,
    /// The other device
    pub(crate) target: Option<String>,
    /// Ask the kernel: read the first block of each end into each memory, where it stays
    #[arg(long, requires = "target", conflicts_with = "assume")]
    pub(crate) probe: bool,
    /// Judge the machine as if the kernel parameters and module options of a file, or of the files in
    /// a folder, were in force
    #[arg(long, value_name = "FILE")]
    pub(crate) assume: Option<PathBuf>,
    /// Write the plan as drop-ins, with scripts that install and undo them, into a new folder
    #[arg(long, value_name = "DIR")]
    pub(crate) write_fix: Option<PathBuf>,
    /// Print one line with performance data, for monitoring
    #[arg(long, conflicts_with_all = ["source", "probe", "write_fix"])]
    pub(crate) check: bool,
    /// A use that has to be direct for every pair; may be given several times
    #[arg(long, value_name = "USE", requires = "check")]
    pub(crate) expect: Vec<Use>,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}
