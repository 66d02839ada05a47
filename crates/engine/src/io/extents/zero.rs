//! Makes bytes of a target zero without moving any.
//!
//! One call serves files and block devices: `fallocate` with `PUNCH_HOLE | KEEP_SIZE`.
//!
//! - A file gets a hole; blocks that are only partly in the range are zeroed (fallocate(2)). The file
//!   does not grow: its length is the caller's to set.
//! - A block device gets write-zeroes requests that may release the blocks. The kernel drops the
//!   range from the page cache and issues `blkdev_issue_zeroout` with `BLKDEV_ZERO_NOFALLBACK`
//!   (`blkdev_fallocate`, block/fops.c), and the device answers later reads with zeroes: the NVMe
//!   driver lets blocks be deallocated only where the namespace states that deallocated blocks read as
//!   zeroes (`nvme_setup_write_zeroes` and `NVME_NS_DEAC`, drivers/nvme/host/core.c).
//!
//! `ZERO_RANGE` is not used on purpose: where a device cannot zero by itself the kernel then writes
//! pages of zeroes out of host memory, without saying so. `PUNCH_HOLE` answers `EOPNOTSUPP` instead,
//! and the caller writes zeroes by the route of the copy.
//!
//! Like a write, it is durable only after a flush.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Most bytes that one call makes zero, so that a copy can be interrupted in between: 1 GiB, which a
/// device without a fast way writes in a second or so.
pub const ZERO_STEP: u64 = 1 << 30;

/// Mode of making bytes zero, by the blocking call and by a ring alike.
pub const ZERO_MODE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// Outcome of making bytes zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroOutcome {
    /// The bytes of the range up to this offset read as zeroes; the rest is for the next call. It is
    /// the start of the range when a signal came first.
    UpTo(u64),
    /// The target cannot do it: the caller writes zeroes. Nothing is known of the range's content.
    WriteInstead,
}

/// Makes the first bytes of `range`, at most [`ZERO_STEP`], read as zeroes at an open target.
///
/// On a block device `range` consists of whole logical blocks. A file that the copy has made, and
/// that is a hole there already, needs no call.
///
/// # Errors
/// The system's answer, but for those that mean that the target cannot do it: `EOPNOTSUPP`, `ENOSYS`,
/// and `ENODEV` of file systems without `fallocate`.
pub fn zero_range(target: &File, range: Range<u64>) -> io::Result<ZeroOutcome> {
    if range.is_empty() {
        return Ok(ZeroOutcome::UpTo(range.end));
    }
    let length = (range.end - range.start).min(ZERO_STEP);
    match rustix::fs::fallocate(target, ZERO_MODE, range.start, length) {
        Ok(()) => Ok(ZeroOutcome::UpTo(range.start + length)),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => Ok(ZeroOutcome::WriteInstead),
        Err(Errno::INTR) => Ok(ZeroOutcome::UpTo(range.start)),
        Err(errno) => Err(errno.into()),
    }
}
