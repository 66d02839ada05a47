//! Files and names that are changed without a ring: journals, their locks, targets that are files.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags, fcntl_getfl,
    fcntl_setfl,
};
use rustix::io::Errno;

/// The part of a machine that journals use: `dyn Machine` is not `dyn SmallFiles` before Rust 1.86.
pub(crate) trait AsSmallFiles {
    fn small_files(&self) -> &dyn SmallFiles;
}

impl<T: SmallFiles> AsSmallFiles for T {
    fn small_files(&self) -> &dyn SmallFiles {
        self
    }
}

/// Calls that change files and names in an open directory. Each default is the system's own.
pub(crate) trait SmallFiles: AsSmallFiles + fmt::Debug {
    /// Makes a file and opens it; one that is there is opened, or refused with `EXCL` among `flags`.
    ///
    /// # Errors
    /// The system's answer.
    fn create(
        &self,
        directory: &File,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
    ) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | flags;
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

    /// Cuts a file to a length, or extends it by zeroes.
    ///
    /// # Errors
    /// The system's answer.
    fn set_length(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    /// Reserves space for a range of a file.
    ///
    /// # Errors
    /// The system's answer.
    fn allocate(&self, file: &File, range: Range<u64>) -> Result<(), Errno> {
        let length = range.end - range.start;
        rustix::fs::fallocate(file, FallocateFlags::empty(), range.start, length)
    }

    /// Switches direct I/O on, and says whether the file system takes it in truth: one may carry it out through the
    /// page cache, or encrypt.
    ///
    /// # Errors
    /// The system's answer.
    fn set_direct(&self, file: &File) -> Result<bool, Errno> {
        let flags = fcntl_getfl(file)?;
        match fcntl_setfl(file, flags | OFlags::DIRECT) {
            Ok(()) if is_direct_in_truth(file) => Ok(true),
            Ok(()) => fcntl_setfl(file, flags - OFlags::DIRECT).map(|()| false),
            Err(Errno::INVAL) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Makes a file, or the names in a directory, survive a loss of power.
    ///
    /// # Errors
    /// The system's answer.
    fn sync(&self, file: &File) -> Result<(), Errno> {
        rustix::fs::fsync(file)
    }

    /// Renames a file, over any file of the new name.
    ///
    /// # Errors
    /// The system's answer.
    fn rename(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat(directory, from, directory, to)
    }

    /// Gives a file another name, which nothing has.
    ///
    /// # Errors
    /// The system's answer; not every file system can.
    fn rename_new(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE)
    }

    /// Gives a file a further name, which nothing has.
    ///
    /// # Errors
    /// The system's answer.
    fn link(&self, directory: &File, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())
    }

    /// Removes a name.
    ///
    /// # Errors
    /// The system's answer.
    fn remove(&self, directory: &File, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(directory, name, AtFlags::empty())
    }
}

/// False if the file system says that it would take direct I/O through the page cache, or encrypt.
fn is_direct_in_truth(file: &File) -> bool {
    let flags = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, flags).is_ok_and(|found| {
        let tells = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        let is_encrypted = found.stx_attributes.contains(StatxAttributes::ENCRYPTED);
        !(is_encrypted || tells && found.stx_dio_offset_align == 0)
    })
}
