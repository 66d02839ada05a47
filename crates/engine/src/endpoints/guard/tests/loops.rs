//! The same bytes by way of loop devices, made up and real.

use std::os::unix::fs::MetadataExt;

use super::super::backing::loops_in_use;
use super::*;
use crate::testing::Loop;

impl DeviceTree {
    /// Adds a loop device `name` that shows `file` from `offset` on.
    fn loop_device(&mut self, name: &str, file: &str, offset: u64) -> Endpoint {
        self.device(name);
        let folder = self.path("sys/class/block").join(name).join("loop");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("backing_file"), format!("{file}\n")).unwrap();
        fs::write(folder.join("offset"), format!("{offset}\n")).unwrap();
        disk(self, block_device(name))
    }

    /// A file with some content, as an end.
    fn backing_file(&self, name: &str) -> (String, Endpoint) {
        let path = self.path(name);
        fs::write(&path, [1; 4096]).unwrap();
        (path.display().to_string(), as_end(&path))
    }
}

fn as_end(path: &Path) -> Endpoint {
    let meta = fs::metadata(path).unwrap();
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let node = PathNode::File { device, inode: meta.ino() };
    end(path, EndpointKind::File, node, block_device("x"))
}

fn said(tree: &DeviceTree, source: &Endpoint, target: &Endpoint, asked: &Asked) -> Vec<String> {
    let found = refusals(tree, source, target, &Asked { force: true, ..asked.clone() });
    found.into_iter().map(|refusal| refusal.reason).collect()
}

#[test]
fn overlapping_loop_devices_are_refused() {
    let mut tree = DeviceTree::new();
    let (path, _) = tree.backing_file("image");
    fs::hard_link(&path, tree.path("other name")).unwrap();
    let other_path = tree.path("other name").display().to_string();
    let one = tree.loop_device("loop0", &path, 0);
    let other = tree.loop_device("loop1", &other_path, 1 << 20);
    let found = said(&tree, &one, &other, &asked());
    assert!(found.len() == 1 && found[0].contains("same bytes of one file"), "{found:?}");
    let apart = Asked { length: Some(Bytes::mib(1)), ..asked() };
    assert_eq!(said(&tree, &one, &other, &apart), [""; 0]);
    let elsewhere = tree.backing_file("elsewhere").0;
    let third = tree.loop_device("loop2", &elsewhere, 0);
    assert_eq!(said(&tree, &one, &third, &asked()), [""; 0]);
}

#[test]
fn hard_link_counts_as_backing_file() {
    let mut tree = DeviceTree::new();
    let (path, _) = tree.backing_file("image");
    fs::hard_link(&path, tree.path("other name")).unwrap();
    let link = as_end(&tree.path("other name"));
    let device = tree.loop_device("loop0", &path, 0);
    for (source, target) in [(&link, &device), (&device, &link)] {
        let found = said(&tree, source, target, &asked());
        assert!(found.iter().any(|reason| reason.contains("show the same file")), "{found:?}");
    }
}

#[test]
fn loop_partition_shows_backing_file() {
    let mut tree = DeviceTree::new();
    let (path, file) = tree.backing_file("image");
    let whole = tree.loop_device("loop1", &path, 0);
    tree.loop_device("loop0", &path, 0);
    tree.device("loop0/loop0p1");
    let parent = ParentDisk { disk: "loop0".into(), start: Bytes::mib(1) };
    let part =
        BlockDevice { partition: Some(parent), size: Bytes::mib(32), ..block_device("loop0p1") };
    let part = disk(&tree, part);
    let short = Asked { length: Some(Bytes(4096)), ..asked() };
    let found = said(&tree, &file, &part, &short);
    assert!(found.iter().any(|reason| reason.contains("show the same file")), "{found:?}");
    let found = said(&tree, &part, &whole, &asked());
    assert!(found[0].contains("same bytes of one file"), "{found:?}");
    let before = Asked { length: Some(Bytes::mib(1)), ..asked() };
    assert_eq!(said(&tree, &part, &whole, &before), [""; 0]);
}

#[test]
fn loop_file_system_lies_on_file() {
    let mut tree = DeviceTree::new();
    let (path, file) = tree.backing_file("image");
    tree.loop_device("loop0", &path, 0);
    let inside = |name: &str, inode| {
        let node = PathNode::File { device: (7, 0), inode };
        end(&tree.path(name), EndpointKind::File, node, block_device("loop0"))
    };
    let found = said(&tree, &inside("one", 7), &file, &asked());
    assert!(found.iter().any(|reason| reason.contains("through a loop device")), "{found:?}");
    assert_eq!(said(&tree, &inside("one", 7), &inside("other", 8), &asked()), [""; 0]);
}

#[test]
fn unknown_backing_refused_where_possibly_same() {
    let mut tree = DeviceTree::new();
    let (path, file) = tree.backing_file("image");
    let deleted = tree.loop_device("loop0", &format!("{path} (deleted)"), 0);
    let known = tree.loop_device("loop1", &path, 0);
    tree.device("innocent");
    let drive = disk(&tree, block_device("innocent"));
    for other in [&file, &known] {
        let found = said(&tree, other, &deleted, &asked());
        assert!(found.iter().any(|reason| reason.contains("cannot be told")), "{found:?}");
    }
    assert_eq!(said(&tree, &drive, &deleted, &asked()), [""; 0]);
    let new = end(&tree.path("new"), EndpointKind::File, PathNode::NewFile, block_device("x"));
    let short = Asked { length: Some(Bytes(512)), ..asked() };
    assert_eq!(said(&tree, &deleted, &new, &short), [""; 0]);
}

#[test]
fn loop_backing_file_is_not_replaced() {
    let mut tree = DeviceTree::new();
    let (path, file) = tree.backing_file("image");
    let source = tree.backing_file("source").1;
    assert_eq!(said(&tree, &source, &file, &asked()), [""; 0]);
    tree.loop_device("loop7", &path, 0);
    let found = said(&tree, &source, &file, &asked());
    let words = "is what the loop device /dev/loop7 shows";
    assert!(found.len() == 1 && found[0].ends_with(words), "{found:?}");

    let number = tree.device("loop7/loop7p1");
    tree.mount(&number, "ro");
    tree.stack("dm-0", "loop7p1");
    fs::hard_link(&path, tree.path("other name")).unwrap();
    let link = as_end(&tree.path("other name"));
    let found = refusals(&tree, &source, &link, &Asked { force: true, ..asked() });
    let words = "shows, which is mounted at /mnt/data, which lies below dm-0";
    assert!(found.len() == 1 && found[0].reason.ends_with(words), "{found:?}");
    let release =
        "umount /mnt/data && dmsetup remove /dev/dm-0 && losetup --detach /dev/loop7".to_owned();
    assert_eq!(found[0].hint, Some(release));
    assert_eq!(said(&tree, &link, &source, &asked()), [""; 0], "it may be read");
}

#[test]
fn a_swap_file_in_use_is_not_replaced() {
    let tree = DeviceTree::new();
    let (path, file) = tree.backing_file("swap");
    let source = tree.backing_file("source").1;
    tree.write("proc/swaps", &format!("Filename\tType\n{path} file 4096 0 -2\n"));
    let found = refusals(&tree, &source, &file, &Asked { force: true, ..asked() });
    assert!(found.len() == 1 && found[0].reason.ends_with("is swap space in use"), "{found:?}");
    assert_eq!(found[0].hint, None);
}

#[test]
fn two_real_loop_devices_over_one_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("image"), folder.path().join("link"));
    fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    fs::hard_link(&path, &link).unwrap();
    let Some(one) = Loop::over(&path) else { return };
    let Some(other) = Loop::over(&link) else { return };
    let device = |device: &Loop| {
        let name = device.0.file_name().unwrap().to_str().unwrap();
        let size = Bytes::mib(1);
        let mut end = end(
            &device.0,
            EndpointKind::BlockDevice,
            PathNode::Block,
            BlockDevice { size, ..block_device(name) },
        );
        end.facts.size = size;
        end
    };
    let link = as_end(&link);
    let said = |source: &Endpoint, target: &Endpoint| {
        let (asked, system) = (Asked { force: true, ..asked() }, System::at(Path::new("/")));
        let length = Bytes::mib(1);
        let found = check(
            &system,
            &crate::endpoints::guard::Surveyor::for_tests(),
            GuardSubject { asked: &asked, source, target, length },
        )
        .refusals;
        found.into_iter().map(|refusal| refusal.reason).collect::<Vec<_>>()
    };
    let found = said(&device(&one), &device(&other));
    assert!(found.iter().any(|reason| reason.contains("same bytes of one file")), "{found:?}");
    let found = said(&link, &device(&one));
    assert!(found.iter().any(|reason| reason.contains("show the same file")), "{found:?}");
    // A loop device over a loop device is followed to the file.
    let Some(upper) = Loop::over(&one.0) else { return };
    let found = said(&device(&upper), &device(&other));
    assert!(found.iter().any(|reason| reason.contains("through a loop device")), "{found:?}");
}

#[test]
fn bytes_in_use_by_another_name_are_refused() {
    let mut tree = DeviceTree::new();
    let (path, _) = tree.backing_file("image");
    let source = tree.backing_file("source").1;
    let one = tree.loop_device("loop0", &path, 0);
    let other = tree.loop_device("loop1", &path, 0);
    assert_eq!(said(&tree, &source, &one, &asked()), [""; 0], "nobody uses either");
    let number = fs::read_to_string(tree.path("sys/class/block/loop0/dev")).unwrap();
    tree.mount(number.trim(), "rw");
    let found = said(&tree, &source, &other, &asked());
    let words = "shows the same bytes as /dev/loop0, which is mounted at /mnt/data";
    assert!(found.len() == 1 && found[0].ends_with(words), "{found:?}");

    // Behind what the mounted one shows, which its size tells.
    let behind = tree.loop_device("loop2", &path, 1 << 20);
    tree.write("sys/class/block/loop0/size", "2048\n");
    assert_eq!(said(&tree, &source, &behind, &asked()), [""; 0]);
    tree.write("sys/class/block/loop0/size", "2049\n");
    assert!(said(&tree, &source, &behind, &asked())[0].ends_with(words));
}

#[test]
fn real_loop_device_is_followed_to_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::File::create(&image).and_then(|file| file.set_len(4 << 20)).unwrap();
    let Some(lower) = Loop::over(&image) else { return };
    let Some(upper) = Loop::over(&lower.0) else { return };
    let system = System::at(Path::new("/"));
    let name = |device: &Loop| device.0.file_name().unwrap().to_str().unwrap().to_owned();
    let found = loops_in_use(&system);
    let one = |device: &Loop| found.iter().find(|one| one.name == name(device)).unwrap();
    assert_eq!(one(&upper).owner, one(&lower).owner);
    assert_eq!((&one(&upper).range, &one(&upper).lower), (&(0..4 << 20), &vec![name(&lower)]));
}
