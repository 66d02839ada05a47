//! The folder of the NVMe target, or why there is none.
//!
//! Configfs is usually mounted at `/sys/kernel/config`, and may be mounted anywhere. There is one
//! configfs in a kernel (`get_tree_single`, fs/configfs/mount.c), so any mount of all of it shows
//! whether there is an NVMe target.
//!
//! Without such a mount, the kernel shows its NVMe target elsewhere:
//!
//! 1. As a module: `sys/module/nvmet`.
//! 2. Built in: *not* by `sys/module/nvmet`. A built-in module has that folder only with a parameter
//!    or a version (`param_sysfs_builtin`, `version_sysfs_builtin`, kernel/params.c) or a driver
//!    (`module_add_driver`, drivers/base/module.c), and nvmet has none of them. The folder of a
//!    transport shows it, since every transport needs nvmet: that of `nvmet_tcp` is there when
//!    built in, too. `modules.builtin` of the running kernel names nvmet.
//!
//! One case stays undetected: nvmet built in, no configfs mount, no transport with a folder, and no
//! `modules.builtin`. It counts as absent.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::error::{ReadError, UnknownReason};
use crate::root::{NvmetRoot, below_root, to_path};

const USUAL_CONFIGFS: &str = "sys/kernel/config";

/// Modules whose presence shows that of nvmet: itself and its transports.
const MODULES: [&str; 6] =
    ["nvmet", "nvmet_tcp", "nvmet_rdma", "nvmet_fc", "nvmet_pci_epf", "nvme_loop"];

/// Largest `mountinfo` and `modules.builtin` that are read.
const MAX_LIST_BYTES: u64 = 4 << 20;

/// Location of the configuration of the NVMe target.
#[derive(Debug)]
pub(crate) enum Location {
    /// The folder, below the root.
    Folder(PathBuf),
    /// The kernel has no NVMe target.
    Absent,
    /// It has one, or may have one, without a folder that can be found.
    Unknown(UnknownReason),
}

/// Finds the folder `nvmet` of configfs.
pub(crate) fn locate(root: &NvmetRoot) -> Result<Location, ReadError> {
    let usual = Path::new(USUAL_CONFIGFS).join("nvmet");
    if root.has_folder(&usual)? {
        return Ok(Location::Folder(usual));
    }
    let mounts = configfs_mounts(root);
    for folder in mounts.iter().filter_map(ConfigfsMount::nvmet_folder) {
        if root.has_folder(&folder)? {
            return Ok(Location::Folder(folder));
        }
    }
    let whole = mounts.iter().find(|mount| mount.shows == Path::new("/"));
    Ok(match whole {
        Some(mount) if has_module(root, "nvmet") => {
            let folder = root.full(&mount.point.join("nvmet"));
            Location::Unknown(UnknownReason::NotRegistered { folder })
        }
        Some(_) => Location::Absent,
        None => without_configfs(root),
    })
}

fn without_configfs(root: &NvmetRoot) -> Location {
    let sysfs = Path::new("sys");
    if root.names(sysfs).map_or(true, |names| names.is_empty()) {
        return Location::Unknown(UnknownReason::NoSysfs { sysfs: root.full(sysfs) });
    }
    match sign_of_target(root) {
        Some(sign) => Location::Unknown(UnknownReason::NotMounted { sign: root.full(&sign) }),
        None => Location::Absent,
    }
}

/// Returns the file or folder that shows an NVMe target in the kernel.
fn sign_of_target(root: &NvmetRoot) -> Option<PathBuf> {
    let module = MODULES.into_iter().find(|module| has_module(root, module));
    module.map(module_folder).or_else(|| {
        let list = built_in_modules(root)?;
        let text = root.file(&list, MAX_LIST_BYTES).ok()?;
        let mut lines = text.split(|&byte| byte == b'\n');
        lines.any(|line| line.ends_with(b"/nvmet.ko")).then_some(list)
    })
}

fn module_folder(module: &str) -> PathBuf {
    Path::new("sys/module").join(module)
}

/// Returns whether a module is there; a folder that cannot be looked up counts.
fn has_module(root: &NvmetRoot, module: &str) -> bool {
    root.has_folder(&module_folder(module)).unwrap_or(true)
}

/// Returns the path of `modules.builtin` of the running kernel (Documentation/kbuild/kbuild.rst).
fn built_in_modules(root: &NvmetRoot) -> Option<PathBuf> {
    let release = to_path(root.attribute(Path::new("proc/sys/kernel/osrelease")).ok()?);
    let mut components = release.components();
    let Some(Component::Normal(release)) = components.next() else { return None };
    components.next().is_none().then_some(())?;
    // On most systems `lib` is a link to `usr/lib`.
    let folders = ["usr/lib/modules", "lib/modules"].map(|folder| Path::new(folder).join(release));
    let folder = folders.into_iter().find(|folder| matches!(root.has_folder(folder), Ok(true)))?;
    Some(folder.join("modules.builtin"))
}

/// A mount of configfs, or of a folder in it.
#[derive(Debug, PartialEq, Eq)]
struct ConfigfsMount {
    /// The folder of configfs that is mounted, `/` for all of it.
    shows: PathBuf,
    /// The place of the mount, below the root.
    point: PathBuf,
}

impl ConfigfsMount {
    fn nvmet_folder(&self) -> Option<PathBuf> {
        let inside = Path::new("/nvmet").strip_prefix(&self.shows).ok()?;
        // Joined with an empty path, it would end in a slash.
        Some(self.point.components().chain(inside.components()).collect())
    }

    /// Reads a line of `mountinfo`; the second part says whether configfs is mounted there.
    fn parse(line: &[u8]) -> Option<(Self, bool)> {
        let separator = line.windows(3).position(|part| part == b" - ")?;
        let mut before = line[..separator].split(|&byte| byte == b' ').skip(3);
        let shows = unescape(before.next()?);
        let point = below_root(&unescape(before.next()?)).to_owned();
        let kind = line[separator + 3..].split(|&byte| byte == b' ').next()?;
        Some((Self { shows, point }, kind == b"configfs"))
    }
}

/// Returns the mounts of configfs that no later mount covers at the same place.
fn configfs_mounts(root: &NvmetRoot) -> Vec<ConfigfsMount> {
    let text = own_process(root)
        .and_then(|process| root.file(&process.join("mountinfo"), MAX_LIST_BYTES).ok());
    let mut mounts: Vec<ConfigfsMount> = Vec::new();
    let text = text.unwrap_or_default();
    for (mount, is_configfs) in text.split(|&byte| byte == b'\n').filter_map(ConfigfsMount::parse) {
        mounts.retain(|earlier| earlier.point != mount.point);
        if is_configfs {
            mounts.push(mount);
        }
    }
    mounts
}

/// Returns the folder of the reading process in `proc`: `self` links to it, and is a folder in a
/// captured tree.
fn own_process(root: &NvmetRoot) -> Option<PathBuf> {
    let folder = Path::new("proc/self");
    let Ok(process) = root.link(folder) else { return Some(folder.to_owned()) };
    let is_number = process.as_os_str().as_bytes().iter().all(u8::is_ascii_digit);
    is_number.then(|| Path::new("proc").join(process))
}

/// Undoes the octal escapes of `mountinfo`: `\040` for a space.
fn unescape(text: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mount_line_gives_place_and_kind() {
        let line = b"36 35 0:30 / /mnt/my\\040config rw,noatime shared:1 - configfs none rw";
        let (mount, is_configfs) = ConfigfsMount::parse(line).expect("a mount");
        assert!(is_configfs);
        assert_eq!(mount.point, Path::new("mnt/my config"));
        assert_eq!(mount.nvmet_folder(), Some("mnt/my config/nvmet".into()));
        let line = b"36 35 0:30 /nvmet /exports rw - configfs none rw";
        let (mount, _) = ConfigfsMount::parse(line).expect("a mount");
        assert_eq!(mount.nvmet_folder(), Some("exports".into()));
        let line = b"36 35 0:30 /target /scsi rw - configfs none rw";
        let (mount, _) = ConfigfsMount::parse(line).expect("a mount");
        assert_eq!(mount.nvmet_folder(), None);
    }

    proptest! {
        #[test]
        fn arbitrary_mount_lines_never_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ConfigfsMount::parse(&line);
            unescape(&line);
        }
    }
}
