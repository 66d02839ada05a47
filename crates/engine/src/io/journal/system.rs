//! Reads the identities of devices and files from sysfs.
//!
//! Everything about a device is read below the given root, so a captured tree serves as well as
//! this machine; links that lead out of it are not followed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use peerlane_units::Bytes;
use rustix::fs::{AtFlags, FileType, StatxFlags, StatxTimestamp};

use super::{DeviceIdentity, FileIdentity, IdKind, JournalError, PartitionRange, StableId};

/// Longest attribute that is read, in bytes; an NVMe WWID made of model and serial has 130.
const ATTRIBUTE_BYTES_MAX: u64 = 512;

/// sysfs counts sizes of block devices in this many bytes, whatever their block size
/// (`SECTOR_SIZE`, include/linux/blk_types.h).
const SECTOR: u64 = 512;

/// Attributes with names that stay with a device, below the directory of the whole device:
/// drivers/nvme/host/sysfs.c, drivers/scsi/scsi_sysfs.c, drivers/block/virtio_blk.c,
/// drivers/md/{dm-sysfs,md}.c, drivers/mmc/core/mmc.c.
const ATTRIBUTES: [(IdKind, &str); 10] = [
    (IdKind::Uuid, "uuid"),
    (IdKind::Nguid, "nguid"),
    (IdKind::Eui64, "eui"),
    (IdKind::DmUuid, "dm/uuid"),
    (IdKind::MdUuid, "md/uuid"),
    (IdKind::Cid, "device/cid"),
    (IdKind::Wwid, "wwid"),
    (IdKind::Wwid, "device/wwid"),
    (IdKind::Serial, "serial"),
    (IdKind::Serial, "device/serial"),
];

/// Returns the kernel's name of the block device with this number: `nvme0n1p2`.
///
/// Taken from the number of an open file, the name cannot be one that was given to another device
/// since the file was opened.
pub(crate) fn device_name(root: &Path, major: u32, minor: u32) -> Option<String> {
    let link = fs::read_link(root.join(format!("sys/dev/block/{major}:{minor}"))).ok()?;
    link.file_name()?.to_str().map(str::to_owned)
}

/// Reads the identity of the block device or partition `name`, below `root` (`/` for this machine).
///
/// # Errors
/// [`JournalError::NoDevice`] when there is no such device, or its size cannot be read.
pub(crate) fn identity_of_device(root: &Path, name: &str) -> Result<DeviceIdentity, JournalError> {
    read_device(root, name).ok_or_else(|| JournalError::NoDevice { name: name.to_owned() })
}

/// Reads the identity of an open regular file; `path` is kept for people, and sysfs is below `root`
/// (`/` for this machine).
///
/// # Errors
/// [`JournalError::Io`] when the file is not a regular file or does not tell about itself.
pub(crate) fn identity_of_file(
    root: &Path,
    path: &Path,
    file: &File,
) -> Result<FileIdentity, JournalError> {
    let fail = |source: io::Error| JournalError::Io {
        action: "identify the file",
        path: path.to_owned(),
        source,
    };
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let facts = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)
        .map_err(|errno| fail(errno.into()))?;
    if FileType::from_raw_mode(facts.stx_mode.into()) != FileType::RegularFile {
        let reason = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(fail(reason));
    }
    let file_system = rustix::fs::fstatvfs(file).map_err(|errno| fail(errno.into()))?;
    let device = device_name(root, facts.stx_dev_major, facts.stx_dev_minor)
        .and_then(|name| read_device(root, &name));
    let has_birth = facts.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(FileIdentity {
        path: path.to_string_lossy().into_owned(),
        device,
        file_system: file_system.f_fsid,
        inode: facts.stx_ino,
        size: Bytes(facts.stx_size),
        modified_ns: nanoseconds(&facts.stx_mtime),
        changed_ns: nanoseconds(&facts.stx_ctime),
        born_ns: has_birth.then(|| nanoseconds(&facts.stx_btime)),
    })
}

/// Nanoseconds since 1970; 64 bits last until the year 2262.
fn nanoseconds(time: &StatxTimestamp) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec))
}

fn read_device(root: &Path, name: &str) -> Option<DeviceIdentity> {
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return None;
    }
    let tree = ConfinedRoot { root: fs::canonicalize(root).ok()? };
    let here = tree.resolve(&tree.root.join("sys/class/block").join(name))?;
    let is_partition = tree.attribute(&here, "partition").is_some();
    let whole = if is_partition { here.parent()?.to_owned() } else { here.clone() };
    let partition = if is_partition {
        Some(PartitionRange {
            start: tree.sectors(&here, "start")?,
            size: tree.sectors(&here, "size")?,
        })
    } else {
        None
    };
    let mut ids: Vec<StableId> = Vec::new();
    for (kind, attribute) in ATTRIBUTES {
        if ids.iter().any(|id| id.kind == kind) {
            continue;
        }
        let value = tree.attribute(&whole, attribute).filter(|value| is_distinct(value));
        ids.extend(value.map(|value| StableId { kind, value }));
    }
    let backing = tree.backing(&whole);
    ids.extend(backing.map(|value| StableId { kind: IdKind::Backing, value }));
    Some(DeviceIdentity {
        name: name.to_owned(),
        model: tree.attribute(&whole, "device/model"),
        ids,
        size: tree.sectors(&whole, "size")?,
        partition,
    })
}

/// Tells whether a name can tell devices apart. Drives without a serial report blanks or zeroes.
/// The kernel still composes a WWID of them: `nvme.VENDOR-SERIAL-MODEL-NAMESPACE`, in hexadecimal.
pub(crate) fn is_distinct(value: &str) -> bool {
    if let Some(composed) = value.strip_prefix("nvme.") {
        let Some(serial) = composed.split('-').nth(1) else { return false };
        let digits = serial.as_bytes();
        return digits.chunks(2).any(|byte| !matches!(byte, b"00" | b"20" | b"30"));
    }
    let named = value.split_once('.').map_or(value, |(_, name)| name);
    named.chars().any(|c| c.is_alphanumeric() && c != '0')
}

/// A root that reading does not leave.
struct ConfinedRoot {
    root: PathBuf,
}

impl ConfinedRoot {
    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let resolved = fs::canonicalize(path).ok()?;
        resolved.starts_with(&self.root).then_some(resolved)
    }

    /// The text of an attribute without blanks and control characters at its ends; `None` if it
    /// is not there, empty or no text.
    fn attribute(&self, directory: &Path, name: &str) -> Option<String> {
        let path = self.resolve(&directory.join(name))?;
        let mut text = Vec::new();
        File::open(path).ok()?.take(ATTRIBUTE_BYTES_MAX).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        (!text.is_empty()).then(|| text.replace(char::is_control, " "))
    }

    /// Returns the identity of the file behind a loop device. `None` for any other device, and for
    /// a file that has no name any more (`loop_attr_backing_file_show`, drivers/block/loop.c).
    fn backing(&self, directory: &Path) -> Option<String> {
        let path = self.attribute(directory, "loop/backing_file")?;
        let path = self.resolve(&self.root.join(path.trim_start_matches('/')))?;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let facts = rustix::fs::statx(rustix::fs::CWD, &path, AtFlags::empty(), wanted).ok()?;
        let file_system = rustix::fs::statvfs(&path).ok()?.f_fsid;
        let (inode, born) = (facts.stx_ino, nanoseconds(&facts.stx_btime));
        let offset = self.attribute(directory, "loop/offset").unwrap_or_default();
        Some(format!("{file_system:016x}-{inode}-{born}-at-{offset}"))
    }

    fn sectors(&self, directory: &Path, name: &str) -> Option<Bytes> {
        let count: u64 = self.attribute(directory, name)?.parse().ok()?;
        count.checked_mul(SECTOR).map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const NVME: [(&str, &str); 6] = [
        ("size", "2097152\n"),
        ("wwid", "uuid.2a8b3d5c-0000-4000-8000-1122334455aa\n"),
        ("uuid", "2a8b3d5c-0000-4000-8000-1122334455aa\n"),
        ("nguid", "00000000-0000-0000-0000-000000000000\n"),
        ("device/serial", "S4EWNX0R123456      \n"),
        ("device/model", "SAMSUNG MZVLB1T0HBLR-000L7              \n"),
    ];

    /// A tree with one device whose `device` is a directory of its own.
    fn tree(name: &str, attributes: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("sys/devices").join(name);
        for folder in ["sys/class/block", "sys/dev/block"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for (path, text) in attributes {
            let path = device.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink(format!("../../devices/{name}"), root.path().join("sys/class/block").join(name))
            .unwrap();
        root
    }

    fn kinds(identity: &DeviceIdentity) -> Vec<IdKind> {
        identity.ids.iter().map(|id| id.kind).collect()
    }

    #[test]
    fn reads_an_nvme_namespace_and_ignores_a_zero_nguid() {
        let root = tree("nvme0n1", &NVME);
        let found = identity_of_device(root.path(), "nvme0n1").unwrap();
        assert_eq!(kinds(&found), [IdKind::Uuid, IdKind::Wwid, IdKind::Serial]);
        assert_eq!(found.ids[2].value, "S4EWNX0R123456");
        assert_eq!(found.model.as_deref(), Some("SAMSUNG MZVLB1T0HBLR-000L7"));
        assert_eq!((found.size, found.partition), (Bytes::mib(1024), None));
    }

    #[test]
    fn reads_a_partition_with_the_names_of_its_device() {
        let mut attributes = NVME.to_vec();
        attributes.extend([
            ("nvme0n1p2/partition", "2\n"),
            ("nvme0n1p2/start", "2048\n"),
            ("nvme0n1p2/size", "4096\n"),
        ]);
        let root = tree("nvme0n1", &attributes);
        let target = "../../devices/nvme0n1/nvme0n1p2";
        symlink(target, root.path().join("sys/class/block/nvme0n1p2")).unwrap();
        symlink(target, root.path().join("sys/dev/block/259:2")).unwrap();
        assert_eq!(device_name(root.path(), 259, 2).as_deref(), Some("nvme0n1p2"));
        let found = identity_of_device(root.path(), "nvme0n1p2").unwrap();
        let partition = PartitionRange { start: Bytes::mib(1), size: Bytes::mib(2) };
        assert_eq!((found.partition, found.size), (Some(partition), Bytes::mib(1024)));
        assert_eq!(kinds(&found), [IdKind::Uuid, IdKind::Wwid, IdKind::Serial]);
    }

    #[test]
    fn reads_scsi_virtio_device_mapper_and_cards() {
        for (attribute, value, kind) in [
            ("device/wwid", "naa.5000c500a1b2c3d4\n", IdKind::Wwid),
            ("serial", "vm-disk-7", IdKind::Serial),
            ("dm/uuid", "LVM-W8sG0aZq\n", IdKind::DmUuid),
            ("device/cid", "150100424a4e4234\n", IdKind::Cid),
        ] {
            let root = tree("x0", &[("size", "8\n"), (attribute, value)]);
            let found = identity_of_device(root.path(), "x0").unwrap();
            assert_eq!(found.ids, [StableId { kind, value: value.trim().to_owned() }]);
        }
    }

    #[test]
    fn blank_and_zero_names_tell_nothing_apart() {
        let serial_of_blanks = "nvme.1b36-2020202020-51454d55204e564d65204374726c-00000001\n";
        let root = tree(
            "nvme0n1",
            &[
                ("size", "8\n"),
                ("wwid", serial_of_blanks),
                ("eui", "00 00 00 00 00 00 00 00\n"),
                ("serial", "    \n"),
                ("device/serial", "0000\n"),
            ],
        );
        let found = identity_of_device(root.path(), "nvme0n1").unwrap();
        assert_eq!(found.primary_id(), None);
        assert!(is_distinct("nvme.1b36-706c2d61-51454d55204e564d65204374726c-00000001"));
        assert!(is_distinct("eui.0025388b91b2c3d4") && !is_distinct("eui.0000000000000000"));
    }

    #[test]
    fn a_link_out_of_the_root_is_not_followed() {
        let outside = tree("nvme0n1", &NVME);
        let root = tree("sda", &[("size", "8\n")]);
        let block = root.path().join("sys/class/block");
        symlink(outside.path().join("sys/devices/nvme0n1"), block.join("nvme0n1")).unwrap();
        symlink(
            outside.path().join("sys/devices/nvme0n1/device"),
            root.path().join("sys/devices/sda/device"),
        )
        .unwrap();
        assert!(identity_of_device(root.path(), "nvme0n1").is_err());
        assert_eq!(identity_of_device(root.path(), "sda").unwrap().ids, []);
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let root = tree("sda", &[("size", "many\n")]);
        for name in ["sda", "sdb", "", "..", "../block/sda", "/dev/sda"] {
            let found = identity_of_device(root.path(), name);
            assert!(matches!(found, Err(JournalError::NoDevice { .. })), "{name}");
        }
    }

    #[test]
    fn a_file_is_known_by_inode_times_and_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("set.bin");
        fs::write(&path, b"12345").unwrap();
        let file = File::open(&path).unwrap();
        let found = identity_of_file(Path::new("/"), &path, &file).unwrap();
        use std::os::unix::fs::MetadataExt;
        let facts = file.metadata().unwrap();
        assert_eq!((found.inode, found.size), (facts.ino(), Bytes(5)));
        assert_eq!(found.modified_ns, facts.mtime() * 1_000_000_000 + facts.mtime_nsec());
        let directory_file = File::open(directory.path()).unwrap();
        assert!(identity_of_file(Path::new("/"), directory.path(), &directory_file).is_err());
    }
}
