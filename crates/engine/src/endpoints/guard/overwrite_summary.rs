//! Content that an overwrite would destroy, for the confirmation prompt.
//!
//! Only looks. Whether the target may be written at all is for the other guards to say. The caller
//! compares with a second summary after the answer, since a person may take any time to give it.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use peerlane_fabric::{BlockDevice, PassthroughNode};
use peerlane_units::Bytes;

use super::naming;
use super::survey::{DeviceSize, SurveyError, Surveyor};
use crate::endpoints::{Live, PathNode};
use crate::io::journal::{
    DeviceIdentity, IdKind, Journal, StateEnvironment, Store, beside_file, for_device,
    identity_of_device, state_directory,
};

/// Content of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverwriteSummary {
    /// The target.
    pub target: TargetSummary,
    /// Bytes that an interrupted copy brought there, and bytes that it was to bring.
    pub unfinished: Option<(Bytes, Bytes)>,
}

/// A target that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSummary {
    /// A drive or a partition of one.
    Device(Box<DeviceSummary>),
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

/// A device and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSummary {
    /// Identity of the device.
    pub identity: DeviceIdentity,
    /// Size of the device or the partition.
    pub size: Bytes,
    /// Names of its content, empty for a blank device; `None` if it could not be read.
    pub content: Option<Vec<String>>,
    /// Its partitions, in order of start.
    pub partitions: Vec<PartitionSummary>,
}

impl DeviceSummary {
    /// Serial number.
    pub fn serial(&self) -> Option<&str> {
        let ids = &self.identity.ids;
        ids.iter().find(|id| id.kind == IdKind::Serial).map(|id| id.value.as_str())
    }
}

/// A partition and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSummary {
    /// Kernel name.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// Names of its content, by its two ends; `None` if they could not be read.
    pub content: Option<Vec<String>>,
}

/// Choice of a journal's place.
#[derive(Debug, Clone, Copy)]
pub struct JournalPlace<'a> {
    /// As a person names it; `None` for the place that belongs to the target.
    pub path: Option<&'a Path>,
    /// Decides the folder for journals of devices.
    pub environment: &'a StateEnvironment,
}

/// Looks at the content of the file or device at `path` on this machine. For a passthrough node,
/// looks at the block device of its namespace. `written` is the range of a device that is to be
/// written.
///
/// # Errors
/// When it is not there, is none of them, or does not tell about itself.
pub fn summarize(
    path: &Path,
    written: Range<u64>,
    place: JournalPlace<'_>,
    surveyor: &Surveyor<'_>,
) -> io::Result<OverwriteSummary> {
    let facts = fs::metadata(path)?;
    let (root, kind) = (Path::new("/"), facts.file_type());
    let number = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
    let seen = SeenContent { root, place, surveyor, written };
    if kind.is_block_device() {
        return seen.device(read_device(root, number)?, path);
    }
    if kind.is_char_device() {
        return seen.passthrough(number, path);
    }
    if !kind.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let journal = place.path.map(Path::to_owned).or_else(|| beside_file(path).ok());
    Ok(OverwriteSummary {
        target: TargetSummary::File {
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

struct SeenContent<'a> {
    root: &'a Path,
    place: JournalPlace<'a>,
    surveyor: &'a Surveyor<'a>,
    written: Range<u64>,
}

impl SeenContent<'_> {
    /// The node itself cannot be read like a file, and shows the bytes of the block device next to it.
    fn passthrough(&self, (major, minor): (u32, u32), path: &Path) -> io::Result<OverwriteSummary> {
        let node = PassthroughNode::read(self.root, major, minor).map_err(io::Error::other)?;
        let block = node.ok_or(io::ErrorKind::Unsupported)?.block;
        let sibling = path.with_file_name(&block.name);
        self.device(block, &sibling)
    }

    fn device(&self, device: BlockDevice, path: &Path) -> io::Result<OverwriteSummary> {
        let identity = identity_of_device(self.root, &device.name).map_err(io::Error::other)?;
        let live = Live {
            path: path.to_owned(),
            node: PathNode::Block,
            device: None,
            layer: None,
            is_direct: true,
            passthrough: None,
        };
        let (size, block) = (device.size, device.limits.logical_block.0);
        let content = self.content(&live, DeviceSize { size: size.0, block }).ok();
        let partitions = device.partitions.iter().map(|part| {
            let range = part.start.0..part.start.0.saturating_add(part.size.0);
            PartitionSummary {
                name: part.name.clone(),
                size: part.size,
                content: naming::carried(self.surveyor, &live, block, range, None).ok(),
            }
        });
        let partitions = partitions.collect();
        let journal = self.place.path.map(Path::to_owned).or_else(|| {
            let directory = state_directory(self.place.environment).ok()?;
            for_device(&directory, &identity).ok()
        });
        let summary = DeviceSummary { identity, size, content, partitions };
        Ok(OverwriteSummary {
            target: TargetSummary::Device(Box::new(summary)),
            unfinished: journal.and_then(|journal| unfinished(&journal)),
        })
    }

    fn content(&self, live: &Live, device: DeviceSize) -> Result<Vec<String>, SurveyError> {
        let survey = self.surveyor.survey(live, device, self.written.clone())?;
        let Some(first) = survey.first() else { return Ok(Vec::new()) };
        naming::carried(self.surveyor, live, device.block, 0..device.size, Some(first))
    }
}

fn unfinished(path: &Path) -> Option<(Bytes, Bytes)> {
    let Journal { done, options, .. } = Store::read(path).ok()?;
    Some((Bytes(done.total()), options.length))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, symlink};

    use peerlane_units::Nanos;

    use super::*;
    use crate::io::clock::MonotonicClock;

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

    /// Asks with a surveyor that has read nothing yet.
    fn seen<T>(root: &Path, ask: impl FnOnce(SeenContent<'_>) -> T) -> T {
        let (environment, clock) = (StateEnvironment::default(), MonotonicClock::start());
        let place = JournalPlace { path: None, environment: &environment };
        let surveyor = Surveyor::new(&clock, Nanos::seconds(60));
        ask(SeenContent { root, place, surveyor: &surveyor, written: 0..512 })
    }

    fn look(root: &tempfile::TempDir) -> DeviceSummary {
        let device = read_device(root.path(), (259, 9)).unwrap();
        let content = root.path().join("content");
        device_of(seen(root.path(), |seen| seen.device(device, &content)).unwrap())
    }

    fn device_of(summary: OverwriteSummary) -> DeviceSummary {
        assert_eq!(summary.unfinished, None);
        let TargetSummary::Device(device) = summary.target else { panic!("a device") };
        *device
    }

    fn summarize_file(path: &Path) -> io::Result<OverwriteSummary> {
        let clock = MonotonicClock::start();
        let surveyor = Surveyor::new(&clock, Nanos::seconds(60));
        let environment = StateEnvironment::default();
        let place = JournalPlace { path: None, environment: &environment };
        summarize(path, 0..512, place, &surveyor)
    }

    #[test]
    fn passthrough_node_shown_as_block_device() {
        let (root, content) = disk();
        let node = root.path().join("sys/devices/ng9n1");
        fs::create_dir_all(&node).unwrap();
        fs::create_dir_all(root.path().join("sys/dev/char")).unwrap();
        symlink("../../devices/ng9n1", root.path().join("sys/dev/char/241:3")).unwrap();
        symlink("content", root.path().join("nvme9n1")).unwrap();
        let shown = || {
            let path = root.path().join("ng9n1");
            device_of(seen(root.path(), |seen| seen.passthrough((241, 3), &path)).unwrap())
        };
        content.write_all_at(b"EFI PART", 512).unwrap();
        let found = shown();
        assert_eq!(found, look(&root));
        assert_eq!(found.serial(), Some("S1"));
        assert_eq!((found.size, found.content.as_ref().map(Vec::len)), (Bytes(DISK), Some(1)));
        content.write_all_at(b"\x53\xef", PART + 1024 + 0x38).unwrap();
        assert_ne!(shown(), found, "a second look sees what came meanwhile");
    }

    #[test]
    fn other_character_device_is_not_shown() {
        let found = summarize_file(Path::new("/dev/null"));
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn drive_shown_with_names_and_partitions() {
        let (root, content) = disk();
        let blank = look(&root);
        assert_eq!(blank.content, Some(Vec::new()));
        content.write_all_at(b"SPDKBLOB", 0).unwrap();
        content.write_all_at(b"QFI\xfb", PART).unwrap();
        let found = look(&root);
        assert_ne!(found, blank);
        let words = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        assert_eq!(found.content, words(&["an SPDK blobstore"]));
        assert_eq!(
            (found.identity.model.as_deref(), found.serial()),
            (Some("Lab drive"), Some("S1"))
        );
        let content = words(&["a qcow2 image"]);
        let part = PartitionSummary { name: "nvme9n1p1".into(), size: Bytes::mib(2), content };
        assert_eq!(found.partitions, [part]);
        fs::remove_file(root.path().join("content")).unwrap();
        assert_eq!(look(&root).content, None, "what cannot be read is not called empty");
    }

    #[test]
    fn file_summary_tells_replaced_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target");
        fs::write(&path, [1; 300]).unwrap();
        let found = summarize_file(&path).unwrap();
        assert!(matches!(found.target, TargetSummary::File { size: Bytes(300), .. }), "{found:?}");
        assert_eq!(summarize_file(&path).unwrap(), found);
        fs::write(folder.path().join("other"), [1; 300]).unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        assert_ne!(summarize_file(&path).unwrap(), found);
    }
}
