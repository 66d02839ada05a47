//! What a loop device shows, or the disk of a local NVMe export: a file or device with names of its own.
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
use crate::endpoint::{Endpoint, Node};
use crate::system::System;

/// Whose bytes an end's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// A file, by device number of its file system and inode.
    File { device: (u32, u32), inode: u64 },
    /// A disk, by name; of several names of one namespace, the first.
    Disk(String),
    /// Something behind a loop device that cannot be identified from here.
    Unknown,
}

/// An end of a copy, seen through loop devices and local exports.
#[derive(Debug)]
pub(super) struct Seen {
    /// `None` for a file that is not there yet.
    pub(super) owner: Option<Owner>,
    /// Where in its owner the end begins, in bytes.
    pub(super) start: u64,
    /// What lies behind the loop devices that the end is stacked on, itself left out.
    pub(super) below: Vec<Owner>,
}

impl Seen {
    pub(super) fn of(system: &System, end: &Endpoint) -> Option<Self> {
        let live = end.live.as_ref()?;
        let own = live.device.as_ref();
        let (owner, start, disk) = match live.node {
            Node::NewFile => (None, 0, None),
            Node::File { device, inode } => (Some(Owner::File { device, inode }), 0, None),
            Node::Block => {
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
    pub(super) owner: Owner,
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
            Owner::Disk(lower) => Some(lower),
            Owner::File { .. } | Owner::Unknown => None,
        };
        let lower = std::iter::successors(lower(&name), lower).take(DEPTH).collect();
        Some(LoopInUse { name, owner, range: start..end, lower })
    };
    system.names("sys/class/block").into_iter().filter_map(follow).collect()
}

/// Loop devices on loop devices that are followed; the kernel allows no circle.
const DEPTH: usize = 16;

/// Follows `disk` to what it shows, with where in that byte `start` of it lies.
fn through(system: &System, disk: &str, mut start: u64) -> (Owner, u64) {
    let mut name = disk.to_owned();
    for _ in 0..DEPTH {
        let Some((owner, offset)) = shown(system, &name) else {
            return (Owner::Disk(system.first_name(&name)), start);
        };
        start = start.saturating_add(offset);
        match owner {
            Owner::Disk(lower) => name = lower,
            owner => return (owner, start),
        }
    }
    (Owner::Unknown, start)
}

fn below(system: &System, name: &str, itself: Option<&String>) -> Vec<Owner> {
    let mut owners = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<String> = system.ground(name).into_iter().collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some((owner, _)) = shown(system, &name) else { continue };
        if let Owner::Disk(lower) = &owner {
            let lower = system.ground(lower);
            owners.extend(lower.iter().cloned().map(Owner::Disk));
            open.extend(lower);
        } else if Some(&name) != itself {
            owners.push(owner);
        }
    }
    owners
}

/// What `name` shows and from where on; `None` when it shows bytes of its own.
fn shown(system: &System, name: &str) -> Option<(Owner, u64)> {
    loop_device(system, name).or_else(|| local_export(system, name))
}

/// What the disk of a local export shows: this machine is a host of its own NVMe target.
fn local_export(system: &System, name: &str) -> Option<(Owner, u64)> {
    let export = system.shown_export(name)?;
    Some(match system.exported(export) {
        Some(Exported::Device(name)) => {
            let number = system.number(&name);
            let place = number.and_then(|number| system.place_of(number));
            place.map_or((Owner::Unknown, 0), |(disk, start)| (Owner::Disk(disk), start))
        }
        Some(Exported::File { device, inode }) => (Owner::File { device, inode }, 0),
        // All namespaces of the controller, this one by the number that it has there.
        Some(Exported::Controller(controller)) => {
            let nsid = system.line(&format!("sys/class/block/{name}/nsid"));
            (namespace_of(system, &controller, nsid.as_deref()), 0)
        }
        None => (Owner::Unknown, 0),
    })
}

/// The disk of a controller's namespace.
fn namespace_of(system: &System, controller: &str, nsid: Option<&str>) -> Owner {
    let mut disks = system.names("sys/class/block").into_iter().filter(|disk| {
        let own = system.line(&format!("sys/class/block/{disk}/nsid"));
        own.is_some() && own.as_deref() == nsid && system.controllers_of(disk).contains(controller)
    });
    disks.next().map_or(Owner::Unknown, Owner::Disk)
}

/// What `name` shows and from where on; `None` when it is no loop device in use.
fn loop_device(system: &System, name: &str) -> Option<(Owner, u64)> {
    let folder = system.root().join("sys/class/block").join(name).join("loop");
    if !folder.is_dir() {
        return None;
    }
    let offset = fs::read_to_string(folder.join("offset")).ok();
    let offset = offset.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Some(match fs::read(folder.join("backing_file")) {
        Ok(path) => identify(system, path.strip_suffix(b"\n").unwrap_or(&path), offset),
        Err(_) => (Owner::Unknown, offset),
    })
}

fn identify(system: &System, path: &[u8], offset: u64) -> (Owner, u64) {
    let Ok(meta) = Path::new(OsStr::from_bytes(path)).metadata() else {
        return (Owner::Unknown, offset);
    };
    if !meta.file_type().is_block_device() {
        let device = (major(meta.dev()), minor(meta.dev()));
        return (Owner::File { device, inode: meta.ino() }, offset);
    }
    match system.place_of((major(meta.rdev()), minor(meta.rdev()))) {
        Some((disk, start)) => (Owner::Disk(disk), offset.saturating_add(start)),
        None => (Owner::Unknown, offset),
    }
}
