//! `peerlane plan`: what a copy would do, without doing it.

use peerlane_engine::{MonotonicClock, PlanError, Surveyor, plan_fan_out};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, ExplainedPlan, FanOutPlan, Plan, Probe};
use peerlane_units::Nanos;

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
    let fabric = machines::fabric_for_a_plan(&args.fabric)?;
    let deadline = args.transfer.deadline();
    match args.transfer.asked().as_slice() {
        [asked] => {
            let plan = make(&fabric, asked, deadline).map_err(answer)?;
            explained(args, &fabric, &plan, printer)
        }
        _ if args.explain || args.probe => {
            let hint = "name one target at a time".to_owned();
            Err(Failure::new("`--explain` and `--probe` are for one target").hint(hint))
        }
        several => {
            let plan = make_fan_out(&fabric, several, deadline).map_err(answer)?;
            show_fan_out(&plan, printer)
        }
    }
}

/// A plan, and before and after it what else was asked for.
fn explained(
    args: &PlanArgs,
    fabric: &Fabric,
    plan: &Plan,
    printer: Printer,
) -> Result<Exit, Failure> {
    let more = ExplainedPlan {
        plan: plan.clone(),
        explanation: args.explain.then(|| peerlane_engine::explain(fabric, plan)),
        probes: args.probe.then(|| probe(fabric, plan, args.transfer.deadline())).transpose()?,
    };
    if printer.is_json() {
        printer.object(&more)?;
    } else {
        printer.data(&render::explanation(more.explanation.as_deref().unwrap_or_default()))?;
        printer.data(&render::plan(plan))?;
        printer.data(&render::probes(more.probes.as_deref().unwrap_or_default()))?;
    }
    Ok(exit(plan))
}

/// Asks the kernel about a plan.
///
/// # Errors
/// On a machine that is not this one, and as [`run`].
pub(super) fn probe(fabric: &Fabric, plan: &Plan, deadline: Nanos) -> Result<Vec<Probe>, Failure> {
    if !fabric.is_this_machine() {
        let error = format!("cannot probe machine {}: it is not this one", fabric.name);
        return Err(Failure::new(error).hint("leave --probe out".to_owned()));
    }
    let clock = MonotonicClock::start();
    peerlane_engine::probe(fabric, plan, &clock, deadline).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })
}

/// The plan for what was asked.
///
/// # Errors
/// As [`run`].
pub(super) fn make(fabric: &Fabric, asked: &Asked, deadline: Nanos) -> Result<Plan, Failure> {
    let clock = MonotonicClock::start();
    peerlane_engine::plan(fabric, asked, &Surveyor::new(&clock, deadline)).map_err(failure)
}

/// The plan for several targets.
///
/// # Errors
/// As [`run`].
pub(super) fn make_fan_out(
    fabric: &Fabric,
    asked: &[Asked],
    deadline: Nanos,
) -> Result<FanOutPlan, Failure> {
    let clock = MonotonicClock::start();
    plan_fan_out(fabric, asked, &Surveyor::new(&clock, deadline)).map_err(failure)
}

pub(super) fn failure(error: PlanError) -> Failure {
    let hint = error.hint();
    let exit = if error.is_of_the_machine() { Exit::NotPossible } else { Exit::Failed };
    Failure::new(error).hint(hint).exit(exit)
}

/// The same of a command whose answer it is that something is not possible.
pub(super) fn answer(failure: Failure) -> Failure {
    match failure.status() {
        Exit::NotPossible => failure.exit(Exit::Negative),
        _ => failure,
    }
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
