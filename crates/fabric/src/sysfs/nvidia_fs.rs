//! Drivers registered with the module `nvidia_fs`, in `/proc/driver/nvidia-fs/modules`.
//!
//! The module looks for the drivers when a program opens its device, and lets them go when the last one closes
//! it (`nvfs_open` and `nvfs_close` in nvfs-core.c, 2.3 to 2.28.4). The list of an idle module says nothing.

use std::path::Path;

use super::tree::Tree;

/// Lines `nvme: 1.0`, one a driver (`nvfs_modules_show` in nvfs-proc.c).
pub(crate) const MODULES: &str = "proc/driver/nvidia-fs/modules";
/// Number of users of the module; each open device is one.
pub(crate) const USERS: &str = "sys/module/nvidia_fs/refcnt";

/// Names that the module lists (`NVFS_PROC_MOD_*` in nvfs-dma.h, 2.28.4).
const NAMES: [&str; 11] = [
    NVME,
    "beegfs",
    "lnet",
    "mmfslinux",
    "nvme_rdma",
    "nvmeib_common",
    "rpcrdma",
    "scatefs",
    "scsi_mod",
    "sfxvdriver",
    "wekafsio",
];
const NVME: &str = "nvme";

/// Returns whether the driver `nvme` is registered; `None` where that is not shown.
pub(super) fn has_nvme(tree: &Tree) -> Option<bool> {
    let text = tree.text(Path::new(MODULES)).ok()?;
    let is_idle = tree.number::<u32>(Path::new(USERS)) == Some(0);
    let is_listed = text.lines().any(|line| name(line) == NVME);
    (is_listed || !is_idle).then_some(is_listed)
}

/// The lines of known drivers, without their versions.
pub(crate) fn kept(text: &str) -> String {
    let known = text.lines().map(name).filter(|name| NAMES.contains(name));
    known.map(|name| format!("{name}:\n")).collect()
}

fn name(line: &str) -> &str {
    line.split(':').next().unwrap_or(line).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_kept_alone() {
        let text = "nvme: 1.0-acme\nnvme_rdma: 4\nacme_fs: 1\n\nwekafsio: 1\n";
        assert_eq!(kept(text), "nvme:\nnvme_rdma:\nwekafsio:\n");
        assert_eq!(kept(""), "");
    }
}
