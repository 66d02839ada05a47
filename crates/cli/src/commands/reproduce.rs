//! `peerlane reproduce`: the figures of the documents beside the model.

use peerlane_sim::reproduce::{Report, Study, page};

use crate::args::ReproduceArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Prints figures, fits or predictions.
///
/// # Errors
/// When a name is unknown, or a file that is built in is at fault.
pub(crate) fn run(args: &ReproduceArgs, printer: Printer) -> Result<Exit, Failure> {
    let study = Study::built_in().map_err(Tried::to("read the figures of the documents"))?;
    if args.predictions {
        return predictions(&study, printer);
    }
    let report =
        study.report(&args.sources).map_err(Tried::to("compare figures with the model"))?;
    if printer.is_json() {
        printer.object(&report)?;
    } else if args.fit {
        printer.data(&render::fits(&report))?;
    } else {
        printer.data(&render::reproduce(&report))?;
    }
    Ok(if is_honest(&report) { Exit::Done } else { Exit::Negative })
}

fn predictions(study: &Study, printer: Printer) -> Result<Exit, Failure> {
    let found = study.predictions().map_err(Tried::to("predict what nobody has measured"))?;
    if printer.is_json() {
        printer.object(
            &serde_json::json!({ "schema": "peerlane.predictions/1", "predictions": found }),
        )?;
    } else {
        printer.data(&page(&found))?;
    }
    Ok(Exit::Done)
}

/// Whether every figure is what its file says.
fn is_honest(report: &Report) -> bool {
    report.rows.iter().all(|row| row.role == row.declared)
}
