//! `peerlane plan`: the plan of a copy, and the judgement of two devices as a pair.

use peerlane_doctor::devices_verdict;
use peerlane_engine::suggestion::hint_of_device;
use peerlane_engine::{
    MonotonicClock, PlanError, ProbeTools, Surveyor, Surveys, plan_fan_out, target_plan,
};
use peerlane_fabric::{Fabric, FunctionId, FunctionKind, Origin};
use peerlane_memory::provider::PROVIDERS;
use peerlane_results::{Asked, JobPlan, Plan, PlanRecord, Probe, RouteState, TargetPlan};
use peerlane_units::Nanos;

use super::{ask_library, prove_peers, target_folder};
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
    let fabric = machines::fabric_quietly(&args.fabric, printer)?;
    let deadline = args.transfer.deadline();
    let asked = args.transfer.asked();
    let is_here = args.fabric.machine.is_none();
    let asked = if is_here { target_folder::here(asked) } else { asked };
    match asked.as_slice() {
        [asked] => {
            let target = answer_for(args, &fabric, asked)?;
            let exit = exit_of(&target);
            let job = JobPlan { source: asked.source.clone(), targets: vec![target] };
            print(&PlanRecord::new(vec![job]), printer)?;
            Ok(exit)
        }
        _ if args.explain || args.probe || args.guest => {
            let hint = "name one target at a time".to_owned();
            Err(Failure::new("`--explain`, `--probe` and `--guest` are for one target").hint(hint))
        }
        several => {
            let plans =
                make_all(&fabric, several, deadline, &Surveys::default()).map_err(answer)?;
            show_all(&fabric, vec![plans], printer)
        }
    }
}

/// The plan of a copy where the words name ends of one, the pair where they name PCI functions.
fn answer_for(args: &PlanArgs, fabric: &Fabric, asked: &Asked) -> Result<TargetPlan, Failure> {
    let words = (asked.source.as_str(), asked.target.as_str());
    let planned = plan_or_pair(args, fabric, asked)?;
    let explanation = args.explain.then(|| match &planned {
        PlannedEnds::Copy(plan) => peerlane_engine::explain(fabric, plan),
        PlannedEnds::Pair { ends, .. } => peerlane_doctor::explain_pair(fabric, *ends),
    });
    let probes = match &planned {
        PlannedEnds::Copy(plan) if args.probe => {
            Some(probe(fabric, plan, args.transfer.deadline())?)
        }
        _ => None,
    };
    let proof = match &planned {
        PlannedEnds::Pair { ends, .. } if args.probe => {
            refuse_ports(fabric, *ends)?;
            Some(prove_peers::ask(fabric, *ends, args.transfer.deadline())?)
        }
        _ => None,
    };
    let found = match planned {
        PlannedEnds::Copy(plan) => {
            let answers = probes.as_deref().unwrap_or_default();
            let plan = peerlane_engine::after_probes(fabric, *plan, answers);
            let mut found = target_plan(fabric, plan);
            if args.guest {
                let ends = peerlane_engine::pair_ends(fabric, found.plan.as_ref(), words);
                found.pair = ends.map(|ends| peerlane_doctor::pair_record(fabric, ends, true));
            }
            found
        }
        PlannedEnds::Pair { ends, reason } => {
            refuse_ports(fabric, ends)?;
            let typed = [asked.source.clone(), asked.target.clone()];
            let verdict = devices_verdict(fabric, ends, &typed);
            let verdict = prove_peers::verdict(words, verdict, proof.as_ref());
            TargetPlan {
                target: asked.target.clone(),
                state: verdict.state,
                verdict: verdict.sentence,
                plan: None,
                no_plan: Some(reason),
                pair: Some(peerlane_doctor::pair_record(fabric, ends, args.guest)),
                explanation: None,
                probes: None,
                proof,
            }
        }
    };
    Ok(TargetPlan { explanation, probes, ..found })
}

/// Source and target: of a copy, or two devices alone.
enum PlannedEnds {
    /// The plan of a copy.
    Copy(Box<Plan>),
    /// Two functions, and the reason for there being no copy between them.
    Pair { ends: (FunctionId, FunctionId), reason: String },
}

fn plan_or_pair(args: &PlanArgs, fabric: &Fabric, asked: &Asked) -> Result<PlannedEnds, Failure> {
    let words = (asked.source.as_str(), asked.target.as_str());
    let both = peerlane_engine::pair_ends(fabric, None, words);
    if let Some(ends) = both.filter(|_| peerlane_engine::is_no_copy(fabric, words)) {
        let reason = "a copy goes from a drive or file to a drive, file or GPU";
        return Ok(PlannedEnds::Pair { ends, reason: reason.to_owned() });
    }
    let clock = MonotonicClock::start();
    let surveyor = Surveyor::new(&clock, args.transfer.deadline());
    let error = match peerlane_engine::plan(fabric, asked, &surveyor) {
        Ok(plan) => return Ok(PlannedEnds::Copy(Box::new(plan))),
        Err(error) => error,
    };
    let alone = both.filter(|&ends| args.guest || is_pair_alone(fabric, ends));
    if let Some(ends) = alone.filter(|_| error.is_of_an_end()) {
        let reason = match fabric.origin {
            Origin::Text => "pasted text shows no namespaces of drives".to_owned(),
            _ => peerlane_engine::failure::error_in_words(&error),
        };
        return Ok(PlannedEnds::Pair { ends, reason });
    }
    Err(no_device(fabric, words).unwrap_or_else(|| answer(failure(error))))
}

/// True where two devices are judged although no copy can be planned; two drives with known namespaces mean a copy.
pub(super) fn is_pair_alone(fabric: &Fabric, (first, second): (FunctionId, FunctionId)) -> bool {
    let is_drive = |id: FunctionId| fabric.function(id).kind == FunctionKind::Nvme;
    let is_text = matches!(fabric.origin, Origin::Text | Origin::Assumed);
    is_text || !is_drive(first) || !is_drive(second)
}

/// The error for a word that names nothing next to one that names a device other than a drive.
fn no_device(fabric: &Fabric, words: (&str, &str)) -> Option<Failure> {
    let is_other = |word: &str| {
        let id = PROVIDERS.find(fabric, word)?;
        Some(fabric.function(id).kind != FunctionKind::Nvme)
    };
    let missing = match (is_other(words.0), is_other(words.1)) {
        (Some(true), None) => words.1,
        (None, Some(true)) => words.0,
        _ => return None,
    };
    let error = format!("machine {} has no device or file `{missing}`", fabric.name);
    Some(Failure::new(error).hint(hint_of_device(fabric, missing)))
}

fn print(record: &PlanRecord, printer: Printer) -> Result<(), Failure> {
    if printer.is_json() {
        printer.object(record)?;
    } else {
        printer.text(&render::plans(record))?;
    }
    Ok(())
}

fn exit_of(target: &TargetPlan) -> Exit {
    let is_unproved = target.proof.as_ref().is_some_and(|proof| !proof.is_proved());
    let is_refused = target.plan.as_ref().is_some_and(|plan| !would_start(plan));
    match target.state {
        RouteState::Unknown | RouteState::Impossible => Exit::Negative,
        _ if is_refused || is_unproved => Exit::Negative,
        RouteState::Direct | RouteState::Expected | RouteState::ViaCpu | RouteState::Host => {
            Exit::Done
        }
    }
}

/// Asks the kernel, and the libraries of a GPU, about a plan.
///
/// # Errors
/// On a machine that is not this one, and as [`run`].
pub(super) fn probe(fabric: &Fabric, plan: &Plan, deadline: Nanos) -> Result<Vec<Probe>, Failure> {
    if !fabric.is_this_machine() {
        let error = format!("cannot probe machine {}: it is not this one", fabric.name);
        return Err(Failure::new(error).hint("leave --probe out".to_owned()));
    }
    let clock = MonotonicClock::start();
    let library = |question| ask_library::ask(question, deadline);
    let tools = ProbeTools { clock: &clock, deadline, library: &library };
    peerlane_engine::probe(fabric, plan, tools).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })
}

/// The plan for the request.
///
/// # Errors
/// As [`run`].
pub(super) fn make(fabric: &Fabric, asked: &Asked, deadline: Nanos) -> Result<Plan, Failure> {
    let clock = MonotonicClock::start();
    peerlane_engine::plan(fabric, asked, &Surveyor::new(&clock, deadline)).map_err(failure)
}

/// Refuses ports and bridges, which exchange no payload.
///
/// # Errors
/// When one of both is one.
pub(super) fn refuse_ports(fabric: &Fabric, ends: (FunctionId, FunctionId)) -> Result<(), Failure> {
    let port = [ends.0, ends.1].into_iter().find(|&id| fabric.function(id).kind.is_bridge());
    let Some(id) = port else { return Ok(()) };
    let name = fabric.device_word(id);
    let hint = "name a device below it: `peerlane topo` shows the names".to_owned();
    Err(Failure::new(format!("cannot examine {name}: it is a port or bridge")).hint(hint))
}

/// The plan for several targets.
///
/// # Errors
/// As [`run`].
pub(super) fn make_all(
    fabric: &Fabric,
    asked: &[Asked],
    deadline: Nanos,
    surveys: &Surveys,
) -> Result<Vec<Plan>, Failure> {
    let clock = MonotonicClock::start();
    let surveyor = Surveyor::new(&clock, deadline).with_surveys(surveys);
    plan_fan_out(fabric, asked, &surveyor).map_err(failure)
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

/// Prints the plans and says whether all copies would start.
///
/// # Errors
/// When standard output does not take it.
pub(super) fn show_all(
    fabric: &Fabric,
    jobs: Vec<Vec<Plan>>,
    printer: Printer,
) -> Result<Exit, Failure> {
    let all_start = jobs.iter().flatten().all(would_start);
    print(&peerlane_engine::plan_record(fabric, jobs), printer)?;
    Ok(if all_start { Exit::Done } else { Exit::Negative })
}

/// True when a copy by this plan would start.
fn would_start(plan: &Plan) -> bool {
    plan.route.is_some() && plan.refusals.is_empty()
}
