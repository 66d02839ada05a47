//! `peerlane reproduce`: the figures of five documents next to the model.

use peerlane_results::RecordSchema;
use peerlane_sim::reproduce::{self, Report, SourcePrediction, Study, page};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::ReproduceArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Schema of the object of `--predictions --json`.
const PREDICTIONS_SCHEMA: &str = "peerlane.predictions/1";

/// Predictions for cases without a measurement; the object of `--predictions --json`.
#[derive(Debug, Serialize, JsonSchema)]
struct Predictions {
    schema: &'static str,
    /// In the order of the page.
    predictions: Vec<SourcePrediction>,
}

/// Schemas of the objects that `--json` prints.
pub(super) fn schemas() -> Vec<RecordSchema> {
    vec![
        RecordSchema::for_type::<Report>(reproduce::SCHEMA),
        RecordSchema::for_type::<Predictions>(PREDICTIONS_SCHEMA),
    ]
}

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
        printer.text(&render::fits(&report))?;
    } else {
        printer.text(&render::reproduce(&report, printer.is_verbose()))?;
    }
    Ok(if is_honest(&report) { Exit::Done } else { Exit::Negative })
}

fn predictions(study: &Study, printer: Printer) -> Result<Exit, Failure> {
    let found = study.predictions().map_err(Tried::to("predict cases without a measurement"))?;
    if printer.is_json() {
        printer.object(&Predictions { schema: PREDICTIONS_SCHEMA, predictions: found })?;
    } else {
        printer.data(&page(study, &found))?;
    }
    Ok(Exit::Done)
}

/// True if every figure has the role that its file declares.
fn is_honest(report: &Report) -> bool {
    report.rows.iter().all(|row| row.role == row.declared)
}
