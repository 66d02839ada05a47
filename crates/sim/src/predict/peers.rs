//! What the kernel would say of the peers that a case has.
//!
//! Leaves out what drivers and libraries of a device demand. The one thing to know: the model forwards between any two
//! devices, as fast as its parameters say, also where a kernel would not let them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::Decisions;
use peerlane_results::{Route, Warning};

use super::case::Model;

/// A warning for each reason for which the kernel would refuse peers of a case, or may do so, as `peerlane plan` says it.
pub(super) fn refused(fabric: &Fabric, model: &Model) -> Vec<Warning> {
    let functions: HashMap<&str, FunctionId> =
        fabric.iter().map(|(id, function)| (function.name.as_str(), id)).collect();
    let at = |node| functions.get(model.topology.node(node).name.as_str()).copied();
    let decisions = Decisions::new(fabric);
    let p2p = model.flows.iter().filter(|flow| flow.route == Route::P2p);
    let pairs: BTreeSet<(FunctionId, FunctionId)> = p2p
        .flat_map(|flow| flow.spec.legs().map(|leg| (flow.spec.memory, leg.initiator)))
        .filter(|(memory, initiator)| memory != initiator)
        .filter_map(|(memory, initiator)| Some((at(memory)?, at(initiator)?)))
        .collect();
    let mut by_reason: BTreeMap<String, Vec<(FunctionId, FunctionId)>> = BTreeMap::new();
    for (memory, initiator) in pairs {
        let reach = decisions.decide(memory, initiator);
        if !reach.is_permitted() {
            by_reason.entry(reach.summary()).or_default().push((memory, initiator));
        }
    }
    let name = |id| fabric.function(id).name.clone();
    let warning = |(reason, pairs): (String, Vec<(FunctionId, FunctionId)>)| {
        let &(memory, initiator) = pairs.first()?;
        let others = u64::try_from(pairs.len() - 1).unwrap_or(u64::MAX);
        Some(Warning::NotPermitted {
            memory: name(memory),
            initiator: name(initiator),
            others,
            reason,
        })
    };
    by_reason.into_iter().filter_map(warning).collect()
}
