//! `peerlane doctor`: what stands in the way of peer-to-peer copies, and what to do about it.

use peerlane_results::Asked;
use peerlane_units::Nanos;

use super::plan;
use crate::args::DoctorArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render};

/// The longest wait for one block: a mapping that cannot be made hangs in the kernel.
const PROBE_DEADLINE: Nanos = Nanos::seconds(10);

/// Examines the machine and prints what was found.
///
/// # Errors
/// When the machine cannot be read.
pub(crate) fn run(args: &DoctorArgs, printer: Printer) -> Result<Exit, Failure> {
    let fabric = machines::fabric(&args.fabric)?;
    let record = match (&args.source, &args.target) {
        (Some(source), Some(target)) => {
            let plan = plan::make(&fabric, &asked(source, target), PROBE_DEADLINE)
                .map_err(plan::answer)?;
            let probes =
                if args.probe { plan::probe(&fabric, &plan, PROBE_DEADLINE)? } else { Vec::new() };
            peerlane_engine::examine_pair(&fabric, &plan, &probes)
        }
        _ => {
            let dnas = peerlane_engine::read_dna(&fabric);
            peerlane_engine::examine_cards(&fabric, &dnas)
        }
    };
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.data(&render::doctor(&record))?;
    }
    Ok(if record.is_healthy() { Exit::Done } else { Exit::Negative })
}

/// A copy as `peerlane copy` would make it; that the target holds something is no fault of the machine.
fn asked(source: &str, target: &str) -> Asked {
    Asked { force: true, ..Asked::between(source, target) }
}
