//! `peerlane lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use peerlane_lab::{HostEvent, LabNetwork};
use peerlane_units::{Bytes, Nanos};

use super::size;

/// Arguments of `peerlane lab`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// The commands of the lab.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LabCommand {
    /// Run a command in a booted machine; the exit status is that of the command
    Run(RunArgs),
    /// Open a shell in a booted machine
    Shell(ShellArgs),
    /// Copy the same data by both routes and show where its bytes went
    Demo(DemoArgs),
    /// List the machine descriptions that can be named, those that can be booted first
    Machines(MachinesArgs),
    /// In the guest: say that a moment has come, and wait until what belongs to it has happened
    Moment(MomentArgs),
    /// Hold memory that a drive lends until standard input ends
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Write what is left in the memory that a drive lends to a drive
    #[command(hide = true)]
    Leftovers(LeftoversArgs),
}

/// The machine to boot, and its kernel and drives.
#[derive(Debug, Clone, Args)]
pub(crate) struct MachineArgs {
    /// Boot this machine: a name, a machine file, or a capture
    ///
    /// WHAT is a name from `peerlane lab machines`, a machine file, or anything else that `peerlane
    /// topo --machine` takes, if QEMU can emulate it.
    #[arg(long, value_name = "WHAT", default_value = "pair")]
    pub(crate) machine: PathBuf,
    /// Use IMAGE as drive NAME, or as memory of card NAME
    ///
    /// A drive without an image gets an empty one.
    #[arg(long = "drive", value_name = "NAME=IMAGE")]
    pub(crate) drives: Vec<DriveArg>,
    /// Boot this kernel, built with CONFIG_PCI_P2PDMA
    ///
    /// The default is $PEERLANE_KERNEL, or a kernel that is found.
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: Option<PathBuf>,
    /// Load this kernel module, with its dependencies, before the command
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// Join a network with another machine of the lab
    ///
    /// Both name the same folder: FOLDER=1 here and FOLDER=2 there. In the guest $LAB_ADDRESS is the
    /// own address and $LAB_PEER that of the other machine.
    #[arg(long, value_name = "FOLDER=ROLE")]
    pub(crate) network: Option<LabNetwork>,
    /// Add PROGRAM and its shared libraries to the guest
    #[arg(long = "add", value_name = "PROGRAM")]
    pub(crate) programs: Vec<PathBuf>,
}

/// Arguments of `peerlane lab run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
In the guest the command runs as root; drives are /dev/lab/NAME, the memory of a card is p2pmem:/dev/lab/NAME, and what the command leaves in $OUT comes back with --out.

After a power cut the exit status is 3, nothing of $OUT comes back, and the images hold what their drives had been given: an emulated drive has no cache of its own to lose.

Examples:
  peerlane lab run --machine pair -- peerlane topo
  peerlane lab run --drive a=source.img --drive b=target.img --dma dma.json -- \\
      peerlane copy /dev/lab/a /dev/lab/b --route p2p --force
  peerlane lab run --machine throttled --at later=unplug:a -- sh -c \\
      'peerlane copy /dev/lab/a /dev/lab/b & sleep 1; peerlane lab moment later; wait $!'")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// Write what the DMA recorder saw to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) dma: Option<PathBuf>,
    /// Put what the command leaves in $OUT into DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the guest's kernel log to a new FILE
    ///
    /// A terminal, a pipe or /dev/stderr gets it after the run, byte for byte: a terminal obeys what
    /// the guest sends.
    #[arg(long, value_name = "FILE")]
    pub(crate) console: Option<PathBuf>,
    /// Trigger EVENT when the command announces MOMENT
    ///
    /// EVENT is unplug:DRIVE, power-cut, link-down or link-up; the command announces a moment by
    /// `peerlane lab moment MOMENT`.
    #[arg(long = "at", value_name = "MOMENT=EVENT")]
    pub(crate) events: Vec<HostEvent>,
    /// Run PROGRAM on the memory of card NAME
    ///
    /// Its argument is the file of that memory; the guest's /dev/virtio-ports/peerlane.worker.NAME is
    /// its standard input and output.
    #[arg(long = "worker", value_name = "NAME=PROGRAM", hide = true)]
    pub(crate) workers: Vec<DriveArg>,
    /// Stop the machine after TIME
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = size::duration)]
    pub(crate) timeout: Nanos,
    /// Command to run in the guest, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Arguments of `peerlane lab shell`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

/// Arguments of `peerlane lab demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Boot this kernel, built with CONFIG_PCI_P2PDMA
    ///
    /// The default is $PEERLANE_KERNEL, or a kernel that is found.
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: Option<PathBuf>,
    /// Keep images, records and recorder output in DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

/// Arguments of `peerlane lab machines`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MachinesArgs {
    /// List DIR instead of ./machines and the built-in descriptions
    #[arg(long, value_name = "DIR")]
    pub(crate) machines_dir: Option<PathBuf>,
}

/// Arguments of `peerlane lab moment`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MomentArgs {
    /// Name of the moment, as given to `peerlane lab run --at`
    #[arg(value_name = "MOMENT")]
    pub(crate) name: String,
}

/// Arguments of `peerlane lab hold`.
#[derive(Debug, Clone, Args)]
pub(crate) struct HoldArgs {
    /// PCI address of the drive that lends the memory
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    /// Sizes of the pieces, in order
    #[arg(value_name = "SIZE", required = true, value_parser = size::length)]
    pub(crate) sizes: Vec<Bytes>,
    /// Give every other piece back at once
    #[arg(long)]
    pub(crate) fragment: bool,
}

/// Arguments of `peerlane lab leftovers`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LeftoversArgs {
    /// PCI address of the drive that lends the memory
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    /// Drive whose content is overwritten with what is in the memory
    #[arg(value_name = "DRIVE")]
    pub(crate) drive: PathBuf,
}

/// `NAME=IMAGE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriveArg {
    /// Drive of the machine.
    pub(crate) name: String,
    /// File that holds its content.
    pub(crate) image: PathBuf,
}

impl FromStr for DriveArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, image)) if !name.is_empty() && !image.is_empty() => {
                Ok(Self { name: name.to_owned(), image: image.into() })
            }
            _ => Err("write NAME=IMAGE, such as a=source.img".to_owned()),
        }
    }
}
