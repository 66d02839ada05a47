//! Files that are read and written without a ring: journals, their locks.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Calls that change files and names in an open directory. Each default is the system's own.
pub(crate) trait SmallFiles {
    /// Makes a file that is not there yet, and opens it for writing.
    ///
    /// # Errors
    /// The system's answer.
    fn create(&self, directory: &File, name: &OsStr, mode: Mode) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, mode).map(File::from)
    }

    /// Writes all of the text to a new file.
    ///
    /// # Errors
    /// The system's answer.
    fn write(&self, mut file: &File, text: &[u8]) -> io::Result<()> {
        file.write_all(text)
    }

    /// Replaces the text of a file in place.
    ///
    /// # Errors
    /// The system's answer; the file holds part of either then.
    fn rewrite(&self, file: &File, text: &[u8]) -> io::Result<()> {
        file.write_all_at(text, 0)?;
        file.set_len(text.len() as u64)
    }

    /// Makes a file, or the names in a directory, survive a loss of power.
    ///
    /// # Errors
    /// The system's answer.
    fn sync(&self, file: &File) -> Result<(), Errno> {
        rustix::fs::fsync(file)
    }

    /// Gives a file another name, over what has it.
    ///
    /// # Errors
    /// The system's answer.
    fn rename(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat(directory, from, directory, to)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// The system's answer.
    fn remove(&self, directory: &File, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(directory, name, AtFlags::empty())
    }
}
