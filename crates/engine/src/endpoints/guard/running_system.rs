//! Targets with the running system or active swap on them, under whatever name.
//!
//! Such a target is refused without a hint: no command that frees it is good advice.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use peerlane_results::Refusal;
use rustix::fs::{major, minor};

use super::file_in_use::loops_over;
use super::in_use::{Relatives, behind, block_device};
use super::{refuse, same_bytes};
use crate::endpoints::{Endpoint, PathNode};
use crate::io::system::System;

/// Mount points of a running system (Filesystem Hierarchy Standard 3.0, and `/efi` of the Boot Loader
/// Specification); a container's own files are mounted below `/etc`.
const SYSTEM_FOLDERS: [&str; 14] = [
    "/bin", "/boot", "/efi", "/etc", "/gnu", "/home", "/lib", "/lib64", "/nix", "/root", "/sbin",
    "/sysroot", "/usr", "/var",
];

/// True for a file system that the running system needs.
pub(super) fn is_system_mount(point: &Path) -> bool {
    let is_whole = ["/", "/run", "/tmp"].iter().any(|folder| point == Path::new(folder));
    is_whole || SYSTEM_FOLDERS.iter().any(|folder| point.starts_with(folder))
}

/// Refuses a target that carries the running system or active swap.
pub(super) fn check_target(system: &System, target: &Endpoint) -> Option<Refusal> {
    let path = &target.facts.path;
    let is_swap_file = |swap: &String| {
        let node = target.live.as_ref().map(|live| live.node);
        fs::metadata(swap).is_ok_and(|file| {
            let (device, inode) = ((major(file.dev()), minor(file.dev())), file.ino());
            node == Some(PathNode::File { device, inode })
        })
    };
    if system.swaps().iter().any(is_swap_file) {
        return Some(refuse(format!("{path} is swap space in use"), None));
    }
    let users = users(system, target);
    users.iter().find_map(|relatives| {
        let mounts = relatives.mounts(system);
        let points = mounts.iter().filter(|mount| is_system_mount(&mount.point));
        let points: Vec<String> = points.map(|mount| mount.point.display().to_string()).collect();
        let swaps = relatives.swaps(system, &mounts);
        refused(&format!("{path}{}", relatives.also()), &points, &swaps)
    })
}

/// Returns the refusal of a device with these system mounts and swap spaces on it.
pub(super) fn refused(device: &str, points: &[String], swaps: &[String]) -> Option<Refusal> {
    let reason = match (points, swaps) {
        ([], []) => return None,
        ([], swaps) => format!("{device} holds swap space in use: {}", swaps.join(", ")),
        (points, swaps) => {
            let swaps = swaps.iter().map(|swap| format!("swap space {swap}"));
            let all: Vec<String> = points.iter().cloned().chain(swaps).collect();
            format!("{device} carries the running system: {}", all.join(", "))
        }
    };
    Some(refuse(reason, None))
}

/// The target and the disks and loop devices that show its bytes.
fn users(system: &System, target: &Endpoint) -> Vec<Relatives> {
    let of_disk = |name: &str| Relatives::of_disk(system, name);
    match target.live.as_ref().map(|live| live.node) {
        Some(PathNode::File { device, inode }) => {
            loops_over(system, device, inode).iter().map(|one| of_disk(&one.name)).collect()
        }
        Some(PathNode::Block) => {
            let own = block_device(target).map(|device| Relatives::from_device(system, device));
            let behind = behind(system, target).map(|disk| of_disk(&disk));
            let loops = same_bytes::other_loops(system, target);
            let loops = loops.iter().map(|one| of_disk(&one.name));
            own.into_iter().chain(behind).chain(loops).collect()
        }
        Some(PathNode::NewFile) | None => Vec::new(),
    }
}
