//! Small trees in the shape of sysfs, written file by file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use peerlane_fabric::{BlockDevice, DiscoverError, Fabric};
use tempfile::TempDir;

/// Port types of the PCIe capability.
pub(crate) const ENDPOINT: u8 = 0;
pub(crate) const ROOT_PORT: u8 = 4;
pub(crate) const UPSTREAM_PORT: u8 = 5;
pub(crate) const DOWNSTREAM_PORT: u8 = 6;

/// A tree in a temporary directory.
pub(crate) struct Sysfs {
    root: TempDir,
}

impl Sysfs {
    /// A tree with an empty `sys/devices`.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/devices")).unwrap();
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    fn at(&self, path: &str) -> PathBuf {
        let full = self.root.path().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        full
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        fs::write(self.at(path), content).unwrap();
        self
    }

    pub(crate) fn files(&self, folder: &str, files: &[(&str, &str)]) -> &Self {
        for (name, text) in files {
            self.file(&format!("{folder}/{name}"), format!("{text}\n"));
        }
        self
    }

    pub(crate) fn folder(&self, path: &str) -> &Self {
        fs::create_dir_all(self.at(path)).unwrap();
        self
    }

    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        symlink(target, self.at(path)).unwrap();
        self
    }

    /// A PCI function with `vendor`, `device` and `class` as sysfs prints them.
    pub(crate) fn function(&self, at: &str, ids: [&str; 3], config: &[u8]) -> &Self {
        let [vendor, device, class] = ids;
        self.files(at, &[("vendor", vendor), ("device", device), ("class", class)])
            .files(at, &[("numa_node", "-1")])
            .file(&format!("{at}/config"), config)
    }

    /// A disk of 64 MiB with 512-byte blocks.
    pub(crate) fn disk(&self, at: &str) -> &Self {
        self.files(at, &[("size", "131072"), ("ro", "0"), ("nsid", "1")])
            .files(
                &format!("{at}/queue"),
                &[
                    ("logical_block_size", "512"),
                    ("physical_block_size", "4096"),
                    ("max_sectors_kb", "1280"),
                    ("max_segments", "127"),
                    ("stable_writes", "0"),
                ],
            )
            .folder(&format!("{at}/holders"))
            .folder(&format!("{at}/slaves"))
    }

    pub(crate) fn discover(&self) -> Fabric {
        Fabric::discover(self.root()).unwrap()
    }

    pub(crate) fn block(&self, major: u32, minor: u32) -> Result<BlockDevice, DiscoverError> {
        BlockDevice::read(self.root(), major, minor)
    }
}

/// A whole configuration space with a PCIe capability, and ACS when `acs` is its control register.
pub(crate) fn config(port_type: u8, acs: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[0x06] = 0x10;
    bytes[0x34] = 0x40;
    bytes[0x40..0x44].copy_from_slice(&[0x10, 0, port_type << 4 | 2, 0]);
    if let Some(control) = acs {
        bytes[0x100..0x104].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        bytes[0x106..0x108].copy_from_slice(&control.to_le_bytes());
    }
    bytes
}

pub(crate) const PORT: [&str; 3] = ["0x104c", "0x8232", "0x060400"];
pub(crate) const NVME: [&str; 3] = ["0x1b36", "0x0010", "0x010802"];

/// `0000:01:00.0` below a root port, with controller `nvme0` and namespace `nvme0n1`.
pub(crate) fn one_drive() -> Sysfs {
    let tree = Sysfs::new();
    let root = "sys/devices/pci0000:00/0000:00:01.0";
    let drive = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
    tree.function(root, PORT, &config(ROOT_PORT, Some(0)))
        .function(drive, NVME, &config(ENDPOINT, None))
        .files(
            &format!("{drive}/nvme/nvme0"),
            &[("serial", "S1  "), ("model", "Drive  "), ("firmware_rev", "1.0 ")],
        )
        .disk(&format!("{drive}/nvme/nvme0/nvme0n1"))
        .link(
            "sys/dev/block/259:0",
            "../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1",
        );
    tree
}

/// The folder of the namespace in [`one_drive`].
pub(crate) const ONE_NAMESPACE: &str =
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1";
