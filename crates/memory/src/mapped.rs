//! The page cache of a file as a region, for a program that maps a file instead of reading it.
//!
//! The kernel reads from the map; this process never does, since a truncated file would end it. A
//! request on pages that are gone fails with `EFAULT`.

use std::ops::Range;
use std::os::fd::AsFd;

use peerlane_units::Bytes;
use rustix::io::Errno;

use crate::map::Map;
use crate::region::{Region, RegionKind};

/// Maps the first `length` bytes of a file for reading.
///
/// # Errors
/// `EINVAL` for an empty length or one that is not addressable; else the system's answer.
pub fn map(file: impl AsFd, length: Bytes) -> Result<Region, Errno> {
    let bytes = usize::try_from(length.0).map_err(|_| Errno::INVAL)?;
    let map = Map::read_only(file.as_fd(), bytes)?;
    Ok(Region::new(map, length, RegionKind::MappedFile))
}

/// Has the kernel map a range of a mapped file into this process, as the faults of a first read do;
/// only the trap into the kernel is missing.
///
/// # Errors
/// `EINVAL` for another region, a range that does not begin on a page or is not within it, and before Linux 5.14;
/// `EFAULT` for pages that are gone; else the system's answer.
pub fn fault_in(region: &mut Region, range: Range<u64>) -> Result<(), Errno> {
    let length = range.end.checked_sub(range.start).ok_or(Errno::INVAL)?;
    let (offset, length) = (usize::try_from(range.start), usize::try_from(length));
    region.fault_in(offset.map_err(|_| Errno::INVAL)?, length.map_err(|_| Errno::INVAL)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_file_gives_no_bytes() {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut region = map(&file, Bytes::kib(8)).unwrap();
        assert_eq!((region.length(), region.kind()), (Bytes::kib(8), RegionKind::MappedFile));
        assert_eq!(region.host_bytes_mut(), None);
        assert_eq!(map(&file, Bytes(0)).unwrap_err(), Errno::INVAL);
    }
    #[test]
    fn ranges_beyond_map_are_not_faulted() {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut region = map(&file, Bytes::kib(64)).unwrap();
        match fault_in(&mut region, 0..4096) {
            // Linux before 5.14.
            Err(Errno::INVAL) => return,
            other => assert_eq!(other, Ok(())),
        }
        assert_eq!(fault_in(&mut region, 4096..65536), Ok(()));
        for wrong in [0..131_072, 100..4096, std::ops::Range { start: 8192, end: 4096 }] {
            assert_eq!(fault_in(&mut region, wrong.clone()), Err(Errno::INVAL), "{wrong:?}");
        }
        let mut host = crate::host::allocate(Bytes::kib(4)).unwrap();
        assert_eq!(fault_in(&mut host, 0..4096), Err(Errno::INVAL));
    }
}
