//! `peerlane capture`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `peerlane capture`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
What is kept and what is replaced is listed in docs/reference/capture.md: no serial numbers, hardware \
or memory addresses, host names, names that you gave to interfaces, or paths of yours; makers and models \
of the machine and its devices are kept. As root a capture says more (ACS); without, it says what you may \
see. `topo`, `plan` and `doctor` read it.

Examples:
  sudo peerlane capture -o machine.tar.zst
  sudo peerlane capture --with-report -o machine.tar.zst
  peerlane topo --machine machine.tar.zst
  peerlane capture --machine /mnt/other -o other.tar.zst")]
pub(crate) struct CaptureArgs {
    /// Write to a new FILE.tar.zst, or a new folder
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Add answers of the running machine, for a bug report
    ///
    /// Findings and plan, versions, and the kernel's messages about the devices. They are listed before
    /// anything is written, and lack what the capture lacks.
    #[arg(long)]
    pub(crate) with_report: bool,
    /// Capture sys/ and proc/ of this folder or archive instead
    #[arg(long, value_name = "WHAT")]
    pub(crate) machine: Option<PathBuf>,
}
