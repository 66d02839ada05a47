//! Tells whether a drive was written to since it was surveyed, by the block layer's counters.
//!
//! A mark is taken only where every write of this machine is counted once, at the disk: namespaces of local NVMe
//! drives that have one name and one path. It is not taken while a request is in flight or the page cache holds
//! something that is not written yet. Not counted are passthrough commands, and writes of another host.

use std::fs::File;

use peerlane_memory::page_cache::unwritten_pages;

use crate::endpoints::{Layer, Live, PathNode};
use crate::io::system::System;

/// A disk, and its write counters up to now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WriteMark {
    disk: String,
    /// The kernel's number of this disk, which no other disk has until the next boot.
    sequence: String,
    /// Requests and sectors, of writes and of discards.
    written: [u64; 4],
}

impl WriteMark {
    /// The mark of an open device; `None` if writes to it are not known.
    pub(super) fn read(system: &System, live: &Live, file: &File) -> Option<Self> {
        let is_local = matches!(live.layer, Some(Layer::Nvme { network: None }));
        if !is_local || live.passthrough.is_some() || live.node != PathNode::Block {
            return None;
        }
        let device = live.device.as_ref()?;
        let disk = device.partition.as_ref().map_or(&device.name, |partition| &partition.disk);
        let line = |file: &str| system.line(&format!("sys/class/block/{disk}/{file}"));
        let is_counted = line("queue/iostats")? == "1" && !has_other_paths(system, disk);
        if !is_counted || unwritten_pages(file, 0..u64::MAX) != Ok(0) {
            return None;
        }
        let sequence = line("diskseq")?;
        let fields = line("stat")?;
        let fields = fields.split_ascii_whitespace().map(str::parse);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
        // Documentation/block/stat.rst.
        let &[_, _, _, _, writes, _, sectors, _, in_flight, _, _, discards, _, discarded, ..] =
            fields.as_slice()
        else {
            return None;
        };
        let written = [writes, sectors, discards, discarded];
        (in_flight == 0).then(|| Self { disk: disk.clone(), sequence, written })
    }
}

/// True when a namespace has another name, or is the head of paths (`nvme0c1n1`), which may count in its place.
fn has_other_paths(system: &System, disk: &str) -> bool {
    let Some((subsystem, namespace)) =
        disk.strip_prefix("nvme").and_then(|name| name.split_once('n'))
    else {
        return true;
    };
    let is_path = |name: &String| {
        let path = name.strip_prefix("nvme").and_then(|name| name.split_once('c'));
        let path = path.and_then(|(head, path)| Some((head, path.split_once('n')?.1)));
        path == Some((subsystem, namespace))
    };
    system.names("sys/class/block").iter().any(is_path) || !system.siblings(disk).is_empty()
}
