//! Who uses the bytes of a target device under the name of a loop device: on top of it, below it, or beside it.
//!
//! A loop device opens what it shows without a claim, and two over one file know nothing of each other
//! (`loop_configure`, `drivers/block/loop.c`), so the kernel's own refusal of a claimed device is not enough.

use std::ops::Range;

use peerlane_results::Refusal;

use super::backing::{Seen, loops_in_use};
use super::in_use::uses_of_disk;
use super::{System, refuse};
use crate::endpoint::{Endpoint, Node};

/// Refuses a target device that a loop device shows, or whose bytes another loop device has in use.
pub(super) fn check_target(system: &System, target: &Endpoint) -> Vec<Refusal> {
    let live = target.live.as_ref().filter(|live| live.node == Node::Block);
    let Some(device) = live.and_then(|live| live.device.as_ref()) else { return Vec::new() };
    let Some(Seen { owner: Some(owner), start, .. }) = Seen::of(system, target) else {
        return Vec::new();
    };
    let range = start..start.saturating_add(device.size.0);
    let disk = device.partition.as_ref().map_or(&device.name, |part| &part.disk);
    let ground = system.ground(&device.name);
    let path = &target.facts.path;
    let others = loops_in_use(system).into_iter().filter(|one| {
        !ground.contains(&one.name) && one.owner == owner && overlap(&one.range, &range)
    });
    let judge = |name: String, lower: &[String]| {
        let is_above = lower.iter().any(|lower| system.is_same_disk(lower, disk));
        let uses = uses_of_disk(system, &name);
        let detach = format!("losetup --detach /dev/{name}");
        match uses {
            Some((uses, ways)) if is_above => Some(refuse(
                format!("{path} is what the loop device /dev/{name} shows, {uses}"),
                Some(format!("{ways} && {detach}")),
            )),
            None if is_above => Some(refuse(
                format!("{path} is what the loop device /dev/{name} shows"),
                Some(detach),
            )),
            Some((uses, ways)) => Some(refuse(
                format!("{path} shows the same bytes as /dev/{name}, {uses}"),
                Some(ways),
            )),
            None => None,
        }
    };
    others.filter_map(|one| judge(one.name, &one.lower)).collect()
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
