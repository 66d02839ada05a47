//! The command line: one file a command, with flags and their help and nothing else.
//!
//! The doc comment of a field is its help, on the terminal and in `docs/reference/cli.md`.

mod ask_library;
mod bench;
mod capture;
mod completions;
mod copy;
mod doctor;
mod export;
mod help;
mod lab;
mod machine;
mod named;
mod plan;
mod progress;
mod prove_peers;
mod reference;
mod report;
mod reproduce;
mod scan;
mod sim;
mod topo;
mod transfer;
mod verify;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use ask_library::AskLibraryArgs;
pub(crate) use peerlane::size;

pub(crate) use bench::{
    AttachArgs, BenchCommand, BenchCommandArgs, CompareArgs, HowArgs, ModelArgs, On, RoundtripArgs,
};
pub(crate) use capture::CaptureArgs;
pub(crate) use completions::CompletionsArgs;
pub(crate) use copy::CopyArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use export::{AskedMemory, ExportArgs};
pub(crate) use help::{as_shown, bare_command, built, command, command_at_width, try_parse};
pub(crate) use lab::{
    DemoArgs, DriveArg, HoldArgs, LabArgs, LabCommand, LeftoversArgs, MachineArgs, MachinesArgs,
    MomentArgs, RunArgs, ShellArgs,
};
pub(crate) use machine::FabricArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use progress::{ProgressArgs, ProgressFor};
pub(crate) use prove_peers::ProvePeersArgs;
pub(crate) use reference::ReferenceArgs;
pub(crate) use report::{ReportArgs, ReportFormat};
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use scan::{HaystackArgs, HaystackCommand, MakeArgs, ScanArgs, ScanOn};
pub(crate) use sim::SimArgs;
pub(crate) use topo::{TopoArgs, TopoCommand, TopoDiffArgs, TopoFormat};
pub(crate) use transfer::{RangeArgs, TransferArgs};
pub(crate) use verify::VerifyArgs;

/// Moves data between PCIe devices without host memory, and proves that it did so.
#[derive(Debug, Parser)]
#[command(name = "peerlane", version, long_version = crate::version::long(), after_help = AFTER_HELP, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
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
  1    the answer is negative or unknown: data differ, a fault was found
  2    bad usage, or failure
  3    the power of a machine was cut (lab run --at)
  77   not possible on this machine; nothing was changed
  130  interrupted; `copy --resume` completes a copy";

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArgs {
    /// Print one JSON object on standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing on success, except the object of --json
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print details, and a log on standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Colour text; auto: on a terminal, unless NO_COLOR is set
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
    /// Show devices, links and ports as a tree, a drawing or a file
    Topo(TopoArgs),
    /// Report what blocks peer-to-peer traffic, with fixes
    Doctor(DoctorArgs),
    /// Explain the route of a copy without moving data
    Plan(PlanArgs),
    /// Save what peerlane reads of this machine to one scrubbed file
    Capture(CaptureArgs),
    /// Copy between drives and files, and report the route taken
    Copy(CopyArgs),
    /// Compare source and target through host memory
    Verify(VerifyArgs),
    /// Export a drive to other machines by NVMe over Fabrics
    Export(ExportArgs),
    /// Measure routes, drives and memories, with evidence of the route
    Bench(BenchCommandArgs),
    /// Turn records into a page, tables or pictures
    Report(ReportArgs),
    /// Predict the rate of a workload on a machine, and its limit
    Sim(SimArgs),
    /// Print the script that completes commands in a shell
    Completions(CompletionsArgs),
    /// Find a picture in many images
    Scan(ScanArgs),
    /// Compare the figures of published documents with the model
    Reproduce(ReproduceArgs),
    /// Make images with a picture hidden in some, for scan
    Haystack(HaystackArgs),
    /// Boot a described machine under QEMU, with a recorder of DMA
    Lab(LabArgs),
    /// Write the reference pages
    #[command(hide = true)]
    Reference(ReferenceArgs),
    /// Ask CUDA or cuFile about one way to a GPU
    #[command(hide = true)]
    AskLibrary(AskLibraryArgs),
    /// Prove what one GPU stores in memory of another
    #[command(hide = true)]
    ProvePeers(ProvePeersArgs),
}
