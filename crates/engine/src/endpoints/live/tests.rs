//! Tests for files as ends of a copy, by the mounts of a made-up procfs.

use super::*;
use crate::endpoints::guard::tests::DeviceTree;
use crate::transfer::copy::tests::bare_machine;

fn said(tree: &DeviceTree, path: &Path, role: Role) -> Result<PathNode, EndpointError> {
    let end = inspect(&tree.system(), &bare_machine(), path, role)?;
    Ok(end.live.expect("live").node)
}

/// A folder that the tree says to be a file system of `kind`.
fn folder(kind: &str) -> (DeviceTree, tempfile::TempDir) {
    let (tree, folder) = (DeviceTree::new(), tempfile::tempdir().unwrap());
    let at = fs::canonicalize(folder.path()).unwrap();
    let line = format!("36 35 0:6 / {} rw - {kind} none rw\n", at.display());
    tree.write("proc/self/mountinfo", &line);
    (tree, folder)
}

#[test]
fn mistyped_device_makes_no_file() {
    let (tree, folder) = folder("devtmpfs");
    let error = said(&tree, &folder.path().join("nvme9n1"), Role::Target).unwrap_err();
    assert!(error.to_string().starts_with("there is no such device: /"), "{error}");
    assert!(error.hint().unwrap().contains("`peerlane topo`"));
}

#[test]
fn a_file_that_lies_among_devices_is_no_end() {
    let (tree, folder) = folder("devtmpfs");
    let path = folder.path().join("ng9n1");
    fs::write(&path, [1; 512]).unwrap();
    for role in [Role::Source, Role::Target] {
        let error = said(&tree, &path, role).unwrap_err();
        assert!(matches!(error, EndpointError::NotADevice { .. }), "{error}");
    }
}

#[test]
fn kernel_file_systems_refuse_new_files() {
    for kind in ["proc", "sysfs", "debugfs", "hugetlbfs"] {
        let (tree, folder) = folder(kind);
        let error = said(&tree, &folder.path().join("new"), Role::Target).unwrap_err();
        assert!(error.to_string().contains(kind), "{error}");
    }
    for kind in ["tmpfs", "ramfs", "rootfs", "ext4"] {
        let (tree, folder) = folder(kind);
        let node = said(&tree, &folder.path().join("new"), Role::Target).unwrap();
        assert_eq!(node, PathNode::NewFile);
    }
}

#[test]
fn mounts_below_dev_are_not_devices() {
    let is_among = |point: &str, kind: &str, path: &str| {
        let mount = MountinfoLine {
            device: (0, 6),
            point: PathBuf::from(point),
            kind: kind.to_owned(),
            source: "none".to_owned(),
            options: String::new(),
            is_read_only: false,
        };
        is_among_devices(&mount, Path::new(path))
    };
    assert!(is_among("/dev", "tmpfs", "/dev"), "as in a container");
    assert!(is_among("/", "overlay", "/dev/mapper"));
    assert!(is_among("/mnt/dev", "devtmpfs", "/mnt/dev"));
    assert!(!is_among("/dev/shm", "tmpfs", "/dev/shm"));
    assert!(!is_among("/tmp", "tmpfs", "/tmp/dev"));
    assert!(!is_among("/", "ext4", "/devices"));
}

#[test]
fn device_in_missing_folder_is_missing() {
    let tree = DeviceTree::new();
    let path = Path::new("/dev/no such folder/disk");
    let error = said(&tree, path, Role::Target).unwrap_err();
    assert!(matches!(error, EndpointError::NoDevice { .. }), "{error}");
}

#[test]
fn bare_device_names_make_no_file() {
    for name in ["nvme5", "nvme0n1", "nvme0n1p2", "sda", "sdb1", "vda", "gpu0"] {
        assert!(is_device_name(Path::new(name)), "{name}");
        assert!(!is_device_name(&Path::new("./").join(name)), "./{name}");
    }
    for name in ["nvme", "nvme0.img", "sdx.bin", "video", "gpu", "target.bin", "vda1.img"] {
        assert!(!is_device_name(Path::new(name)), "{name}");
    }
}
