//! The commands: each calls the library and hands the result to the printer.

mod ask_library;
mod batch;
mod bench;
mod capture;
mod child_answer;
mod completions;
mod connections;
mod copy;
mod doctor;
mod export;
mod haystack;
mod lab;
mod marks;
mod outcome;
mod overwrite;
mod page;
mod plan;
mod prove_peers;
mod reference;
mod report;
mod reproduce;
mod resume;
mod scan;
mod sim;
mod target_folder;
mod terminal_watch;
mod topo;
mod trace_file;
mod verify;
mod workload_file;

pub(crate) use doctor::check;
pub(crate) use resume::quoted;

use crate::args::Command;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs a command to its end.
///
/// # Errors
/// The obstacle that stopped the command, with its exit status.
pub(crate) fn run(command: &Command, printer: Printer) -> Result<Exit, Failure> {
    match command {
        Command::Topo(args) => topo::run(args, printer),
        Command::Doctor(args) => doctor::run(args, printer),
        Command::Bench(args) => bench::run(args, printer),
        Command::Capture(args) => capture::run(args, printer),
        Command::Completions(args) => completions::run(args, printer),
        Command::Plan(args) => plan::run(args, printer),
        Command::Copy(args) => copy::run(args, printer),
        Command::Verify(args) => verify::run(args, printer),
        Command::Export(args) => export::run(args, printer),
        Command::Report(args) => report::run(args, printer),
        Command::Sim(args) => sim::run(args, printer),
        Command::Reproduce(args) => reproduce::run(args, printer),
        Command::Lab(args) => lab::run(args, printer),
        Command::Scan(args) => scan::run(args, printer),
        Command::Haystack(args) => haystack::run(args, printer),
        Command::Reference(args) => reference::run(args, printer),
        Command::AskLibrary(args) => ask_library::run(args, printer),
        Command::ProvePeers(args) => prove_peers::run(args, printer),
    }
}
