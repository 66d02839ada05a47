//! `peerlane bench compare`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `peerlane bench compare`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The exit status is 1 when a case is certainly slower by more than --threshold, when cases are \
missing in AFTER, and when nothing could be compared: for continuous integration of drivers, \
firmware and kernels. Of two predictions nothing is certain: their ratio is said, without a test, \
and a slower one is no reason for status 1.

Records of `peerlane.ray.bench` are compared node by node. A node that is in one of them only, was \
lost or failed is named, and the exit status is 1.")]
pub(crate) struct CompareArgs {
    /// Record to compare with
    #[arg(value_name = "BEFORE.json")]
    pub(crate) before: PathBuf,
    /// Record to judge
    #[arg(value_name = "AFTER.json")]
    pub(crate) after: PathBuf,
    /// Further pairs of records, made in turns: before, after
    ///
    /// What drifts on the machine then touches both alike.
    #[arg(value_name = "BEFORE.json AFTER.json", num_args = 0..)]
    pub(crate) more: Vec<PathBuf>,
    /// Accept cases that are slower by up to PERCENT
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = super::common::percent)]
    pub(crate) threshold: u32,
}
