//! Properties and settings of a machine that change figures.

use std::collections::BTreeSet;

use peerlane_engine::links_between;
use peerlane_fabric::{Fabric, FunctionId};
use peerlane_results::Warning;
use peerlane_results::warnings_of_machine;

use super::FlowPath;
use peerlane_evidence::Root;

/// Governors that hold a frequency (`Documentation/admin-guide/pm/cpufreq.rst`).
const STEADY: [&str; 2] = ["performance", "userspace"];

pub(super) fn warnings(fabric: &Fabric, root: &Root, ways: &[FlowPath]) -> Vec<Warning> {
    let mut warnings = warnings_of_machine(fabric);
    warnings.extend(governor(root));
    let crossed: BTreeSet<FunctionId> = ways.iter().flat_map(|way| way.crossed(fabric)).collect();
    warnings.extend(crossed.iter().filter_map(|&id| trained_low(fabric, id)));
    warnings.extend(redirecting(fabric, ways));
    warnings.extend(remote(fabric, ways));
    warnings.extend(far_from_processor(fabric, root, ways));
    warnings
}

impl FlowPath {
    /// Its ends that are devices.
    pub(super) fn ends(&self) -> impl Iterator<Item = FunctionId> + use<> {
        self.source.into_iter().chain(self.target)
    }

    /// Functions whose link upwards it crosses.
    pub(super) fn crossed(&self, fabric: &Fabric) -> Vec<FunctionId> {
        self.ends().flat_map(|end| links_between(fabric, end, self.memory)).collect()
    }
}

fn governor(root: &Root) -> Option<Warning> {
    let governor = root.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    let is_word =
        (1..32).contains(&governor.len()) && governor.bytes().all(|one| one.is_ascii_graphic());
    (is_word && !STEADY.contains(&governor.as_str()))
        .then_some(Warning::FrequencyScaling { governor })
}

fn trained_low(fabric: &Fabric, id: FunctionId) -> Option<Warning> {
    if !fabric.is_downgraded(id) || fabric.may_save_power(id) {
        return None;
    }
    let function = fabric.function(id);
    Some(Warning::LinkTrainedLow {
        device: function.name.clone(),
        current: function.link?.current?.to_string(),
        most: fabric.trainable(id)?.to_string(),
    })
}

/// Ports between devices that redirect their traffic up to the root complex.
fn redirecting(fabric: &Fabric, ways: &[FlowPath]) -> Vec<Warning> {
    let between = ways.iter().filter(|way| way.memory.is_some());
    let ports: BTreeSet<FunctionId> = between
        .flat_map(|way| way.crossed(fabric))
        .flat_map(|id| fabric.upward(id).skip(1).take(1).chain([id]))
        .collect();
    let redirects = |id: &FunctionId| fabric.function(*id).acs.redirects() == Some(true);
    let ports = ports.into_iter().filter(redirects);
    ports.map(|id| Warning::AcsOnPath { port: fabric.function(id).name.clone() }).collect()
}

/// Ends of a flow, and the memory between them, on different memory nodes.
fn remote(fabric: &Fabric, ways: &[FlowPath]) -> Vec<Warning> {
    let mut found = Vec::new();
    for way in ways {
        let devices: Vec<_> = way.ends().chain(way.memory).map(|id| fabric.function(id)).collect();
        let Some(first) = devices.iter().find(|one| one.numa_node.is_some()) else { continue };
        for other in &devices {
            let (Some(node), Some(used_from)) = (other.numa_node, first.numa_node) else {
                continue;
            };
            if node != used_from {
                let (device, by) = (other.name.clone(), first.name.clone());
                found.push(Warning::RemoteNumaNode { device, node, used_from, by });
            }
        }
    }
    found.dedup();
    found
}

/// Ends of flows through host memory on another node than the processor that runs this.
fn far_from_processor(fabric: &Fabric, root: &Root, ways: &[FlowPath]) -> Vec<Warning> {
    let Some(used_from) = own_node(root) else { return Vec::new() };
    let by_host = ways.iter().filter(|way| way.memory.is_none());
    let ends: BTreeSet<FunctionId> = by_host.flat_map(FlowPath::ends).collect();
    let far = ends.into_iter().filter_map(|id| {
        let function = fabric.function(id);
        let node = function.numa_node.filter(|&node| node != used_from)?;
        let by = "the processor that ran the program".to_owned();
        Some(Warning::RemoteNumaNode { device: function.name.clone(), node, used_from, by })
    });
    far.collect()
}

/// The memory node of the processor that this process ran on last: field 39 of its `stat`
/// (`Documentation/filesystems/proc.rst`), behind a name that may hold anything.
fn own_node(root: &Root) -> Option<u32> {
    let stat = root.text("proc/self/stat").ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    let processor: u32 = after.split_ascii_whitespace().nth(36)?.parse().ok()?;
    let names = root.names(&format!("sys/devices/system/cpu/cpu{processor}")).ok()?;
    names.iter().find_map(|name| name.strip_prefix("node")?.parse().ok())
}
