//! Users of a device that can be ended: mounts, and devices stacked on it.
//!
//! `running_system` checks the running system and swap; no hint names a command for those.

use std::collections::BTreeSet;
use std::path::Path;

use peerlane_fabric::BlockDevice;
use peerlane_results::{Refusal, Warning};

use super::backing::{ByteOwner, ResolvedEnd};
use super::refuse;
use super::running_system::is_system_mount;
use crate::endpoints::{Endpoint, PathNode};
use crate::io::system::{MountinfoLine, System};

/// Refuses a target device that anyone uses or that takes no writes.
pub(super) fn check_target(system: &System, target: &Endpoint) -> Vec<Refusal> {
    let Some(device) = block_device(target) else { return Vec::new() };
    let relatives = Relatives::from_device(system, device);
    let path = &target.facts.path;
    let also = relatives.also();
    let mut refusals = Vec::new();
    if device.read_only {
        let node = target.live.as_ref().map_or(Path::new(path), |live| live.guarded_path());
        let hint = format!("blockdev --setrw {}", node.display());
        refusals.push(refuse(format!("{path} takes no writes"), Some(hint)));
    }
    let mounts = relatives.mounts(system);
    if !mounts.is_empty() {
        let points: Vec<String> =
            mounts.iter().map(|mount| mount.point.display().to_string()).collect();
        refusals.push(refuse(
            format!("{path}{also} is mounted at {}", points.join(", ")),
            Some(format!("umount {}", points.join(" "))),
        ));
    }
    if mounts.is_empty() && !relatives.names.is_disjoint(&system.btrfs_members()) {
        // One of several devices of a btrfs, mounted by the name of another.
        let reason = format!("{path}{also} is part of a mounted btrfs file system");
        refusals.push(refuse(reason, Some("btrfs filesystem show".to_owned())));
    }
    if let Some(disk) = behind(system, target) {
        let uses = uses_of_disk(system, &disk);
        refusals.extend(
            uses.map(|(uses, end)| refuse(format!("{path} shows {disk}, {uses}"), Some(end))),
        );
    }
    if !relatives.stacked.is_empty() {
        let names: Vec<&str> = relatives.stacked.iter().map(String::as_str).collect();
        refusals.push(refuse(
            format!("{path}{also} lies below {}", names.join(", ")),
            relatives.stacked.iter().next().map(|name| how_to_release(name)),
        ));
    }
    refusals
}

/// The disk whose bytes a target shows under another name, by a loop device or an export of this machine.
pub(super) fn behind(system: &System, target: &Endpoint) -> Option<String> {
    let seen = ResolvedEnd::from_endpoint(system, target)?;
    let Some(ByteOwner::Disk(disk)) = seen.owner else { return None };
    let own = block_device(target)?;
    let own = own.partition.as_ref().map_or(&own.name, |part| &part.disk);
    (!system.is_same_disk(own, &disk)).then_some(disk)
}

/// Describes the uses of a disk or a part of it, and how each ends; `None` if there is none.
pub(super) fn uses_of_disk(system: &System, disk: &str) -> Option<(String, String)> {
    let relatives = Relatives::of_disk(system, disk);
    let mounts = relatives.mounts(system);
    let points: Vec<String> =
        mounts.iter().map(|mount| mount.point.display().to_string()).collect();
    let (mut uses, mut commands) = (Vec::new(), Vec::new());
    if !points.is_empty() {
        uses.push(format!("which is mounted at {}", points.join(", ")));
        commands.push(format!("umount {}", points.join(" ")));
    }
    if !relatives.stacked.is_empty() {
        let names: Vec<&str> = relatives.stacked.iter().map(String::as_str).collect();
        uses.push(format!("which lies below {}", names.join(", ")));
        commands.extend(relatives.stacked.iter().next().map(|name| how_to_release(name)));
    }
    (!uses.is_empty()).then(|| (uses.join(", "), commands.join(" && ")))
}

/// Warns of a source that may change while it is read.
pub(super) fn check_source(system: &System, source: &Endpoint) -> Vec<Warning> {
    let Some(device) = block_device(source) else { return Vec::new() };
    let relatives = Relatives::from_device(system, device);
    let mounts = relatives.mounts(system);
    let mounted =
        mounts.iter().filter(|mount| !mount.is_read_only).map(|mount| Warning::SourceInUse {
            by: format!("a file system mounted at {}", mount.point.display()),
            carries_system: is_system_mount(&mount.point),
        });
    let swaps = relatives.swaps(system, &mounts).into_iter().map(|swap| Warning::SourceInUse {
        by: format!("the swap space {swap}"),
        carries_system: true,
    });
    mounted.chain(swaps).collect()
}

pub(super) fn block_device(end: &Endpoint) -> Option<&BlockDevice> {
    let live = end.live.as_ref().filter(|live| live.node == PathNode::Block)?;
    live.device.as_ref()
}

/// A device, its disk, its partitions, the same by way of another controller, and the devices
/// stacked on any of them.
pub(super) struct Relatives {
    /// Other disks that are the same namespace.
    siblings: BTreeSet<String>,
    names: BTreeSet<String>,
    /// Names from `names` that are stacked on the others.
    pub(super) stacked: BTreeSet<String>,
}

impl Relatives {
    pub(super) fn from_device(system: &System, device: &BlockDevice) -> Self {
        let own: BTreeSet<String> = std::iter::once(device.name.clone())
            .chain(device.partition.iter().map(|partition| partition.disk.clone()))
            .chain(device.partitions.iter().map(|partition| partition.name.clone()))
            .chain(system.shared_with(device))
            .collect();
        let disk = device.partition.as_ref().map_or(&device.name, |partition| &partition.disk);
        let siblings = system.siblings(disk);
        Self::of_all(system, &own, siblings)
    }

    /// Returns the relatives of a disk that has no siblings, by its name.
    pub(super) fn of_disk(system: &System, disk: &str) -> Self {
        let own = system.parts_of(disk).into_iter().chain([disk.to_owned()]).collect();
        Self::of_all(system, &own, BTreeSet::new())
    }

    fn of_all(system: &System, own: &BTreeSet<String>, siblings: BTreeSet<String>) -> Self {
        let names: BTreeSet<String> = own.iter().flat_map(|name| system.up(name)).collect();
        let stacked = names.difference(own).cloned().collect();
        Self { siblings, names, stacked }
    }

    /// Names the siblings, as an addition to a device's name: a finding may be about one of them.
    pub(super) fn also(&self) -> String {
        if self.siblings.is_empty() {
            return String::new();
        }
        let names: Vec<&str> = self.siblings.iter().map(String::as_str).collect();
        format!(" (on the same namespace as {})", names.join(", "))
    }

    pub(super) fn mounts(&self, system: &System) -> Vec<MountinfoLine> {
        let numbers: BTreeSet<_> =
            self.names.iter().filter_map(|name| system.number(name)).collect();
        let is_ours = |mount: &MountinfoLine| {
            numbers.contains(&mount.device)
                || system.number_of_source(mount).is_some_and(|number| numbers.contains(&number))
        };
        system.mounts().into_iter().filter(is_ours).collect()
    }

    /// Swap spaces on the device itself, and swap files on these mounts of it.
    pub(super) fn swaps(&self, system: &System, mounts: &[MountinfoLine]) -> Vec<String> {
        let is_ours = |swap: &String| match swap.strip_prefix("/dev/") {
            Some(name) => self.names.contains(name),
            None => mounts.iter().any(|mount| Path::new(swap).starts_with(&mount.point)),
        };
        system.swaps().into_iter().filter(is_ours).collect()
    }
}

/// A command that takes a stacked device away.
pub(super) fn how_to_release(name: &str) -> String {
    match name {
        _ if name.starts_with("md") => format!("mdadm --stop /dev/{name}"),
        _ if name.starts_with("dm-") => format!("dmsetup remove /dev/{name}"),
        _ => format!("ls /sys/class/block/{name}"),
    }
}
