//! `peerlane lab run`: a command in a booted machine.

use std::os::fd::AsFd;
use std::sync::Arc;

use peerlane_lab::Options;

use super::boot;
use crate::args::RunArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;

/// Boots, runs the command, and ends with its exit status.
///
/// # Errors
/// When the machine does not boot, or its command does not run to its end.
pub(super) fn run(args: &RunArgs, printer: Printer) -> Result<Exit, Failure> {
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    let output = output.map_err(Tried::to("watch standard output"))?;
    let options = Options {
        dma: args.dma.clone(),
        out: args.out.clone(),
        console: args.console.clone(),
        events: args.events.clone(),
        timeout: boot::deadline(args.timeout),
        output: Some(Arc::new(output)),
        ..boot::options(&args.machine, args.command.clone())?
    };
    let outcome = boot::run(&options, printer)?;
    for moment in &outcome.missed {
        printer.warning(&format!(
            "nothing of --at {moment}=… happened: the command did not announce it"
        ));
    }
    Ok(boot::exit(outcome.status))
}
