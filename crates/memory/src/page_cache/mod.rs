//! Page-cache residency of files.

#[allow(unsafe_code)]
mod ffi;

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// Counts the pages of a range of a file that are in the page cache; nothing is read.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` for a file that is not the caller's and cannot be written (from Linux 6.13 on),
/// and in containers that allow known calls only; `EOPNOTSUPP` for huge pages; `EBADF` where there is no page cache.
pub fn cached_pages(file: impl AsFd, range: Range<u64>) -> Result<u64, Errno> {
    Ok(counts(file, range)?.cached)
}

/// Counts the pages of a range that are newer than the file's storage; nothing is read.
///
/// # Errors
/// As [`cached_pages`].
pub fn unwritten_pages(file: impl AsFd, range: Range<u64>) -> Result<u64, Errno> {
    let counts = counts(file, range)?;
    Ok(counts.dirty + counts.writeback)
}

fn counts(file: impl AsFd, range: Range<u64>) -> Result<ffi::CacheCounts, Errno> {
    ffi::cachestat(file.as_fd(), range.start, range.end.saturating_sub(range.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn written_pages_are_counted() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 40_960]).unwrap();
        let pages = 40_960 / rustix::param::page_size() as u64;
        match cached_pages(&file, 0..40_960) {
            Err(errno) => assert!(matches!(errno, Errno::NOSYS | Errno::PERM), "{errno}"),
            Ok(count) => assert_eq!(count, pages),
        }
        file.sync_all().unwrap();
        if let Ok(count) = unwritten_pages(&file, 0..u64::MAX) {
            assert_eq!(count, 0);
        }
    }
}
