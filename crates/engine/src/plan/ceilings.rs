//! Rates that bound a copy: those of the links that its bytes cross, and the machine file's rates
//! for the drives, the memory and the root complex.
//!
//! The raw rate of a link is taken, which no payload reaches, so a result above it is a mistake and
//! never a good day. No machine tells how fast its drives or its root complex are, and none is
//! looked up by its name: an unknown rate is named as such.

use std::collections::BTreeSet;

use peerlane_fabric::{BridgeId, Fabric, FunctionId};
use peerlane_reach::MapType;
use peerlane_results::{Limit, MemoryFacts};
use peerlane_units::ByteRate;

use super::candidates::memory_function;
use super::shape::PlanEnds;
use crate::endpoints::Endpoint;

/// Bounds of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ceilings {
    /// Lowest first.
    pub(super) known: Vec<Limit>,
    /// Drives whose own rate is unknown.
    pub(super) unmeasured: Vec<String>,
}

/// Work of an end on payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// A drive reads its medium and writes to the memory.
    Reads,
    /// A drive reads the memory and stores it.
    Writes,
}

/// The ceilings between the ends and the memory; links of unknown speed are left out.
pub(super) fn on_the_way(
    fabric: &Fabric,
    ends: PlanEnds<'_>,
    memory: Option<&MemoryFacts>,
) -> Ceilings {
    let memory = memory.and_then(|memory| memory_function(fabric, memory));
    let mut ceilings = Ceilings { known: links(fabric, ends, memory), unmeasured: Vec::new() };
    for (end, does) in [(ends.source, Does::Reads), (ends.target, Does::Writes)] {
        drive(fabric, end, does, &mut ceilings);
        if let Some(memory) = memory {
            ceilings.known.extend(of_memory(fabric, memory, does));
            ceilings.known.extend(of_root_complexes(fabric, memory, end, does));
        }
    }
    ceilings.known.sort_by_key(|limit| limit.bytes_per_second);
    ceilings
}

fn links(fabric: &Fabric, ends: PlanEnds<'_>, memory: Option<FunctionId>) -> Vec<Limit> {
    let crossed: BTreeSet<FunctionId> = [ends.source, ends.target]
        .into_iter()
        .flat_map(|end| end.initiator.iter().chain(&end.further).copied())
        .flat_map(|end| links_between(fabric, end, memory))
        .collect();
    let limit_of = |id: FunctionId| {
        let rate = fabric.speed_above(id)?.raw_rate();
        Some(limit(format!("the link of {}", fabric.function(id).name), rate))
    };
    crossed.into_iter().filter_map(limit_of).collect()
}

fn limit(object: String, bytes_per_second: ByteRate) -> Limit {
    Limit { object, bytes_per_second }
}

/// The drive at an end; how several of them share the bytes is unknown, so none bounds them.
fn drive(fabric: &Fabric, end: &Endpoint, does: Does, ceilings: &mut Ceilings) {
    let Some(id) = end.initiator.filter(|_| end.further.is_empty()) else { return };
    let function = fabric.function(id);
    let (rate, word) = match does {
        Does::Reads => (function.rates.read, "reads"),
        Does::Writes => (function.rates.write, "writes"),
    };
    match rate.or(function.lab.throttle) {
        Some(rate) => ceilings.known.push(limit(format!("what {} {word}", function.name), rate)),
        None if ceilings.unmeasured.contains(&function.name) => {}
        None => ceilings.unmeasured.push(function.name.clone()),
    }
}

fn of_memory(fabric: &Fabric, memory: FunctionId, does: Does) -> Option<Limit> {
    let function = fabric.function(memory);
    let rates = function.p2pmem?.rates;
    let (rate, words) = match does {
        Does::Reads => (rates.write, "written to"),
        Does::Writes => (rates.read, "read out of"),
    };
    Some(limit(format!("what is {words} the memory of {}", function.name), rate?))
}

/// The root complexes between an end and the memory, if the route is through them.
fn of_root_complexes(
    fabric: &Fabric,
    memory: FunctionId,
    end: &Endpoint,
    does: Does,
) -> Vec<Limit> {
    let is_through = |end: FunctionId| {
        peerlane_reach::decide(fabric, memory, end).map == MapType::ThroughHostBridge
    };
    let ends = end.initiator.iter().chain(&end.further).copied().filter(|&end| is_through(end));
    let bridges: BTreeSet<BridgeId> =
        ends.flat_map(|end| [fabric.bridge_of(end), fabric.bridge_of(memory)]).collect();
    let limit_of = |id: BridgeId| {
        let bridge = &fabric.bridges[id.0];
        let (rate, word) = match does {
            Does::Reads => (bridge.peer.write, "write"),
            Does::Writes => (bridge.peer.read, "read"),
        };
        Some(limit(format!("what peers {word} through {}", bridge.name), rate?))
    };
    bridges.into_iter().filter_map(limit_of).collect()
}

/// Functions whose link upwards is crossed between an end and the memory, or host memory for `None`.
pub fn links_between(
    fabric: &Fabric,
    end: FunctionId,
    memory: Option<FunctionId>,
) -> Vec<FunctionId> {
    let Some(memory) = memory else { return fabric.upward(end).collect() };
    let path = peerlane_reach::decide(fabric, memory, end).path;
    let above = |id: FunctionId| fabric.upward(id).skip(1).collect::<Vec<_>>();
    // A common function turns traffic round: its own link upwards is not crossed.
    let turns = |id: FunctionId| {
        (id == memory || above(memory).contains(&id)) && (id == end || above(end).contains(&id))
    };
    path.into_iter().filter(|&id| !turns(id)).collect()
}
