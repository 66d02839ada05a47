//! `peerlane doctor`.

use clap::Args;

use super::FabricArgs;

/// Arguments of `peerlane doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The exit status is 0 when nothing was found, 1 when something was. What cannot be seen without
privileges is listed as unknown and is no finding.

Examples:
  peerlane doctor
  sudo peerlane doctor
  peerlane doctor /dev/nvme0n1 /dev/nvme1n1
  sudo peerlane doctor /dev/nvme0n1 /dev/nvme1n1 --probe
  peerlane doctor --machine acs")]
pub(crate) struct DoctorArgs {
    /// Where payload would come from: a block device, a file, or a drive of a described machine
    #[arg(requires = "target")]
    pub(crate) source: Option<String>,
    /// Where payload would go to
    pub(crate) target: Option<String>,
    /// Ask the kernel: read the first block of each end into each memory, where it stays
    #[arg(long, requires = "target")]
    pub(crate) probe: bool,
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}
