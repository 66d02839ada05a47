//! Two records of benchmarks beside each other.

use peerlane_bench::compare::compare;

use super::keep;
use crate::args::CompareArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Compares, and says by its exit status whether something became slower.
pub(super) fn run(args: &CompareArgs, printer: Printer) -> Result<Exit, Failure> {
    let (before, after) = (keep::read(&args.before)?, keep::read(&args.after)?);
    let found = compare(&before, &after, f64::from(args.threshold) / 1000.0);
    if printer.is_json() {
        printer.object(&found)?;
    } else {
        printer.data(&render::comparison(&found))?;
    }
    Ok(if found.has_regressed { Exit::Negative } else { Exit::Done })
}
