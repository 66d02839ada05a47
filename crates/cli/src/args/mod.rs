//! The command line: one file a command, with flags and their help and nothing else.
//!
//! The doc comment of a field is its help, on the terminal and in `docs/reference/cli.md`.

mod bench;
mod capture;
mod copy;
mod doctor;
mod export;
mod lab;
mod machine;
mod plan;
mod progress;
mod reference;
mod report;
mod reproduce;
mod scan;
mod sim;
mod topo;
mod transfer;
mod verify;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use peerlane::size;

pub(crate) use bench::{
    AttachArgs, BenchArgs, BenchCommand, BenchCommandArgs, CalibrateArgs, CompareArgs, HowArgs,
    ModelArgs, On, RoundtripArgs,
};
pub(crate) use capture::CaptureArgs;
pub(crate) use copy::CopyArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use export::{AskedMemory, ExportArgs};
pub(crate) use lab::{
    DemoArgs, DriveArg, HoldArgs, LabArgs, LabCommand, LeftoversArgs, MachineArgs, MachinesArgs,
    MomentArgs, RunArgs, ShellArgs,
};
pub(crate) use machine::FabricArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use progress::ProgressArgs;
pub(crate) use reference::ReferenceArgs;
pub(crate) use report::{ReportArgs, ReportFormat};
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use scan::{
    HayFormat, HaystackArgs, HaystackCommand, MakeArgs, MethodArg, ScanArgs, ScanOn,
};
pub(crate) use sim::{SimArgs, SimEngine};
pub(crate) use topo::{TopoArgs, TopoCommand, TopoDiffArgs, TopoFormat};
pub(crate) use transfer::TransferArgs;
pub(crate) use verify::VerifyArgs;

/// Moves data between PCIe devices without host memory, and proves that it did so.
#[derive(Debug, Parser)]
#[command(name = "peerlane", version, long_version = crate::version::long(), after_help = AFTER_HELP, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
}

const AFTER_HELP: &str = "\
Exit status:
  0    done
  1    the answer is negative: data differ, the route is not possible (plan), something was found (doctor) or changed (topo diff)
  2    bad usage, or failure
  3    the power of a machine was cut, as asked (lab run --at)
  77   not possible on this machine; nothing was changed
  130  interrupted";

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Print one JSON object on standard output in place of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print errors and warnings only, and the object of --json
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print what is done in detail on standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Colour the text; auto is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// Use of colour in text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the machine as PCIe sees it: ports, links, drives, memories, and who reaches them
    Topo(TopoArgs),
    /// Say what the devices of a machine could exchange directly, what stands in the way, and what to do
    Doctor(DoctorArgs),
    /// Say which route a copy would take and why, without moving anything
    Plan(PlanArgs),
    /// Copy from one drive or file to another, and say by which route the bytes went
    Copy(CopyArgs),
    /// Compare source and target, both read by host memory, without changing anything
    Verify(VerifyArgs),
    /// Serve other machines with a drive by NVMe over Fabrics, until a signal
    Export(ExportArgs),
    /// Measure routes, drives and memories, with evidence of the way the bytes took
    Bench(BenchCommandArgs),
    /// Keep what topo and plan read of this machine in one file, without what identifies it
    Capture(CaptureArgs),
    /// Make a page, tables or pictures of records
    Report(ReportArgs),
    /// Predict what a workload would do on a machine, what limits it, and what more of that would gain
    Sim(SimArgs),
    /// Compare the figures of five published documents with the model, and say which were fitted
    Reproduce(ReproduceArgs),
    /// Boot a machine description under QEMU, with a recorder of every DMA
    Lab(LabArgs),
    /// Find a picture in many images
    Scan(ScanArgs),
    /// Make a set of images with a picture hidden in some, to try scan on
    Haystack(HaystackArgs),
    /// Write the reference pages
    #[command(hide = true)]
    Reference(ReferenceArgs),
}
