//! Memory of the calling program as a region, to read into buffers of its own.
//!
//! The pages are never unmapped here, and are not locked: direct I/O pins them only while a request runs.
//! A ring that has to leak its regions leaks the lender's hold on the memory with them.

use std::sync::Arc;

use peerlane_units::Bytes;

use crate::map::{Lent, Map};
use crate::region::{Region, RegionKind};

/// A region over all of the memory.
pub fn region(lent: &Lent) -> Region {
    Region::new(lent.map(), lent.length(), RegionKind::Lent)
}

/// Lends host memory that was allocated here; `None` for any other.
///
/// # Examples
///
/// ```
/// use peerlane_memory::{host, lent};
/// use peerlane_units::Bytes;
///
/// let (lent, lender) = lent::lend(host::allocate(Bytes(8)).unwrap()).unwrap();
/// assert!(lent.store(2, &[7]));
/// let lender = lender.take().unwrap_err(); // it is still lent
/// drop(lent);
/// let mut region = lender.take().unwrap();
/// assert_eq!(region.host_bytes_mut().unwrap(), [0, 0, 7, 0, 0, 0, 0, 0]);
/// ```
pub fn lend(region: Region) -> Option<(Lent, Lender)> {
    let length = region.length();
    let (lent, owner) = Lent::of_map(region.into_host_map()?, length)?;
    Some((lent, Lender { owner, length }))
}

/// Gets the memory back once the last user is gone.
#[derive(Debug)]
pub struct Lender {
    owner: Arc<Map>,
    length: Bytes,
}

impl Lender {
    /// The memory.
    ///
    /// # Errors
    /// The lender itself, while the memory is lent.
    pub fn take(self) -> Result<Region, Self> {
        let Self { owner, length } = self;
        Arc::try_unwrap(owner)
            .map(|map| Region::new(map, length, RegionKind::Host))
            .map_err(|owner| Self { owner, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    fn lent(length: u64) -> (Lent, Lender) {
        lend(host::allocate(Bytes(length)).unwrap()).unwrap()
    }

    #[test]
    fn bytes_beyond_lent_memory_are_refused() {
        let (lent, lender) = lent(8);
        assert!(lent.store(2, &[1, 2]) && lent.store(8, &[]));
        assert!(!lent.store(7, &[3, 3]) && !lent.store(u64::MAX, &[3]) && !lent.store(9, &[]));
        drop(lent);
        let mut region = lender.take().unwrap();
        assert_eq!(region.host_bytes_mut().unwrap(), [0, 0, 1, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn bytes_are_shifted_within_the_memory() {
        let (lent, lender) = lent(8);
        assert!(lent.store(0, &[1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(lent.shift(2, 1, 6) && lent.shift(8, 0, 0));
        for (from, to, length) in [(3, 0, 6), (0, 3, 6), (u64::MAX, 0, 1), (0, 1, u64::MAX)] {
            assert!(!lent.shift(from, to, length), "{from} {to} {length}");
        }
        drop(lent);
        let mut region = lender.take().unwrap();
        assert_eq!(region.host_bytes_mut().unwrap(), [1, 3, 4, 5, 6, 7, 8, 8]);
    }

    #[test]
    fn last_hold_returns_memory_to_lender() {
        let (lent, lender) = lent(4096);
        let mut region = region(&lent);
        assert_eq!((region.length(), region.kind()), (Bytes::kib(4), RegionKind::Lent));
        assert_eq!(region.address().as_ptr().addr(), lent.address());
        assert_eq!(region.host_bytes_mut(), None);
        drop(lent);
        let lender = lender.take().unwrap_err();
        drop(region);
        let mut back = lender.take().unwrap();
        assert_eq!(back.host_bytes_mut().unwrap(), [0; 4096]);
    }

    #[test]
    fn lent_memory_is_not_lent_again() {
        let (lent, _lender) = lent(8);
        assert!(lend(region(&lent)).is_none());
    }
}
