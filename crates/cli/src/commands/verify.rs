//! `peerlane verify`: compares two ends and prints the record.

use std::hash::{BuildHasher, Hasher, RandomState};

use peerlane_engine::stages::{ManifestAsked, VerifyManifestError, verify_manifest};
use peerlane_engine::verify::{VerifyEndsError, verify_ends};
use peerlane_engine::{MonotonicClock, Watch as _};
use peerlane_results::VerifyRecord;

use super::terminal_watch::TerminalWatch;
use super::{connections, target_folder};
use crate::args::VerifyArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Compares, and prints the differences.
///
/// # Errors
/// When an end cannot be read to its end; a difference is an exit status and a record.
pub(crate) fn run(args: &VerifyArgs, printer: Printer) -> Result<Exit, Failure> {
    if let Some(asked) = args.manifest() {
        return by_manifest(args, &asked, printer);
    }
    let mut watch = TerminalWatch::new(printer)?;
    let mut asked = args.asked(RandomState::new().build_hasher().finish());
    asked.target = target_folder::resolved(&asked.source, &asked.target);
    let ends = [&asked.source, &asked.target];
    let (_connections, fabric) =
        connections::open(ends, asked.deadline, printer, || watch.stop_requested())?;
    watch.show(None, args.progress.readers());
    let result = verify_ends(&fabric, &asked, &MonotonicClock::start(), &mut watch);
    watch.finish();
    let record = result.map_err(failure)?;
    show(&record, printer)
}

/// Compares one end with a manifest, and says which chunks differ.
fn by_manifest(
    args: &VerifyArgs,
    asked: &ManifestAsked,
    printer: Printer,
) -> Result<Exit, Failure> {
    let mut watch = TerminalWatch::new(printer)?;
    let (_connections, fabric) =
        connections::open([&asked.end], asked.deadline, printer, || watch.stop_requested())?;
    watch.show(None, args.progress.readers());
    let result = verify_manifest(&fabric, asked, &MonotonicClock::start(), &mut watch);
    watch.finish();
    let record = result.map_err(|error| {
        let exit = match error {
            VerifyManifestError::Interrupted { .. } => Exit::Interrupted,
            _ => Exit::Failed,
        };
        let hint = error.hint();
        Failure::new(error).hint(hint).exit(exit)
    })?;
    show(&record, printer)
}

fn show(record: &VerifyRecord, printer: Printer) -> Result<Exit, Failure> {
    if printer.is_json() {
        printer.object(record)?;
    } else {
        printer.text(&render::verify(record, printer.is_verbose()))?;
    }
    Ok(if record.is_equal() { Exit::Done } else { Exit::Negative })
}

fn failure(error: VerifyEndsError) -> Failure {
    let exit = match error {
        VerifyEndsError::Interrupted { .. } => Exit::Interrupted,
        _ => Exit::Failed,
    };
    let hint = error.hint();
    Failure::new(error).hint(hint).exit(exit)
}
