//! The plan of a copy with several targets: one route and one memory that serve all of them, and the
//! plans of several copies that are not to get in each other's way.
//!
//! Each target is planned on its own first, with every guard; then the common parts are chosen.

use std::cmp::Reverse;
use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_results::{
    Asked, Candidate, MemoryFacts, MemoryKind, Plan, Refusal, Route, RouteChoice, Shape, Warning,
};
use peerlane_units::Bytes;

use super::route::{Choice, host_memory};
use super::{PlanError, Prepared, prepare, shape, warnings_of};
use crate::endpoints::Notation;
use crate::endpoints::guard::{self, EndSpan, Surveyor};
use crate::io::system::System;

/// Most targets of one copy: each holds every slot until it has written it.
pub(crate) const TARGETS_MAX: usize = 16;

/// Plans a copy of one source to several targets; `asked` differ in their targets only.
///
/// # Errors
/// As [`plan`](super::plan), for the first target that makes no sense.
pub fn plan_fan_out(
    fabric: &Fabric,
    asked: &[Asked],
    surveyor: &Surveyor<'_>,
) -> Result<Vec<Plan>, PlanError> {
    let system = System::at(Path::new("/"));
    prepare_fan_out(&system, surveyor, fabric, asked).map(plans_of)
}

/// Plans several copies, each with one target or several. If one of them writes bytes that another
/// reads or writes, the later one is refused.
///
/// # Errors
/// As [`plan_fan_out`], with the number of the copy from 0.
pub fn plan_jobs(
    fabric: &Fabric,
    jobs: &[Vec<Asked>],
    surveyor: &Surveyor<'_>,
) -> Result<Vec<Vec<Plan>>, (usize, PlanError)> {
    let system = System::at(Path::new("/"));
    let mut planned: Vec<Vec<Prepared>> = Vec::with_capacity(jobs.len());
    for (number, asked) in jobs.iter().enumerate() {
        let mut ends =
            prepare_fan_out(&system, surveyor, fabric, asked).map_err(|error| (number, error))?;
        for (earlier, others) in planned.iter().enumerate() {
            for mine in &mut ends {
                for yours in others {
                    let found = between_jobs(&system, mine, yours);
                    let refused = found.map(|refusal| Refusal {
                        reason: format!(
                            "copies {} and {}: {}",
                            earlier + 1,
                            number + 1,
                            refusal.reason
                        ),
                        ..refusal
                    });
                    let refusals = &mut mine.plan.refusals;
                    refusals.extend(refused.filter(|refusal| !refusals.contains(refusal)));
                }
            }
        }
        planned.push(ends);
    }
    Ok(planned.into_iter().map(plans_of).collect())
}

fn plans_of(ends: Vec<Prepared>) -> Vec<Plan> {
    ends.into_iter().map(|prepared| prepared.plan).collect()
}

fn between_jobs(system: &System, one: &Prepared, other: &Prepared) -> Option<Refusal> {
    let asked = &one.plan.asked;
    let refused = |one, other, words| guard::between(system, asked, one, other, words);
    refused(other.target_span(), one.target_span(), "two targets")
        .or_else(|| refused(other.target_span(), one.source_span(), "a target and a source"))
        .or_else(|| refused(other.source_span(), one.target_span(), "a source and a target"))
}

impl Prepared {
    fn source_span(&self) -> EndSpan<'_> {
        EndSpan { end: &self.source, offset: self.plan.asked.offset, length: self.length() }
    }

    pub(crate) fn target_span(&self) -> EndSpan<'_> {
        EndSpan { end: &self.target, offset: self.plan.asked.target_offset, length: self.length() }
    }

    fn length(&self) -> Bytes {
        guard::length_of(&self.plan.asked, &self.source.facts)
    }
}

pub(crate) fn prepare_fan_out(
    system: &System,
    surveyor: &Surveyor<'_>,
    fabric: &Fabric,
    asked: &[Asked],
) -> Result<Vec<Prepared>, PlanError> {
    let count = asked.len();
    if !(1..=TARGETS_MAX).contains(&count) {
        return Err(PlanError::Targets { count, most: TARGETS_MAX });
    }
    let via = asked.iter().find_map(|one| one.via.clone());
    if let Some(via) = via.filter(|via| count > 1 && matches!(via.parse(), Ok(Notation::Gpu(_)))) {
        return Err(PlanError::GpuForMany { via, count });
    }
    let mut ends = Vec::with_capacity(count);
    for one in asked {
        ends.push(prepare(system, surveyor, fabric, one)?);
    }
    if count > 1 {
        refuse_same(system, &mut ends);
        let choice = choose(&ends);
        let shapes = choice.route.map(|route| {
            let memory = choice.memory.clone().unwrap_or_else(host_memory);
            shapes_for(&ends.iter().collect::<Vec<_>>(), route, &memory)
        });
        for (number, prepared) in ends.iter_mut().enumerate() {
            let shape = shapes.as_ref().map(|shapes| shapes[number].clone());
            settle(fabric, prepared, &choice, shape);
        }
    }
    Ok(ends)
}

/// A target that is another one's bytes is refused.
fn refuse_same(system: &System, ends: &mut [Prepared]) {
    for later in 1..ends.len() {
        let (before, from_later) = ends.split_at_mut(later);
        let mine = &mut from_later[0];
        let found = before.iter().find_map(|other| {
            let (one, other) = (other.target_span(), mine.target_span());
            guard::between(system, &mine.plan.asked, one, other, "two targets")
        });
        mine.plan.refusals.extend(found);
    }
}

/// The route and the memory that serve every target.
fn choose(ends: &[Prepared]) -> Choice {
    let first = &ends[0].plan;
    let by_host = |reason: String, fell_back| Choice {
        route: Some(Route::Host),
        memory: Some(host_memory()),
        reason,
        fell_back,
    };
    let is_asked_for = first.asked.route == RouteChoice::Host
        || (first.route == Some(Route::Host) && !has_fallen_back(first));
    if is_asked_for {
        return by_host(first.reason.clone(), None);
    }
    let plans: Vec<&Plan> = ends.iter().map(|prepared| &prepared.plan).collect();
    match (best_for_all(&plans), first.asked.route) {
        (Ok(best), _) => Choice {
            route: Some(Route::P2p),
            reason: format!("{} is within reach of the source and all targets", best.name),
            memory: Some(best),
            fell_back: None,
        },
        (Err(reason), RouteChoice::P2p) => {
            Choice { route: None, memory: None, reason, fell_back: None }
        }
        (Err(reason), _) => by_host(reason.clone(), Some(reason)),
    }
}

fn has_fallen_back(plan: &Plan) -> bool {
    plan.warnings.iter().any(Warning::is_fall_back)
}

/// The best memory, or which target stands in the way.
fn best_for_all(plans: &[&Plan]) -> Result<MemoryFacts, String> {
    if let Some(plan) = plans.iter().find(|plan| plan.route != Some(Route::P2p)) {
        return Err(format!("{}: {}", plan.target.path, plan.reason));
    }
    if let Some(best) = memories_for_all(plans).into_iter().next() {
        return Ok(best);
    }
    let reasons: Vec<String> = (plans[0].candidates.iter())
        .filter_map(|candidate| {
            let name = &candidate.memory.name;
            let refused = plans.iter().find_map(|plan| {
                let refusal = candidate_of(plan, &candidate.memory)?.refusals.first()?;
                Some((&plan.target.path, refusal))
            });
            refused.map(|(target, refusal)| format!("{name} does not serve {target}: {refusal}"))
        })
        .collect();
    Err(format!("no memory serves all targets: {}", reasons.join("; ")))
}

fn candidate_of<'a>(plan: &'a Plan, memory: &MemoryFacts) -> Option<&'a Candidate> {
    plan.candidates.iter().find(|candidate| candidate.memory.name == memory.name)
}

/// Memories of devices that nothing stands against for any target, nearest to all first; for one target in
/// the order of its plan.
pub(crate) fn memories_for_all(plans: &[&Plan]) -> Vec<MemoryFacts> {
    let Some(first) = plans.first() else { return Vec::new() };
    let lent = first.candidates.iter().filter(|one| one.memory.kind != MemoryKind::Host);
    if plans.len() == 1 {
        let usable = lent.filter(|one| one.refusals.is_empty());
        return usable.map(|one| one.memory.clone()).collect();
    }
    let mut usable: Vec<(Option<u32>, &MemoryFacts)> = Vec::new();
    for candidate in lent {
        let all: Option<Vec<&Candidate>> =
            plans.iter().map(|plan| candidate_of(plan, &candidate.memory)).collect();
        let Some(all) = all else { continue };
        if all.iter().all(|candidate| candidate.refusals.is_empty()) {
            let distance = all.iter().map(|candidate| candidate.distance).sum();
            usable.push((distance, &candidate.memory));
        }
    }
    usable.sort_by_key(|(distance, memory)| {
        (distance.unwrap_or(u32::MAX), Reverse(memory.available))
    });
    usable.into_iter().map(|(_, memory)| memory.clone()).collect()
}

/// Sizes and counts for a route and a memory: requests that suit every target, and the tail of each.
pub(crate) fn shapes_for(ends: &[&Prepared], route: Route, memory: &MemoryFacts) -> Vec<Shape> {
    let shape = |one: &Prepared, asked: &Asked| {
        shape::shape(one.ends(), asked, one.length(), route, memory.available, &mut Vec::new())
    };
    if let [one] = ends {
        return vec![shape::for_memory(shape(one, &one.plan.asked), Some(memory))];
    }
    let alone = ends.iter().map(|one| shape(one, &one.plan.asked));
    let Some(least) = alone.min_by_key(|shape| shape.request) else { return Vec::new() };
    let blocks = ends.iter().flat_map(|one| [one.source.facts.block, one.target.facts.block]);
    let unit = blocks.max().unwrap_or(least.request);
    let request = least.request.round_down(unit).max(unit);
    let of_one = |one: &&Prepared| {
        let asked = &one.plan.asked;
        let per_block = asked.block.0.div_ceil(request.0.max(1)).max(1);
        let depth = u64::from(asked.depth).saturating_mul(per_block);
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let common = shape(one, &Asked { block: request, depth, ..asked.clone() });
        Shape { request_limit: least.request_limit.clone(), ..common }
    };
    ends.iter().map(of_one).collect()
}

/// Puts the common choice into the plan of one target.
fn settle(fabric: &Fabric, prepared: &mut Prepared, choice: &Choice, shape: Option<Shape>) {
    let ends = prepared.ends();
    let of_route = |warning: &Warning| {
        matches!(warning, Warning::FellBack { .. } | Warning::TailByHost { .. })
    };
    let mut warnings = prepared.plan.warnings.clone();
    warnings.retain(|warning| !of_route(warning));
    let now = warnings_of(&prepared.plan.asked, choice, ends, shape.as_ref());
    warnings.extend(now.into_iter().filter(of_route));
    prepared.plan.warnings = warnings;
    prepared.choose(fabric, choice, shape);
}
