//! What a person would lose: shown before a yes is asked for.
//!
//! Only looks, and at the two ends of a device and of its partitions only. Whether the target may be
//! written at all is for the other guards to say; what was looked at is compared with a second look
//! after the answer, since a person may take any time to give it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use peerlane_fabric::{BlockDevice, PassthroughNode};
use peerlane_units::Bytes;

use super::content::read_range_ends;
use super::signature::{self, Ends};
use crate::copy::CopyOptions;
use crate::journal::{
    DeviceIdentity, IdKind, Journal, Store, beside_file, for_device, identity_of_device,
    state_directory,
};

/// What a target holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stake {
    /// What it is.
    pub holding: Holding,
    /// Bytes that an interrupted copy brought there, and bytes that it was to bring.
    pub unfinished: Option<(Bytes, Bytes)>,
}

/// What is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holding {
    /// A drive or a partition of one.
    Device(Box<DeviceHolding>),
    /// A file.
    File {
        /// Device number of its file system, and inode.
        identity: (u64, u64),
        /// Its size.
        size: Bytes,
        /// Seconds since 1970, UTC, of the last change of content.
        modified: i64,
    },
}

/// A device and what can be told of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceHolding {
    /// What it is known by.
    pub identity: DeviceIdentity,
    /// Size of the device or the partition.
    pub size: Bytes,
    /// What it carries, in words; `None` where it could not be read.
    pub carries: Option<Vec<String>>,
    /// Its partitions, in order of start.
    pub partitions: Vec<PartitionHolding>,
}

impl DeviceHolding {
    /// Its serial number.
    pub fn serial(&self) -> Option<&str> {
        let ids = &self.identity.ids;
        ids.iter().find(|id| id.kind == IdKind::Serial).map(|id| id.value.as_str())
    }
}

/// A partition and what can be told of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionHolding {
    /// Kernel name.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// What it carries, in words; `None` where it could not be read.
    pub carries: Option<Vec<String>>,
}

/// Looks at what the file or device at `path` holds, on this machine; of a passthrough node, at the
/// block device of its namespace.
///
/// # Errors
/// When it is not there, is none of them, or does not tell about itself.
pub fn look_at(path: &Path, options: &CopyOptions) -> io::Result<Stake> {
    let facts = fs::metadata(path)?;
    let (root, kind) = (Path::new("/"), facts.file_type());
    let number = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
    if kind.is_block_device() {
        return on_device(root, read_device(root, number)?, path, options);
    }
    if kind.is_char_device() {
        return on_passthrough(root, number, path, options);
    }
    if !kind.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let journal = options.journal.clone().or_else(|| beside_file(path).ok());
    Ok(Stake {
        holding: Holding::File {
            identity: (facts.dev(), facts.ino()),
            size: Bytes(facts.len()),
            modified: facts.mtime(),
        },
        unfinished: journal.and_then(|journal| unfinished(&journal)),
    })
}

fn read_device(root: &Path, (major, minor): (u32, u32)) -> io::Result<BlockDevice> {
    BlockDevice::read(root, major, minor).map_err(io::Error::other)
}

/// The node itself cannot be read like a file, and shows the bytes of the block device beside it.
fn on_passthrough(
    root: &Path,
    (major, minor): (u32, u32),
    path: &Path,
    options: &CopyOptions,
) -> io::Result<Stake> {
    let node = PassthroughNode::read(root, major, minor).map_err(io::Error::other)?;
    let block = node.ok_or(io::ErrorKind::Unsupported)?.block;
    let sibling = path.with_file_name(&block.name);
    on_device(root, block, &sibling, options)
}

fn on_device(
    root: &Path,
    device: BlockDevice,
    path: &Path,
    options: &CopyOptions,
) -> io::Result<Stake> {
    let identity = identity_of_device(root, &device.name).map_err(io::Error::other)?;
    let mut file = File::open(path).ok();
    let mut carried = |start: u64, size: u64| carries(file.as_mut()?, start, size).ok();
    let carries = carried(0, device.size.0);
    let partitions = device.partitions.iter().map(|part| PartitionHolding {
        name: part.name.clone(),
        size: part.size,
        carries: carried(part.start.0, part.size.0),
    });
    let partitions = partitions.collect();
    if let Some(file) = &file {
        // What was read must not stay in the page cache beside direct writes.
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    }
    let journal = options.journal.clone().or_else(|| {
        let directory = state_directory(&options.environment).ok()?;
        for_device(&directory, &identity).ok()
    });
    let size = device.size;
    Ok(Stake {
        holding: Holding::Device(Box::new(DeviceHolding { identity, size, carries, partitions })),
        unfinished: journal.and_then(|journal| unfinished(&journal)),
    })
}

/// What a range of a device carries, by its two ends.
fn carries(file: &mut File, start: u64, size: u64) -> io::Result<Vec<String>> {
    let (head, tail) = read_range_ends(file, start, size)?;
    Ok(signature::describe(Ends { head: &head, tail: &tail, size }))
}

fn unfinished(path: &Path) -> Option<(Bytes, Bytes)> {
    let Journal { done, options, .. } = Store::read(path).ok()?;
    Some((Bytes(done.total()), options.length))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, symlink};

    use super::*;

    const DISK: u64 = 8 << 20;
    const PART: u64 = 1 << 20;

    /// A disk with one partition, below a root of its own; its content is a file of that root.
    fn disk() -> (tempfile::TempDir, File) {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for (path, text) in [
            ("dev", "259:9"),
            ("size", "16384"),
            ("ro", "0"),
            ("queue/logical_block_size", "512"),
            ("device/model", "Lab drive"),
            ("device/serial", "S1"),
            ("nvme9n1p1/partition", "1"),
            ("nvme9n1p1/start", "2048"),
            ("nvme9n1p1/size", "4096"),
        ] {
            let path = at("sys/devices/nvme9n1").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for folder in ["sys/dev/block", "sys/class/block"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink("../../devices/nvme9n1", at("sys/dev/block/259:9")).unwrap();
        symlink("../../devices/nvme9n1", at("sys/class/block/nvme9n1")).unwrap();
        let content = File::options().read(true).write(true).create_new(true).open(at("content"));
        let content = content.unwrap();
        content.set_len(DISK).unwrap();
        (root, content)
    }

    fn look(root: &tempfile::TempDir) -> DeviceHolding {
        let (root, options) = (root.path(), CopyOptions::default());
        let device = read_device(root, (259, 9)).unwrap();
        device_of(on_device(root, device, &root.join("content"), &options).unwrap())
    }

    fn device_of(stake: Stake) -> DeviceHolding {
        assert_eq!(stake.unfinished, None);
        let Holding::Device(device) = stake.holding else { panic!("a device") };
        *device
    }

    #[test]
    fn a_passthrough_node_is_shown_as_the_block_device_beside_it() {
        let (root, content) = disk();
        let node = root.path().join("sys/devices/ng9n1");
        fs::create_dir_all(&node).unwrap();
        fs::create_dir_all(root.path().join("sys/dev/char")).unwrap();
        symlink("../../devices/ng9n1", root.path().join("sys/dev/char/241:3")).unwrap();
        symlink("content", root.path().join("nvme9n1")).unwrap();
        let shown = || {
            let (path, options) = (root.path().join("ng9n1"), CopyOptions::default());
            device_of(on_passthrough(root.path(), (241, 3), &path, &options).unwrap())
        };
        content.write_all_at(b"EFI PART", 512).unwrap();
        let found = shown();
        assert_eq!(found, look(&root));
        assert_eq!(found.serial(), Some("S1"));
        assert_eq!((found.size, found.carries.as_ref().map(Vec::len)), (Bytes(DISK), Some(1)));
        content.write_all_at(b"\x53\xef", PART + 1024 + 0x38).unwrap();
        assert_ne!(shown(), found, "a second look sees what came meanwhile");
    }

    #[test]
    fn a_character_device_that_is_no_passthrough_node_is_not_shown() {
        let found = look_at(Path::new("/dev/null"), &CopyOptions::default());
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn a_drive_is_shown_with_its_names_its_partitions_and_what_they_carry() {
        let (root, content) = disk();
        let blank = look(&root);
        assert_eq!(blank.carries, Some(Vec::new()));
        content.write_all_at(b"EFI PART", 512).unwrap();
        content.write_all_at(b"\x53\xef", PART + 1024 + 0x38).unwrap();
        content.write_all_at(b"home", PART + 1024 + 0x78).unwrap();
        let found = look(&root);
        assert_ne!(found, blank);
        let words = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        assert_eq!(found.carries, words(&["a GPT partition table"]));
        assert_eq!(
            (found.identity.model.as_deref(), found.serial()),
            (Some("Lab drive"), Some("S1"))
        );
        let carries = words(&["an ext2, ext3 or ext4 file system labelled home"]);
        let part = PartitionHolding { name: "nvme9n1p1".into(), size: Bytes::mib(2), carries };
        assert_eq!(found.partitions, [part]);
        fs::remove_file(root.path().join("content")).unwrap();
        assert_eq!(look(&root).carries, None, "what cannot be read is not called empty");
    }

    #[test]
    fn a_file_is_shown_with_size_and_time_and_another_in_its_place_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target");
        fs::write(&path, [1; 300]).unwrap();
        let options = CopyOptions::default();
        let found = look_at(&path, &options).unwrap();
        assert!(matches!(found.holding, Holding::File { size: Bytes(300), .. }), "{found:?}");
        assert_eq!(look_at(&path, &options).unwrap(), found);
        fs::write(folder.path().join("other"), [1; 300]).unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        assert_ne!(look_at(&path, &options).unwrap(), found);
    }
}
