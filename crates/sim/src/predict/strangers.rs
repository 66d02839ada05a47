//! Parameters that nothing of a machine has a use for: a name misspelt, or a number that the machine says better.
//!
//! Leaves out whether a number makes sense, and what a workload does with it. The one thing to know: a device has several
//! names, and each will do.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_fabric::{Fabric, Function, IommuMode, Kind};

use super::flows::largest_of;
use super::links::has_unknown_link;
use super::of_devices::{ANY, Names, is_of_drive, start_of};
use super::setting::parameters;
use crate::model::place;
use crate::parameters::Parameters;

/// The names of parameters that change nothing: neither built in, nor of a device of the machine.
pub fn strangers<'a>(given: &'a Parameters, fabric: &Fabric) -> Vec<&'a str> {
    let built_in = parameters(None).unwrap_or_default();
    let devices = Names::of(fabric);
    let names = given.iter().map(|parameter| parameter.name.as_str());
    let is_known = |name: &str| built_in.position(name).is_ok() || devices.own_name(name).is_some();
    names.filter(|name| !is_known(name)).collect()
}

/// The names of parameters that are not as they are built in, that the model knows, and that nothing of a machine uses,
/// each with the reason.
pub fn unused<'a>(given: &'a Parameters, fabric: &Fabric) -> Vec<(&'a str, &'static str)> {
    let built_in = parameters(None).unwrap_or_default();
    let as_built_in =
        |name: &str| built_in.position(name).ok().and_then(|position| built_in.at(position));
    let changed = given.iter().filter(|one| as_built_in(&one.name) != Some(one));
    let names = changed.map(|one| one.name.as_str());
    names.filter_map(|name| Some((name, why_unused(name, given, fabric)?))).collect()
}

/// Why nothing of a machine uses a parameter that the model knows, beside those that are given; `None` where something does.
pub fn why_unused(name: &str, given: &Parameters, fabric: &Fabric) -> Option<&'static str> {
    let (of, what) = name.split_once('.')?;
    let drives = || fabric.functions.iter().filter(|function| function.kind == Kind::Nvme);
    let has_ethernet = |kind| {
        fabric.functions.iter().any(|function| function.kind == kind && function.ethernet.is_some())
    };
    let (is_used, why) = match (of, what) {
        (ANY, "largest") => (
            drives().any(|drive| largest_of(drive).is_none()),
            "the machine's description says it of each drive",
        ),
        (ANY, what) if is_of_drive(what) => {
            let says = Said { given, names: Names::of(fabric) };
            (
                drives().any(|drive| !says.of(drive, what)),
                "each drive has a number of its own, in a file or in the machine's description",
            )
        }
        ("iommu", _) => {
            (fabric.iommu == IommuMode::Translating, "no IOMMU of the machine translates")
        }
        ("ethernet", "mtu" | "headers") => {
            (has_ethernet(Kind::Nic), "no network controller of the machine says its rate")
        }
        ("ethernet", _) => {
            (has_ethernet(Kind::UpstreamPort), "no Ethernet divides a switch of the machine")
        }
        ("pcie", "lanes" | "generation") => (
            has_unknown_link(fabric, given),
            "the machine's description says how fast each link is",
        ),
        ("socket-link", "rate") if has_two_sockets(fabric, |_| true) => (
            has_two_sockets(fabric, |is_stated| !is_stated),
            "the machine's description says it of each link between sockets",
        ),
        ("socket-link", _) => {
            (has_two_sockets(fabric, |_| true), "the machine has one memory node")
        }
        ("switch", "latency") => (
            fabric.functions.iter().any(|function| function.kind == Kind::UpstreamPort),
            "the machine has no switch",
        ),
        ("machine", "stated") => {
            (fabric.functions.iter().any(states_rate), "the machine's description states no rate")
        }
        _ => return None,
    };
    (!is_used).then_some(why)
}

/// Whether a machine has two memory nodes that are so: whether a host bridge of theirs states `socket_link`. Of a link
/// between two of them either may.
fn has_two_sockets(fabric: &Fabric, is_so: impl Fn(bool) -> bool) -> bool {
    let mut sockets: BTreeMap<_, bool> = BTreeMap::new();
    for bridge in &fabric.bridges {
        *sockets.entry(place(bridge)).or_default() |= bridge.socket_link.is_some();
    }
    let mut machines = BTreeSet::new();
    let mut so = sockets.into_iter().filter(|&(_, is_stated)| is_so(is_stated));
    so.any(|((machine, _), _)| !machines.insert(machine))
}

/// Whether the description of a machine states a rate of a device.
fn states_rate(function: &Function) -> bool {
    let memory = function.p2pmem.as_ref().map(|memory| memory.rates);
    [Some(function.rates), memory]
        .into_iter()
        .flatten()
        .any(|rates| rates.read.is_some() || rates.write.is_some())
}

/// What is said of single drives.
struct Said<'a> {
    given: &'a Parameters,
    names: Names<'a>,
}

impl Said<'_> {
    /// Whether a number of any drive is said of this one itself.
    fn of(&self, drive: &Function, what: &str) -> bool {
        // Of a drive with one time of its own, no times of any drive are used.
        let start = match what.split_once("time-") {
            Some((side, _)) => format!("{}.{side}time-", start_of(drive)),
            None => format!("{}.{what}", start_of(drive)),
        };
        let is_table = start.ends_with('-');
        let is_it = |name: &str| if is_table { name.starts_with(&start) } else { name == start };
        let mut own = self.given.iter().filter_map(|one| self.names.own_name(&one.name));
        let stated = match what {
            "read.rate" => drive.rates.read.is_some(),
            "write.rate" => drive.rates.write.is_some(),
            "mixed" => drive.mixed_per_mille.is_some() || drive.lab.throttle.is_some(),
            _ => false,
        };
        stated || own.any(|name| is_it(&name))
    }
}
