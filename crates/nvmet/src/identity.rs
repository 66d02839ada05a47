//! The device or file that the path of an export leads to on this machine.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A device or a file, independent of the path that led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorageIdentity {
    /// A block device.
    BlockDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A character device: the controller of a passthru export.
    CharacterDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A regular file: the store of a file-backed namespace.
    File {
        /// Major and minor number of the file system.
        device: (u32, u32),
        /// Inode number in that file system.
        inode: u64,
    },
}

/// Reasons why the storage behind an export cannot be identified.
#[derive(Debug, thiserror::Error)]
pub enum IdentifyError {
    /// The export has no path yet, or it could not be read.
    #[error("cannot identify the exported device: its path is unknown")]
    NoPath,
    /// The path is relative: the kernel resolved it in the folder of the process that enabled the export.
    #[error("cannot identify {}: the path is relative", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// The export is one of another machine or of a captured tree.
    #[error("cannot identify {}: it is not a path of this machine", path.display())]
    OtherMachine {
        /// The path.
        path: PathBuf,
    },
    /// The path leads to neither a device nor a regular file.
    #[error("cannot identify {}: neither a device nor a regular file", path.display())]
    NotStorage {
        /// The path.
        path: PathBuf,
    },
    /// The system refused; after a drive is removed, its export and the path of it stay.
    #[error("cannot identify {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Identifies the storage behind an absolute path of this machine, following links.
///
/// # Errors
/// When the path is relative, leads to nothing, or leads to neither a device nor a regular file.
pub fn identify(path: &Path) -> Result<StorageIdentity, IdentifyError> {
    let path = path.to_owned();
    if !path.is_absolute() {
        return Err(IdentifyError::Relative { path });
    }
    let found = match fs::metadata(&path) {
        Ok(found) => found,
        Err(source) => return Err(IdentifyError::Io { path, source }),
    };
    let number = |device| (rustix::fs::major(device), rustix::fs::minor(device));
    let (major, minor) = number(found.rdev());
    let kind = found.file_type();
    if kind.is_block_device() {
        Ok(StorageIdentity::BlockDevice { major, minor })
    } else if kind.is_char_device() {
        Ok(StorageIdentity::CharacterDevice { major, minor })
    } else if kind.is_file() {
        Ok(StorageIdentity::File { device: number(found.dev()), inode: found.ino() })
    } else {
        Err(IdentifyError::NotStorage { path })
    }
}
