//! `peerlane verify`.

use std::path::PathBuf;

use clap::Args;
use peerlane_engine::stages::ManifestAsked;
use peerlane_engine::verify::{Coverage, VerifyAsked};
use peerlane_results::VerifyMode;
use peerlane_units::Nanos;

use super::named::named_among;
use super::{ProgressArgs, RangeArgs, size};

/// Arguments of `peerlane verify`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Both sides are read by host memory, whatever route a copy took, and nothing is changed. The exit \
status is 0 when no difference is found, 1 when one is, 2 when it cannot be known. A target that \
ends before its source differs; so does a longer one where whole files are compared.

With --manifest one end is compared with the digests of a copy, and each chunk that differs is named; \
--offset is where the copy begins in it then.

Examples:
  peerlane verify /dev/nvme0n1 /dev/nvme1n1
  peerlane verify /data/set.bin /dev/nvme1n1 --target-offset 1G --json
  peerlane verify /data/set.bin /backup/set.bin --verify sample
  peerlane verify /dev/nvme1n1 --manifest set.digests")]
pub(crate) struct VerifyArgs {
    /// Expected content: file, block device or passthrough node, PCI address, or nvme://HOST/NQN
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Content to compare, in the same notation, or a folder with such a file
    #[arg(value_name = "TARGET", required_unless_present = "manifest")]
    target: Option<String>,
    /// Compare SOURCE with the manifest of a copy, without a target
    ///
    /// A copy with `--stage digest --manifest FILE` writes it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "length", "target_offset", "verify"])]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    range: RangeArgs,
    /// Compare everything, or a sample with first and last block
    #[arg(long, value_name = "MODE", default_value = "full",
          value_parser = named_among(&[VerifyMode::Full, VerifyMode::Sample]))]
    verify: VerifyMode,
    /// Treat a request as stuck after TIME without an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = size::duration)]
    timeout: Nanos,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

impl VerifyArgs {
    /// The comparison of one end with a manifest.
    pub(crate) fn manifest(&self) -> Option<ManifestAsked> {
        Some(ManifestAsked {
            end: self.source.clone(),
            offset: self.range.offset,
            manifest: self.manifest.clone()?,
            deadline: self.timeout,
        })
    }

    /// The same for the engine; `seed` chooses a sample.
    pub(crate) fn asked(&self, seed: u64) -> VerifyAsked {
        VerifyAsked {
            source: self.source.clone(),
            target: self.target.clone().unwrap_or_default(),
            offset: self.range.offset,
            target_offset: self.range.target_offset,
            length: self.range.length,
            coverage: match self.verify {
                VerifyMode::Sample => Coverage::Sample { seed },
                VerifyMode::Full | VerifyMode::None => Coverage::Full,
            },
            deadline: self.timeout,
        }
    }
}
