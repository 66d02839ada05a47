//! Two records of benchmarks beside each other.

use std::path::PathBuf;

use peerlane_bench::compare::{Turn, compare_turns};
use peerlane_results::{BenchRecord, Change, Incomparable, WhichRun};

use super::keep;
use crate::args::CompareArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Every two turns are looked at together.
const TURNS_MAX: usize = 200;

/// Compares, and says by its exit status whether something became slower, is missing, or
/// could not be compared at all.
pub(super) fn run(args: &CompareArgs, printer: Printer) -> Result<Exit, Failure> {
    let (before, after) = (keep::read(&args.before)?, keep::read(&args.after)?);
    let more = more(&args.more)?;
    let turns: Vec<Turn<'_>> = more.iter().map(|(before, after)| (before, after)).collect();
    let found = compare_turns((&before, &after), &turns, f64::from(args.threshold) / 1000.0);
    if printer.is_json() {
        printer.object(&found)?;
    } else {
        printer.data(&render::comparison(&found))?;
    }
    let missing = Incomparable::Missing { run: WhichRun::After };
    let missing = found.cases.iter().filter(|case| case.reasons.contains(&missing)).count();
    let is_compared = found.cases.iter().any(|case| case.verdict != Change::NotComparable);
    if missing > 0 {
        let place = match args.more.as_slice() {
            [] => args.after.display().to_string(),
            _ => "a run after".to_owned(),
        };
        let are = if missing == 1 { "case is" } else { "cases are" };
        printer.warning(&format!("{missing} {are} missing in {place}"));
    }
    if !is_compared {
        printer.warning("nothing could be compared");
    }
    if !more.is_empty() {
        let files = [&args.before, &args.after].into_iter().chain(&args.more);
        let names: Vec<String> = files.map(|file| file.display().to_string()).collect();
        let side = |first: usize| -> String {
            names.iter().skip(first).step_by(2).map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        printer.note(&format!("before: {}; after: {}", side(0), side(1)));
    }
    let is_negative = found.has_regressed || missing > 0 || !is_compared;
    Ok(if is_negative { Exit::Negative } else { Exit::Done })
}

/// The records of the turns after the first.
fn more(files: &[PathBuf]) -> Result<Vec<(BenchRecord, BenchRecord)>, Failure> {
    let turns = files.chunks_exact(2);
    if let [alone] = turns.remainder() {
        let what = format!("{} has no record after it to be compared with", alone.display());
        return Err(Failure::new(what).hint(
            "records are given in turns: `peerlane bench compare BEFORE AFTER BEFORE AFTER`"
                .to_owned(),
        ));
    }
    if turns.len() >= TURNS_MAX {
        return Err(Failure::new(format!("{} turns, of at most {TURNS_MAX}", turns.len() + 1)));
    }
    turns.map(|turn| Ok((keep::read(&turn[0])?, keep::read(&turn[1])?))).collect()
}
