//! `peerlane sim`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `peerlane sim`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Every figure is predicted: from the machine's links, and from parameters of drives and host that a
calibration of the machine replaces (--parameters).

Examples:
  peerlane sim ten crowd.toml
  peerlane sim machines/epyc.toml sweep.toml --engine tlp
  peerlane sim machine.tar.zst crowd.toml -o run.json
  peerlane sim ten crowd.toml --vary drive.read.rate=1e9..14e9
  peerlane sim ten crowd.toml --vary depth=1,2,4,8,16,32
  peerlane sim ten crowd.toml --vary switch.latency=80e-9,150e-9
  peerlane sim ten crowd.toml --vary d0.lanes=1,2,4,8,16 --vary d0.generation=3,4,5
  peerlane sim tree:100 random:1000
  peerlane sim trifecta docs/examples/trifecta.toml
  peerlane sim two-servers docs/examples/two-servers.toml --vary ethernet.mtu=1500,9000

A machine file may describe several machines: what stands before a slash in the name of a host bridge
is its machine. Transfers between two go by their NICs, by RDMA or with `via = \"tcp\"` by TCP.

A file of parameters has tables like this one; lo and hi are the range that is believed, and from is
spec, datasheet, measured-elsewhere or guess:
  [parameter.\"d0.read.rate\"]
  value = 6.8
  lo = 6.5
  hi = 7.0
  unit = \"GB/s\"
  from = \"datasheet\"
  source = \"which\"

Generated machines: `tree` is one root complex above switches of eight ports, Gen4, sixteen lanes
between switches and four to drives; `servers` are machines with sixteen drives each; `pods` are
machines of two sockets with switches, links and drives by the seed. All drives lend memory.
`random` moves 1 GiB between random drives of one machine each, peer to peer, all at once. A tree
has up to 10,000 drives; ten thousand transfers take seconds, 100,000 a minute or more.")]
pub(crate) struct SimArgs {
    /// The machine, unless --machine gives one: what --machine takes, or
    /// `tree:DEVICES`, `servers:COUNT`, `pods:COUNT[:SEED]` for one that is generated; then the workload: a TOML
    /// file as `peerlane bench run` takes it, or `random:TRANSFERS[:SEED]`
    #[arg(value_name = "MACHINE WORKLOAD", num_args = 1..=2, required = true)]
    pub(crate) what: Vec<PathBuf>,
    /// The machine: a folder with sys/ and proc/, an archive of one, a machine file, a name from
    /// `peerlane lab machines`, or - for the text of one on standard input
    #[arg(long, value_name = "WHAT")]
    pub(crate) machine: Option<PathBuf>,
    /// The engine: bounds of each transfer alone, flows that share links, or packets
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub(crate) engine: SimEngine,
    /// Take parameters of drives and host from this file before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) parameters: Option<PathBuf>,
    /// Predict a row for each value of a parameter, of `depth`, of `block`, or of `NAME.lanes` and
    /// `NAME.generation` of the link above a device or switch: values with commas between them, or FIRST..LAST in
    /// equal ratios; in bytes (`64K`, too), seconds (`80e-9`), bytes a second, or numbers of things. Rates are those
    /// of the flow engine unless --engine names another
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "output")]
    pub(crate) vary: Vec<String>,
    /// Values between FIRST and LAST, both included
    #[arg(long, value_name = "N", default_value_t = 10, requires = "vary",
          value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) steps: u32,
    /// Keep the record in this file, as `peerlane bench` does
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// An engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimEngine {
    /// Packets up to 128 transfers of a case, flows beyond; the record says which and why
    #[default]
    Auto,
    /// Bounds of each transfer alone: their sum may be beyond what they share
    Closed,
    /// Flows that share links
    Flow,
    /// Packets
    Tlp,
}
