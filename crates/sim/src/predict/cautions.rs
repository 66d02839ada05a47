//! What a prediction takes for granted of its machine: how fast links are, and what root complexes pass between peers.
//!
//! Leaves out numbers of drives and hosts, whose ranges say what is not known. The one thing to know: a warning is of all
//! cases together, since these are about one machine.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_results::{Route, Warning};

use super::case::Model;
use super::links::{Said, said};
use crate::flow::build::What;
use crate::model::{FlowSpec, Leg, NodeIndex, NodeKind, Op, Topology};
use crate::parameters::Parameters;

/// Names in a warning.
const NAMED: usize = 8;

/// The warnings of cases on a machine.
pub(super) fn of<'a>(
    fabric: &Fabric,
    parameters: &Parameters,
    models: impl Iterator<Item = &'a Model> + Clone,
) -> Vec<Warning> {
    let mut warnings = links(fabric, parameters, models.clone());
    warnings.extend(root_complexes(models));
    warnings
}

/// Of links that transfers cross, those whose speed is not known: by what they are taken for, and why.
fn links<'a>(
    fabric: &Fabric,
    parameters: &Parameters,
    models: impl Iterator<Item = &'a Model>,
) -> Vec<Warning> {
    let ids: BTreeMap<&str, FunctionId> =
        fabric.iter().map(|(id, function)| (function.name.as_str(), id)).collect();
    let mut unknown: BTreeMap<(Said, String), BTreeSet<FunctionId>> = BTreeMap::new();
    for Model { topology, built, .. } in models {
        for what in &built.what {
            let What::Link(link, _) = *what else { continue };
            let link = topology.link(link);
            let Some(speed) = link.wire.speed else { continue };
            let Some(&id) = ids.get(topology.node(link.lower).name.as_str()) else { continue };
            match said(fabric, parameters, id) {
                Said::Trained => {}
                how => {
                    unknown.entry((how, speed.to_string())).or_default().insert(id);
                }
            }
        }
    }
    let warning = |((how, taken_as), ids): ((Said, String), BTreeSet<FunctionId>)| {
        let names = ids.into_iter().map(|id| fabric.function(id).name.clone());
        let (below, others) = few(names.collect());
        match how {
            Said::Nothing => Warning::LinkNotStated { below, others, taken_as },
            _ => Warning::LinkNotTrained { below, others, taken_as },
        }
    };
    unknown.into_iter().map(warning).collect()
}

/// The functions above which a link is crossed of whose speed nothing is known.
pub(super) fn without_link(
    fabric: &Fabric,
    parameters: &Parameters,
    model: &Model,
) -> BTreeSet<FunctionId> {
    let Model { topology, built, .. } = model;
    let below = |what: &What| {
        let What::Link(link, _) = *what else { return None };
        let link = topology.link(link);
        link.wire.speed?;
        let id = fabric.find(&topology.node(link.lower).name)?;
        (said(fabric, parameters, id) == Said::Nothing).then_some(id)
    };
    built.what.iter().filter_map(below).collect()
}

/// Of root complexes that transfers between peers go through, those of which the machine does not state what they pass.
fn root_complexes<'a>(models: impl Iterator<Item = &'a Model>) -> Vec<Warning> {
    let mut keys: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for Model { topology, flows, .. } in models {
        let p2p = flows.iter().filter(|flow| flow.route == Route::P2p).map(|flow| &flow.spec);
        let ways: BTreeSet<(NodeIndex, NodeIndex, Op)> = p2p.flat_map(ways).collect();
        for (from, to, op) in ways {
            for (name, key) in not_stated(topology, from, to, op) {
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

/// From where to where the payload of a flow's legs goes, and what is done to the memory.
fn ways(flow: &FlowSpec) -> impl Iterator<Item = (NodeIndex, NodeIndex, Op)> + '_ {
    let way = |leg: &Leg| match leg.op {
        Op::Write => (leg.initiator, flow.memory, Op::Write),
        Op::Read => (flow.memory, leg.initiator, Op::Read),
    };
    flow.legs().filter(|leg| !flow.is_own(leg)).map(way)
}

/// The root complexes between two peers without a limit of what passes them, each with the key that would state it.
fn not_stated(
    topology: &Topology,
    from: NodeIndex,
    to: NodeIndex,
    op: Op,
) -> Vec<(String, &'static str)> {
    let roots = topology.path(from, to).map_or(Vec::new(), |path| topology.peer_roots(&path));
    let not_stated = |root: NodeIndex| {
        let node = topology.node(root);
        let NodeKind::RootComplex(root) = &node.kind else { return None };
        let (limit, key) = match op {
            Op::Write => (root.p2p_write, "p2p_write"),
            Op::Read => (root.p2p_read, "p2p_read"),
        };
        limit.is_none().then(|| (node.name.clone(), key))
    };
    roots.into_iter().filter_map(not_stated).collect()
}

/// The first of some names, and how many more there are.
fn few(mut names: Vec<String>) -> (Vec<String>, u64) {
    let others = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    (names, u64::try_from(others).unwrap_or(u64::MAX))
}
