//! Errors of reading the NVMe target, and reasons why its exports are unknown.

use std::io;
use std::path::PathBuf;

/// Reasons why a file, folder or link could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// Path of the file, folder or link.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The content is longer than any that the kernel writes there.
    #[error("cannot read {}: larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size that is read.
        limit: u64,
    },
    /// The folder has more entries than are read.
    #[error("cannot read {}: more than {limit} entries", path.display())]
    TooManyEntries {
        /// The folder.
        path: PathBuf,
        /// The largest number of entries that is read.
        limit: usize,
    },
    /// The name or content is not of the form that the kernel gives it.
    #[error("cannot read {}: not {expected}", path.display())]
    Malformed {
        /// Path of the file, folder or link.
        path: PathBuf,
        /// The form that was expected: `0 or 1`.
        expected: &'static str,
    },
}

impl ReadError {
    /// Returns whether the file, folder or link does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_absence(source))
    }
}

/// Returns whether the error says that a path leads to nothing.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reasons why the exports of a machine are unknown.
#[derive(Debug, thiserror::Error)]
pub enum UnknownReason {
    /// There is no sysfs below the root.
    #[error("cannot list NVMe exports: {} holds no sysfs", sysfs.display())]
    NoSysfs {
        /// Folder expected to hold sysfs.
        sysfs: PathBuf,
    },
    /// The kernel has an NVMe target, and configfs is not mounted.
    #[error("cannot list NVMe exports: configfs is not mounted, and {} shows an NVMe target", sign.display())]
    NotMounted {
        /// The file or folder that shows the NVMe target.
        sign: PathBuf,
    },
    /// The module is there, and configfs has no folder of it: it is being loaded or removed.
    #[error("cannot list NVMe exports: nvmet is loaded, and {} is missing", folder.display())]
    NotRegistered {
        /// The folder that is missing.
        folder: PathBuf,
    },
    /// Configfs refuses to be read.
    #[error("cannot list NVMe exports")]
    Unreadable(#[source] ReadError),
}

impl UnknownReason {
    /// Returns a command that may change this.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoSysfs { .. } => Some("mount -t sysfs sysfs /sys"),
            Self::NotMounted { .. } => Some("mount -t configfs configfs /sys/kernel/config"),
            Self::NotRegistered { .. } | Self::Unreadable(_) => None,
        }
    }
}
