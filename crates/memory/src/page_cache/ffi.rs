//! The system call `cachestat` (Linux 6.5), which no library has.

use std::ffi::c_long;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Its number, the same on every architecture that Linux has taken calls for since 5.1 (`asm-generic/unistd.h`).
const CACHESTAT: c_long = 451;

/// `struct cachestat_range` of `linux/mman.h`.
#[repr(C)]
struct CacheRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of `linux/mman.h`.
#[repr(C)]
#[derive(Default)]
pub(super) struct CacheCounts {
    pub(super) cached: u64,
    pub(super) dirty: u64,
    pub(super) writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

pub(super) fn cachestat(
    file: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> Result<CacheCounts, Errno> {
    let (range, mut counts) = (CacheRange { offset, length }, CacheCounts::default());
    // SAFETY: the kernel reads `range` and writes `counts`, both of which live until the call returns and are laid out as
    // it wants them; the descriptor is open. The flags must be zero.
    let code =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0) };
    if code == 0 {
        return Ok(counts);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
