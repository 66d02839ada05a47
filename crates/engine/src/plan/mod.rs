//! The plan of a copy: the route, every candidate with its reasons, sizes and obstacles.
//!
//! Planning only looks: nothing is opened for writing, allocated or changed, and no root is needed,
//! though an unprivileged reader sees less and is told so. A route that is refused is a reason in the
//! plan, not an error. The kernel's decisions are read off tables here. The proof at the start of a
//! copy shows whether the kernel really decides so, and whether data arrives.

mod by_node;
mod candidates;
pub(crate) mod card;
mod ceilings;
mod error;
mod examined;
mod explain;
mod fan_out;
mod gpu;
mod library;
mod pair_ends;
mod probe;
mod record;
mod route;
pub(crate) mod route_answer;
mod route_only;
mod shape;
mod stages;
mod verdict;
mod way;

use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_results::{Asked, Plan, Route, Shape, Tail, Warning};

pub(crate) use candidates::rules_evidence;
pub use ceilings::links_between;
pub use error::PlanError;
pub use examined::{examine, examine_copy, examine_device};
pub use explain::explain;
pub(crate) use fan_out::TARGETS_MAX;
pub(crate) use fan_out::{memories_for_all, shapes_for};
pub use fan_out::{plan_fan_out, plan_jobs};
pub use gpu::after_probes;
pub(crate) use gpu::{GpuWay, find as find_gpu, way_of};
pub use library::ask_library;
pub use pair_ends::{is_no_copy, pair_ends};
pub use probe::{LibraryQuestion, ProbeTools, probe};
pub use record::{plan_record, target_plan};
pub(crate) use route::host_memory;
use route_only::depends_on_unknown;
pub(crate) use route_only::{PlannedRoute, route_only};
pub(crate) use shape::{SLOT_ALIGNMENT, fitted};
pub use verdict::plan_verdict;

use crate::endpoints::guard::{self, GuardSubject, Surveyor};
use crate::endpoints::{Endpoint, look};
use crate::io::failure::Role;
use crate::io::system::System;
use route::Choice;

/// Plans a copy; `surveyor` reads a target device to tell whether it is blank.
///
/// # Errors
/// When the words do not name endpoints or memories of this machine, or ask for nothing possible on
/// any machine. An obstacle to this copy alone is a reason or a refusal in the plan.
pub fn plan(fabric: &Fabric, asked: &Asked, surveyor: &Surveyor<'_>) -> Result<Plan, PlanError> {
    let system = System::at(Path::new("/"));
    if let Some(gpu) = gpu::asked_for(asked) {
        return gpu::plan(&system, fabric, asked, gpu);
    }
    prepare(&system, surveyor, fabric, asked).map(|prepared| prepared.plan)
}

/// A plan with the endpoints it was made for.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) source: Endpoint,
    pub(crate) target: Endpoint,
}

pub(crate) fn prepare(
    system: &System,
    surveyor: &Surveyor<'_>,
    fabric: &Fabric,
    asked: &Asked,
) -> Result<Prepared, PlanError> {
    for (option, value) in [("--block", asked.block.0), ("--depth", u64::from(asked.depth))] {
        if value == 0 {
            return Err(PlanError::Zero { option });
        }
    }
    let via = candidates::via(fabric, asked)?;
    let stages = asked.stages.iter().map(|typed| typed.parse()).collect::<Result<Vec<_>, _>>()?;
    let source = look(system, fabric, &asked.source, Role::Source)?;
    let target = look(system, fabric, &asked.target, Role::Target)?;
    let length = guard::length_of(asked, &source.facts);
    let wanted = GuardSubject { asked, source: &source, target: &target, length };
    let mut findings = guard::check(system, surveyor, wanted);
    if !fabric.is_this_machine() {
        let described = guard::check_described(fabric, wanted);
        findings.refusals.extend(described.refusals);
        findings.warnings.extend(described.warnings);
    }

    let ends = shape::PlanEnds { source: &source, target: &target };
    let tail = shape::tail(ends, length);
    let slot = shape::slot(ends, asked, Route::P2p);
    let mut candidates = candidates::judge(system, fabric, ends, &via, slot);
    stages::judge(&stages, &mut candidates);
    let choice = route::choose(
        route::Question { fabric, asked, via: &via, ends, tail, length },
        &candidates,
    );
    if let Some(memory) = &choice.memory {
        findings.refusals.extend(stages::refusal(&stages, asked, ends, memory, (tail, length)));
    }
    let mut warnings = findings.warnings;
    let shape = choice.route.map(|route| {
        let room = choice.memory.as_ref().and_then(|memory| memory.available);
        let shape = shape::shape(ends, asked, length, route, room, &mut warnings);
        shape::for_memory(shape, choice.memory.as_ref())
    });
    warnings.extend(warnings_of(asked, &choice, ends, shape.as_ref()));
    let plan = Plan {
        asked: asked.clone(),
        source: source.facts.clone(),
        target: target.facts.clone(),
        route: None,
        memory: None,
        reason: String::new(),
        candidates,
        shape: None,
        way: Vec::new(),
        limits: Vec::new(),
        unmeasured: Vec::new(),
        refusals: findings.refusals,
        warnings,
    };
    let mut prepared = Prepared { plan, source, target };
    prepared.choose(fabric, &choice, shape);
    Ok(prepared)
}

impl Prepared {
    fn ends(&self) -> shape::PlanEnds<'_> {
        shape::PlanEnds { source: &self.source, target: &self.target }
    }

    /// Puts a choice into the plan, with everything that follows from it except warnings.
    fn choose(&mut self, fabric: &Fabric, choice: &Choice, shape: Option<Shape>) {
        let (ends, memory) = (self.ends(), choice.memory.as_ref());
        let way = way::of_payload(fabric, ends, memory);
        let ceilings = ceilings::on_the_way(fabric, ends, memory);
        let plan = &mut self.plan;
        plan.route = choice.route;
        plan.memory.clone_from(&choice.memory);
        plan.reason.clone_from(&choice.reason);
        plan.shape = shape;
        plan.way = way;
        plan.limits = ceilings.known;
        plan.unmeasured = ceilings.unmeasured;
    }
}

fn warnings_of(
    asked: &Asked,
    choice: &Choice,
    ends: shape::PlanEnds<'_>,
    shape: Option<&Shape>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(reason) = &choice.fell_back {
        warnings.push(Warning::FellBack { reason: reason.clone() });
    }
    if let (Some(Route::P2p), Some(shape)) = (choice.route, shape) {
        if shape.tail == Tail::MergeInHost {
            let bytes = shape.length.0 % ends.target.facts.block.0;
            warnings.push(Warning::TailByHost { bytes });
        }
    }
    for end in [ends.source, ends.target] {
        if end.live.as_ref().is_some_and(|live| !live.is_direct) {
            warnings.push(Warning::PageCache { path: end.facts.path.clone() });
        }
    }
    if asked.verify == peerlane_results::VerifyMode::None {
        warnings.push(Warning::NotVerified);
    }
    warnings
}

#[cfg(test)]
mod tests;
