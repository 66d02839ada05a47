//! `peerlane plan`: what a copy would do, without doing it.

use peerlane_engine::{MonotonicClock, PlanError};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, Explanation, Plan, Probe};
use peerlane_units::Nanos;
use serde::Serialize;

use crate::args::PlanArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render};

/// The longest wait for one block: a mapping that cannot be made hangs in the kernel.
const PROBE_DEADLINE: Nanos = Nanos::seconds(10);

/// Prints the plan.
///
/// # Errors
/// When an endpoint or the memory is not there, or cannot be looked at.
pub(crate) fn run(args: &PlanArgs, printer: Printer) -> Result<Exit, Failure> {
    let fabric = machines::fabric(&args.fabric)?;
    let plan = make(&fabric, &args.transfer.asked())?;
    let more = More {
        plan: &plan,
        explanation: args.explain.then(|| peerlane_engine::explain(&fabric, &plan)),
        probes: args.probe.then(|| probe(&fabric, &plan)).transpose()?,
    };
    if printer.is_json() {
        printer.object(&more)?;
    } else {
        printer.data(&render::explanation(more.explanation.as_deref().unwrap_or_default()))?;
        printer.data(&render::plan(&plan))?;
        printer.data(&render::probes(more.probes.as_deref().unwrap_or_default()))?;
    }
    Ok(exit(&plan))
}

/// A plan with what else was asked for.
#[derive(Serialize)]
struct More<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Vec<Explanation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probes: Option<Vec<Probe>>,
}

/// Asks the kernel about a plan.
///
/// # Errors
/// On a machine that is not this one, and as [`run`].
pub(super) fn probe(fabric: &Fabric, plan: &Plan) -> Result<Vec<Probe>, Failure> {
    if !fabric.is_this_machine() {
        let error = format!("cannot probe machine {}: it is not this one", fabric.name);
        return Err(Failure::new(error).hint("leave --probe out".to_owned()));
    }
    let clock = MonotonicClock::start();
    peerlane_engine::probe(fabric, plan, &clock, PROBE_DEADLINE).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })
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
