//! The ends of a planned copy in one state and one sentence.

use peerlane_doctor::EndsVerdict;
use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::judged_between;
use peerlane_results::{self as results, EndpointKind, Plan, Route, RouteState};

use super::depends_on_unknown;

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
    let functions: Vec<FunctionId> = ends.iter().filter_map(|end| end.function(fabric)).collect();
    let is_with_gpu = ends.iter().any(|end| end.kind == EndpointKind::Gpu);
    if let ([one, other], true) = (&functions[..], is_with_gpu) {
        let judged = judged_between(fabric, *one, *other).into_iter();
        let by_rules = judged.map(|pairs| (pairs.state, pairs.facts)).max();
        match by_rules {
            Some((state, facts)) if state > by_plan => {
                return EndsVerdict::new(&typed, state, &facts);
            }
            // What stops Peerlane here stops no other program.
            Some((state @ (RouteState::Unknown | RouteState::Host), mut facts))
                if by_plan == RouteState::Impossible =>
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
fn refused(typed: &[String; 2], state: RouteState, plan: &Plan) -> EndsVerdict {
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
fn planned_state(fabric: &Fabric, plan: &Plan) -> RouteState {
    match plan.route {
        Some(Route::P2p) if depends_on_unknown(fabric, plan) => RouteState::Unknown,
        Some(Route::P2p) => {
            let chosen =
                plan.candidates.iter().find(|one| Some(&one.memory) == plan.memory.as_ref());
            let crosses = |verdict| verdict == results::MapType::ThroughHostBridge;
            match chosen {
                Some(one) if crosses(one.source) || crosses(one.target) => RouteState::ViaCpu,
                _ => RouteState::Direct,
            }
        }
        Some(Route::Host) => RouteState::Host,
        None => RouteState::Impossible,
    }
}
