//! Memory of a PCIe function that its driver published to the kernel's P2PDMA layer: the controller
//! memory buffer of an NVMe drive is the one in tree.
//!
//! Preconditions, in this order, with the kernel's answer where one does not hold
//! (`drivers/pci/p2pdma.c`, `p2pmem_alloc_mmap`, Linux 6.2 to 7.3):
//!
//! 1. `p2pmem/allocate` is there: `CONFIG_PCI_P2PDMA`, and a driver that added its memory (`ENOENT`).
//! 2. It can be opened for reading and writing: mode 0660, root (`EACCES`, `EPERM`).
//! 3. The pool has a free run: one map is one allocation, physically contiguous, whole pages (`ENOMEM`).
//! 4. The function is not going away (`ENODEV`).
//!
//! The region returns to the pool when it is dropped and the last request on it is over. Never load
//! from it or store to it: see the crate's header.

use std::io;
use std::path::{Path, PathBuf};

use peerlane_units::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::map::Map;
use crate::region::{Region, RegionKind};

/// The reason why a function gives no memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum P2pRefusal {
    /// There is no `allocate` file (`ENOENT`).
    #[error("cannot open p2pmem: no {}", allocate.display())]
    Absent {
        /// The file that is not there.
        allocate: PathBuf,
    },
    /// The file may not be opened for reading and writing (`EACCES`, `EPERM`).
    #[error("cannot open p2pmem: no permission to read and write {}", allocate.display())]
    NoPermission {
        /// The file.
        allocate: PathBuf,
        /// The system's answer.
        #[source]
        errno: Errno,
    },
    /// The pool has no free run of that length (`ENOMEM`): full, or in pieces.
    #[error("cannot map {length} of {}: no free run of that length ({})", allocate.display(), shown(*available))]
    Exhausted {
        /// The file.
        allocate: PathBuf,
        /// Bytes asked for.
        length: Bytes,
        /// Free bytes in the pool just after, all runs together; `None` where it cannot be read.
        available: Option<Bytes>,
    },
    /// The function is being removed, or its driver unbound (`ENODEV`).
    #[error("cannot map {length} of {}: the device is going away", allocate.display())]
    DeviceGone {
        /// The file.
        allocate: PathBuf,
        /// Bytes asked for.
        length: Bytes,
    },
    /// The kernel does not map this file in this way (`EINVAL`): nothing asked for, or no p2pmem file.
    #[error("cannot map {length} of {}: not a map that the kernel allows", allocate.display())]
    Invalid {
        /// The file.
        allocate: PathBuf,
        /// Bytes asked for.
        length: Bytes,
    },
    /// Any other answer.
    #[error("cannot map {length} of {}", allocate.display())]
    Other {
        /// The file.
        allocate: PathBuf,
        /// Bytes asked for.
        length: Bytes,
        /// The system's answer.
        #[source]
        errno: Errno,
    },
}

impl P2pRefusal {
    /// Advice on how to fix it, with a command.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Absent { .. } => Some(
                "the kernel needs CONFIG_PCI_P2PDMA=y (Linux 6.2 or later), and the drive a controller \
                 memory buffer: `grep P2PDMA /boot/config-$(uname -r)`, `cat /sys/class/nvme/nvme*/cmb`"
                    .to_owned(),
            ),
            Self::NoPermission { allocate, .. } => Some(format!(
                "run as root, or give your group the file: `chgrp GROUP {}` (a udev rule keeps it)",
                allocate.display()
            )),
            Self::Exhausted { length, available, .. } => {
                Some(if available.is_some_and(|free| free >= *length) {
                    "the pool is in pieces and a map is one run: take a smaller --block or --depth, or \
                     end the programs that hold parts of it"
                        .to_owned()
                } else {
                    "take a smaller --block or --depth, or end the programs that hold the memory"
                        .to_owned()
                })
            }
            Self::DeviceGone { .. } => {
                Some("wait for the device to come back, or take another memory".to_owned())
            }
            Self::Invalid { .. } | Self::Other { .. } => None,
        }
    }
}

fn shown(available: Option<Bytes>) -> String {
    available.map_or_else(|| "free bytes unknown".to_owned(), |free| format!("{free} free in all"))
}

/// Allocates memory of the function whose `p2pmem` directory is given
/// (`/sys/bus/pci/devices/BDF/p2pmem`): one physically contiguous run, rounded up to whole pages,
/// wholly or not at all. Its content is left from the last user.
///
/// # Errors
/// [`P2pRefusal`], by the system's answer.
pub fn allocate(p2pmem: &Path, length: Bytes) -> Result<Region, P2pRefusal> {
    let allocate = p2pmem.join("allocate");
    let bytes = match usize::try_from(length.0) {
        Ok(bytes) if bytes > 0 => bytes,
        _ => return Err(P2pRefusal::Invalid { allocate, length }),
    };
    let file = match rustix::fs::open(&allocate, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(P2pRefusal::Absent { allocate }),
        Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
            return Err(P2pRefusal::NoPermission { allocate, errno });
        }
        Err(errno) => return Err(P2pRefusal::Other { allocate, length, errno }),
    };
    // The map keeps the memory; the file may be closed afterwards.
    match Map::shared(std::os::fd::AsFd::as_fd(&file), bytes) {
        Ok(map) => Ok(Region::new(map, length, RegionKind::P2pmem)),
        Err(Errno::NOMEM) => {
            let available = read_bytes(&p2pmem.join("available")).ok();
            Err(P2pRefusal::Exhausted { allocate, length, available })
        }
        Err(Errno::NODEV) => Err(P2pRefusal::DeviceGone { allocate, length }),
        Err(Errno::INVAL) => Err(P2pRefusal::Invalid { allocate, length }),
        Err(errno) => Err(P2pRefusal::Other { allocate, length, errno }),
    }
}

fn read_bytes(path: &Path) -> io::Result<Bytes> {
    let text = std::fs::read_to_string(path)?;
    text.trim().parse().map(Bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(bytes: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::File::create(folder.path().join("allocate")).unwrap().set_len(bytes).unwrap();
        std::fs::write(folder.path().join("available"), "65536\n").unwrap();
        folder
    }

    #[test]
    fn device_memory_gives_no_bytes() {
        let folder = pool(1 << 20);
        let mut region = allocate(folder.path(), Bytes::kib(64)).unwrap();
        assert_eq!(region.length(), Bytes::kib(64));
        assert_eq!(region.kind(), RegionKind::P2pmem);
        assert!(region.host_bytes_mut().is_none());
    }

    #[test]
    fn dropped_region_is_unmapped() {
        let folder = pool(1 << 20);
        let name = folder.path().join("allocate").display().to_string();
        let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
        let region = allocate(folder.path(), Bytes::kib(64)).unwrap();
        let line = maps().lines().find(|line| line.ends_with(&name)).unwrap().to_owned();
        assert!(line.contains(" rw-s 00000000 "), "{line}");
        drop(region);
        assert!(!maps().contains(&name));
    }

    #[test]
    fn a_function_without_p2pmem_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = allocate(folder.path(), Bytes(4096)).unwrap_err();
        let allocate = folder.path().join("allocate");
        assert_eq!(refusal, P2pRefusal::Absent { allocate });
        assert!(refusal.hint().is_some_and(|hint| hint.contains("CONFIG_PCI_P2PDMA")));
    }

    #[test]
    fn any_other_answer_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("allocate")).unwrap();
        let refusal = allocate(folder.path(), Bytes(4096)).unwrap_err();
        assert!(matches!(refusal, P2pRefusal::Other { errno: Errno::ISDIR, .. }), "{refusal:?}");
        assert_eq!(
            std::error::Error::source(&refusal).unwrap().to_string(),
            Errno::ISDIR.to_string()
        );
    }

    /// The kernel refuses a map larger than the address space with `ENOMEM`, like a full pool.
    #[test]
    fn full_pool_states_free_bytes() {
        let folder = pool(1 << 20);
        let refusal = allocate(folder.path(), Bytes(1 << 60)).unwrap_err();
        assert!(
            matches!(refusal, P2pRefusal::Exhausted { available: Some(Bytes(65536)), .. }),
            "{refusal:?}"
        );
        assert!(refusal.to_string().ends_with("(64 KiB free in all)"), "{refusal}");
    }

    #[test]
    fn fragmented_pool_has_its_own_hint() {
        let refusal = |available| P2pRefusal::Exhausted {
            allocate: "/p2pmem/allocate".into(),
            length: Bytes::mib(2),
            available: Some(available),
        };
        assert!(refusal(Bytes::mib(34)).hint().unwrap().contains("in pieces"));
        assert!(!refusal(Bytes::mib(1)).hint().unwrap().contains("in pieces"));
    }

    #[test]
    fn nothing_is_no_allocation() {
        let folder = pool(1 << 20);
        let refusal = allocate(folder.path(), Bytes(0)).unwrap_err();
        assert!(matches!(refusal, P2pRefusal::Invalid { .. }), "{refusal:?}");
    }

    /// A device that cannot be mapped answers `ENODEV`, as p2pmem does while its function goes away.
    #[test]
    fn unmappable_device_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.path().join("allocate")).unwrap();
        let refusal = allocate(folder.path(), Bytes(4096)).unwrap_err();
        assert!(matches!(refusal, P2pRefusal::DeviceGone { .. }), "{refusal:?}");
    }
}
