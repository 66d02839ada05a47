//! `peerlane plan`: what a copy would do, without doing it.

use peerlane_engine::{PlanError, plan_fan_out};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, FanOutPlan, Plan};

use crate::args::PlanArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render};

/// Prints the plan.
///
/// # Errors
/// When an endpoint or the memory is not there, or cannot be looked at.
pub(crate) fn run(args: &PlanArgs, printer: Printer) -> Result<Exit, Failure> {
    if args.transfer.batch.is_some() {
        let hint = "`peerlane copy --batch FILE --dry-run` does".to_owned();
        return Err(Failure::new("`plan` does not plan a batch").hint(hint));
    }
    let fabric = machines::fabric(&args.fabric)?;
    match args.transfer.asked().as_slice() {
        [asked] => show(&make(&fabric, asked)?, printer),
        several => show_fan_out(&make_fan_out(&fabric, several)?, printer),
    }
}

/// The plan for what was asked.
///
/// # Errors
/// As [`run`].
pub(super) fn make(fabric: &Fabric, asked: &Asked) -> Result<Plan, Failure> {
    peerlane_engine::plan(fabric, asked).map_err(failure)
}

/// The plan for several targets.
///
/// # Errors
/// As [`run`].
pub(super) fn make_fan_out(fabric: &Fabric, asked: &[Asked]) -> Result<FanOutPlan, Failure> {
    plan_fan_out(fabric, asked).map_err(failure)
}

pub(super) fn failure(error: PlanError) -> Failure {
    let hint = error.hint();
    Failure::new(error).hint(hint)
}

/// Prints the plan and says whether a copy would start.
///
/// # Errors
/// When standard output does not take it.
pub(super) fn show(plan: &Plan, printer: Printer) -> Result<Exit, Failure> {
    if printer.is_json() {
        printer.object(plan)?;
    } else {
        printer.data(&render::plan(plan))?;
    }
    Ok(if would_start(plan) { Exit::Done } else { Exit::Negative })
}

/// As [`show`].
///
/// # Errors
/// When standard output does not take it.
pub(super) fn show_fan_out(plan: &FanOutPlan, printer: Printer) -> Result<Exit, Failure> {
    if printer.is_json() {
        printer.object(plan)?;
    } else {
        printer.data(&render::fan_out_plan(plan))?;
    }
    Ok(if plan.targets.iter().all(would_start) { Exit::Done } else { Exit::Negative })
}

/// Whether a copy by this plan would start.
pub(super) fn would_start(plan: &Plan) -> bool {
    plan.route.is_some() && plan.refusals.is_empty()
}
