//! `peerlane sim`.

use std::path::PathBuf;

use clap::Args;
use peerlane_sim::predict::Engine;

use super::named::named;

/// Arguments of `peerlane sim`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Every figure is predicted: from the machine's links, and from parameters of drives and host that a \
file replaces (--parameters).

Examples:
  peerlane sim trifecta docs/examples/trifecta.toml
  peerlane sim trifecta docs/examples/trifecta.toml --engine tlp
  peerlane sim trifecta docs/examples/trifecta.toml -o run.json
  peerlane sim trifecta docs/examples/trifecta.toml --vary drive.read.rate=1e9..14e9
  peerlane sim trifecta docs/examples/trifecta.toml --vary depth=1,2,4,8,16,32
  peerlane sim trifecta docs/examples/trifecta.toml --vary switch.latency=80e-9,150e-9
  peerlane sim trifecta docs/examples/trifecta.toml --vary drive.lanes=1,2,4,8 --vary drive.generation=3,4,5
  peerlane sim tree:100 random:1000
  peerlane sim two-servers docs/examples/two-servers.toml --vary ethernet.mtu=1500,9000

A machine file may describe several machines: what stands before a slash in the name of a host bridge \
is its machine. Transfers between two go by their NICs, by RDMA or with `via = \"tcp\"` by TCP.

A file of parameters has tables like this one; lo and hi are the range that is believed, and from is \
spec, datasheet, measured-elsewhere or guess:
  [parameter.\"d0.read.rate\"]
  value = 6.8
  lo = 6.5
  hi = 7.0
  unit = \"GB/s\"
  from = \"datasheet\"
  source = \"which\"

Generated machines: `tree` is one root complex above switches of eight ports, Gen4, sixteen lanes \
between switches and four to drives; `servers` are machines with sixteen drives each; `pods` are \
machines of two sockets with switches, links and drives by the seed. All drives lend memory. \
`random` moves 1 GiB between random drives of one machine each, peer to peer, all at once. A tree \
has up to 10,000 drives; ten thousand transfers take seconds, 100,000 a minute or more.")]
pub(crate) struct SimArgs {
    /// Machine, unless --machine gives it, and workload
    ///
    /// The machine is what --machine takes, or a generated one: `tree:DEVICES`, `servers:COUNT`,
    /// `pods:COUNT[:SEED]`. The workload is a TOML file as for `peerlane bench run`, or
    /// `random:TRANSFERS[:SEED]`.
    #[arg(value_name = "MACHINE WORKLOAD", num_args = 1..=2, required = true)]
    pub(crate) what: Vec<PathBuf>,
    /// Use another machine: lspci text, NCCL XML, capture, or name
    ///
    /// WHAT is recognised by content: the text of `lspci -Dvvvnn`; topology XML of NCCL or RCCL
    /// (NCCL_TOPO_DUMP_FILE); an archive of `peerlane capture` (tar; gzip, bzip2, xz, Zstandard); a
    /// folder with sys/ and proc/; a machine file (TOML); a name from `peerlane lab machines`; or -
    /// for text on standard input.
    #[arg(long, value_name = "WHAT")]
    pub(crate) machine: Option<PathBuf>,
    /// Choose the engine: bounds of each transfer, shared flows, or packets
    ///
    /// closed gives bounds of each transfer alone, whose sum may be beyond what they share; flow has flows
    /// that share links; tlp has packets. auto is packets up to 128 transfers of a case, and flows beyond;
    /// the record says which and why.
    #[arg(long, value_name = "ENGINE", value_parser = named::<Engine>(), default_value = "auto")]
    pub(crate) engine: Engine,
    /// Take parameters from FILE before the built-in ones
    ///
    /// They are parameters of drives and host.
    #[arg(long, value_name = "FILE")]
    pub(crate) parameters: Option<PathBuf>,
    /// Predict a row for each value of a parameter
    ///
    /// KEY is a parameter, `depth`, `block`, or `NAME.lanes` and `NAME.generation` of the link above a
    /// device or switch. VALUES have commas between them, or are FIRST..LAST in equal ratios: bytes
    /// (`64K`, too), seconds (`80e-9`), bytes a second, or counts. Rates are those of the flow engine
    /// unless --engine names another.
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "output")]
    pub(crate) vary: Vec<String>,
    /// Use N values from FIRST to LAST, both included
    #[arg(long, value_name = "N", default_value_t = 10, requires = "vary",
          value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) steps: u32,
    /// Write the record to FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
