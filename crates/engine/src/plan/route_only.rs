//! The route of a copy without the rest of its plan: both ends are only read, and no guard is asked.

use std::path::Path;

use peerlane_fabric::{Fabric, gpu as gpu_facts};
use peerlane_memory::cufile::Mode;
use peerlane_reach::nvidia_fs_question;
use peerlane_results::{Asked, Candidate, MemoryFacts, Plan, Route};

use super::candidates::memory_function;
use super::gpu::{GpuWay, way_of};
use super::{PlanError, candidates, gpu, route, shape};
use crate::endpoints::{guard, look_to_read};
use crate::io::failure::Role;
use crate::io::system::System;

/// The route that a plan would choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedRoute {
    /// The route; `None` if there is none.
    pub(crate) route: Option<Route>,
    /// The reason for the choice.
    pub(crate) reason: String,
    /// A fact that the peer-to-peer route depends on is unknown.
    pub(crate) is_uncertain: bool,
}

/// Chooses the route of a copy.
///
/// # Errors
/// As [`super::plan`]; the target must exist, as the source must.
pub(crate) fn route_only(fabric: &Fabric, asked: &Asked) -> Result<PlannedRoute, PlanError> {
    let system = System::at(Path::new("/"));
    if let Some(gpu) = gpu::asked_for(asked) {
        let plan = gpu::plan(&system, fabric, asked, gpu)?;
        return Ok(planned(
            fabric,
            plan.route,
            plan.memory.as_ref(),
            plan.reason,
            &plan.candidates,
        ));
    }
    let via = candidates::via(fabric, asked)?;
    let source = look_to_read(&system, fabric, &asked.source, Role::Source)?;
    let target = look_to_read(&system, fabric, &asked.target, Role::Target)?;
    let length = guard::length_of(asked, &source.facts);
    let ends = shape::PlanEnds { source: &source, target: &target };
    let tail = shape::tail(ends, length);
    let slot = shape::slot(ends, asked, Route::P2p);
    let candidates = candidates::judge(&system, fabric, ends, &via, slot);
    let question = route::Question { fabric, asked, via: &via, ends, tail, length };
    let choice = route::choose(question, &candidates);
    Ok(planned(fabric, choice.route, choice.memory.as_ref(), choice.reason, &candidates))
}

/// Returns whether the route of a plan depends on a fact that is unknown.
pub(super) fn depends_on_unknown(fabric: &Fabric, plan: &Plan) -> bool {
    let (route, memory) = (plan.route, plan.memory.as_ref());
    planned(fabric, route, memory, plan.reason.clone(), &plan.candidates).is_uncertain
}

fn planned(
    fabric: &Fabric,
    route: Option<Route>,
    memory: Option<&MemoryFacts>,
    reason: String,
    candidates: &[Candidate],
) -> PlannedRoute {
    let chosen = candidates.iter().find(|one| Some(&one.memory) == memory);
    let is_uncertain =
        route == Some(Route::P2p) && chosen.is_some_and(|one| is_uncertain(fabric, one));
    PlannedRoute { route, reason, is_uncertain }
}

/// Returns whether a way depends on a decision of the kernel that is unknown, or on a driver that nvidia-fs may
/// not serve; nvidia-fs and C2C ask the kernel for none.
fn is_uncertain(fabric: &Fabric, candidate: &Candidate) -> bool {
    let memory = &candidate.memory;
    if way_of(memory) == Some(GpuWay::CuFile(Mode::NvidiaFs)) {
        return nvidia_fs_question(fabric).is_some();
    }
    let has_c2c =
        memory_function(fabric, memory).is_some_and(|id| gpu_facts::has_c2c(fabric.function(id)));
    !has_c2c && (candidate.source.is_open() || candidate.target.is_open())
}
