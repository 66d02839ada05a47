//! Ports that redirect peer traffic up to the root complex, for every use.
//!
//! Pairs that fail for the same reason are one finding: a machine with ten drives below one switch has
//! ninety pairs and one cause.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_fabric::assume::{
    AcsParameter, AcsParameterError, Honoured, acs_parameter, acs_setpci,
};
use peerlane_fabric::{Acs, Fabric, FunctionId, Kernel};
use peerlane_reach::{JudgedPairs, MapType, RouteState, UseLeg};
use peerlane_results::{Cost, Evidence, Finding, FindingKind, Fix, Needs};

use super::{BearsOn, Examination, abbreviated, at, counted, finding, fix, kernel_parameter, saw};

/// Ports named in a finding before it only counts.
const MAX_PORTS_NAMED: usize = 4;

const DISABLE: &str = "Disable ACS redirect on these ports";
/// `pci_p2pdma_map_type` in drivers/pci/p2pdma.c keeps the answer with the memory.
const CACHED: &str = "; `setpci` alone changes nothing for pairs in use, since the kernel keeps its decision \
     until the driver of the memory is bound again";
const WEAKENS: &str = "the devices below these ports are no longer isolated from each other: their \
     IOMMU groups become one, and they cannot be given to different virtual machines";

/// Pairs whose packets are redirected, put together.
#[derive(Default)]
struct Redirected {
    ports: BTreeSet<FunctionId>,
    counted: BTreeMap<peerlane_reach::Use, usize>,
    loses_route: bool,
    examples: Vec<(FunctionId, FunctionId)>,
}

pub(super) fn examine(on: &mut Examination<'_>) {
    let mut redirected = Redirected::default();
    let mut open = Vec::new();
    for pairs in on.judged.iter().filter(|pairs| pairs.state != RouteState::Impossible) {
        if pairs.legs.iter().any(|leg| !leg.redirecting.is_empty()) {
            redirected.add(pairs);
        } else if pairs.legs.iter().any(|leg| leg.kernel.map == MapType::Unknown) {
            open.push(pairs);
        }
    }
    let count: usize = open.iter().map(|pairs| pairs.group.count).sum();
    let unknown = open.first().map(|first| {
        let example = example(on.fabric, first.group.example());
        let needs = first.legs.iter().flat_map(|leg| leg.kernel.commands()).next();
        (
            format!("whether the kernel permits {example} and other pairs ({count} in all)"),
            format!(
                "`{}`, and `sudo peerlane doctor` for the ACS bits",
                needs.unwrap_or("sudo lspci -Dvvvnn")
            ),
        )
    });
    if let Some((what, needs)) = unknown {
        on.unknown(what, needs);
    }
    if !redirected.ports.is_empty() {
        let found = redirected.finding(on.fabric);
        on.add(found, BearsOn::Counted(redirected.counted));
    }
}

impl Redirected {
    fn add(&mut self, pairs: &JudgedPairs) {
        let is_redirected = |leg: &&UseLeg| !leg.redirecting.is_empty();
        let legs = pairs.legs.iter().filter(is_redirected);
        self.ports.extend(legs.flat_map(|leg| &leg.redirecting));
        *self.counted.entry(pairs.of_use).or_insert(0) += pairs.group.count;
        let is_refused = pairs.legs.iter().any(|leg| leg.kernel.map == MapType::NotSupported);
        self.loses_route |= is_refused && pairs.state == RouteState::Host;
        if self.examples.is_empty() {
            self.examples.push(pairs.group.example());
        }
    }

    fn finding(&self, fabric: &Fabric) -> Finding {
        let consequence = if self.loses_route {
            "to the CPU, where the kernel refuses it"
        } else {
            "through the CPU"
        };
        let example = self.examples.first().map(|&pair| example(fabric, pair)).unwrap_or_default();
        let pairs = counted(self.counted.values().sum(), "pair");
        let ports = counted(self.ports.len(), "port");
        let what =
            format!("ACS at {ports} redirects P2P traffic {consequence} ({pairs}): e.g. {example}");
        let cost = if self.loses_route { Cost::Routes } else { Cost::Speed };
        Finding {
            evidence: self.ports.iter().map(|&id| register(fabric, id)).collect(),
            fix: Some(redirection_fix(fabric, &self.ports)),
            ..finding(FindingKind::AcsRedirect, cost, names(fabric, &self.ports), what)
        }
    }
}

fn example(fabric: &Fabric, (provider, initiator): (FunctionId, FunctionId)) -> String {
    format!("{} -> {}", fabric.device_word(initiator), fabric.device_word(provider))
}

fn names(fabric: &Fabric, ports: &BTreeSet<FunctionId>) -> String {
    let all: Vec<String> = ports.iter().map(|&id| fabric.function(id).name.clone()).collect();
    let names = abbreviated(&all, MAX_PORTS_NAMED);
    if all.len() > MAX_PORTS_NAMED { format!("{} ports: {names}", all.len()) } else { names }
}

fn register(fabric: &Fabric, id: FunctionId) -> Evidence {
    let function = fabric.function(id);
    let control = match function.acs {
        Acs::Present { control } => format!("{control:#06x}"),
        _ => "unknown".to_owned(),
    };
    saw(format!("{}/config", at(function)), format!("ACS control register {control}"))
}

/// The parameter of this kernel; commands that change the ports at once if it honours none.
fn redirection_fix(fabric: &Fabric, ports: &BTreeSet<FunctionId>) -> Fix {
    let weakens = Some(WEAKENS.to_owned());
    match parameter(fabric, ports) {
        Ok((parameter, doubt)) => {
            let mut fix = kernel_parameter(fabric, DISABLE, &parameter, Some(WEAKENS));
            if let Some(doubt) = doubt {
                fix.what += &format!(" (it is not certain that this kernel honours it: {doubt})");
            }
            fix.what += CACHED;
            fix
        }
        Err(reason) => match acs_setpci(fabric, ports) {
            Ok(commands) => {
                let what = format!(
                    "{DISABLE} by setpci, since {reason}; then bind the driver of the memory again, since \
                     the kernel keeps what it decided for a pair; a reset of the port undoes it"
                );
                let commands = commands.iter().map(|one| format!("sudo {one}")).collect();
                Fix { commands, weakens, ..fix(what, Needs::Rebind) }
            }
            Err(reason) => Fix { weakens, ..fix(format!("{DISABLE}: {reason}"), Needs::Reboot) },
        },
    }
}

/// The older parameter works from this release on, except in a few.
const OLDER: &str = "5.15.0";

/// The parameter, and the doubt whether this kernel honours it.
fn parameter(
    fabric: &Fabric,
    ports: &BTreeSet<FunctionId>,
) -> Result<(String, Option<String>), AcsParameterError> {
    let kernel = &fabric.kernel;
    match AcsParameter::DisableAcsRedir.honoured_by(kernel) {
        Honoured::NotKnown(doubt) if AcsParameter::newest_honoured(kernel).is_none() => {
            let older = Kernel { release: Some(OLDER.to_owned()), ..kernel.clone() };
            Ok((acs_parameter(&older, fabric, ports)?, Some(doubt)))
        }
        _ => Ok((acs_parameter(kernel, fabric, ports)?, None)),
    }
}
