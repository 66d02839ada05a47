//! `peerlane bench attach`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `peerlane bench attach`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  peerlane lab run --machine pair --dma dma.json --out out -- sh -c \\
      'peerlane bench sweep /dev/lab/a /dev/lab/b --routes p2p --warm-up 0 \\
         --scratch /dev/lab/b -o $OUT/run.json'
  peerlane bench attach out/run.json --dma dma.json

The recorder has one total for the whole command and no marks between cases. So name every record that was \
measured by that command; all of it has to go by one route, without runs that warm up. Records are written \
again in place; where the recorder contradicts them, they are left as they are and the exit status is 1.")]
pub(crate) struct AttachArgs {
    /// Records of all benchmarks that ran while the recorder watched
    #[arg(value_name = "RUN.json", required = true, num_args = 1..=64)]
    pub(crate) records: Vec<PathBuf>,
    /// Read the report that `peerlane lab run --dma FILE` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) dma: PathBuf,
}
