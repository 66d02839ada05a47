//! Host memory: bounce buffers, and the place where content is compared.
//!
//! The pages are ordinary memory and are not locked, so `RLIMIT_MEMLOCK` does not matter: direct I/O
//! pins them only while a request runs.

use peerlane_units::Bytes;
use rustix::io::Errno;

use crate::map::Map;
use crate::region::{Region, RegionKind};

/// A huge page of x86-64 and of arm64 with 4 KiB base pages.
const HUGE_PAGE: usize = 2 << 20;

/// The reason why there is no host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Nothing was asked for.
    #[error("cannot allocate an empty region of host memory")]
    Empty,
    /// More was asked for than an address holds.
    #[error("cannot allocate {length} of host memory: not addressable")]
    TooLarge {
        /// Bytes asked for.
        length: Bytes,
    },
    /// The system refused.
    #[error("cannot allocate {length} of host memory")]
    Refused {
        /// Bytes asked for.
        length: Bytes,
        /// The system's answer.
        #[source]
        errno: Errno,
    },
}

impl MemoryError {
    /// Advice on how to fix it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty => None,
            Self::TooLarge { .. } | Self::Refused { .. } => {
                Some("take a smaller --block or --depth; `ulimit -v` and `free -m` show the limits")
            }
        }
    }
}

/// Allocates zeroed host memory, page aligned, from 2 MiB on aligned to and made of huge pages where
/// the system has them.
///
/// Every page gets its memory here: a shortage then shows before anything moves, and faults and zeroing
/// stay out of the time that is measured. Before Linux 5.14, which cannot do that, the first use does.
///
/// # Errors
/// [`MemoryError`], with the length asked for.
pub fn allocate(length: Bytes) -> Result<Region, MemoryError> {
    let (page, pages) = (rustix::param::page_size(), in_pages(length)?);
    let refused = |errno| MemoryError::Refused { length, errno };
    let huge = pages >= HUGE_PAGE;
    let mut map = Map::anonymous(pages, if huge { HUGE_PAGE } else { page }).map_err(refused)?;
    if huge {
        map.prefer_huge_pages();
    }
    match map.populate() {
        Ok(()) | Err(Errno::INVAL) => Ok(Region::new(map, length, RegionKind::Host)),
        Err(errno) => Err(refused(errno)),
    }
}

/// Reserves zeroed host memory as the allocator of a program does: each page gets its memory, by a page fault,
/// when it is first touched.
///
/// # Errors
/// [`MemoryError`], with the length asked for.
pub fn untouched(length: Bytes) -> Result<Region, MemoryError> {
    let map = Map::anonymous(in_pages(length)?, rustix::param::page_size())
        .map_err(|errno| MemoryError::Refused { length, errno })?;
    Ok(Region::new(map, length, RegionKind::Host))
}

/// Bytes of the whole pages that hold a length.
fn in_pages(length: Bytes) -> Result<usize, MemoryError> {
    if length == Bytes::ZERO {
        return Err(MemoryError::Empty);
    }
    usize::try_from(length.0)
        .ok()
        .and_then(|n| n.checked_next_multiple_of(rustix::param::page_size()))
        .filter(|&n| isize::try_from(n).is_ok())
        .ok_or(MemoryError::TooLarge { length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_is_zeroed_and_aligned() {
        for (length, alignment) in
            [(1, 4096), (4096, 4096), (5000, 4096), (2 << 20, 2 << 20), ((2 << 20) + 512, 2 << 20)]
        {
            let mut region = allocate(Bytes(length)).unwrap();
            assert_eq!(region.address().as_ptr().addr() % alignment, 0, "{length}");
            assert_eq!(region.length(), Bytes(length));
            assert_eq!(region.kind(), RegionKind::Host);
            let bytes = region.host_bytes_mut().unwrap();
            assert_eq!(bytes.len() as u64, length);
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(0xa5);
            assert!(region.host_bytes_mut().unwrap().iter().all(|&byte| byte == 0xa5));
        }
    }

    /// The kernel joins neighbouring maps, so the entry that holds the address may be a longer one.
    fn resident_kib(address: usize) -> Option<u64> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let holds = |line: &&str| {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            range.is_some_and(|(start, end)| {
                let parse = |text| usize::from_str_radix(text, 16);
                matches!((parse(start), parse(end)), (Ok(start), Ok(end)) if (start..end).contains(&address))
            })
        };
        let mut entry = smaps.lines().skip_while(|line| !holds(line));
        entry.find_map(|line| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.parse().ok())
    }

    #[test]
    fn host_memory_is_resident_before_use() {
        let region = allocate(Bytes::mib(4)).unwrap();
        let resident = resident_kib(region.address().as_ptr().addr());
        assert!(resident.is_some_and(|kib| kib >= 4096), "{resident:?}");
    }

    #[test]
    fn untouched_memory_is_resident_after_writes() {
        let mut region = untouched(Bytes::mib(4)).unwrap();
        let address = region.address().as_ptr().addr();
        let before = resident_kib(address);
        region.host_bytes_mut().unwrap().fill(1);
        let after = resident_kib(address);
        assert!(
            before.zip(after).is_some_and(|(before, after)| after >= before + 4096),
            "{before:?} {after:?}"
        );
        assert_eq!(untouched(Bytes(0)).unwrap_err(), MemoryError::Empty);
    }

    #[test]
    fn empty_and_oversized_regions_are_refused() {
        assert_eq!(allocate(Bytes(0)).unwrap_err(), MemoryError::Empty);
        let length = Bytes(u64::MAX);
        assert_eq!(allocate(length).unwrap_err(), MemoryError::TooLarge { length });
        let length = Bytes(1 << 60);
        let error = allocate(length).unwrap_err();
        assert_eq!(error, MemoryError::Refused { length, errno: Errno::NOMEM });
        assert_eq!(error.to_string(), "cannot allocate 1024 PiB of host memory");
    }
}
