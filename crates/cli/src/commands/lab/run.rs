//! `peerlane lab run`: a command in a booted machine.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use peerlane_lab::{BootOptions, Console, DMA_SCHEMA};

use super::boot;
use crate::args::RunArgs;
use crate::commands::bench::attach::REPORT_MAX;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::output_file::{OutputFile, OutputKind, has_schema, stream};
use crate::printer::Printer;

/// A recorder's report of an earlier run.
const DMA_REPORT: OutputKind = OutputKind::Marked {
    name: "report of the recorder",
    most: REPORT_MAX,
    is_ours: |bytes| has_schema(bytes, DMA_SCHEMA),
};

/// Opens the output of the console: a stream that passes it on, or a new file.
fn console(path: &Path) -> Result<Console, Failure> {
    if let Some(open) = stream::open(path)? {
        return Ok(Console::Stream { name: path.to_owned(), open: Arc::new(open) });
    }
    Ok(Console::File(OutputFile::at(path, OutputKind::New)?.path().to_owned()))
}

/// Boots, runs the command, and ends with its exit status.
///
/// # Errors
/// When the machine does not boot, or its command does not run to its end.
pub(super) fn run(args: &RunArgs, printer: Printer) -> Result<Exit, Failure> {
    // Before the boot: both are written when all is over.
    let console = args.console.as_deref().map(console).transpose()?;
    args.dma.as_deref().map(|path| OutputFile::at(path, DMA_REPORT)).transpose()?;
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    let output = output.map_err(Tried::to("watch standard output"))?;
    let options = BootOptions {
        dma: args.dma.clone(),
        out: args.out.clone(),
        console,
        events: args.events.clone(),
        workers: args.workers.iter().map(|one| (one.name.clone(), one.image.clone())).collect(),
        timeout: args.timeout,
        output: Some(Arc::new(output)),
        ..boot::options(&args.machine, args.command.clone(), printer)?
    };
    let outcome = boot::run(&options, printer)?;
    for moment in &outcome.missed {
        printer.warning(&format!(
            "nothing of --at {moment}=… happened: the command did not announce it"
        ));
    }
    for (card, status) in &outcome.early_workers {
        printer.warning(&format!(
            "the program on the memory of card `{card}` ended before the command ({status})"
        ));
    }
    Ok(boot::exit(outcome.status))
}
