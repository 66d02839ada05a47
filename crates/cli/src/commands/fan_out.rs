//! `peerlane copy SOURCE TARGET...`: one read, several writes.

use std::ffi::OsString;

use peerlane_engine::{FanOut, Tools, Watch, copy_fan_out};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, FAN_OUT_SCHEMA, FanOutRecord};

use super::outcome::{self, Ended};
use super::overwrite::Asking;
use super::reporter::Reporter;
use super::{copy, overwrite, plan, resume, trace_file};
use crate::args::CopyArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render;

/// Copies to several targets, or prints the plan with `--dry-run`.
///
/// # Errors
/// When nothing was begun, or a target is not complete.
pub(super) fn run(
    args: &CopyArgs,
    fabric: &Fabric,
    asked: &[Asked],
    reporter: Reporter,
    printer: Printer,
) -> Result<Exit, Failure> {
    let deadline = args.transfer.deadline();
    let plan = plan::make_fan_out(fabric, asked, deadline)?;
    if args.dry_run {
        return plan::show_fan_out(&plan, printer);
    }
    let options = copy::options(args);
    let asking = Asking { options: &options, deadline, printer };
    let plan = overwrite::settle_all(fabric, plan, asking, || reporter.stop_requested())?;
    let copy = |tools: &mut Tools<'_>| copy_fan_out(fabric, &plan, tools);
    let (trace, result) = copy::carry_out(args, plan.route, options, reporter, copy)?;
    let shown = result.map_err(copy::failure).and_then(|done| show(asked, done, printer));
    trace_file::finish(trace, shown, printer)
}

fn show(asked: &[Asked], done: FanOut, printer: Printer) -> Result<Exit, Failure> {
    let ended: Vec<Ended> = (asked.iter().zip(done.targets))
        .map(|(asked, result)| Ended::of(&asked.target, result))
        .collect();
    let record = FanOutRecord {
        schema: FAN_OUT_SCHEMA.to_owned(),
        read: done.read,
        targets: ended.iter().map(|one| one.outcome.clone()).collect(),
    };
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.data(&render::fan_out(&record))?;
    }
    ended.iter().for_each(|one| one.report(printer));
    outcome::end(&ended.iter().collect::<Vec<_>>(), hint(&ended))
}

/// The command that goes on with those that can.
fn hint(ended: &[Ended]) -> Option<String> {
    let is_kept: Vec<bool> = ended.iter().map(Ended::has_journal).collect();
    let words: Vec<OsString> = std::env::args_os().collect();
    is_kept.contains(&true).then(|| format!("`{}` goes on", resume::command_with(&words, &is_kept)))
}
