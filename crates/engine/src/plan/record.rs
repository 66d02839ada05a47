//! Plans as the record that commands print.

use peerlane_fabric::Fabric;
use peerlane_results::{JobPlan, Plan, PlanRecord, TargetPlan};

use super::{pair_ends, plan_verdict};

/// The record of plans: for each source those of its targets.
pub fn plan_record(fabric: &Fabric, jobs: Vec<Vec<Plan>>) -> PlanRecord {
    let job = |plans: Vec<Plan>| JobPlan {
        source: plans.first().map(|plan| plan.asked.source.clone()).unwrap_or_default(),
        targets: plans.into_iter().map(|plan| target_plan(fabric, plan)).collect(),
    };
    PlanRecord::new(jobs.into_iter().map(job).collect())
}

/// The plan for one target with its verdict and its two devices.
pub fn target_plan(fabric: &Fabric, plan: Plan) -> TargetPlan {
    let words = (plan.asked.source.as_str(), plan.asked.target.as_str());
    let ends = pair_ends(fabric, Some(&plan), words);
    let verdict = plan_verdict(fabric, &plan);
    TargetPlan {
        target: plan.asked.target.clone(),
        state: verdict.state,
        verdict: verdict.sentence,
        plan: Some(plan),
        no_plan: None,
        pair: ends.map(|ends| peerlane_doctor::pair_record(fabric, ends, false)),
        explanation: None,
        probes: None,
        proof: None,
    }
}
