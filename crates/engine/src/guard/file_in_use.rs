//! Users of a regular file as if it were a disk: loop devices and swap.
//!
//! A copy gives the file's name to another file, and who uses the old one goes on with bytes that no
//! name leads to, lost when the last user lets go.

use std::fs;
use std::os::unix::fs::MetadataExt;

use peerlane_results::Refusal;
use rustix::fs::{major, minor};

use super::backing::{ByteOwner, loops_in_use};
use super::in_use::uses_of_disk;
use super::refuse;
use crate::endpoint::{Endpoint, PathNode};
use crate::system::System;

/// Refuses to replace a file that is in use as a disk.
pub(super) fn check_target(system: &System, target: &Endpoint) -> Vec<Refusal> {
    let node = target.live.as_ref().map(|live| live.node);
    let Some(PathNode::File { device, inode }) = node else { return Vec::new() };
    let path = &target.facts.path;
    let swap = system.swaps().into_iter().find(|swap| {
        fs::metadata(swap).is_ok_and(|file| {
            (major(file.dev()), minor(file.dev())) == device && file.ino() == inode
        })
    });
    let swap = swap.map(|swap| {
        refuse(format!("{path} is swap space in use"), Some(format!("swapoff {swap}")))
    });
    let file = ByteOwner::File { device, inode };
    let loops = loops_in_use(system).into_iter();
    let direct = loops.filter(|one| one.lower.is_empty() && one.owner == file);
    direct.map(|one| shown_by(system, path, &one.name)).chain(swap).collect()
}

/// Refuses a file or device that a loop device shows.
pub(super) fn shown_by(system: &System, path: &str, name: &str) -> Refusal {
    let detach = format!("losetup --detach /dev/{name}");
    let (uses, ways) = match uses_of_disk(system, name) {
        Some((uses, ways)) => (format!(", {uses}"), format!("{ways} && {detach}")),
        None => (String::new(), detach),
    };
    refuse(format!("{path} is what the loop device /dev/{name} shows{uses}"), Some(ways))
}
