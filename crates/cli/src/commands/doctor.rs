//! `peerlane doctor`: what stands in the way of peer-to-peer copies, and what to do about it.

use crate::args::DoctorArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render};

/// Examines the machine and prints what was found.
///
/// # Errors
/// When the machine cannot be read.
pub(crate) fn run(args: &DoctorArgs, printer: Printer) -> Result<Exit, Failure> {
    let fabric = machines::fabric(&args.fabric)?;
    let record = peerlane_engine::examine(&fabric);
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.data(&render::doctor(&record))?;
    }
    Ok(if record.is_healthy() { Exit::Done } else { Exit::Negative })
}
