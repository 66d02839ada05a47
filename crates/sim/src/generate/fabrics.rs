//! Machines and workloads by notation: what a person types to ask for one that nobody described.
//!
//! Leaves out what a real machine has besides: addresses, identifiers, a kernel. The one thing to know:
//! names of `servers` and `pods` begin with the machine and a slash (`s3/d7`), and nothing joins machines.

use std::fmt::Write as _;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;

use peerlane_fabric::{Fabric, Kind, MachineFileError};
use peerlane_results::{CaseSpec, Flow, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind};

use super::{Draws, Machine, pods, servers, tree};
use crate::model::{NodeIndex, NodeKind};
use crate::predict::lends_memory;

/// Devices of a tree, at most: with switches, and a port above each, they are three quarters of the functions that a
/// machine file may have.
const MOST_DEVICES: usize = 10_000;
/// Servers and pods with as many devices, all in all.
const MOST_SERVERS: usize = 625;
const MOST_PODS: usize = 400;
/// Transfers of a generated workload.
const MOST_FLOWS: usize = 100_000;

/// Why a notation means nothing.
#[derive(Debug, thiserror::Error)]
pub enum NotationError {
    /// Another form.
    #[error("`{text}` is none of {forms}")]
    Form {
        /// What was typed.
        text: String,
        /// What there is.
        forms: &'static str,
    },
    /// Nothing, or more than can be described.
    #[error("`{text}`: the {what} is too {}; {least} to {most} is allowed", if *is_more { "large" } else { "small" })]
    Count {
        /// What was typed.
        text: String,
        /// Which number: `number of devices`.
        what: &'static str,
        /// Whether it is above `most`, not below `least`.
        is_more: bool,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A machine without two devices that reach each other.
    #[error("machine {0} has no two drives that lend memory to each other")]
    NoPairs(String),
    /// A mistake in the generator.
    #[error("the machine that was generated is none")]
    Machine(#[from] MachineFileError),
}

/// The machine of a notation: `tree:DEVICES`, `servers:COUNT`, `pods:COUNT` or `pods:COUNT:SEED`. `None` for
/// what does not begin like one.
///
/// # Errors
/// When a number is missing, or too large.
pub fn fabric(notation: &str) -> Option<Result<Fabric, NotationError>> {
    let (kind, numbers) = notation.split_once(':')?;
    matches!(kind, "tree" | "servers" | "pods").then(|| described(notation, kind, numbers))
}

fn described(notation: &str, kind: &str, numbers: &str) -> Result<Fabric, NotationError> {
    const FORMS: &str = "tree:DEVICES, servers:COUNT, pods:COUNT, pods:COUNT:SEED";
    let (count, seed) = counts(notation, numbers, FORMS)?;
    let within = |what, least, most| within(notation, what, count, least..=most);
    let machine = match (kind, seed) {
        ("tree", None) => {
            within("number of devices", 2, MOST_DEVICES)?;
            tree(count)
        }
        ("servers", None) => {
            within("number of servers", 1, MOST_SERVERS)?;
            servers(count)
        }
        ("pods", seed) => {
            within("number of pods", 1, MOST_PODS)?;
            pods(count, seed.unwrap_or(0))
        }
        _ => return Err(NotationError::Form { text: notation.to_owned(), forms: FORMS }),
    };
    Ok(Fabric::from_toml(&text(notation, kind, &machine))?)
}

fn counts(
    notation: &str,
    numbers: &str,
    forms: &'static str,
) -> Result<(usize, Option<u64>), NotationError> {
    let (count, seed) = match numbers.split_once(':') {
        Some((count, seed)) => (count, Some(seed)),
        None => (numbers, None),
    };
    let number = |text: &str| match text.parse::<u64>() {
        Ok(number) => Ok(Some(number)),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Ok(None),
        Err(_) => Err(NotationError::Form { text: notation.to_owned(), forms }),
    };
    // What no number holds is too large for every count.
    let count = number(count)?.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let seed = seed.map(|seed| {
        let (text, least, most) = (notation.to_owned(), 0, u64::MAX);
        let too_large = NotationError::Count { text, what: "seed", is_more: true, least, most };
        number(seed)?.ok_or(too_large)
    });
    Ok((count, seed.transpose()?))
}

/// Refuses a count that cannot be described.
fn within(
    notation: &str,
    what: &'static str,
    count: usize,
    range: RangeInclusive<usize>,
) -> Result<(), NotationError> {
    if range.contains(&count) {
        return Ok(());
    }
    let (least, most) = (*range.start() as u64, *range.end() as u64);
    let text = notation.to_owned();
    Err(NotationError::Count { text, what, is_more: count > *range.end(), least, most })
}

/// The machine file: a port above each link, which a topology folds away again.
fn text(notation: &str, kind: &str, machine: &Machine) -> String {
    let topology = &machine.topology;
    let name = |index: NodeIndex| {
        let name = &topology.node(index).name;
        // The generators write `s3-d7`; a tree is one machine.
        if kind == "tree" { name.clone() } else { name.replacen('-', "/", 1) }
    };
    // A processor that forwards between its ports: which one it is changes no rate.
    let mut text = format!(
        "name = \"{notation}\"\niommu = \"off\"\n\n[cpu]\nvendor = \"AuthenticAMD\"\nfamily = 26\n"
    );
    let nodes = (0..topology.nodes().len()).filter_map(|at| u32::try_from(at).ok()).map(NodeIndex);
    let mut sockets: Vec<String> = Vec::new();
    for index in nodes {
        let own = name(index);
        let function = match &topology.node(index).kind {
            NodeKind::RootComplex(_) => {
                let before = own.split_once('/').map_or("", |(machine, _)| machine).to_owned();
                let socket = sockets.iter().filter(|other| **other == before).count();
                sockets.push(before);
                // Writing to a String cannot fail.
                let _ = writeln!(text, "\n[[host_bridge]]\nname = \"{own}\"\nnuma_node = {socket}");
                continue;
            }
            NodeKind::HostMemory(_) => continue,
            NodeKind::Switch(_) => "kind = \"upstream-port\"",
            NodeKind::Endpoint(_) => "kind = \"nvme\"\nsize = \"4T\"\ncmb = \"64M\"",
        };
        let Some(link) = topology.link_above(index).map(|link| topology.link(link)) else {
            continue;
        };
        let port = match &topology.node(link.upper).kind {
            NodeKind::RootComplex(_) => "root-port",
            _ => "downstream-port",
        };
        let speed =
            link.wire.speed.map_or_else(String::new, |speed| format!("link = \"{speed}\"\n"));
        let upper = name(link.upper);
        let _ = write!(
            text,
            "\n[[function]]\nname = \"{own}-port\"\nkind = \"{port}\"\nunder = \"{upper}\"\n\
             \n[[function]]\nname = \"{own}\"\n{function}\nunder = \"{own}-port\"\n{speed}"
        );
    }
    text
}

/// The workload of a notation, `random:TRANSFERS` or `random:TRANSFERS:SEED`: peer-to-peer transfers of 1 GiB
/// between random drives of one machine each, all at once. `None` for what does not begin like one.
///
/// # Errors
/// When a number is missing or too large, or the machine has no drives that lend memory.
pub fn workload(notation: &str, fabric: &Fabric) -> Option<Result<Workload, NotationError>> {
    let numbers = notation.strip_prefix("random:")?;
    Some(random(notation, numbers, fabric))
}

fn random(notation: &str, numbers: &str, fabric: &Fabric) -> Result<Workload, NotationError> {
    let (count, seed) = counts(notation, numbers, "random:TRANSFERS, random:TRANSFERS:SEED")?;
    within(notation, "number of transfers", count, 1..=MOST_FLOWS)?;
    let groups = lenders(fabric);
    if groups.is_empty() {
        return Err(NotationError::NoPairs(fabric.name.clone()));
    }
    let seed = seed.unwrap_or(0);
    let mut draws = Draws::new(seed);
    let flows = (0..count).map(|_| pair(&groups, &mut draws)).collect();
    let name = format!("{count} random transfers");
    Ok(Workload {
        schema: WORKLOAD_SCHEMA.to_owned(),
        kind: WorkloadKind::Crowd,
        cases: vec![CaseSpec { name: name.clone(), flows, time_ns: None }],
        name,
        repeats: Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None },
        seed,
    })
}

/// Drives that lend memory, of each machine that has two of them.
fn lenders(fabric: &Fabric) -> Vec<Vec<&str>> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for function in &fabric.functions {
        if function.kind != Kind::Nvme || !lends_memory(function) {
            continue;
        }
        let machine = function.name.split_once('/').map_or("", |(machine, _)| machine);
        match groups.last_mut() {
            Some((last, names)) if *last == machine => names.push(&function.name),
            _ => groups.push((machine, vec![&function.name])),
        }
    }
    groups.into_iter().map(|(_, names)| names).filter(|names| names.len() > 1).collect()
}

fn pair(groups: &[Vec<&str>], draws: &mut Draws) -> Flow {
    let names = &groups[draws.below(groups.len())];
    let source = draws.below(names.len());
    let target = (source + 1 + draws.below(names.len() - 1)) % names.len();
    Flow::new(names[source], names[target], Path::P2p)
}
