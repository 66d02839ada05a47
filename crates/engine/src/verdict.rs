//! Two ends in one state and one sentence: the first line of `plan` and of `doctor` alike.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{NetworkDriveMemory, Pair, RouteState, Verdict, judged_between};
use peerlane_results::{self as results, EndpointKind, Plan, Route, UseState};

use crate::plan::{depends_on_unknown, initiator};

/// State of two ends, and the answer in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndsVerdict {
    /// The state of the route between them.
    pub state: UseState,
    /// `SOURCE -> TARGET: STATE: reason`.
    pub sentence: String,
}

impl EndsVerdict {
    fn new(ends: &[String; 2], state: UseState, facts: &[String]) -> Self {
        let [one, other] = ends;
        let reason = match deciding(state, facts) {
            reason if reason.is_empty() => reason,
            reason => format!(": {reason}"),
        };
        Self { state, sentence: format!("{one} -> {other}: {state}{reason}") }
    }
}

/// The first fact, and the first command where the first fact names none and something is unknown.
fn deciding(state: UseState, facts: &[String]) -> String {
    let Some(first) = facts.first() else { return String::new() };
    let is_open = matches!(state, UseState::Unknown | UseState::Expected);
    let command = facts.iter().find(|fact| fact.contains('`'));
    match command.filter(|_| is_open && !first.contains('`')) {
        Some(command) => format!("{first}; {command}"),
        None => first.clone(),
    }
}

/// The verdict on two functions; the better of both directions counts, since an initiator reads and writes.
pub fn devices_verdict(
    fabric: &Fabric,
    (one, other): (FunctionId, FunctionId),
    typed: &[String; 2],
) -> EndsVerdict {
    let pair = Pair::new(fabric, one, other);
    if let Some(best) = Verdict::best(fabric, &pair) {
        return EndsVerdict::new(typed, state_record(best.state), &best.facts);
    }
    let third = NetworkDriveMemory::new(fabric, one, other).and_then(|memory| memory.third);
    let reason = match third {
        Some(third) => format!(
            "neither has memory for peers; memory of {} can lie between them",
            fabric.device_word(third)
        ),
        None => "neither has memory for peers".to_owned(),
    };
    EndsVerdict::new(typed, UseState::Host, &[reason])
}

/// The verdict on the ends of a planned copy.
///
/// For a GPU the drivers' rules count, too: the worse state of both.
pub fn plan_verdict(fabric: &Fabric, plan: &Plan) -> EndsVerdict {
    let typed = [plan.asked.source.clone(), plan.asked.target.clone()];
    let by_plan = planned_state(fabric, plan);
    if plan.route.is_some() && !plan.refusals.is_empty() {
        return refused(&typed, by_plan, plan);
    }
    let reason = [plan_reason(plan)];
    let ends = [&plan.source, &plan.target];
    let functions: Vec<FunctionId> = ends.iter().filter_map(|end| initiator(fabric, end)).collect();
    let is_with_gpu = ends.iter().any(|end| end.kind == EndpointKind::Gpu);
    if let ([one, other], true) = (&functions[..], is_with_gpu) {
        let judged = judged_between(fabric, *one, *other).into_iter();
        let by_rules = judged.map(|pairs| (state_record(pairs.state), pairs.facts)).max();
        match by_rules {
            Some((state, facts)) if state > by_plan => {
                return EndsVerdict::new(&typed, state, &facts);
            }
            // What stops Peerlane here stops no other program.
            Some((state @ (UseState::Unknown | UseState::Host), mut facts))
                if by_plan == UseState::No =>
            {
                facts.insert(0, plan.reason.clone());
                return EndsVerdict::new(&typed, state, &facts);
            }
            _ => {}
        }
    }
    EndsVerdict::new(&typed, by_plan, &reason)
}

/// A copy that is refused, whatever the route could be.
fn refused(typed: &[String; 2], state: UseState, plan: &Plan) -> EndsVerdict {
    let [source, target] = typed;
    let reasons: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    EndsVerdict {
        state,
        sentence: format!("{source} -> {target}: refused: {}", reasons.join("; ")),
    }
}

/// The reason of a plan, headed by the memory that payload rests in.
fn plan_reason(plan: &Plan) -> String {
    match &plan.memory {
        Some(memory) if plan.route == Some(Route::P2p) => {
            format!("through {}: {}", memory.name, plan.reason)
        }
        _ => plan.reason.clone(),
    }
}

/// The state of the route that a plan has chosen.
fn planned_state(fabric: &Fabric, plan: &Plan) -> UseState {
    match plan.route {
        Some(Route::P2p) if depends_on_unknown(fabric, plan) => UseState::Unknown,
        Some(Route::P2p) => {
            let chosen =
                plan.candidates.iter().find(|one| Some(&one.memory) == plan.memory.as_ref());
            let crosses = |verdict| verdict == results::Verdict::ThroughHostBridge;
            match chosen {
                Some(one) if crosses(one.source) || crosses(one.target) => UseState::ViaCpu,
                _ => UseState::Direct,
            }
        }
        Some(Route::Host) => UseState::Host,
        None => UseState::No,
    }
}

/// The word for a state in records.
pub(crate) fn state_record(state: RouteState) -> UseState {
    match state {
        RouteState::Direct => UseState::Direct,
        RouteState::Expected => UseState::Expected,
        RouteState::ViaCpu => UseState::ViaCpu,
        RouteState::Unknown => UseState::Unknown,
        RouteState::Host => UseState::Host,
        RouteState::Impossible => UseState::No,
    }
}
