//! `peerlane prove-peers`.

use clap::Args;
use peerlane_fabric::Bdf;

/// Arguments of `peerlane prove-peers`, which `--probe` runs for two GPUs.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProvePeersArgs {
    /// Addresses of the two GPUs
    #[arg(num_args = 2, required = true)]
    pub(crate) gpus: Vec<Bdf>,
    /// Store so many bytes at most
    #[arg(long)]
    pub(crate) bytes: u64,
    /// End after so many seconds
    #[arg(long)]
    pub(crate) seconds: u32,
}
