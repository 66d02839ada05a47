//! Finds the file or device, with names of its own, behind a loop device or a local NVMe export.
//!
//! Files are told apart by device and inode, since a path is only one name of several. The kernel
//! names the backing file by path (`loop_attr_backing_file_show` in drivers/block/loop.c); a path
//! that leads nowhere any more, such as one that ends in ` (deleted)`, identifies nothing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};

use super::exported::Exported;
use crate::endpoints::{Endpoint, PathNode};
use crate::io::system::System;

/// Owner of an end's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ByteOwner {
    /// A file, by device number of its file system and inode.
    File { device: (u32, u32), inode: u64 },
    /// A disk, by name; of several names of one namespace, the first.
    Disk(String),
    /// Something behind a loop device that cannot be identified from here.
    Unknown,
}

/// An end of a copy, seen through loop devices and local exports.
#[derive(Debug)]
pub(super) struct ResolvedEnd {
    /// `None` for a file that is not there yet.
    pub(super) owner: Option<ByteOwner>,
    /// Offset of the end in its owner, in bytes.
    pub(super) start: u64,
    /// Owners behind the loop devices that the end is stacked on, itself left out.
    pub(super) below: Vec<ByteOwner>,
}

impl ResolvedEnd {
    pub(super) fn from_endpoint(system: &System, end: &Endpoint) -> Option<Self> {
        let live = end.live.as_ref()?;
        let own = live.device.as_ref();
        let (owner, start, disk) = match live.node {
            PathNode::NewFile => (None, 0, None),
            PathNode::File { device, inode } => (Some(ByteOwner::File { device, inode }), 0, None),
            PathNode::Block => {
                let device = own?;
                let (disk, first) = device
                    .partition
                    .as_ref()
                    .map_or((&device.name, 0), |part| (&part.disk, part.start.0));
                let (owner, start) = through(system, disk, first);
                (Some(owner), start, Some(disk))
            }
        };
        let below = own.map(|device| below(system, &device.name, disk)).unwrap_or_default();
        Some(Self { owner, start, below })
    }
}

/// A loop device that shows something, followed through loop devices and local exports below it.
#[derive(Debug)]
pub(super) struct LoopInUse {
    pub(super) name: String,
    pub(super) owner: ByteOwner,
    /// Bytes of its owner that it shows.
    pub(super) range: Range<u64>,
    /// Disks that it shows, the next one first.
    pub(super) lower: Vec<String>,
}

/// All loop devices that show something.
pub(super) fn loops_in_use(system: &System) -> Vec<LoopInUse> {
    let follow = |name: String| {
        loop_device(system, &name)?;
        let (owner, start) = through(system, &name, 0);
        let end = start.saturating_add(system.size(&name).unwrap_or(u64::MAX));
        let lower = |upper: &String| match shown(system, upper)?.0 {
            ByteOwner::Disk(lower) => Some(lower),
            ByteOwner::File { .. } | ByteOwner::Unknown => None,
        };
        let lower = std::iter::successors(lower(&name), lower).take(DEPTH).collect();
        Some(LoopInUse { name, owner, range: start..end, lower })
    };
    system.names("sys/class/block").into_iter().filter_map(follow).collect()
}

/// Loop devices on loop devices that are followed; the kernel allows no circle.
const DEPTH: usize = 16;

/// Follows `disk` through loop devices to the owner of its bytes. Returns the owner, and the offset
/// there of byte `start`.
fn through(system: &System, disk: &str, mut start: u64) -> (ByteOwner, u64) {
    let mut name = disk.to_owned();
    for _ in 0..DEPTH {
        let Some((owner, offset)) = shown(system, &name) else {
            return (ByteOwner::Disk(system.first_name(&name)), start);
        };
        start = start.saturating_add(offset);
        match owner {
            ByteOwner::Disk(lower) => name = lower,
            owner => return (owner, start),
        }
    }
    (ByteOwner::Unknown, start)
}

fn below(system: &System, name: &str, itself: Option<&String>) -> Vec<ByteOwner> {
    let mut owners = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<String> = system.ground(name).into_iter().collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some((owner, _)) = shown(system, &name) else { continue };
        if let ByteOwner::Disk(lower) = &owner {
            let lower = system.ground(lower);
            owners.extend(lower.iter().cloned().map(ByteOwner::Disk));
            open.extend(lower);
        } else if Some(&name) != itself {
            owners.push(owner);
        }
    }
    owners
}

/// Returns the owner and offset of the bytes behind `name`; `None` if they are its own.
fn shown(system: &System, name: &str) -> Option<(ByteOwner, u64)> {
    loop_device(system, name).or_else(|| local_export(system, name))
}

/// Resolves the disk of a local export: this machine is a host of its own NVMe target.
fn local_export(system: &System, name: &str) -> Option<(ByteOwner, u64)> {
    let export = system.shown_export(name)?;
    Some(match system.exported(export) {
        Some(Exported::Device(name)) => {
            let number = system.number(&name);
            let place = number.and_then(|number| system.place_of(number));
            place.map_or((ByteOwner::Unknown, 0), |(disk, start)| (ByteOwner::Disk(disk), start))
        }
        Some(Exported::File { device, inode }) => (ByteOwner::File { device, inode }, 0),
        // All namespaces of the controller, this one by the number that it has there.
        Some(Exported::Controller(controller)) => {
            let nsid = system.line(&format!("sys/class/block/{name}/nsid"));
            (namespace_of(system, &controller, nsid.as_deref()), 0)
        }
        None => (ByteOwner::Unknown, 0),
    })
}

/// The disk of a controller's namespace.
fn namespace_of(system: &System, controller: &str, nsid: Option<&str>) -> ByteOwner {
    let mut disks = system.names("sys/class/block").into_iter().filter(|disk| {
        let own = system.line(&format!("sys/class/block/{disk}/nsid"));
        own.is_some() && own.as_deref() == nsid && system.controllers_of(disk).contains(controller)
    });
    disks.next().map_or(ByteOwner::Unknown, ByteOwner::Disk)
}

/// Resolves a loop device to owner and offset; `None` when `name` is not a loop device in use.
fn loop_device(system: &System, name: &str) -> Option<(ByteOwner, u64)> {
    let folder = system.root().join("sys/class/block").join(name).join("loop");
    if !folder.is_dir() {
        return None;
    }
    let offset = fs::read_to_string(folder.join("offset")).ok();
    let offset = offset.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Some(match fs::read(folder.join("backing_file")) {
        Ok(path) => identify(system, path.strip_suffix(b"\n").unwrap_or(&path), offset),
        Err(_) => (ByteOwner::Unknown, offset),
    })
}

fn identify(system: &System, path: &[u8], offset: u64) -> (ByteOwner, u64) {
    let Ok(meta) = Path::new(OsStr::from_bytes(path)).metadata() else {
        return (ByteOwner::Unknown, offset);
    };
    if !meta.file_type().is_block_device() {
        let device = (major(meta.dev()), minor(meta.dev()));
        return (ByteOwner::File { device, inode: meta.ino() }, offset);
    }
    match system.place_of((major(meta.rdev()), minor(meta.rdev()))) {
        Some((disk, start)) => (ByteOwner::Disk(disk), offset.saturating_add(start)),
        None => (ByteOwner::Unknown, offset),
    }
}
