//! Lasting identity of a device or a file, whatever the kernel calls it today.

use std::fmt;

use peerlane_units::Bytes;
use serde::{Deserialize, Serialize};

/// A kind of name that stays with a device, the most specific first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdKind {
    /// UUID of an NVMe namespace (NVMe Base Specification, Namespace Identification Descriptor).
    Uuid,
    /// NGUID of an NVMe namespace.
    Nguid,
    /// EUI-64 of an NVMe namespace.
    Eui64,
    /// UUID of a device mapper table: a logical volume, an opened LUKS container.
    DmUuid,
    /// UUID of a software RAID array.
    MdUuid,
    /// Card identification register of an MMC or SD card.
    Cid,
    /// World-wide id as the kernel composes it: for NVMe of the ids above or else of vendor, serial,
    /// model and namespace; for SCSI of its vital product data.
    Wwid,
    /// Serial number.
    Serial,
    /// The file behind a loop device, by file system, inode and time of birth, and where the device begins in it.
    Backing,
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Uuid => "UUID",
            Self::Nguid => "NGUID",
            Self::Eui64 => "EUI-64",
            Self::DmUuid => "device mapper UUID",
            Self::MdUuid => "array UUID",
            Self::Cid => "CID",
            Self::Wwid => "WWID",
            Self::Serial => "serial",
            Self::Backing => "backing file",
        })
    }
}

/// A name that stays with a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StableId {
    /// Kind of the name.
    pub kind: IdKind,
    /// The name.
    pub value: String,
}

impl fmt::Display for StableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.value)
    }
}

/// Range of a partition on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionRange {
    /// Offset of its start.
    pub start: Bytes,
    /// Its size.
    pub size: Bytes,
}

impl fmt::Display for PartitionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition of {} at {}", self.size, self.start)
    }
}

/// Identity of a block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceIdentity {
    /// Name in the kernel when it was looked at; never compared.
    pub name: String,
    /// Model, for people; never compared.
    pub model: Option<String>,
    /// Every stable name found, each kind once, in the order of [`IdKind`].
    pub ids: Vec<StableId>,
    /// Size of the whole device.
    pub size: Bytes,
    /// Range of its partition; `None` for the whole device.
    pub partition: Option<PartitionRange>,
}

impl DeviceIdentity {
    /// Returns the most specific stable name; `None` for a device without one: it cannot be told
    /// from another, and a copy on it cannot be resumed.
    pub(crate) fn primary_id(&self) -> Option<&StableId> {
        self.ids.iter().min_by_key(|id| id.kind)
    }

    /// Tells whether both are one device: a stable name in common, and none that contradicts.
    pub(crate) fn is_same_device(&self, other: &Self) -> bool {
        let mut shared = false;
        for id in &self.ids {
            for counterpart in other.ids.iter().filter(|counterpart| counterpart.kind == id.kind) {
                if counterpart.value != id.value {
                    return false;
                }
                shared = true;
            }
        }
        shared
    }
}

impl DeviceIdentity {
    /// The identity in words, with the name that tells it from `other` if the words alone do not.
    pub(super) fn described_beside(&self, other: &Self) -> String {
        let words = self.to_string();
        let differs = |id: &&StableId| {
            other.ids.iter().any(|one| one.kind == id.kind && one.value != id.value)
        };
        match self.ids.iter().find(differs).filter(|_| words == other.to_string()) {
            Some(id) => format!("{words}, {id}"),
            None => words,
        }
    }
}

impl fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(partition) = &self.partition {
            write!(f, "{partition} on ")?;
        }
        if let Some(model) = &self.model {
            write!(f, "{model}, ")?;
        }
        match self.primary_id() {
            Some(id) => write!(f, "{id}"),
            None => f.write_str("without a stable name"),
        }
    }
}

/// Identity of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    /// Path when it was looked at; never compared.
    pub path: String,
    /// The block device below its file system; `None` for tmpfs, btrfs and others that have none of
    /// their own.
    pub device: Option<DeviceIdentity>,
    /// Id of the file system (`statvfs` f_fsid): made from its UUID by ext4 and btrfs, from the
    /// device's number by XFS.
    pub file_system: u64,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: Bytes,
    /// Time of the last change of content, nanoseconds since 1970, UTC.
    pub modified_ns: i64,
    /// Time of the last change of content or attributes, nanoseconds since 1970, UTC. No program can
    /// set it back.
    pub changed_ns: i64,
    /// Time of birth, nanoseconds since 1970, UTC, if the file system keeps it: tells a file from
    /// a later one with the same inode number.
    pub born_ns: Option<i64>,
}

impl FileIdentity {
    /// Tells whether both are one file on one file system, without regard to its content.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let born = match (self.born_ns, other.born_ns) {
            (Some(left), Some(right)) => left == right,
            _ => true,
        };
        self.is_same_file_system(other) && self.inode == other.inode && born
    }

    /// Tells whether both lie on one file system. The device below decides if it has a stable name,
    /// else the id of the file system.
    pub(crate) fn is_same_file_system(&self, other: &Self) -> bool {
        match (&self.device, &other.device) {
            (Some(left), Some(right))
                if left.primary_id().is_some() && right.primary_id().is_some() =>
            {
                left.is_same_device(right) && left.partition == right.partition
            }
            _ => self.file_system == other.file_system,
        }
    }
}

/// Identity of an end of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// A block device or a partition.
    Device(DeviceIdentity),
    /// A regular file.
    File(FileIdentity),
}

impl Identity {
    /// Returns its name at the time of the look.
    pub fn name(&self) -> &str {
        match self {
            Self::Device(device) => &device.name,
            Self::File(file) => &file.path,
        }
    }

    /// Names its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Device(_) => "a block device",
            Self::File(_) => "a file",
        }
    }
}
