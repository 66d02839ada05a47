//! Rates that bound a copy: the links that its bytes cross.
//!
//! The raw rate of a link is taken, which no payload reaches, so that a result above it is a mistake
//! and never a good day.

use std::collections::BTreeSet;

use peerlane_fabric::{Fabric, FunctionId, reach};
use peerlane_results::{Limit, MemoryFacts};

use super::candidates::memory_function;
use super::shape::Ends;

/// The ceilings between the ends and the memory, lowest first; links of unknown speed are left out.
pub(super) fn on_the_way(
    fabric: &Fabric,
    ends: Ends<'_>,
    memory: Option<&MemoryFacts>,
) -> Vec<Limit> {
    let memory = memory.and_then(|memory| memory_function(fabric, memory));
    let crossed: BTreeSet<FunctionId> = [ends.source, ends.target]
        .into_iter()
        .flat_map(|end| end.initiator.iter().chain(&end.further).copied())
        .flat_map(|end| links_between(fabric, end, memory))
        .collect();
    let mut limits: Vec<Limit> = crossed
        .into_iter()
        .filter_map(|id| {
            let function = fabric.function(id);
            let speed = function.link.as_ref()?.speed()?;
            let object = format!("the link of {}", function.name);
            Some(Limit { object, bytes_per_second: speed.raw_rate() })
        })
        .collect();
    limits.sort_by_key(|limit| limit.bytes_per_second);
    limits
}

/// Functions whose link upwards is crossed between an end and the memory, or host memory for `None`.
pub fn links_between(
    fabric: &Fabric,
    end: FunctionId,
    memory: Option<FunctionId>,
) -> Vec<FunctionId> {
    let Some(memory) = memory else { return fabric.upward(end).collect() };
    let path = reach::decide(fabric, memory, end).path;
    let above = |id: FunctionId| fabric.upward(id).skip(1).collect::<Vec<_>>();
    // A common function turns traffic round: its own link upwards is not crossed.
    let turns = |id: FunctionId| {
        (id == memory || above(memory).contains(&id)) && (id == end || above(end).contains(&id))
    };
    path.into_iter().filter(|&id| !turns(id)).collect()
}
