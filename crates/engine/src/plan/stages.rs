//! Stages in a plan: the memory that they reach, and obstacles to them.

use peerlane_results::{Asked, Candidate, MemoryFacts, MemoryKind, Refusal, Tail};
use peerlane_units::Bytes;

use super::gpu::way_of;
use super::shape::PlanEnds;
use crate::io::stage::StageName;

/// Refuses every memory that a stage does not reach.
pub(super) fn judge(names: &[StageName], candidates: &mut [Candidate]) {
    for candidate in candidates {
        let memory = &candidate.memory;
        let reason = names.iter().find_map(|name| name.not_reached(memory, is_in_gpu(memory)));
        candidate.refusals.extend(reason);
    }
}

/// Refuses stages in the memory that was chosen, or at the end of the copy.
pub(super) fn refusal(
    names: &[StageName],
    asked: &Asked,
    ends: PlanEnds<'_>,
    memory: &MemoryFacts,
    (tail, length): (Tail, Bytes),
) -> Option<Refusal> {
    let refusal = |reason, hint| Some(Refusal { reason, hint: Some(hint), forceable: false });
    let in_gpu = is_in_gpu(memory);
    let not_reached = |name: &StageName| Some((name.not_reached(memory, in_gpu)?, name.way_out()));
    if let Some((reason, way_out)) = names.iter().find_map(not_reached) {
        return refusal(reason, way_out.to_owned());
    }
    let is_host = memory.kind == MemoryKind::Host && !in_gpu;
    if names.is_empty() || tail != Tail::MergeInHost || is_host {
        return None;
    }
    let block = ends.target.facts.block;
    let whole = length.round_down(block);
    let reason = format!(
        "the last {} bytes are no whole block of {} ({} bytes) and would be merged in host memory, which the stage {} \
         does not see then",
        length.0 - whole.0,
        asked.target,
        block.0,
        names[0],
    );
    refusal(reason, format!("`--length {}`, or a file as the target", whole.0))
}

fn is_in_gpu(memory: &MemoryFacts) -> bool {
    way_of(memory).is_some()
}

#[cfg(test)]
mod tests {
    use peerlane_results::RouteChoice;

    use super::super::tests::{asked, machine};
    use super::*;
    use crate::endpoints::guard::Surveyor;

    fn planned(stage: &str, route: RouteChoice) -> peerlane_results::Plan {
        let asked = Asked { stages: vec![stage.to_owned()], route, ..asked() };
        crate::plan(&machine("pair"), &asked, &Surveyor::for_tests()).expect("a plan")
    }

    #[test]
    fn digest_takes_host_memory() {
        let plan = planned("digest", RouteChoice::Auto);
        assert_eq!(plan.route, Some(peerlane_results::Route::Host));
        assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
        let plan = planned("digest", RouteChoice::P2p);
        assert_eq!(plan.route, None);
        assert!(plan.reason.contains("stage digest does not reach"), "{}", plan.reason);
    }

    #[test]
    fn gpu_kernel_is_refused_elsewhere() {
        let plan = planned("cuda:a.cu:invert", RouteChoice::Auto);
        let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
        assert!(refusal.reason.contains("it works on memory of a GPU"), "{}", refusal.reason);
        assert_eq!(refusal.hint.as_deref(), Some("`--via gpu:0`"));
    }

    #[test]
    fn unknown_stage_is_an_error() {
        let asked = Asked { stages: vec!["invert".to_owned()], ..asked() };
        let error = crate::plan(&machine("pair"), &asked, &Surveyor::for_tests());
        assert!(error.expect_err("no stage").to_string().contains("invert is not a stage"));
    }
}
