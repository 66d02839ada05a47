//! `peerlane lab`: a machine description booted under QEMU.

mod machines;

use crate::args::{LabArgs, LabCommand};
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs a command of the lab.
///
/// # Errors
/// When the machine cannot be booted, or its command not be run to its end.
pub(crate) fn run(args: &LabArgs, printer: Printer) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::Machines(args) => machines::run(args, printer),
        _ => Err(Failure::new("stub")),
    }
}
