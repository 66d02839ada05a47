//! One namespace by way of two controllers.

use super::*;

const UUID: &str = "uuid.2a8b3d5c-0000-4000-8000-1122334455aa";
/// As QEMU's drives have it: of vendor, serial (`a1`), model and namespace.
const COMPOSED: &str = "nvme.1b36-6131-51454d55204e564d65204374726c-00000001";
const BLANK: &str = "nvme.1b36-2020-51454d55204e564d65204374726c-00000001";

impl DeviceTree {
    /// Adds a disk of a namespace that is known by `wwid`, in the subsystem `nqn`.
    fn namespace(&mut self, name: &str, wwid: &str, nqn: &str) -> String {
        let number = self.device(name);
        self.write(&format!("sys/devices/{name}/wwid"), &format!("{wwid}\n"));
        self.write(&format!("sys/devices/{name}/device/subsysnqn"), &format!("{nqn}\n"));
        number
    }

    /// Adds a partition of 32 MiB whose place the kernel tells.
    fn part(&mut self, place: &str, start: Bytes) -> (String, BlockDevice) {
        let number = self.device(place);
        let (disk, name) = place.split_once('/').unwrap();
        let size = Bytes::mib(32);
        for (file, bytes) in [("start", start), ("size", size)] {
            self.write(&format!("sys/devices/{place}/{file}"), &format!("{}\n", bytes.0 / 512));
        }
        let partition = Some(ParentDisk { disk: disk.to_owned(), start });
        (number, BlockDevice { partition, size, ..block_device(name) })
    }
}

fn said(tree: &DeviceTree, source: &str, target: BlockDevice) -> Vec<String> {
    let (source, target) = (disk(tree, block_device(source)), disk(tree, target));
    let asked = Asked { force: true, length: Some(Bytes::mib(1)), ..asked() };
    let found = refusals(tree, &source, &target, &asked);
    found.into_iter().map(|refusal| refusal.reason).collect()
}

#[test]
fn sibling_mounted_namespace_is_not_written() {
    let mut tree = DeviceTree::new();
    let number = tree.namespace("nvme0n1", UUID, "nqn.a");
    tree.namespace("nvme3n1", UUID, "nqn.a");
    tree.mount(&number, "rw");
    let found = said(&tree, "innocent", block_device("nvme3n1"));
    let words = "nvme3n1 (on the same namespace as nvme0n1) is mounted at /mnt/data";
    assert!(found.len() == 1 && found[0].ends_with(words), "{found:?}");
    let source = disk(&tree, block_device("nvme3n1"));
    let warned = super::super::warnings_of_use(&tree.system(), &source);
    let by = "a file system mounted at /mnt/data".to_owned();
    assert_eq!(warned, [Warning::SourceInUse { by, carries_system: false }]);
}

#[test]
fn swap_and_holders_of_the_other_name_are_seen() {
    let mut tree = DeviceTree::new();
    tree.namespace("nvme0n1", UUID, "nqn.a");
    tree.namespace("nvme3n1", UUID, "nqn.a");
    tree.part("nvme0n1/nvme0n1p1", Bytes::mib(1));
    tree.stack("dm-0", "nvme0n1p1");
    tree.write("proc/swaps", "Filename\tType\n/dev/nvme0n1p1 partition 1 0 -2\n");
    let found = said(&tree, "innocent", block_device("nvme3n1"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("holds swap space in use: /dev/nvme0n1p1"), "{found:?}");
    tree.write("proc/swaps", "Filename\tType\n");
    let found = said(&tree, "innocent", block_device("nvme3n1"));
    assert!(found.len() == 1 && found[0].ends_with("lies below dm-0"), "{found:?}");
}

#[test]
fn used_partition_guards_shared_bytes_only() {
    let mut tree = DeviceTree::new();
    tree.namespace("nvme0n1", UUID, "nqn.a");
    tree.namespace("nvme3n1", UUID, "nqn.a");
    let (number, _) = tree.part("nvme0n1/nvme0n1p1", Bytes::mib(1));
    let (_, same) = tree.part("nvme3n1/nvme3n1p1", Bytes::mib(1));
    let (_, apart) = tree.part("nvme3n1/nvme3n1p2", Bytes::mib(33));
    tree.mount(&number, "rw");
    assert!(said(&tree, "innocent", same)[0].contains("is mounted at"));
    assert!(said(&tree, "innocent", block_device("nvme3n1"))[0].contains("is mounted at"));
    assert_eq!(said(&tree, "innocent", apart), [""; 0]);
}

#[test]
fn namespace_copy_onto_sibling_refused() {
    let mut tree = DeviceTree::new();
    tree.namespace("nvme0n1", UUID, "nqn.a");
    tree.namespace("nvme3n1", UUID, "nqn.a");
    let found = said(&tree, "nvme0n1", block_device("nvme3n1"));
    let words = "overlap on nvme0n1, the same namespace as nvme3n1, from byte 0 to 1048576";
    assert!(found.len() == 1 && found[0].ends_with(words), "{found:?}");
    let (_, part) = tree.part("nvme3n1/nvme3n1p1", Bytes(512 << 10));
    let found = said(&tree, "nvme0n1", part);
    assert!(found[0].contains("from byte 524288 to 1048576"), "{found:?}");
    let (_, apart) = tree.part("nvme3n1/nvme3n1p2", Bytes::mib(32));
    assert_eq!(said(&tree, "nvme0n1", apart), [""; 0]);
}

#[test]
fn a_file_lies_on_its_namespace_by_any_name() {
    let mut tree = DeviceTree::new();
    tree.namespace("nvme0n1", UUID, "nqn.a");
    tree.namespace("nvme3n1", UUID, "nqn.a");
    tree.part("nvme0n1/nvme0n1p1", Bytes::mib(1));
    let (_, part) = tree.part("nvme3n1/nvme3n1p1", Bytes::mib(1));
    tree.stack("dm-0", "nvme0n1p1");
    let file = file(&tree.path("file"), 7, "dm-0");
    for other in [block_device("nvme3n1"), part] {
        let device = disk(&tree, other);
        let found = refusals(&tree, &file, &device, &Asked { force: true, ..asked() });
        assert!(found.iter().any(|refusal| refusal.reason.contains(" lies on ")), "{found:?}");
    }
}

#[test]
fn two_drives_are_never_taken_for_one() {
    for (one, other) in [
        (("", "nqn.a"), ("", "nqn.a")),
        (("eui.0000000000000000", "nqn.a"), ("eui.0000000000000000", "nqn.a")),
        ((BLANK, "nqn.a"), (BLANK, "nqn.a")),
        // Virtual drives that were given one serial.
        ((COMPOSED, "nqn.a"), (COMPOSED, "nqn.b")),
        ((COMPOSED, ""), (COMPOSED, "")),
        ((COMPOSED, "nqn.a"), (UUID, "nqn.a")),
    ] {
        let mut tree = DeviceTree::new();
        let number = tree.namespace("nvme0n1", one.0, one.1);
        tree.namespace("nvme3n1", other.0, other.1);
        tree.mount(&number, "rw");
        assert_eq!(said(&tree, "nvme0n1", block_device("nvme3n1")), [""; 0], "{one:?}, {other:?}");
    }
    let mut tree = DeviceTree::new();
    tree.namespace("nvme0n1", COMPOSED, "nqn.a");
    tree.namespace("nvme3n1", COMPOSED, "nqn.a");
    let found = said(&tree, "nvme0n1", block_device("nvme3n1"));
    assert!(found[0].contains("the same namespace as"), "{found:?}");
}

#[test]
fn a_hidden_path_is_no_further_name() {
    let mut tree = DeviceTree::new();
    tree.namespace("nvme0n1", UUID, "nqn.a");
    tree.namespace("nvme0c0n1", UUID, "nqn.a");
    tree.write("sys/devices/nvme0c0n1/hidden", "1\n");
    assert!(tree.system().siblings("nvme0n1").is_empty());
}

#[test]
fn namespace_names_resolve_to_first() {
    let mut tree = DeviceTree::new();
    tree.namespace("nvme0n1", UUID, "nqn.a");
    tree.namespace("nvme3n1", UUID, "nqn.a");
    assert_eq!(tree.system().first_name("nvme3n1"), "nvme0n1");
    assert_eq!(tree.system().first_name("nvme0n1"), "nvme0n1");
}
