//! One block device as sysfs shows it: limits of direct requests, and its other holders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use peerlane_units::Bytes;

use super::nvme::NvmeName;
use super::tree::Tree;
use super::{disk, functions, nvme};
use crate::{Bdf, DiscoverError, Integrity, Partition, QueueLimits};

/// A block device: a disk or a partition of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockDevice {
    /// Kernel name, `nvme2n1p1`.
    pub name: String,
    /// Capacity.
    pub size: Bytes,
    /// Request limits, of the disk for a partition.
    pub limits: QueueLimits,
    /// Set when the kernel refuses writes (`ro`).
    pub read_only: bool,
    /// Set when this is a partition.
    pub partition: Option<ParentDisk>,
    /// Its partitions, in order of start; empty for a partition.
    pub partitions: Vec<Partition>,
    /// Devices stacked on this one; for a disk also those on its partitions, for a partition also
    /// those on its disk.
    pub holders: Vec<String>,
    /// Devices that this one is stacked on.
    pub slaves: Vec<String>,
    /// The PCI function that serves it; `None` for virtual devices, and for a multipath head with
    /// more than one controller.
    pub function: Option<Bdf>,
    /// The NVMe controller that serves it, `nvme2`; `None` as for `function`.
    pub controller: Option<String>,
    /// Protection information settings; `None` where the device has none.
    pub integrity: Option<Integrity>,
    /// Set when pages must not change while they are written (`queue/stable_writes`).
    pub stable_writes: bool,
    /// Set when this is the head of an NVMe multipath group, which may choose among controllers.
    pub is_multipath_head: bool,
}

/// Place of a partition on its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentDisk {
    /// Kernel name of the disk.
    pub disk: String,
    /// Offset of the partition from the start of the disk.
    pub start: Bytes,
}

impl BlockDevice {
    /// Reads the block device `major`:`minor` below `root`.
    ///
    /// # Errors
    /// When there is no such device, or its size cannot be read.
    pub fn read(root: &Path, major: u32, minor: u32) -> Result<Self, DiscoverError> {
        let tree = Tree::new(root);
        let absent = || DiscoverError::NoSuchBlockDevice { root: root.to_owned(), major, minor };
        let link = Path::new("sys/dev/block").join(format!("{major}:{minor}"));
        let at = tree.link(&link).ok().flatten().ok_or_else(absent)?;
        let name = at.file_name().and_then(|name| name.to_str()).ok_or_else(absent)?.to_owned();
        let disk = match at.parent() {
            Some(disk) if tree.is_file(&at.join("partition")) => disk.to_owned(),
            _ => at.clone(),
        };
        let is_partition = disk != at;
        let partitions = if is_partition { Vec::new() } else { disk::partitions(&tree, &disk) };
        let served_by = serving_path(&tree, &disk);
        Ok(Self {
            size: disk::sectors(&tree, &at.join("size"))?,
            limits: disk::limits(&tree, &disk)?,
            read_only: tree.is_set(&at.join("ro")),
            partition: parent_disk(&tree, &at, &disk)?,
            holders: holders(&tree, &at, &disk, &partitions),
            partitions,
            slaves: tree.names(&at.join("slaves")).unwrap_or_default(),
            function: served_by.as_deref().and_then(function_above),
            controller: served_by.as_deref().and_then(controller_above),
            integrity: disk::integrity(&tree, &disk),
            stable_writes: tree.is_set(&disk.join("queue/stable_writes")),
            is_multipath_head: nvme::is_multipath_head(&disk),
            name,
        })
    }
}

fn parent_disk(tree: &Tree, at: &Path, disk: &Path) -> Result<Option<ParentDisk>, DiscoverError> {
    if at == disk {
        return Ok(None);
    }
    let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some(ParentDisk { disk: name, start: disk::sectors(tree, &at.join("start"))? }))
}

fn holders(tree: &Tree, at: &Path, disk: &Path, partitions: &[Partition]) -> Vec<String> {
    let below = partitions.iter().map(|partition| disk.join(&partition.name));
    [at.to_owned(), disk.to_owned()]
        .into_iter()
        .chain(below)
        .flat_map(|device| tree.names(&device.join("holders")).unwrap_or_default())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// A path whose components name function and controller of a disk: its own, or that of the only
/// controller of a multipath head.
fn serving_path(tree: &Tree, disk: &Path) -> Option<PathBuf> {
    if !nvme::is_multipath_head(disk) {
        return Some(disk.to_owned());
    }
    match nvme::controllers_of_head(tree, disk).as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = &str> {
    path.iter().filter_map(|component| component.to_str())
}

fn function_above(path: &Path) -> Option<Bdf> {
    components(path).rev().find_map(functions::address)
}

fn controller_above(path: &Path) -> Option<String> {
    components(path)
        .rev()
        .find(|name| NvmeName::parse(name) == Some(NvmeName::Controller))
        .map(str::to_owned)
}
