//! The page cache of a file as a region: what a program reads that maps a file instead of reading it.
//!
//! The kernel reads from the map; this process never does, since a file that somebody cuts meanwhile
//! would end it. A request on pages that are gone fails with `EFAULT`.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_a_region_that_nobody_reads_here() {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut region = map(&file, Bytes::kib(8)).unwrap();
        assert_eq!((region.length(), region.kind()), (Bytes::kib(8), RegionKind::MappedFile));
        assert_eq!(region.host_bytes_mut(), None);
        assert_eq!(map(&file, Bytes(0)).unwrap_err(), Errno::INVAL);
    }
}
