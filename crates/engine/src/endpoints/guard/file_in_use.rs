//! Loop devices that show a regular file.
//!
//! A copy gives the file's name to another file, and who uses the old one goes on with bytes that no
//! name leads to, lost when the last user lets go.

use peerlane_results::Refusal;

use super::backing::{ByteOwner, LoopInUse, loops_in_use};
use super::in_use::uses_of_disk;
use super::refuse;
use crate::endpoints::{Endpoint, PathNode};
use crate::io::system::System;

/// Refuses to replace a file that is in use as a disk.
pub(super) fn check_target(system: &System, target: &Endpoint) -> Vec<Refusal> {
    let node = target.live.as_ref().map(|live| live.node);
    let Some(PathNode::File { device, inode }) = node else { return Vec::new() };
    let loops = loops_over(system, device, inode).into_iter();
    loops.map(|one| shown_by(system, &target.facts.path, &one.name)).collect()
}

/// Loop devices that show this file, without another loop device between.
pub(super) fn loops_over(system: &System, device: (u32, u32), inode: u64) -> Vec<LoopInUse> {
    let file = ByteOwner::File { device, inode };
    let all = loops_in_use(system).into_iter();
    all.filter(|one| one.lower.is_empty() && one.owner == file).collect()
}

/// Refuses a file or device that a loop device shows.
pub(super) fn shown_by(system: &System, path: &str, name: &str) -> Refusal {
    let detach = format!("losetup --detach /dev/{name}");
    let (uses, end) = match uses_of_disk(system, name) {
        Some((uses, end)) => (format!(", {uses}"), format!("{end} && {detach}")),
        None => (String::new(), detach),
    };
    refuse(format!("{path} is what the loop device /dev/{name} shows{uses}"), Some(end))
}
