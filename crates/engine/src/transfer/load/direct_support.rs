//! Necessary conditions of a direct route from a file into a GPU, read from `/sys` and `/proc` alone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use peerlane_fabric::kernel_has_p2pdma;

/// Folders that exist while NVIDIA's `nvidia_fs` is loaded.
const NVIDIA_FS: [&str; 2] = ["sys/module/nvidia_fs", "proc/driver/nvidia-fs"];
/// Limit for stacked block devices.
const DEPTH: u32 = 8;

/// Returns the reason if neither nvidia-fs nor P2PDMA can serve files on the device with this number.
pub(super) fn check(root: &Path, device: u64) -> Result<(), Arc<str>> {
    if NVIDIA_FS.iter().any(|folder| root.join(folder).is_dir()) {
        return Ok(());
    }
    if kernel_has_p2pdma(root) == Some(false) {
        return Err(
            "nvidia-fs is not loaded, and the kernel is built without CONFIG_PCI_P2PDMA".into()
        );
    }
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    if is_on_nvme(&root.join(format!("sys/dev/block/{major}:{minor}")), DEPTH) {
        return Ok(());
    }
    Err("nvidia-fs is not loaded, and the file is not on a local NVMe drive, which P2PDMA needs"
        .into())
}

/// Returns whether a block device is an NVMe drive, or stacked on one.
fn is_on_nvme(device: &Path, depth: u32) -> bool {
    let Ok(device) = fs::canonicalize(device) else { return false };
    if device.components().any(|part| part.as_os_str().to_string_lossy().starts_with("nvme")) {
        return true;
    }
    let Ok(below) = fs::read_dir(device.join("slaves")) else { return false };
    depth > 0 && below.flatten().any(|one| is_on_nvme(&one.path(), depth - 1))
}

/// Number of the device below a file, or of a block device itself.
pub(super) fn device_of(file: &fs::File) -> std::io::Result<u64> {
    let facts = file.metadata()?;
    let is_device = std::os::unix::fs::FileTypeExt::is_block_device(&facts.file_type());
    Ok(if is_device { facts.rdev() } else { facts.dev() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A machine with a disk 8:0, a volume 253:0 on an NVMe drive, and a kernel configured as told.
    fn machine(config: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["sys/dev/block", "sys/block/sda", "sys/block/nvme0n1", "boot"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::create_dir_all(at("sys/block/dm-0/slaves")).unwrap();
        fs::create_dir_all(at("proc/sys/kernel")).unwrap();
        fs::write(at("proc/sys/kernel/osrelease"), "6.8.0\n").unwrap();
        fs::write(at("boot/config-6.8.0"), config).unwrap();
        symlink("../../nvme0n1", at("sys/block/dm-0/slaves/nvme0n1")).unwrap();
        for (number, name) in [("8:0", "sda"), ("259:0", "nvme0n1"), ("253:0", "dm-0")] {
            symlink(format!("../../block/{name}"), at("sys/dev/block").join(number)).unwrap();
        }
        root
    }

    #[test]
    fn direct_way_needs_module_or_kernel_and_drive() {
        let device = |major, minor| rustix::fs::makedev(major, minor);
        let with = machine("CONFIG_PCI_P2PDMA=y\n");
        assert_eq!(check(with.path(), device(259, 0)), Ok(()));
        assert_eq!(check(with.path(), device(253, 0)), Ok(()), "a volume on such a drive");
        for other in [device(8, 0), device(0, 44)] {
            assert!(
                check(with.path(), other)
                    .is_err_and(|why| why.contains("not on a local NVMe drive"))
            );
        }
        let without = machine("# CONFIG_PCI_P2PDMA is not set\n");
        let refused = check(without.path(), device(259, 0));
        assert!(refused.is_err_and(|why| why.contains("CONFIG_PCI_P2PDMA")));
        fs::create_dir_all(without.path().join("proc/driver/nvidia-fs")).unwrap();
        assert_eq!(check(without.path(), device(8, 0)), Ok(()), "nvidia-fs decides by itself");
    }
}
