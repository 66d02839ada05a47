//! One namespace under several names: a drive that two controllers serve shows as `nvme0n1` and
//! `nvme3n1` if the kernel does not join the paths (`nvme_core.multipath=N`).
//!
//! Namespaces are compared by `wwid` (`drivers/nvme/host/sysfs.c`): an UUID, NGUID or EUI-64 that the
//! drive gives, which are unique in the world and which the kernel drops if two subsystems claim
//! one (`nvme_global_check_duplicate_ids`), or else a name that the kernel composes of vendor, serial,
//! model and namespace number. Two drives may have one serial, virtual ones above all, so a composed
//! name counts only with the same NQN of the subsystem: of two controllers with one NQN the kernel
//! takes the second only if the drive says that it has several (`nvme_validate_cntlid`,
//! `drivers/nvme/host/core.c`). An empty name, or one of zeros, tells nothing. Devices other than
//! NVMe have no siblings here.

use std::collections::BTreeSet;
use std::ops::Range;

use peerlane_fabric::BlockDevice;

use crate::io::journal::is_distinct;
use crate::io::system::System;

/// sysfs counts in these, whatever the device's block size.
const SECTOR: u64 = 512;

impl System {
    /// The other disks that show the same namespace as `disk`.
    pub(crate) fn siblings(&self, disk: &str) -> BTreeSet<String> {
        let Some(mine) = self.identity(disk) else { return BTreeSet::new() };
        let is_sibling = |other: &String| {
            other != disk && self.identity(other).is_some_and(|other| other == mine)
        };
        self.names("sys/class/block").into_iter().filter(is_sibling).collect()
    }

    /// True when two names of disks are names of the same bytes.
    pub(crate) fn is_same_disk(&self, one: &str, other: &str) -> bool {
        one == other || self.siblings(one).contains(other)
    }

    /// The one name that stands for `disk` and its siblings.
    pub(crate) fn first_name(&self, disk: &str) -> String {
        let first = self.siblings(disk).pop_first();
        first.filter(|first| first.as_str() < disk).unwrap_or_else(|| disk.to_owned())
    }

    /// The sibling disks of a device, and their partitions that share bytes with it.
    pub(crate) fn shared_with(&self, device: &BlockDevice) -> BTreeSet<String> {
        match &device.partition {
            Some(part) => {
                let end = part.start.0.saturating_add(device.size.0);
                self.shared_range(&part.disk, &(part.start.0..end))
            }
            None => self.shared_range(&device.name, &(0..u64::MAX)),
        }
    }

    /// As [`Self::shared_with`], of a disk or partition by name.
    pub(crate) fn shared_with_name(&self, name: &str) -> BTreeSet<String> {
        match self.disk_of(name) {
            Some(disk) => {
                let range = self.range_of(&disk, name).unwrap_or(0..u64::MAX);
                self.shared_range(&disk, &range)
            }
            None => self.shared_range(name, &(0..u64::MAX)),
        }
    }

    fn shared_range(&self, disk: &str, range: &Range<u64>) -> BTreeSet<String> {
        let mut shared = self.siblings(disk);
        for sibling in shared.clone() {
            // A partition that does not tell its place may be anywhere.
            shared.extend(self.parts_of(&sibling).into_iter().filter(|part| {
                self.range_of(&sibling, part)
                    .is_none_or(|other| other.start < range.end && range.start < other.end)
            }));
        }
        shared
    }

    /// The partitions of a disk, by name.
    pub(crate) fn parts_of(&self, disk: &str) -> BTreeSet<String> {
        let folder = format!("sys/class/block/{disk}");
        let is_part = |name: &String| self.line(&format!("{folder}/{name}/partition")).is_some();
        self.names(&folder).into_iter().filter(is_part).collect()
    }

    /// Returns the range of a partition in its disk, in bytes.
    fn range_of(&self, disk: &str, part: &str) -> Option<Range<u64>> {
        let sectors = |name: &str| -> Option<u64> {
            let count: u64 =
                self.line(&format!("sys/class/block/{disk}/{part}/{name}"))?.parse().ok()?;
            count.checked_mul(SECTOR)
        };
        let start = sectors("start")?;
        Some(start..start.saturating_add(sectors("size")?))
    }

    /// Returns the machine-wide identity of a disk's namespace; `None` if nothing tells.
    fn identity(&self, disk: &str) -> Option<(String, Option<String>)> {
        let at = |name: &str| self.line(&format!("sys/class/block/{disk}/{name}"));
        // One path of a disk whose paths the kernel has joined: nobody can open it.
        if at("hidden").is_some_and(|hidden| hidden == "1") {
            return None;
        }
        let wwid = at("wwid").filter(|wwid| is_distinct(wwid))?;
        if !wwid.starts_with("nvme.") {
            return Some((wwid, None));
        }
        let subsystem = at("device/subsysnqn").filter(|nqn| !nqn.is_empty())?;
        Some((wwid, Some(subsystem)))
    }
}
