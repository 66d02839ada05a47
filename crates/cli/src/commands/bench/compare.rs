//! Two records of benchmarks beside each other.

use peerlane_bench::compare::compare;
use peerlane_results::{Change, Incomparable, WhichRun};

use super::keep;
use crate::args::CompareArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Compares, and says by its exit status whether something became slower, is missing, or
/// could not be compared at all.
pub(super) fn run(args: &CompareArgs, printer: Printer) -> Result<Exit, Failure> {
    let (before, after) = (keep::read(&args.before)?, keep::read(&args.after)?);
    let found = compare(&before, &after, f64::from(args.threshold) / 1000.0);
    if printer.is_json() {
        printer.object(&found)?;
    } else {
        printer.data(&render::comparison(&found))?;
    }
    let missing = Incomparable::Missing { run: WhichRun::After };
    let missing = found.cases.iter().filter(|case| case.reasons.contains(&missing)).count();
    let is_compared = found.cases.iter().any(|case| case.verdict != Change::NotComparable);
    if missing > 0 {
        printer.warning(&format!("{missing} cases are missing in {}", args.after.display()));
    }
    if !is_compared {
        printer.warning("nothing could be compared");
    }
    let is_negative = found.has_regressed || missing > 0 || !is_compared;
    Ok(if is_negative { Exit::Negative } else { Exit::Done })
}
