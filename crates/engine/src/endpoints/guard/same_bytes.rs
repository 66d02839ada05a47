//! Users of a target device's bytes under the name of a loop device: on top of it, below it, or
//! next to it.
//!
//! A loop device opens its backing file or device without a claim, and two over one file know
//! nothing of each other (`loop_configure`, `drivers/block/loop.c`). So the kernel's own refusal of
//! a claimed device is not enough.

use std::ops::Range;

use peerlane_results::Refusal;

use super::backing::{LoopInUse, ResolvedEnd, loops_in_use};
use super::file_in_use::shown_by;
use super::in_use::{block_device, uses_of_disk};
use super::refuse;
use crate::endpoints::Endpoint;
use crate::io::system::System;

/// Refuses a target device that a loop device shows, or whose bytes another loop device has in use.
pub(super) fn check_target(system: &System, target: &Endpoint) -> Vec<Refusal> {
    let Some(device) = block_device(target) else { return Vec::new() };
    let disk = device.partition.as_ref().map_or(&device.name, |part| &part.disk);
    let path = &target.facts.path;
    let judge = |one: LoopInUse| {
        if one.lower.iter().any(|lower| system.is_same_disk(lower, disk)) {
            return Some(shown_by(system, path, &one.name));
        }
        let (uses, end) = uses_of_disk(system, &one.name)?;
        let reason = format!("{path} shows the same bytes as /dev/{}, {uses}", one.name);
        Some(refuse(reason, Some(end)))
    };
    other_loops(system, target).into_iter().filter_map(judge).collect()
}

/// Loop devices that show bytes of a target device and are not below it.
pub(super) fn other_loops(system: &System, target: &Endpoint) -> Vec<LoopInUse> {
    let Some(device) = block_device(target) else { return Vec::new() };
    let Some(ResolvedEnd { owner: Some(owner), start, .. }) =
        ResolvedEnd::from_endpoint(system, target)
    else {
        return Vec::new();
    };
    let range = start..start.saturating_add(device.size.0);
    let ground = system.ground(&device.name);
    let is_other = |one: &LoopInUse| {
        !ground.contains(&one.name) && one.owner == owner && overlap(&one.range, &range)
    };
    loops_in_use(system).into_iter().filter(is_other).collect()
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
