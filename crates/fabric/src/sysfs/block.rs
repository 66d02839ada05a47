//! One block device as sysfs shows it: what a direct request may carry, and who else holds it.

use std::path::Path;

use peerlane_units::Bytes;

use crate::{Bdf, DiscoverError, Partition, QueueLimits};

/// A block device: a disk or a partition of one.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockDevice {
    /// Kernel name, `nvme2n1p1`.
    pub name: String,
    /// Capacity.
    pub size: Bytes,
    /// Request limits, of the disk for a partition.
    pub limits: QueueLimits,
    /// Whether the kernel refuses writes (`ro`).
    pub read_only: bool,
    /// Set when this is a partition.
    pub partition: Option<ParentDisk>,
    /// Its partitions, in order of start; empty for a partition.
    pub partitions: Vec<Partition>,
    /// Devices stacked on this one, on its disk, or on any partition of that disk.
    pub holders: Vec<String>,
    /// Devices that this one is stacked on.
    pub slaves: Vec<String>,
    /// The PCI function that serves it; `None` for virtual devices.
    pub function: Option<Bdf>,
    /// The NVMe controller that serves it, `nvme2`.
    pub controller: Option<String>,
    /// Protection information settings; `None` where the device has none.
    pub integrity: Option<Integrity>,
    /// Whether pages must not change while they are written (`queue/stable_writes`).
    pub stable_writes: bool,
    /// Whether this is the head of an NVMe multipath group, which may choose among controllers.
    pub is_multipath_head: bool,
}

/// Where a partition lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentDisk {
    /// Kernel name of the disk.
    pub disk: String,
    /// Offset of the partition from the start of the disk.
    pub start: Bytes,
}

/// Whether the kernel itself makes or checks protection information; either makes the CPU read the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integrity {
    /// `integrity/write_generate`.
    pub write_generate: bool,
    /// `integrity/read_verify`.
    pub read_verify: bool,
}

impl BlockDevice {
    /// Reads the block device `major`:`minor` below `root`.
    ///
    /// # Errors
    /// When there is no such device, or its size cannot be read.
    pub fn read(root: &Path, major: u32, minor: u32) -> Result<Self, DiscoverError> {
        Err(DiscoverError::NoSuchBlockDevice { root: root.to_owned(), major, minor })
    }
}
