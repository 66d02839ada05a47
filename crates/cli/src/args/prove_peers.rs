//! `peerlane prove-peers`.

use clap::Args;
use peerlane_fabric::Bdf;

/// Arguments of `peerlane prove-peers`, which `--probe` runs for two GPUs.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProvePeersArgs {
    /// Addresses of the two GPUs
    #[arg(num_args = 2, required = true)]
    pub(crate) gpus: Vec<Bdf>,
    /// Bytes of the longest store
    #[arg(long)]
    pub(crate) bytes: u64,
    /// Seconds that all of it may take
    #[arg(long)]
    pub(crate) seconds: u32,
}
