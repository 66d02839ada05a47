//! Guards on a made-up sysfs and procfs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use peerlane_fabric::{BlockDevice, ParentDisk, Partition};
use peerlane_results::{Asked, EndpointFacts, EndpointKind, Refusal, Warning};
use peerlane_units::Bytes;

use super::{GuardSubject, check};
use crate::endpoints::{Endpoint, Live, PathNode};
use crate::io::system::System;

const DISK: Bytes = Bytes::mib(64);

/// A tree with devices, devices stacked on them, mounts and swap.
pub(crate) struct DeviceTree {
    root: tempfile::TempDir,
    devices: u32,
}

impl DeviceTree {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["sys/class/block", "sys/devices", "proc/self"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        Self { root, devices: 0 }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Adds a disk, or a partition `disk/name`, and returns its device number.
    pub(crate) fn device(&mut self, place: &str) -> String {
        self.devices += 1;
        let number = format!("259:{}", self.devices);
        let folder = self.path("sys/devices").join(place);
        for folder in [folder.join("holders"), folder.join("slaves")] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
        if place.contains('/') {
            fs::write(folder.join("partition"), "1\n").unwrap();
        }
        let name = folder.file_name().unwrap().to_str().unwrap();
        symlink(&folder, self.path("sys/class/block").join(name)).unwrap();
        number
    }

    fn stack(&mut self, upper: &str, lower: &str) -> String {
        let number = self.device(upper);
        let at = |name: &str, list: &str| self.path("sys/class/block").join(name).join(list);
        fs::create_dir(at(lower, "holders").join(upper)).unwrap();
        fs::create_dir(at(upper, "slaves").join(lower)).unwrap();
        number
    }

    fn mount(&self, number: &str, options: &str) {
        let line = format!("36 35 {number} / /mnt/data {options} shared:1 - ext4 /dev/x rw\n");
        fs::write(self.path("proc/self/mountinfo"), line).unwrap();
    }

    /// Writes a file below the root.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn system(&self) -> System {
        System::at(self.root.path())
    }
}

pub(crate) fn block_device(name: &str) -> BlockDevice {
    BlockDevice { name: name.to_owned(), size: DISK, ..BlockDevice::default() }
}

pub(crate) fn end(
    path: &Path,
    kind: EndpointKind,
    node: PathNode,
    device: BlockDevice,
) -> Endpoint {
    let facts = EndpointFacts {
        path: path.display().to_string(),
        kind,
        size: device.size,
        block: Bytes(512),
        request_host: Bytes::mib(1),
        request_p2p: None,
        device: Some(device.name.clone()),
        address: None,
        drive: None,
        file_system: None,
        refusal: None,
        way_out: None,
        network: None,
    };
    let live = Live {
        path: path.to_owned(),
        node,
        device: Some(device),
        layer: None,
        is_direct: true,
        passthrough: None,
    };
    Endpoint { facts, initiator: None, further: Vec::new(), live: Some(live) }
}

/// A disk whose content is a file of zeros in `tree`.
fn disk(tree: &DeviceTree, device: BlockDevice) -> Endpoint {
    let path = tree.path(&format!("content-of-{}", device.name));
    fs::File::create(&path).unwrap().set_len(device.size.0).unwrap();
    end(&path, EndpointKind::BlockDevice, PathNode::Block, device)
}

fn file(path: &Path, inode: u64, device: &str) -> Endpoint {
    let node = PathNode::File { device: (259, 1), inode };
    end(path, EndpointKind::File, node, block_device(device))
}

fn asked() -> Asked {
    Asked { depth: 1, ..Asked::between("", "") }
}

fn refusals(
    tree: &DeviceTree,
    source: &Endpoint,
    target: &Endpoint,
    asked: &Asked,
) -> Vec<Refusal> {
    let length = super::length_of(asked, &source.facts);
    check(
        &tree.system(),
        &crate::endpoints::guard::Surveyor::for_tests(),
        GuardSubject { asked, source, target, length },
    )
    .refusals
}

/// The one refusal of a copy from an innocent disk to `target`.
fn only(tree: &DeviceTree, target: &Endpoint) -> Refusal {
    let source = disk(tree, block_device("innocent"));
    let mut refusals = refusals(tree, &source, target, &asked());
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    refusals.remove(0)
}

fn partition(name: &str) -> Partition {
    Partition { name: name.to_owned(), start: Bytes::mib(1), size: Bytes::mib(32) }
}

#[test]
fn a_blank_unused_disk_is_no_obstacle() {
    let mut tree = DeviceTree::new();
    tree.device("target");
    let (source, target) = (block_device("innocent"), block_device("target"));
    let (source, target) = (disk(&tree, source), disk(&tree, target));
    assert_eq!(refusals(&tree, &source, &target, &asked()), []);
}

#[test]
fn mounted_target_is_refused_despite_force() {
    let mut tree = DeviceTree::new();
    let number = tree.device("target");
    tree.mount(&number, "rw");
    let target = disk(&tree, block_device("target"));
    let refusal = only(&tree, &target);
    assert!(refusal.reason.ends_with("is mounted at /mnt/data"), "{}", refusal.reason);
    assert_eq!(refusal.hint.as_deref(), Some("umount /mnt/data"));
    let forced = Asked { force: true, ..asked() };
    let source = disk(&tree, block_device("innocent"));
    assert_eq!(refusals(&tree, &source, &target, &forced), [refusal]);
}

#[test]
fn mounted_partition_guards_disk_and_reverse() {
    let mut tree = DeviceTree::new();
    let disk_number = tree.device("target");
    let number = tree.device("target/target1");
    tree.mount(&number, "rw");
    let whole = BlockDevice { partitions: vec![partition("target1")], ..block_device("target") };
    let source = disk(&tree, block_device("innocent"));
    let found = refusals(&tree, &source, &disk(&tree, whole), &asked());
    assert!(found.iter().any(|refusal| refusal.reason.contains("is mounted")), "{found:?}");

    tree.mount(&disk_number, "rw");
    let parent = ParentDisk { disk: "target".into(), start: Bytes::mib(1) };
    let part = BlockDevice { partition: Some(parent), ..block_device("target1") };
    assert!(only(&tree, &disk(&tree, part)).reason.contains("is mounted"));
}

#[test]
fn a_sibling_partition_in_use_is_no_obstacle() {
    let mut tree = DeviceTree::new();
    tree.device("target");
    tree.device("target/target1");
    let sibling = tree.device("target/target2");
    tree.mount(&sibling, "rw");
    let parent = ParentDisk { disk: "target".into(), start: Bytes::mib(1) };
    let part = BlockDevice { partition: Some(parent), ..block_device("target1") };
    let source = disk(&tree, block_device("innocent"));
    assert_eq!(refusals(&tree, &source, &disk(&tree, part), &asked()), []);
}

#[test]
fn held_target_refused_with_top_mount() {
    let mut tree = DeviceTree::new();
    tree.device("target");
    tree.stack("dm-0", "target");
    let number = tree.stack("dm-1", "dm-0");
    tree.mount(&number, "rw");
    let source = disk(&tree, block_device("innocent"));
    let target = disk(&tree, block_device("target"));
    let forced = Asked { force: true, ..asked() };
    let found = refusals(&tree, &source, &target, &forced);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].reason.ends_with("is mounted at /mnt/data"));
    assert!(found[1].reason.ends_with("lies below dm-0, dm-1"));
}

#[test]
fn swap_and_btrfs_membership_are_seen() {
    let mut tree = DeviceTree::new();
    tree.device("target");
    let swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/target partition 1 0 -2\n";
    fs::write(tree.path("proc/swaps"), swaps).unwrap();
    let target = disk(&tree, block_device("target"));
    let refusal = only(&tree, &target);
    assert!(refusal.reason.ends_with("holds swap space in use: /dev/target"), "{refusal:?}");
    assert_eq!(refusal.hint, None);

    fs::remove_file(tree.path("proc/swaps")).unwrap();
    fs::create_dir_all(tree.path("sys/fs/btrfs/0d-af/devices/target")).unwrap();
    assert!(only(&tree, &target).reason.ends_with("is part of a mounted btrfs file system"));
    assert_eq!((tree.system().btrfs_width("target"), tree.system().btrfs_width("other")), (1, 0));
}

#[test]
fn a_read_only_target_is_refused() {
    let mut tree = DeviceTree::new();
    tree.device("target");
    let device = BlockDevice { read_only: true, ..block_device("target") };
    let refusal = only(&tree, &disk(&tree, device));
    assert!(refusal.reason.ends_with("takes no writes") && !refusal.forceable);
}

#[test]
fn content_and_partitions_are_refused_unless_forced() {
    let mut tree = DeviceTree::new();
    tree.device("target");
    let device = BlockDevice { partitions: vec![partition("target1")], ..block_device("target") };
    let target = disk(&tree, device);
    let content = fs::File::options().write(true).open(&target.live.as_ref().unwrap().path);
    std::os::unix::fs::FileExt::write_all_at(&content.unwrap(), b"SPDKBLOB", 0).unwrap();
    let source = disk(&tree, block_device("innocent"));
    let found = refusals(&tree, &source, &target, &asked());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].reason.ends_with("carries an SPDK blobstore"));
    assert!(found.iter().all(|refusal| refusal.forceable));
    assert_eq!(refusals(&tree, &source, &target, &Asked { force: true, ..asked() }), []);
}

#[test]
fn overlapping_copy_onto_same_disk_refused() {
    let tree = DeviceTree::new();
    let one = disk(&tree, block_device("one"));
    let to = |target_offset, length| Asked { target_offset, length: Some(length), ..asked() };
    let found = refusals(&tree, &one, &one, &to(Bytes::mib(4), Bytes::mib(8)));
    assert!(found[0].reason.contains("overlap on one from byte 4194304 to 8388608"), "{found:?}");
    assert!(!found[0].forceable);
    assert_eq!(refusals(&tree, &one, &one, &to(Bytes::mib(8), Bytes::mib(8))), []);
}

#[test]
fn a_partition_overlaps_its_disk() {
    let mut tree = DeviceTree::new();
    tree.device("one");
    tree.device("one/one1");
    let parent = ParentDisk { disk: "one".into(), start: Bytes::mib(1) };
    let part =
        BlockDevice { partition: Some(parent), size: Bytes::mib(32), ..block_device("one1") };
    let (part, whole) = (disk(&tree, part), disk(&tree, block_device("one")));
    let found = refusals(&tree, &part, &whole, &Asked { force: true, ..asked() });
    assert!(found.iter().any(|refusal| refusal.reason.contains("overlap on one")), "{found:?}");
    let apart = Asked { target_offset: Bytes::mib(33), length: Some(Bytes::mib(31)), ..asked() };
    assert_eq!(refusals(&tree, &part, &whole, &apart), []);
}

#[test]
fn file_and_its_device_copy_refused() {
    let mut tree = DeviceTree::new();
    tree.device("disk");
    tree.device("disk/disk1");
    tree.stack("dm-0", "disk1");
    let (below, on_top) = (block_device("disk"), tree.path("file"));
    let (device, file) = (disk(&tree, below), file(&on_top, 7, "dm-0"));
    let forced = Asked { force: true, ..asked() };
    for (source, target) in [(&device, &file), (&file, &device)] {
        let found = refusals(&tree, source, target, &forced);
        assert!(found.iter().any(|refusal| refusal.reason.contains(" lies on ")), "{found:?}");
    }
}

#[test]
fn one_file_by_two_names_is_one_file() {
    let tree = DeviceTree::new();
    let (one, other) = (file(&tree.path("one"), 7, "x"), file(&tree.path("other"), 7, "x"));
    let found = refusals(&tree, &one, &other, &Asked { force: true, ..asked() });
    assert!(found[0].reason.ends_with("are one file") && !found[0].forceable, "{found:?}");
}

#[test]
fn an_existing_file_is_replaced_only_by_force() {
    let tree = DeviceTree::new();
    let (one, other) = (file(&tree.path("one"), 7, "x"), file(&tree.path("other"), 8, "x"));
    let found = refusals(&tree, &one, &other, &asked());
    assert!(found.len() == 1 && found[0].forceable && found[0].reason.ends_with("exists"));
    let offset = Asked { target_offset: Bytes(512), force: true, ..asked() };
    let found = refusals(&tree, &one, &other, &offset);
    assert!(found[0].reason.contains("written as a whole") && !found[0].forceable);
}

#[test]
fn more_than_a_file_system_has_free_is_refused() {
    let tree = DeviceTree::new();
    let mut huge = disk(&tree, block_device("huge"));
    huge.facts.size = Bytes(1 << 60);
    let target = end(&tree.path("new"), EndpointKind::File, PathNode::NewFile, block_device("x"));
    let found = refusals(&tree, &huge, &target, &asked());
    assert!(found[0].reason.contains(" free, and ") && !found[0].forceable, "{found:?}");
}

#[test]
fn a_source_that_may_change_is_a_warning() {
    let mut tree = DeviceTree::new();
    let number = tree.device("source");
    tree.device("target");
    let (source, target) =
        (disk(&tree, block_device("source")), disk(&tree, block_device("target")));
    let findings = || {
        let asked = asked();
        check(
            &tree.system(),
            &crate::endpoints::guard::Surveyor::for_tests(),
            GuardSubject { asked: &asked, source: &source, target: &target, length: DISK },
        )
    };
    tree.mount(&number, "rw");
    let by = "a file system mounted at /mnt/data".to_owned();
    assert_eq!(findings().warnings, [Warning::SourceInUse { by, carries_system: false }]);
    assert_eq!(findings().refusals, []);
    tree.mount(&number, "ro");
    assert_eq!(findings().warnings, []);
}

mod exports;
mod loops;
mod running_system;
mod siblings;
