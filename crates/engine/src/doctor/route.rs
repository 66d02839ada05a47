//! The kernel's decision about every memory and every drive, and what of it can be changed.
//!
//! Pairs that fail for the same reason are one finding: a machine with ten drives below one switch has
//! ninety pairs and one cause.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use peerlane_fabric::{BridgeId, Fabric, FunctionId};
use peerlane_reach::{Decisions, Fact, MapType, Peers, Reach, grouped, representatives};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{Chart, at, kernel_parameters, saw};
use crate::plan::memory_name;

/// Pairs named in a finding before it only counts.
const NAMED: usize = 4;

const ACS_WEAKENS: &str = "the devices below these ports are no longer isolated from each other: their \
     IOMMU groups become one, and they cannot be given to different virtual machines";

/// Examines every memory with every one of `initiators`.
///
/// Those with the same way up are examined together, so that large machines take no longer than the
/// matrix of `topo`.
pub(super) fn examine(fabric: &Fabric, initiators: &[FunctionId], chart: &mut Chart) {
    let (rows, columns) = grouped(fabric, &memories(fabric), initiators);
    let places: HashMap<FunctionId, usize> = columns
        .iter()
        .enumerate()
        .flat_map(|(place, column)| column.members.iter().map(move |&id| (id, place)))
        .collect();
    let judge = Judge { fabric, decisions: Decisions::new(fabric) };
    let mut pairs = Pairs::default();
    for row in &rows {
        let mut shared = vec![0; columns.len()];
        for place in row.members.iter().filter_map(|id| places.get(id)) {
            shared[*place] += 1;
        }
        for (column, shared) in columns.iter().zip(shared) {
            let count = row.members.len() * column.members.len() - shared;
            pairs.add(&judge, row, column, count);
        }
    }
    pairs.report(fabric, chart);
}

/// What the kernel lends, and the cards whose driver does: it asks the same of the machine.
fn memories(fabric: &Fabric) -> Vec<FunctionId> {
    let is_card =
        |id: FunctionId| fabric.function(id).driver.is_named("xocl") && fabric.memory(id).is_some();
    let lends = |id: FunctionId| fabric.function(id).p2pmem.is_some();
    fabric.iter().map(|(id, _)| id).filter(|&id| lends(id) || is_card(id)).collect()
}

/// A memory and who would reach it.
type Pair = (FunctionId, FunctionId);

/// Pairs, of which only the first few are named.
#[derive(Default)]
struct Sample {
    first: Vec<Pair>,
    count: usize,
}

impl Sample {
    fn add(&mut self, row: &Peers, column: &Peers, count: usize) {
        let room = NAMED - self.first.len();
        let all = row
            .members
            .iter()
            .flat_map(|&memory| column.members.iter().map(move |&initiator| (memory, initiator)));
        self.first.extend(all.filter(|(one, other)| one != other).take(room));
        self.count += count;
    }
}

/// What decides pairs.
struct Judge<'a> {
    fabric: &'a Fabric,
    decisions: Decisions<'a>,
}

#[derive(Default)]
struct Pairs {
    all: usize,
    permitted: usize,
    /// Sent up to the host bridge, since these functions redirect: one setting for all of them.
    redirected: BTreeMap<Upward, (BTreeSet<FunctionId>, Sample)>,
    apart: Apart,
    unknown: Sample,
}

/// Refused since the host bridge of the root bus above does not forward.
#[derive(Default)]
struct Apart {
    facts: BTreeSet<String>,
    bridges: BTreeSet<BridgeId>,
    pairs: Sample,
}

/// What becomes of traffic that a port redirects; the worse first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Upward {
    Refused,
    ThroughHostBridge,
}

impl Pairs {
    /// Adds the pairs of a row and a column, of which there are `count`.
    fn add(&mut self, judge: &Judge<'_>, row: &Peers, column: &Peers, count: usize) {
        let Some(pair) = representatives(row, column) else { return };
        let reach = judge.decisions.decide(pair.0, pair.1);
        self.all += count;
        self.permitted += if reach.is_permitted() { count } else { 0 };
        let upward = match reach.map {
            MapType::BusAddress => return,
            MapType::Conditional | MapType::Unknown => return self.unknown.add(row, column, count),
            MapType::NotSupported => Upward::Refused,
            MapType::ThroughHostBridge => Upward::ThroughHostBridge,
        };
        if !reach.redirecting.is_empty() {
            let (functions, pairs) = self.redirected.entry(upward).or_default();
            functions.extend(judge.decisions.redirecting(row, column));
            pairs.add(row, column, count);
        } else if upward == Upward::Refused {
            self.apart.facts.extend(bridge_facts(&reach));
            self.apart.bridges.extend([pair.0, pair.1].map(|id| judge.fabric.bridge_of(id)));
            self.apart.pairs.add(row, column, count);
        }
    }

    fn report(self, fabric: &Fabric, chart: &mut Chart) {
        let refused_cost = if self.permitted == 0 && self.unknown.count == 0 {
            Cost::Everything
        } else {
            Cost::Routes
        };
        for (upward, (functions, pairs)) in self.redirected {
            let cost = match upward {
                Upward::Refused => refused_cost,
                Upward::ThroughHostBridge => Cost::Speed,
            };
            chart.findings.push(acs(fabric, upward, &functions, &pairs, self.all, cost));
        }
        if self.apart.pairs.count > 0 {
            chart.findings.push(not_listed(fabric, self.apart, self.all, refused_cost));
        }
        if self.unknown.count > 0 {
            chart.unknown(
                format!("whether the kernel permits {}", named(fabric, &self.unknown, self.all)),
                "the ACS bits in configuration space, which root may read: `sudo peerlane doctor`",
            );
        }
    }
}

fn bridge_facts(reach: &Reach) -> impl Iterator<Item = String> + '_ {
    let is_of_bridge = |fact: &&Fact| {
        matches!(
            fact,
            Fact::HostBridgeNotListed { .. }
                | Fact::SameBridgeOnly { .. }
                | Fact::HostBridgeWithoutTestDevice { .. }
        )
    };
    reach.facts.iter().filter(is_of_bridge).map(Fact::to_string)
}

fn acs(
    fabric: &Fabric,
    upward: Upward,
    functions: &BTreeSet<FunctionId>,
    pairs: &Sample,
    all: usize,
    cost: Cost,
) -> Finding {
    let names: Vec<&str> = functions.iter().map(|&id| fabric.function(id).name.as_str()).collect();
    let consequence = match upward {
        Upward::Refused => "up to the CPU, through which the kernel does not let it pass",
        Upward::ThroughHostBridge => "up to the CPU, although it could turn round in the switch",
    };
    Finding {
        kind: FindingKind::AcsRedirect,
        cost,
        object: names.join(", "),
        what: format!(
            "access control (ACS) sends peer traffic {consequence}: {}",
            named(fabric, pairs, all)
        ),
        evidence: functions.iter().map(|&id| acs_register(fabric, id)).collect(),
        fix: Some(acs_fix(fabric, functions)),
    }
}

fn acs_register(fabric: &Fabric, id: FunctionId) -> Evidence {
    let function = fabric.function(id);
    let control = match function.acs {
        peerlane_fabric::Acs::Present { control } => format!("{control:#06x}"),
        _ => "unknown".to_owned(),
    };
    saw(format!("{}/config", at(function)), format!("ACS control register {control}"))
}

fn acs_fix(fabric: &Fabric, functions: &BTreeSet<FunctionId>) -> Fix {
    let what = "let these ports turn peer traffic round";
    let paths: Option<Vec<String>> = functions.iter().map(|&id| fabric.path_of(id)).collect();
    let Some(paths) = paths else {
        return Fix {
            what: format!(
                "{what}: the kernel parameter `pci=disable_acs_redir=` takes their PCI addresses, which are \
                 not known here"
            ),
            commands: Vec::new(),
            weakens: Some(ACS_WEAKENS.to_owned()),
            needs: Needs::Reboot,
        };
    };
    let parameter = format!("pci=disable_acs_redir={}", paths.join(";"));
    kernel_parameters(what, &parameter, Some(ACS_WEAKENS))
}

fn not_listed(fabric: &Fabric, apart: Apart, all: usize, cost: Cost) -> Finding {
    let Apart { facts, bridges, pairs } = apart;
    let bridges: BTreeSet<&str> =
        bridges.iter().map(|bridge| fabric.bridges[bridge.0].name.as_str()).collect();
    let bridges = bridges.into_iter().collect::<Vec<_>>().join(", ");
    Finding {
        kind: FindingKind::HostBridgeNotListed,
        cost,
        object: format!("host bridge {bridges}"),
        what: format!(
            "the devices meet only in the CPU's root complex, through which the kernel does not let \
             peer traffic pass: {}",
            named(fabric, &pairs, all)
        ),
        evidence: facts
            .into_iter()
            .map(|fact| saw("drivers/pci/p2pdma.c of Linux 7.2, its list of host bridges", fact))
            .collect(),
        fix: Some(Fix {
            what: "put the devices below one switch; no setting of the kernel changes this"
                .to_owned(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Hardware,
        }),
    }
}

/// Pairs in words: the first few by name, and how many of all.
fn named(fabric: &Fabric, pairs: &Sample, all: usize) -> String {
    let name = |id: FunctionId| &fabric.function(id).name;
    let first: Vec<String> = pairs
        .first
        .iter()
        .map(|&(provider, initiator)| {
            format!("{} to {}", name(initiator), memory_name(fabric.function(provider)))
        })
        .collect();
    let more = if pairs.count > NAMED { ", ..." } else { "" };
    format!("{}{more} ({} of {all} pairs of drive and memory)", first.join(", "), pairs.count)
}
