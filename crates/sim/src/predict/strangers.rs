//! Parameters of a file that nothing of a machine or workload has a use for: most likely a name misspelt.
//!
//! Leaves out whether a number makes sense. The one thing to know: names of devices have dots in them, too.

use std::collections::BTreeSet;

use peerlane_fabric::Fabric;
use peerlane_results::Workload;

use super::links::is_of_link;
use super::setting::parameters;
use crate::parameters::Parameters;

/// What a file can say of a device.
const OF_A_DEVICE: &[&str] = &[
    "read.rate",
    "read.commands",
    "read.sustained",
    "write.rate",
    "write.commands",
    "write.sustained",
    "write.cache",
    "mixed",
    "random-read.commands",
    "random-write.commands",
    "turns",
];
/// Tables: what follows is a size.
const TIMES: &[&str] = &["read.time-", "write.time-"];

/// The names of parameters that change nothing: neither built in, nor of a device that machine or workload
/// name.
pub fn strangers<'a>(given: &'a Parameters, fabric: &Fabric, workload: &Workload) -> Vec<&'a str> {
    let built_in = parameters(None).unwrap_or_default();
    let flows = workload.cases.iter().flat_map(|case| &case.flows);
    let ends = flows.flat_map(|flow| [flow.source.as_str(), flow.target.as_str()]);
    let functions = fabric.functions.iter().map(|function| function.name.as_str());
    let devices: BTreeSet<&str> = functions.chain(ends).chain(["drive"]).collect();
    let names = given.iter().map(|parameter| parameter.name.as_str());
    let is_known = |name: &str| {
        built_in.position(name).is_ok() || is_of_one(name, &devices) || is_of_link(name, fabric)
    };
    names.filter(|name| !is_known(name)).collect()
}

fn is_of_one(name: &str, devices: &BTreeSet<&str>) -> bool {
    name.match_indices('.').any(|(dot, _)| {
        let (device, what) = (&name[..dot], &name[dot + 1..]);
        let is_size = |rest: &str| rest.parse::<f64>().is_ok();
        let is_time = TIMES.iter().any(|start| what.strip_prefix(start).is_some_and(is_size));
        devices.contains(device) && (is_time || OF_A_DEVICE.contains(&what))
    })
}
