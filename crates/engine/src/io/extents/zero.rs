//! Makes bytes of a target zero without moving any.
//!
//! One call serves files and block devices: `fallocate` with `PUNCH_HOLE | KEEP_SIZE`.
//!
//! - A file gets a hole; blocks that are only partly in the range are zeroed (fallocate(2)). The file
//!   does not grow: its length is the caller's to set.
//! - A block device gets write-zeroes requests that may release the blocks. The kernel drops the
//!   range from the page cache and issues `blkdev_issue_zeroout` with `BLKDEV_ZERO_NOFALLBACK`
//!   (`blkdev_fallocate`, block/fops.c), and the device answers later reads with zeroes: the NVMe
//!   driver lets blocks be deallocated only if the namespace states that deallocated blocks read as
//!   zeroes (`nvme_setup_write_zeroes` and `NVME_NS_DEAC`, drivers/nvme/host/core.c).
//!
//! `ZERO_RANGE` is not used on purpose: if a device cannot zero by itself the kernel then writes
//! pages of zeroes out of host memory, without saying so. `PUNCH_HOLE` answers `EOPNOTSUPP` instead,
//! and the caller writes zeroes by the route of the copy.
//!
//! Like a write, it is durable only after a flush.

use rustix::fs::FallocateFlags;

/// Mode of making bytes zero.
pub(crate) const ZERO_MODE: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
