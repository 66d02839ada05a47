//! `peerlane completions`: the script with which a shell completes commands and options.

use clap_complete::{Shell, generate};

use crate::args::{CompletionsArgs, bare_command};
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// Prints the script of a shell.
///
/// # Errors
/// When standard output does not take it.
pub(crate) fn run(args: &CompletionsArgs, printer: Printer) -> Result<Exit, Failure> {
    printer.data(&String::from_utf8_lossy(&script(args.shell)))?;
    Ok(Exit::Done)
}

/// The script of a shell, from the argument parser.
pub(super) fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, &mut bare_command(), "peerlane", &mut text);
    text
}
