//! Drives and files that this machine exports, and disks that are its own exports.

use super::*;

const NQN: &str = "nqn.2026-11.org.example:drives";
const UUID: &str = "1b0c1f9e-7a54-4e0b-9d59-cb0e1f3f9a11";

impl DeviceTree {
    /// Exports `path` as namespace 1 over TCP.
    fn export(&self, path: &str, enable: &str) {
        let subsystem = format!("sys/kernel/config/nvmet/subsystems/{NQN}");
        for (name, text) in [("device_path", path), ("enable", enable), ("device_uuid", UUID)] {
            self.write(&format!("{subsystem}/namespaces/1/{name}"), &format!("{text}\n"));
        }
        let port = "sys/kernel/config/nvmet/ports/3";
        for (name, text) in
            [("addr_trtype", "tcp"), ("addr_traddr", "192.0.2.1"), ("addr_trsvcid", "4420")]
        {
            self.write(&format!("{port}/{name}"), &format!("{text}\n"));
        }
        let link = self.path(&format!("{port}/subsystems/{NQN}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(self.path(&subsystem), link).unwrap();
    }

    /// Adds the disk that makes this machine a host of its own export.
    fn head(&mut self, name: &str) -> String {
        let number = self.device(name);
        for (file, text) in [
            ("wwid", format!("uuid.{UUID}")),
            ("nsid", "1".to_owned()),
            ("device/subsysnqn", NQN.to_owned()),
        ] {
            self.write(&format!("sys/devices/{name}/{file}"), &format!("{text}\n"));
        }
        number
    }
}

fn forced() -> Asked {
    Asked { force: true, ..asked() }
}

fn said(tree: &DeviceTree, source: &Endpoint, target: &Endpoint) -> Vec<String> {
    let found = refusals(tree, source, target, &forced());
    found.into_iter().map(|refusal| refusal.reason).collect()
}

#[test]
fn exported_drive_is_never_overwritten() {
    let mut tree = DeviceTree::new();
    tree.device("nvme1n1");
    tree.export("/dev/nvme1n1", "1");
    let target = disk(&tree, block_device("nvme1n1"));
    let refusal = only(&tree, &target);
    let words = format!("is exported to NVMe hosts: namespace 1 of {NQN} (tcp 192.0.2.1:4420)");
    assert!(refusal.reason.ends_with(&words) && !refusal.forceable, "{refusal:?}");
    let hint = format!("echo 0 > /sys/kernel/config/nvmet/subsystems/{NQN}/namespaces/1/enable");
    assert_eq!(refusal.hint, Some(hint));
    let innocent = disk(&tree, block_device("innocent"));
    assert_eq!(said(&tree, &innocent, &target).len(), 1, "force does not help");
    let warned = super::super::warnings_of_use(&tree.system(), &target);
    assert!(
        matches!(&warned[..], [Warning::SourceInUse { by, .. }] if by.contains(NQN)),
        "{warned:?}"
    );
}

#[test]
fn disabled_export_is_no_obstacle() {
    let mut tree = DeviceTree::new();
    tree.device("nvme1n1");
    tree.export("/dev/nvme1n1", "0");
    let innocent = disk(&tree, block_device("innocent"));
    assert_eq!(said(&tree, &innocent, &disk(&tree, block_device("nvme1n1"))), [""; 0]);
}

#[test]
fn exported_partition_protects_its_disk_only() {
    let mut tree = DeviceTree::new();
    tree.device("nvme1n1");
    tree.device("nvme1n1/nvme1n1p1");
    tree.device("nvme1n1/nvme1n1p2");
    tree.export("/dev/nvme1n1p1", "1");
    let innocent = disk(&tree, block_device("innocent"));
    let whole = BlockDevice {
        partitions: vec![partition("nvme1n1p1"), partition("nvme1n1p2")],
        ..block_device("nvme1n1")
    };
    let part = |name: &str, start| BlockDevice {
        partition: Some(ParentDisk { disk: "nvme1n1".to_owned(), start }),
        ..block_device(name)
    };
    assert_eq!(said(&tree, &innocent, &disk(&tree, whole)).len(), 1);
    let first = disk(&tree, part("nvme1n1p1", Bytes::mib(1)));
    assert_eq!(said(&tree, &innocent, &first).len(), 1);
    let second = disk(&tree, part("nvme1n1p2", Bytes::mib(33)));
    assert_eq!(said(&tree, &innocent, &second), [""; 0]);
}

#[test]
fn volume_on_exported_drive_is_refused() {
    let mut tree = DeviceTree::new();
    tree.device("nvme1n1");
    tree.stack("dm-0", "nvme1n1");
    tree.export("/dev/nvme1n1", "1");
    let innocent = disk(&tree, block_device("innocent"));
    let found = said(&tree, &innocent, &disk(&tree, block_device("dm-0")));
    assert!(found.iter().any(|one| one.contains("is exported")), "{found:?}");
}

#[test]
fn exports_that_nobody_can_list_need_force() {
    let mut tree = DeviceTree::new();
    tree.device("nvme1n1");
    fs::create_dir_all(tree.path("sys/module/nvmet")).unwrap();
    let target = disk(&tree, block_device("nvme1n1"));
    let refusal = only(&tree, &target);
    assert!(refusal.forceable && refusal.reason.contains("cannot tell whether"), "{refusal:?}");
    assert!(refusal.hint.is_some_and(|hint| hint.contains("mount -t configfs")));
}

#[test]
fn drive_and_disk_of_its_export_are_one() {
    let mut tree = DeviceTree::new();
    tree.device("nvme1n1");
    tree.head("nvme3n1");
    tree.export("/dev/nvme1n1", "1");
    let (drive, head) =
        (disk(&tree, block_device("nvme1n1")), disk(&tree, block_device("nvme3n1")));
    let found = said(&tree, &drive, &head);
    assert!(
        found.len() == 1 && found[0].contains(" through a loop device or NVMe export"),
        "{found:?}"
    );
    let found = said(&tree, &head, &drive);
    assert!(
        found.iter().any(|one| one.contains(" through a loop device or NVMe export")),
        "{found:?}"
    );
}

#[test]
fn mounted_drive_is_protected_behind_its_export() {
    let mut tree = DeviceTree::new();
    let number = tree.device("nvme1n1");
    tree.head("nvme3n1");
    tree.export("/dev/nvme1n1", "1");
    tree.mount(&number, "rw");
    let innocent = disk(&tree, block_device("innocent"));
    let found = said(&tree, &innocent, &disk(&tree, block_device("nvme3n1")));
    assert!(found[0].contains("shows nvme1n1, which is mounted at /mnt/data"), "{found:?}");
}

#[test]
fn disk_of_other_uuid_is_another_machines() {
    let mut tree = DeviceTree::new();
    tree.device("nvme1n1");
    tree.head("nvme3n1");
    tree.export("/dev/nvme1n1", "1");
    let other = "uuid.00000000-7a54-4e0b-9d59-cb0e1f3f9a11\n";
    tree.write("sys/devices/nvme3n1/wwid", other);
    let drive = disk(&tree, block_device("nvme1n1"));
    assert_eq!(said(&tree, &drive, &disk(&tree, block_device("nvme3n1"))), [""; 0]);
}
