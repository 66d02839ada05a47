//! `peerlane lab`: a machine description booted under QEMU.

mod boot;
mod demo;
mod hold;
mod leftovers;
mod machines;
mod moment;
mod run;
mod shell;

use peerlane_results::RecordSchema;

use crate::args::{LabArgs, LabCommand};
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// The schemas of the objects that `--json` prints.
pub(super) fn schemas() -> Vec<RecordSchema> {
    vec![demo::schema(), machines::schema()]
}

/// Runs a command of the lab.
///
/// # Errors
/// When the machine cannot be booted, or its command not be run to its end.
pub(crate) fn run(args: &LabArgs, printer: Printer) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::Run(args) => run::run(args, printer),
        LabCommand::Shell(args) => shell::run(args, printer),
        LabCommand::Demo(args) => demo::run(args, printer),
        LabCommand::Machines(args) => machines::run(args, printer),
        LabCommand::Moment(args) => moment::run(args),
        LabCommand::Hold(args) => hold::run(args, printer),
        LabCommand::Leftovers(args) => leftovers::run(args, printer),
    }
}
