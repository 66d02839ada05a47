//! The plan between drives and memory of a GPU, as an end or between two ends: every way in order of preference,
//! with its obstacles.
//!
//! It rests on the facts of discovery: modules, libraries, kernel, ports. Nothing is loaded here.
//! Whether cuFile takes a way without an obstacle shows when it opens with its fallback switched
//! off: a probe asks it.

mod settings;
mod ways;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind};
use peerlane_memory::cufile::Mode;
use peerlane_reach::nvidia_fs_question;
use peerlane_results::{
    Asked, Candidate, EndpointFacts, EndpointKind, MemoryFacts, MemoryKind, Plan, Probe,
    ProbeAnswer, Route, RouteChoice, Warning,
};
use peerlane_units::Bytes;

use super::{PlanError, look};
use crate::endpoints::guard;
pub(crate) use crate::endpoints::lane::GpuWay;
use crate::endpoints::{Endpoint, GpuName, Notation};
use crate::io::failure::Role;
use crate::io::system::System;
pub(super) use ways::between;
use ways::{GpuScene, ways};

/// Most requests of a copy through memory of a GPU at a time: each is a thread of cuFile's, and two
/// stay free for requests other than payload.
pub(super) const REQUESTS_MAX: u32 = 120;

/// The GPU among the ends asked for, and which end it is; `None` without one.
pub(super) fn asked_for(asked: &Asked) -> Option<(GpuName, Role)> {
    let name = |typed: &str| match typed.parse() {
        Ok(Notation::Gpu(name)) => Some(name),
        _ => None,
    };
    let source = name(&asked.source).map(|name| (name, Role::Source));
    source.or_else(|| name(&asked.target).map(|name| (name, Role::Target)))
}

const COMPATIBLE: GpuWay = GpuWay::CuFile(Mode::Compatible);

/// The way that a memory of a plan stands for; `None` if it is not a GPU's.
pub(crate) fn way_of(memory: &MemoryFacts) -> Option<GpuWay> {
    let (name, words) = memory.name.split_once(" by ")?;
    let ways = [Mode::P2pdma, Mode::NvidiaFs, Mode::Compatible].map(GpuWay::CuFile);
    let mut ways = ways.into_iter().chain([GpuWay::Pinned]);
    let is_gpu = matches!(name.parse(), Ok(Notation::Gpu(_)));
    ways.find(|way| is_gpu && way.to_string() == words)
}

/// Plans a copy between a drive and a GPU.
pub(super) fn plan(
    system: &System,
    fabric: &Fabric,
    asked: &Asked,
    gpu: (GpuName, Role),
) -> Result<Plan, PlanError> {
    prepare(system, fabric, asked, gpu).map(|(plan, _)| plan)
}

/// The same with the drive.
pub(super) fn prepare(
    system: &System,
    fabric: &Fabric,
    asked: &Asked,
    (name, role): (GpuName, Role),
) -> Result<(Plan, Endpoint), PlanError> {
    if let Some(via) = &asked.via {
        return Err(PlanError::ViaWithGpu { via: via.clone() });
    }
    let (typed, other, drive_role) = match role {
        Role::Source => (&asked.source, &asked.target, Role::Target),
        Role::Target => (&asked.target, &asked.source, Role::Source),
    };
    let gpu = find(fabric, name, typed)?;
    let drive = look(system, fabric, other, drive_role)?;
    let candidates = ways(&GpuScene { fabric, ends: &[&drive], gpu, typed });
    let (route, memory, reason) = choose(fabric, asked.route, &candidates);
    let fell_back = asked.route == RouteChoice::Auto && route == Some(Route::Host);
    let warnings = fell_back.then(|| Warning::FellBack { reason: why_not_direct(&candidates) });
    let facts = end(typed, fabric.function(gpu));
    let (source, target) = match role {
        Role::Source => (facts, drive.facts.clone()),
        Role::Target => (drive.facts.clone(), facts),
    };
    let length = (role == Role::Target).then(|| guard::length_of(asked, &drive.facts));
    let plan = Plan {
        asked: Asked { length: asked.length.or(length), ..asked.clone() },
        source,
        target,
        route,
        memory,
        reason,
        candidates,
        shape: None,
        way: Vec::new(),
        limits: Vec::new(),
        unmeasured: drive.facts.device.iter().cloned().collect(),
        refusals: Vec::new(),
        warnings: warnings.into_iter().collect(),
    };
    Ok((plan, drive))
}

/// The plan between a drive and a GPU with the refusals of the libraries; any other plan stays as
/// it is.
pub fn after_probes(fabric: &Fabric, plan: Plan, probes: &[Probe]) -> Plan {
    if asked_for(&plan.asked).is_none() {
        return plan;
    }
    let mut candidates = plan.candidates.clone();
    for candidate in &mut candidates {
        let own = probes.iter().filter(|probe| probe.memory == candidate.memory.name);
        candidate.refusals.extend(own.filter_map(|probe| match &probe.answer {
            ProbeAnswer::Refused { reason } => Some(reason.clone()),
            _ => None,
        }));
    }
    let route = plan.asked.route;
    let (chosen, memory, reason) = choose(fabric, route, &candidates);
    let fell_back = route == RouteChoice::Auto && chosen == Some(Route::Host);
    let warning = fell_back.then(|| Warning::FellBack { reason: why_not_direct(&candidates) });
    let others = plan.warnings.into_iter().filter(|warning| !warning.is_fall_back());
    let warnings = others.chain(warning).collect();
    Plan { route: chosen, memory, reason, candidates, warnings, ..plan }
}

/// The function of a GPU, by its typed name.
pub(crate) fn find(fabric: &Fabric, name: GpuName, typed: &str) -> Result<FunctionId, PlanError> {
    function(fabric, name).ok_or_else(|| PlanError::UnknownGpu {
        typed: typed.to_owned(),
        machine: fabric.name.clone(),
        gpus: fabric.gpus().iter().map(|&id| fabric.function(id).name.clone()).collect(),
    })
}

/// The function of a GPU.
fn function(fabric: &Fabric, name: GpuName) -> Option<FunctionId> {
    match name {
        GpuName::Index(index) => fabric.gpus().get(usize::try_from(index).ok()?).copied(),
        GpuName::Address(address) => {
            let mut all = fabric.iter().filter(|(_, one)| one.kind == FunctionKind::Gpu);
            all.find(|(_, one)| one.address == Some(address)).map(|(id, _)| id)
        }
    }
}

/// A GPU as an end: it has no size as files have it.
fn end(typed: &str, gpu: &Function) -> EndpointFacts {
    EndpointFacts {
        path: typed.to_owned(),
        kind: EndpointKind::Gpu,
        size: Bytes::ZERO,
        block: Bytes(1),
        request_host: Bytes::ZERO,
        request_p2p: None,
        device: None,
        address: gpu.address.map(|address| address.to_string()),
        drive: None,
        file_system: None,
        refusal: None,
        way_out: None,
        network: None,
    }
}

/// The first way without an obstacle of the route that was asked for. Compatibility mode is never chosen: pinned host
/// memory does the same without cuFile, whose registration fails if udev is missing.
fn choose(
    fabric: &Fabric,
    choice: RouteChoice,
    candidates: &[Candidate],
) -> (Option<Route>, Option<MemoryFacts>, String) {
    let route_of = |one: &Candidate| match one.memory.kind {
        MemoryKind::Host => Route::Host,
        MemoryKind::Gpu | MemoryKind::P2pmem => Route::P2p,
    };
    let fits = |one: &&Candidate| match choice {
        RouteChoice::Auto => true,
        RouteChoice::P2p => route_of(one) == Route::P2p,
        RouteChoice::Host => route_of(one) == Route::Host,
    };
    let is_chosen = |one: &&Candidate| way_of(&one.memory) != Some(COMPATIBLE);
    let open = |one: &&Candidate| one.refusals.is_empty();
    let best = candidates.iter().filter(is_chosen).filter(fits).find(open);
    match best {
        Some(best) if route_of(best) == Route::Host && choice == RouteChoice::Auto => {
            let reason =
                format!("{}; what is left is {}", why_not_direct(candidates), best.memory.name);
            (Some(Route::Host), Some(best.memory.clone()), reason)
        }
        Some(best) => {
            let reason = match route_of(best) {
                Route::P2p => left_to_cufile(fabric, &best.memory),
                Route::Host => "`--route host` asks for it".to_owned(),
            };
            (Some(route_of(best)), Some(best.memory.clone()), reason)
        }
        None if choice == RouteChoice::P2p => (None, None, why_not_direct(candidates)),
        None => {
            let mut last_first = candidates.iter().filter(is_chosen).rev();
            let first = last_first.find_map(|one| one.refusals.first());
            (None, None, first.cloned().unwrap_or_default())
        }
    }
}

/// The reason for a direct way, with the question that is left open.
pub(super) fn left_to_cufile(fabric: &Fabric, memory: &MemoryFacts) -> String {
    let is_by_nvidia_fs = way_of(memory) == Some(GpuWay::CuFile(Mode::NvidiaFs));
    match nvidia_fs_question(fabric).filter(|_| is_by_nvidia_fs) {
        Some(question) => format!("{question}; cuFile decides when it opens"),
        None => "no obstacle known; cuFile decides when it opens".to_owned(),
    }
}

/// Lists the reasons against the direct ways, the first of each only.
pub(super) fn why_not_direct(candidates: &[Candidate]) -> String {
    let direct = candidates.iter().filter(|one| one.memory.kind != MemoryKind::Host);
    let reasons =
        direct.filter_map(|one| Some(format!("{}: {}", one.memory.name, one.refusals.first()?)));
    reasons.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
