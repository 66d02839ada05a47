//! Two records of benchmarks, compared.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use peerlane_bench::compare::{Turn, compare_turns};
use peerlane_results::{BenchRecord, Change, CompareRecord, Incomparable, WhichRun};

use super::{compare_nodes, keep};
use crate::args::CompareArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Every two turns are looked at together.
const TURNS_MAX: usize = 200;

/// Compares, and says by its exit status whether something became slower, is missing, or
/// could not be compared at all.
pub(super) fn run(args: &CompareArgs, printer: Printer) -> Result<Exit, Failure> {
    check(&args.more)?;
    if let Some(exit) = compare_nodes::run(args, printer)? {
        return Ok(exit);
    }
    let files: Vec<&PathBuf> = [&args.before, &args.after].into_iter().chain(&args.more).collect();
    let records = Records::read(&files)?;
    let turns: Vec<Turn<'_>> = (2..files.len()).step_by(2).map(|file| records.turn(file)).collect();
    let found = compare_turns(records.turn(0), &turns, f64::from(args.threshold) / 1000.0);
    let record = CompareRecord::from(found);
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.text(&render::comparison(&record))?;
    }
    let Some(found) = record.only() else { return Ok(Exit::Negative) };
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
    if !turns.is_empty() {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let side = |first: usize| -> String {
            names.iter().skip(first).step_by(2).map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        printer.note(&format!("before: {}; after: {}", side(0), side(1)));
    }
    let is_negative = found.has_regressed || missing > 0 || !is_compared;
    Ok(if is_negative { Exit::Negative } else { Exit::Done })
}

/// Refuses files after the first two that do not come in turns.
fn check(more: &[PathBuf]) -> Result<(), Failure> {
    let turns = more.chunks_exact(2);
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
    Ok(())
}

/// The records of several files; a file that is given twice is one record, whatever its names.
struct Records {
    all: Vec<BenchRecord>,
    /// For each file, the index of its record.
    of_files: Vec<usize>,
}

impl Records {
    fn read(files: &[&PathBuf]) -> Result<Self, Failure> {
        let mut known: Vec<(u64, u64)> = Vec::new();
        let mut records = Self { all: Vec::new(), of_files: Vec::new() };
        for file in files {
            let read = keep::read(file)?;
            let inode = fs::metadata(file).map(|found| (found.dev(), found.ino()));
            let inode = inode
                .map_err(Tried::to_read(format!("read the record {}", file.display()), file))?;
            let place = known.iter().position(|one| *one == inode).unwrap_or(known.len());
            if place == known.len() {
                known.push(inode);
                records.all.push(read);
            }
            records.of_files.push(place);
        }
        Ok(records)
    }

    /// The turn whose record before is in this file, and that after in the next.
    fn turn(&self, file: usize) -> Turn<'_> {
        let of = |file: usize| &self.all[self.of_files[file]];
        (of(file), of(file + 1))
    }
}
