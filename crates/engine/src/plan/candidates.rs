//! Every memory that could lie between the ends, judged and put in order.

use std::cmp::Reverse;

use peerlane_fabric::{Fabric, Function, FunctionId, Memory};
use peerlane_memory::provider::{PROVIDERS, Provider, ProviderKind};
use peerlane_reach::MapType;
use peerlane_results::{
    Asked, Candidate, Evidence, MemoryFacts, MemoryKind, RouteChoice, RouteEvidence, RouteVerdict,
};
use peerlane_units::Bytes;

use super::shape::PlanEnds;
use super::{PlanError, card, gpu};
use crate::endpoints::{Endpoint, Notation, strip_device_directory};
use crate::io::device_memory::recorded;
use crate::io::system::System;

/// The memory that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Via {
    /// Whichever serves best.
    Any,
    /// This one.
    Function(FunctionId),
    /// Memory of a GPU, with its name as typed.
    Gpu(FunctionId, String),
    /// Host memory.
    Host,
}

/// Reads `--via`.
pub(super) fn via(fabric: &Fabric, asked: &Asked) -> Result<Via, PlanError> {
    let Some(typed) = &asked.via else { return Ok(Via::Any) };
    let notation = typed.parse().map_err(|source| PlanError::Via { source })?;
    let contradiction = || PlanError::Contradiction { route: asked.route, via: typed.clone() };
    match (notation, asked.route) {
        (Notation::Host, RouteChoice::P2p) | (Notation::Device(_), RouteChoice::Host) => {
            Err(contradiction())
        }
        (Notation::Host, _) => Ok(Via::Host),
        (Notation::Device(_), _) => {
            device_called(fabric, typed).map(Via::Function).ok_or_else(|| unknown(fabric, typed))
        }
        // A PCI address, or the path that leads to a device, by itself.
        (Notation::Path(name), RouteChoice::Auto | RouteChoice::P2p) => name
            .to_str()
            .and_then(|name| function_called(fabric, name))
            .filter(|&id| fabric.function(id).p2pmem.is_some())
            .map(Via::Function)
            .ok_or_else(|| PlanError::NotMemory { typed: typed.clone() }),
        (Notation::Gpu(name), _) => {
            gpu::find(fabric, name, typed).map(|id| Via::Gpu(id, typed.clone()))
        }
        _ => Err(PlanError::NotMemory { typed: typed.clone() }),
    }
}

fn unknown(fabric: &Fabric, typed: &str) -> PlanError {
    let lenders = fabric.iter().filter(|(_, function)| function.p2pmem.is_some());
    PlanError::UnknownMemory {
        typed: typed.to_owned(),
        machine: fabric.name.clone(),
        memories: lenders.map(|(_, function)| memory_name(function)).collect(),
    }
}

/// Finds a device that lends memory by the name of the memory.
fn device_called(fabric: &Fabric, memory: &str) -> Option<FunctionId> {
    let (provider, name) = PROVIDERS.split(memory)?;
    function_called(fabric, name).filter(|&id| provider.lends(fabric, id))
}

/// Finds a device by name; on this machine a path may be a link to its node.
fn function_called(fabric: &Fabric, name: &str) -> Option<FunctionId> {
    let node = (fabric.is_this_machine() && name.starts_with('/'))
        .then(|| std::fs::canonicalize(name).ok())
        .flatten();
    let resolved = node.as_ref().and_then(|path| path.to_str()).unwrap_or(name);
    let named = match resolved.strip_prefix("/sys/devices/") {
        Some(folder) => folder.rsplit('/').next().unwrap_or(folder),
        None => strip_device_directory(resolved),
    };
    fabric.find(named)
}

/// The function that lends a memory.
pub(crate) fn memory_function(fabric: &Fabric, memory: &MemoryFacts) -> Option<FunctionId> {
    if memory.kind == MemoryKind::Gpu {
        return fabric.find(memory.address.as_deref()?);
    }
    fabric.find(PROVIDERS.lender(&memory.name)?)
}

/// Judges every memory, usable ones first, then by distance, then by room.
///
/// `slot` is the room for one request. Memory of an end itself is judged like any other: the kernel
/// counts it as nearest, and rightly, since it saves one crossing of a link.
pub(super) fn judge(
    system: &System,
    fabric: &Fabric,
    ends: PlanEnds<'_>,
    via: &Via,
    slot: Bytes,
) -> Vec<Candidate> {
    // Memory of a card is taken only where it is asked for: it is untested.
    let is_asked = |id: FunctionId, function: &Function| match via {
        Via::Any => function.p2pmem.is_some(),
        Via::Function(only) => *only == id,
        Via::Gpu(..) | Via::Host => false,
    };
    if let Via::Gpu(gpu, typed) = via {
        return gpu::between(fabric, ends, *gpu, typed);
    }
    let mut candidates: Vec<Candidate> = fabric
        .iter()
        .filter(|(id, function)| is_asked(*id, function))
        .filter_map(|(id, function)| candidate(system, fabric, ends, (id, function), slot))
        .collect();
    candidates.sort_by_key(|candidate| {
        (
            !candidate.refusals.is_empty(),
            candidate.distance.unwrap_or(u32::MAX),
            Reverse(candidate.memory.available),
        )
    });
    candidates
}

fn candidate(
    system: &System,
    fabric: &Fabric,
    ends: PlanEnds<'_>,
    (id, function): (FunctionId, &Function),
    slot: Bytes,
) -> Option<Candidate> {
    let (provider, name) = PROVIDERS.for_function(function)?;
    let (memory, mut refusals) = facts(fabric, provider, name, (id, function), slot)?;
    let address = memory.address.as_deref().filter(|_| fabric.is_this_machine());
    let denied = address.and_then(|address| provider.denied(system.root(), address));
    let known: Vec<String> = refusals.iter().cloned().chain(denied.clone()).collect();
    let mut facts = Vec::new();
    let mut leg = |end: &Endpoint| leg(fabric, id, end, &mut refusals, &mut facts);
    let (source, from_source) = leg(ends.source);
    let (target, to_target) = leg(ends.target);
    let distance = from_source.zip(to_target).map(|(one, other)| one.saturating_add(other));
    if card::goes_by_own_way(fabric, id) {
        // The kernel's rules do not matter here: it does not ask them.
        let (source, target) = (MapType::Unknown, MapType::Unknown);
        let facts = vec![card::own_way(fabric)];
        return Some(Candidate { memory, source, target, distance, refusals: known, facts });
    }
    refusals.extend(denied);
    Some(Candidate { memory, source, target, distance, refusals, facts })
}

/// The memory of a function, and the obstacles to it on any route.
fn facts(
    fabric: &Fabric,
    provider: &dyn Provider,
    name: String,
    (id, function): (FunctionId, &Function),
    slot: Bytes,
) -> Option<(MemoryFacts, Vec<String>)> {
    let Memory { size, available, .. } = fabric.memory(id)?;
    let address = function.address.map(|address| address.to_string());
    let memory = MemoryFacts { name, kind: recorded(provider.kind()), address, size, available };
    let mut refusals = provider.missing(fabric, function);
    if let Some(available) = available.filter(|available| *available < slot) {
        refusals.push(format!("it has {available} free, and one request takes {slot}"));
    }
    refusals.extend(card::risk(fabric).filter(|_| provider.kind() == ProviderKind::Card));
    Some((memory, refusals))
}

/// The kernel's decision for one end, the worst of its drives; reasons go to `refusals` and `facts`.
fn leg(
    fabric: &Fabric,
    memory: FunctionId,
    end: &Endpoint,
    refusals: &mut Vec<String>,
    facts: &mut Vec<String>,
) -> (MapType, Option<u32>) {
    let drives = end.initiator.iter().chain(&end.further);
    drives
        .map(|&drive| one_leg(fabric, memory, drive, refusals, facts))
        .reduce(|one, other| {
            (worse(one.0, other.0), one.1.zip(other.1).map(|(one, other)| one.max(other)))
        })
        .unwrap_or((MapType::Unknown, None))
}

/// The one that permits less.
pub(super) fn worse(one: MapType, other: MapType) -> MapType {
    if severity(other) > severity(one) { other } else { one }
}

fn severity(verdict: MapType) -> u8 {
    match verdict {
        MapType::BusAddress => 0,
        MapType::ThroughHostBridge => 1,
        MapType::Conditional | MapType::Unknown => 2,
        MapType::NotSupported => 3,
    }
}

fn one_leg(
    fabric: &Fabric,
    memory: FunctionId,
    initiator: FunctionId,
    refusals: &mut Vec<String>,
    facts: &mut Vec<String>,
) -> (MapType, Option<u32>) {
    let reach = peerlane_reach::decide(fabric, memory, initiator);
    for fact in &reach.facts {
        let fact = fact.to_string();
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    }
    if reach.map == MapType::NotSupported {
        let drive = &fabric.function(initiator).name;
        let memory = memory_name(fabric.function(memory));
        refusals.push(format!("{drive} cannot reach {memory}: {}", reach.summary()));
    }
    (reach.map, reach.distance)
}

/// Evidence of the kernel's decision on a memory: the facts that it rests on; `None` without any.
pub(crate) fn rules_evidence(memory: &str, facts: &[String]) -> Option<RouteEvidence> {
    let rules = Evidence {
        looked_at: format!("the kernel's rules for {memory}"),
        showed: facts.join("; "),
    };
    (!facts.is_empty()).then(|| rules.says(RouteVerdict::Consistent))
}

/// Name of the memory that a function lends.
fn memory_name(function: &Function) -> String {
    PROVIDERS.for_function(function).map_or_else(|| function.name.clone(), |(_, name)| name)
}
