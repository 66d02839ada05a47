//! Short paths of sockets: the address of a socket has room for 107 bytes (unix(7)).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// A folder under a short name, valid as long as this value.
pub(crate) struct ShortFolder(File);

impl ShortFolder {
    /// Opens a folder.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        File::open(folder).map(Self)
    }

    /// The short path of a name in the folder.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }
}
