//! Common facts of a disk and a namespace in sysfs: size, limits, partitions.

use std::collections::HashMap;
use std::path::Path;

use peerlane_units::Bytes;

use super::tree::Tree;
use super::{DiscoverError, nvme};
use crate::{Integrity, Namespace, Partition, QueueLimits};

/// Unit of `size` and `start` in sysfs, whatever the block size (`SECTOR_SHIFT`).
const SECTOR: u64 = 512;

/// A number of sectors in a file, in bytes.
pub(super) fn sectors(tree: &Tree, path: &Path) -> Result<Bytes, DiscoverError> {
    let text =
        tree.text(path).map_err(|source| DiscoverError::Read { path: tree.full(path), source })?;
    text.parse::<u64>().ok().and_then(|count| count.checked_mul(SECTOR)).map(Bytes).ok_or_else(
        || DiscoverError::Malformed {
            path: tree.full(path),
            text: text.chars().take(40).collect(),
            expected: "a number of sectors",
        },
    )
}

/// Request limits of the disk at `disk`.
pub(super) fn limits(tree: &Tree, disk: &Path) -> Result<QueueLimits, DiscoverError> {
    let block = |name: &str| {
        let path = disk.join("queue").join(name);
        let text = tree
            .text(&path)
            .map_err(|source| DiscoverError::Read { path: tree.full(&path), source })?;
        match text.parse::<u64>() {
            Ok(size) if size >= SECTOR && size.is_power_of_two() => Ok(Bytes(size)),
            _ => Err(DiscoverError::Malformed {
                path: tree.full(&path),
                text: text.chars().take(40).collect(),
                expected: "a block size",
            }),
        }
    };
    let kib = |name: &str| {
        tree.number::<u64>(&disk.join(name)).and_then(|kib| kib.checked_mul(1024)).map(Bytes)
    };
    let logical_block = block("logical_block_size")?;
    Ok(QueueLimits {
        logical_block,
        physical_block: block("physical_block_size").unwrap_or(logical_block),
        max_request: kib("queue/max_sectors_kb"),
        max_hw_request: kib("queue/max_hw_sectors_kb"),
        max_segments: tree.number(&disk.join("queue/max_segments")),
    })
}

/// Partitions of the disk at `disk`, in order of start.
pub(super) fn partitions(tree: &Tree, disk: &Path) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = tree
        .directories(disk)
        .into_iter()
        .filter(|name| tree.is_file(&disk.join(name).join("partition")))
        .filter_map(|name| {
            let at = disk.join(&name);
            let start = sectors(tree, &at.join("start")).ok()?;
            let size = sectors(tree, &at.join("size")).ok()?;
            Some(Partition { name, start, size })
        })
        .collect();
    partitions.sort_by_key(|partition| partition.start);
    partitions
}

/// The namespace whose block device is at `disk`; `None` when size or block size cannot be read.
pub(super) fn namespace(tree: &Tree, disk: &Path) -> Option<Namespace> {
    Some(Namespace {
        name: Some(disk.file_name()?.to_str()?.to_owned()),
        nsid: tree.number(&disk.join("nsid")),
        size: sectors(tree, &disk.join("size")).ok()?,
        limits: limits(tree, disk).ok()?,
        is_multipath_head: nvme::is_multipath_head(disk),
        stable_writes: tree.flag(&disk.join("queue/stable_writes")),
        integrity: integrity(tree, disk),
        partitions: partitions(tree, disk),
    })
}

/// Protection information settings; older kernels have the directory for every disk, with the format `none`.
pub(super) fn integrity(tree: &Tree, disk: &Path) -> Option<Integrity> {
    let at = disk.join("integrity");
    tree.word(&at.join("format")).filter(|format| format != "none")?;
    Some(Integrity {
        write_generate: tree.is_set(&at.join("write_generate")),
        read_verify: tree.is_set(&at.join("read_verify")),
    })
}

/// Adds the numbers of the disk at `disk` and of its partitions.
pub(super) fn numbers(tree: &Tree, disk: &Path, numbers: &mut HashMap<String, String>) {
    let Some(name) = disk.file_name().and_then(|name| name.to_str()) else { return };
    let mut add = |name: &str, at: &Path| {
        numbers.extend(tree.word(&at.join("dev")).map(|number| (name.to_owned(), number)));
    };
    add(name, disk);
    for partition in tree.directories(disk) {
        if partition.starts_with(name) {
            add(&partition, &disk.join(&partition));
        }
    }
}
