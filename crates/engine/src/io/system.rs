//! Users of a block device, from sysfs and procfs below a root.
//!
//! Everything is read below the given root, so a made-up tree serves as well as this machine. A
//! file that is not there or cannot be read counts as absent: the exclusive open at the start of
//! a copy is the kernel's own answer, this is the one with names in it.

mod siblings;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use peerlane_nvmet::NvmeTarget;

/// sysfs counts in these, whatever the device's block size.
const SECTOR: u64 = 512;

/// The folder with `sys/` and `proc/`.
#[derive(Debug, Clone)]
pub(crate) struct System {
    root: PathBuf,
    /// Read when first asked for.
    nvme_target: Arc<OnceLock<NvmeTarget>>,
}

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountinfoLine {
    /// Device number of the file system.
    pub(crate) device: (u32, u32),
    /// Mount point.
    pub(crate) point: PathBuf,
    /// File system type.
    pub(crate) kind: String,
    /// Mounted object: a device path for most file systems on a device.
    pub(crate) source: String,
    /// Options of the file system.
    pub(crate) options: String,
    /// True when this mount takes no writes.
    pub(crate) is_read_only: bool,
}

impl System {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), nvme_target: Arc::default() }
    }

    /// Exports of this machine's NVMe target.
    pub(crate) fn nvme_target(&self) -> &NvmeTarget {
        self.nvme_target.get_or_init(|| peerlane_nvmet::read(&self.root))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The first line of a file below the root, trimmed.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        text.lines().next().map(|line| line.trim().to_owned())
    }

    /// Major and minor number of the block device `name`.
    pub(crate) fn number(&self, name: &str) -> Option<(u32, u32)> {
        parse_number(&self.line(&format!("sys/class/block/{name}/dev"))?)
    }

    /// Major and minor number of the device that was mounted; its path may be a link, such as those in
    /// `/dev/mapper` and `/dev/disk`.
    pub(crate) fn number_of_source(&self, mount: &MountinfoLine) -> Option<(u32, u32)> {
        let by_name = mount.source_name().and_then(|name| self.number(name));
        by_name.or_else(|| {
            let device = mount.source.strip_prefix('/').filter(|path| path.starts_with("dev/"))?;
            let path = self.root.join(device);
            let node = fs::metadata(path).ok().filter(|node| node.file_type().is_block_device())?;
            Some((rustix::fs::major(node.rdev()), rustix::fs::minor(node.rdev())))
        })
    }

    /// Devices that `name` is stacked on directly.
    pub(crate) fn lower(&self, name: &str) -> BTreeSet<String> {
        self.names(&format!("sys/class/block/{name}/slaves"))
    }

    /// Devices stacked directly on `name`.
    pub(crate) fn holders(&self, name: &str) -> BTreeSet<String> {
        self.names(&format!("sys/class/block/{name}/holders"))
    }

    /// `name`, the devices below it, and so on to the bottom.
    pub(crate) fn down(&self, name: &str) -> BTreeSet<String> {
        self.closure(name, |name| self.lower(name))
    }

    /// `name`, the devices stacked on it, and so on to the top.
    pub(crate) fn up(&self, name: &str) -> BTreeSet<String> {
        self.closure(name, |name| self.holders(name))
    }

    /// `name`, everything it is stacked on, the disks of the partitions among them, and the other
    /// names of the same namespaces.
    pub(crate) fn ground(&self, name: &str) -> BTreeSet<String> {
        let below = self.down(name);
        let disks: Vec<String> = below.iter().filter_map(|name| self.disk_of(name)).collect();
        let own: BTreeSet<String> = below.into_iter().chain(disks).collect();
        let shared = self.down(name).into_iter().flat_map(|name| self.shared_with_name(&name));
        let shared: Vec<String> = shared.collect();
        own.into_iter().chain(shared).collect()
    }

    /// The disk that a partition is part of; `None` for other devices.
    pub(crate) fn disk_of(&self, name: &str) -> Option<String> {
        let link = self.root.join("sys/class/block").join(name);
        link.join("partition").exists().then_some(())?;
        let place = fs::read_link(link).ok()?;
        place.parent()?.file_name()?.to_str().map(str::to_owned)
    }

    /// The disk with this number, or that of the partition with it, and where in it that begins.
    pub(crate) fn place_of(&self, number: (u32, u32)) -> Option<(String, u64)> {
        let name = self.name_of(number)?;
        let Some(disk) = self.disk_of(&name) else { return Some((name, 0)) };
        let start: u64 = self.line(&format!("sys/class/block/{name}/start"))?.parse().ok()?;
        Some((disk, start.saturating_mul(SECTOR)))
    }

    /// Bytes of a block device, by name.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        let sectors: u64 = self.line(&format!("sys/class/block/{name}/size"))?.parse().ok()?;
        sectors.checked_mul(SECTOR)
    }

    /// The block device with this number.
    pub(crate) fn name_of(&self, number: (u32, u32)) -> Option<String> {
        let mut names = self.names("sys/class/block").into_iter();
        names.find(|name| self.number(name) == Some(number))
    }

    /// Every mount; empty if that cannot be read.
    pub(crate) fn mounts(&self) -> Vec<MountinfoLine> {
        let text = fs::read_to_string(self.root.join("proc/self/mountinfo")).unwrap_or_default();
        text.lines().filter_map(MountinfoLine::parse).collect()
    }

    /// Every swap device and file, as named in `/proc/swaps`.
    pub(crate) fn swaps(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root.join("proc/swaps")).unwrap_or_default();
        text.lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .map(unescape)
            .collect()
    }

    /// The block devices of every mounted btrfs, by name.
    pub(crate) fn btrfs_members(&self) -> BTreeSet<String> {
        self.names("sys/fs/btrfs")
            .into_iter()
            .flat_map(|id| self.names(&format!("sys/fs/btrfs/{id}/devices")))
            .collect()
    }

    /// Counts the devices of the mounted btrfs that `name` is one of; none if it is part of none.
    pub(crate) fn btrfs_width(&self, name: &str) -> usize {
        let ids = self.names("sys/fs/btrfs").into_iter();
        ids.map(|id| self.names(&format!("sys/fs/btrfs/{id}/devices")))
            .find(|devices| devices.contains(name))
            .map_or(0, |devices| devices.len())
    }

    pub(crate) fn names(&self, path: &str) -> BTreeSet<String> {
        fs::read_dir(self.root.join(path))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect()
    }

    fn closure(&self, name: &str, next: impl Fn(&str) -> BTreeSet<String>) -> BTreeSet<String> {
        let mut seen = BTreeSet::from([name.to_owned()]);
        let mut open = vec![name.to_owned()];
        while let Some(name) = open.pop() {
            for other in next(&name) {
                if seen.insert(other.clone()) {
                    open.push(other);
                }
            }
        }
        seen
    }
}

impl MountinfoLine {
    /// Reads a line (Linux `Documentation/filesystems/proc.rst`, section 3.5).
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(2);
        let device = parse_number(before.next()?)?;
        let point = before.nth(1)?;
        let options = before.next()?;
        let mut after = after.split(' ');
        Some(Self {
            device,
            point: PathBuf::from(unescape(point)),
            kind: after.next()?.to_owned(),
            source: unescape(after.next()?),
            options: after.next().unwrap_or_default().to_owned(),
            is_read_only: options.split(',').any(|option| option == "ro"),
        })
    }

    /// Whether the file system was mounted with an option.
    pub(crate) fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|one| one == option)
    }

    /// Name of the block device that was mounted, by the path given to mount.
    pub(crate) fn source_name(&self) -> Option<&str> {
        self.source.strip_prefix("/dev/")
    }
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Undoes the kernel's `\040` for a space and its like.
fn unescape(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mount_line_has_optional_fields_and_escapes() {
        let line = "36 35 98:0 /mnt1 /mnt/my\\040disk rw,noatime master:1 - ext4 /dev/dm-0 rw";
        let mount = MountinfoLine::parse(line).expect("a mount");
        assert_eq!(mount.device, (98, 0));
        assert_eq!(mount.point, Path::new("/mnt/my disk"));
        assert_eq!((mount.kind.as_str(), mount.source_name()), ("ext4", Some("dm-0")));
        assert!(!mount.is_read_only);
        assert!(mount.has_option("rw") && !mount.has_option("data=journal"));
        let line = "36 35 98:0 / /x ro - ext4 /dev/sda rw";
        assert!(MountinfoLine::parse(line).is_some_and(|mount| mount.is_read_only));
    }

    proptest! {
        #[test]
        fn arbitrary_lines_never_panic(line in ".*") {
            let _ = MountinfoLine::parse(&line);
            unescape(&line);
        }
    }
}
