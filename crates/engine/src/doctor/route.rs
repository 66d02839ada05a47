//! The kernel's decision about every memory and every drive, and what of it can be changed.
//!
//! Pairs that fail for the same reason are one finding: a machine with ten drives below one switch has
//! ninety pairs and one cause.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_fabric::{Fabric, Fact, FunctionId, MapType, Reach, reach};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{Chart, at, kernel_parameters, lenders, saw};

/// Pairs named in a finding before it only counts.
const NAMED: usize = 4;

const ACS_WEAKENS: &str = "the devices below these ports are no longer isolated from each other: their \
     IOMMU groups become one, and they cannot be given to different virtual machines";

/// Examines every memory with every one of `initiators`.
pub(super) fn examine(fabric: &Fabric, initiators: &[FunctionId], chart: &mut Chart) {
    let mut pairs = Pairs::default();
    for provider in lenders(fabric) {
        for &initiator in initiators.iter().filter(|&&initiator| initiator != provider) {
            pairs.add(fabric, provider, initiator);
        }
    }
    pairs.report(fabric, chart);
}

/// A memory and who would reach it.
type Pair = (FunctionId, FunctionId);

#[derive(Default)]
struct Pairs {
    all: usize,
    permitted: usize,
    /// Sent up to the host bridge, since these functions redirect: one setting for all of them.
    redirected: BTreeMap<Upward, (BTreeSet<FunctionId>, Vec<Pair>)>,
    /// Refused since the host bridge of the root bus above does not forward.
    apart: (BTreeSet<String>, Vec<Pair>),
    unknown: Vec<Pair>,
}

/// What becomes of traffic that a port redirects; the worse first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Upward {
    Refused,
    ThroughHostBridge,
}

impl Pairs {
    fn add(&mut self, fabric: &Fabric, provider: FunctionId, initiator: FunctionId) {
        let reach = reach::decide(fabric, provider, initiator);
        let pair = (provider, initiator);
        self.all += 1;
        self.permitted += usize::from(reach.is_permitted());
        let redirecting = redirecting(fabric, &reach);
        let upward = match reach.map {
            MapType::BusAddress => return,
            MapType::Unknown => return self.unknown.push(pair),
            MapType::NotSupported => Upward::Refused,
            MapType::ThroughHostBridge => Upward::ThroughHostBridge,
        };
        if !redirecting.is_empty() {
            let (functions, pairs) = self.redirected.entry(upward).or_default();
            functions.extend(redirecting);
            pairs.push(pair);
        } else if upward == Upward::Refused {
            self.apart.0.extend(bridge_facts(&reach));
            self.apart.1.push(pair);
        }
    }

    fn report(self, fabric: &Fabric, chart: &mut Chart) {
        let refused_cost = if self.permitted == 0 && self.unknown.is_empty() {
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
        let (facts, apart) = self.apart;
        if !apart.is_empty() {
            chart.findings.push(not_listed(fabric, facts, &apart, self.all, refused_cost));
        }
        if !self.unknown.is_empty() {
            chart.unknown(
                format!("whether the kernel permits {}", named(fabric, &self.unknown, self.all)),
                "the ACS bits in configuration space, which root may read: `sudo peerlane doctor`",
            );
        }
    }
}

/// The functions whose redirection decides; empty where the two ends meet only at the root anyway.
fn redirecting(fabric: &Fabric, reach: &Reach) -> BTreeSet<FunctionId> {
    let name = |fact: &Fact| match fact {
        Fact::AcsRedirect { function, .. } => fabric.find(function),
        _ => None,
    };
    reach.facts.iter().filter_map(name).collect()
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
    pairs: &[Pair],
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
            what: format!("{what}: `pci=disable_acs_redir=` takes their PCI addresses"),
            commands: Vec::new(),
            weakens: Some(ACS_WEAKENS.to_owned()),
            needs: Needs::Reboot,
        };
    };
    let parameter = format!("pci=disable_acs_redir={}", paths.join(";"));
    kernel_parameters(what, &parameter, Some(ACS_WEAKENS))
}

fn not_listed(
    fabric: &Fabric,
    facts: BTreeSet<String>,
    pairs: &[Pair],
    all: usize,
    cost: Cost,
) -> Finding {
    let bridges: BTreeSet<&str> = pairs
        .iter()
        .flat_map(|&(one, other)| [one, other])
        .map(|id| fabric.bridges[fabric.bridge_of(id).0].name.as_str())
        .collect();
    let bridges = bridges.into_iter().collect::<Vec<_>>().join(", ");
    Finding {
        kind: FindingKind::HostBridgeNotListed,
        cost,
        object: format!("host bridge {bridges}"),
        what: format!(
            "the devices meet only in the CPU's root complex, through which the kernel does not let \
             peer traffic pass: {}",
            named(fabric, pairs, all)
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
fn named(fabric: &Fabric, pairs: &[Pair], all: usize) -> String {
    let name = |id: FunctionId| &fabric.function(id).name;
    let first: Vec<String> = pairs
        .iter()
        .take(NAMED)
        .map(|&(provider, initiator)| format!("{} to cmb:{}", name(initiator), name(provider)))
        .collect();
    let more = if pairs.len() > NAMED { ", ..." } else { "" };
    format!("{}{more} ({} of {all} pairs of drive and memory)", first.join(", "), pairs.len())
}
