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
  peerlane doctor --machine acs")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) fabric: FabricArgs,
}
