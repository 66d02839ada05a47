//! Assumptions made for values that the machine file leaves out: speeds of links, limits of root complexes between peers,
//! and peers that a kernel would not permit.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::Decisions;
use peerlane_results::{Route, Warning};

use super::case::Model;
use super::links::{SpeedKnown, known};
use super::names::per_second;
use crate::model::{FlowSpec, Leg, NodeIndex, NodeKind, Op, ResourceOrigin, Topology};
use crate::parameters::Parameters;

/// Names in a warning.
const MAX_NAMED: usize = 8;

/// The warnings of cases on a machine, each about all cases together.
pub(super) fn warnings<'a>(
    fabric: &Fabric,
    parameters: &Parameters,
    models: impl Iterator<Item = &'a Model> + Clone,
) -> Vec<Warning> {
    let links = assumed_links(fabric, parameters, models.clone());
    let links = links.into_iter().map(|((known, taken_as), ids)| {
        let names = ids.into_iter().map(|id| fabric.function(id).name.clone());
        let (below, others) = few(names.collect());
        match known {
            SpeedKnown::No => Warning::LinkNotStated { below, others, taken_as },
            _ => Warning::LinkNotTrained { below, others, taken_as },
        }
    });
    let roots = unlimited_roots(models.clone());
    links.chain(assumed_networks(fabric, parameters, models)).chain(roots).collect()
}

/// The warning of network controllers that transfers use and whose rate is assumed.
fn assumed_networks<'a>(
    fabric: &Fabric,
    parameters: &Parameters,
    models: impl Iterator<Item = &'a Model>,
) -> Option<Warning> {
    let ids = ids_by_name(fabric);
    let mut assumed: BTreeSet<FunctionId> = BTreeSet::new();
    for Model { topology, built, .. } in models {
        for what in &built.what {
            let ResourceOrigin::Wire(at, _) = *what else { continue };
            let name = topology.node(at).name.as_str();
            let is_given = |of| parameters.position(&format!("{name}.memory.{of}")).is_ok();
            let is_stated = |id: &FunctionId| fabric.function(*id).ethernet.is_some();
            let is_assumed = !(is_given("read") && is_given("write"));
            assumed.extend(ids.get(name).filter(|id| is_assumed && !is_stated(id)));
        }
    }
    let rate = parameters.values()[parameters.position("ethernet.rate").ok()?];
    let names = assumed.into_iter().map(|id| fabric.function(id).name.clone());
    let (nics, others) = few(names.collect());
    let taken_as = per_second(rate / 1e9);
    (!nics.is_empty()).then_some(Warning::NetworkNotStated { nics, others, taken_as })
}

/// Links that transfers cross and whose speed is assumed, by knowledge and assumed speed; each by the function below it.
type AssumedLinks = BTreeMap<(SpeedKnown, String), BTreeSet<FunctionId>>;

fn assumed_links<'a>(
    fabric: &Fabric,
    parameters: &Parameters,
    models: impl Iterator<Item = &'a Model>,
) -> AssumedLinks {
    let ids = ids_by_name(fabric);
    let mut assumed = AssumedLinks::new();
    for Model { topology, built, .. } in models {
        for what in &built.what {
            let ResourceOrigin::Link(link, _) = *what else { continue };
            let link = topology.link(link);
            let Some(speed) = link.wire.speed else { continue };
            let Some(&id) = ids.get(topology.node(link.lower).name.as_str()) else { continue };
            let known = known(fabric, parameters, id);
            if known != SpeedKnown::Trained {
                assumed.entry((known, speed.to_string())).or_default().insert(id);
            }
        }
    }
    assumed
}

/// Names of the functions below links that a case crosses and whose speed is unknown.
pub(super) fn below_unknown_links(
    fabric: &Fabric,
    parameters: &Parameters,
    model: &Model,
) -> Vec<String> {
    let assumed = assumed_links(fabric, parameters, std::iter::once(model));
    let unknown = assumed.into_iter().filter(|((known, _), _)| *known == SpeedKnown::No);
    let ids: BTreeSet<FunctionId> = unknown.flat_map(|(_, ids)| ids).collect();
    ids.into_iter().map(|id| fabric.function(id).name.clone()).collect()
}

/// Root complexes between peers whose limits the machine does not state.
fn unlimited_roots<'a>(models: impl Iterator<Item = &'a Model>) -> Vec<Warning> {
    let mut keys: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for Model { topology, flows, .. } in models {
        let p2p = flows.iter().filter(|flow| flow.route == Route::P2p);
        let parts = p2p.flat_map(|flow| flow.spec.parts());
        let ways: BTreeSet<(NodeIndex, NodeIndex, Op)> = parts.flat_map(payload_ways).collect();
        for (from, to, op) in ways {
            for (name, key) in unlimited_between(topology, from, to, op) {
                keys.entry(name).or_default().insert(key);
            }
        }
    }
    let mut alike: BTreeMap<BTreeSet<&str>, Vec<String>> = BTreeMap::new();
    for (name, keys) in keys {
        alike.entry(keys).or_default().push(name);
    }
    let warning = |(keys, names): (BTreeSet<&str>, Vec<String>)| {
        let (through, others) = few(names);
        let keys = keys.into_iter().map(str::to_owned).collect();
        Warning::PeersNotStated { through, others, keys }
    };
    alike.into_iter().map(warning).collect()
}

/// Source and target of the payload of each leg, and the operation on the memory.
fn payload_ways(flow: &FlowSpec) -> impl Iterator<Item = (NodeIndex, NodeIndex, Op)> + '_ {
    let way = |leg: &Leg| match leg.op {
        Op::Write => (leg.initiator, flow.memory, Op::Write),
        Op::Read => (flow.memory, leg.initiator, Op::Read),
    };
    flow.legs().filter(|leg| !flow.is_own(leg)).map(way)
}

/// The root complexes between two peers without a limit, each with the key of a machine file that would state it.
fn unlimited_between(
    topology: &Topology,
    from: NodeIndex,
    to: NodeIndex,
    op: Op,
) -> Vec<(String, &'static str)> {
    let roots = topology.path(from, to).map_or(Vec::new(), |path| topology.peer_roots(&path));
    let unlimited = |root: NodeIndex| {
        let node = topology.node(root);
        let NodeKind::RootComplex(root) = &node.kind else { return None };
        let (limit, key) = match op {
            Op::Write => (root.p2p_write, "p2p_write"),
            Op::Read => (root.p2p_read, "p2p_read"),
        };
        limit.is_none().then(|| (node.name.clone(), key))
    };
    roots.into_iter().filter_map(unlimited).collect()
}

/// Warns of peers of a case that the kernel would refuse, once for each of its reasons: the model predicts them all the
/// same.
pub(super) fn refused_peers(fabric: &Fabric, model: &Model) -> Vec<Warning> {
    let ids = ids_by_name(fabric);
    let at = |node| ids.get(model.topology.node(node).name.as_str()).copied();
    let decisions = Decisions::new(fabric);
    let p2p = model.flows.iter().filter(|flow| flow.route == Route::P2p);
    let pairs: BTreeSet<(FunctionId, FunctionId)> = p2p
        .flat_map(|flow| flow.spec.parts())
        .flat_map(|part| part.legs().map(|leg| (part.memory, leg.initiator)))
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
        let (memory, initiator) = (name(memory), name(initiator));
        Some(Warning::NotPermitted { memory, initiator, others, reason })
    };
    by_reason.into_iter().filter_map(warning).collect()
}

fn ids_by_name(fabric: &Fabric) -> HashMap<&str, FunctionId> {
    fabric.iter().map(|(id, function)| (function.name.as_str(), id)).collect()
}

/// The first of some names, and the number of the rest.
fn few(mut names: Vec<String>) -> (Vec<String>, u64) {
    let others = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    (names, u64::try_from(others).unwrap_or(u64::MAX))
}
