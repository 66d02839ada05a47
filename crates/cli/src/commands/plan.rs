//! `peerlane plan`: what a copy would do, without doing it.

use peerlane_engine::PlanError;
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, Explanation, Plan};
use serde::Serialize;

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
    let fabric = machines::fabric(&args.fabric)?;
    let plan = make(&fabric, &args.transfer.asked())?;
    if !args.explain {
        return show(&plan, printer);
    }
    let explanation = peerlane_engine::explain(&fabric, &plan);
    if printer.is_json() {
        printer.object(&Explained { plan: &plan, explanation })?;
    } else {
        printer.data(&render::explanation(&explanation))?;
        printer.data(&render::plan(&plan))?;
    }
    Ok(exit(&plan))
}

/// A plan with the answers that it rests on.
#[derive(Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    explanation: Vec<Explanation>,
}

/// The plan for what was asked.
///
/// # Errors
/// As [`run`].
pub(super) fn make(fabric: &Fabric, asked: &Asked) -> Result<Plan, Failure> {
    peerlane_engine::plan(fabric, asked).map_err(|error: PlanError| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })
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
    Ok(exit(plan))
}

fn exit(plan: &Plan) -> Exit {
    if would_start(plan) { Exit::Done } else { Exit::Negative }
}

/// Whether a copy by this plan would start.
pub(super) fn would_start(plan: &Plan) -> bool {
    plan.route.is_some() && plan.refusals.is_empty()
}
