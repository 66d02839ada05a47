//! Bytes of a file that direct reads take from its block device: its data, without its holes.

use std::fs::File;
use std::io;
use std::ops::Range;

use super::{Density, Extent, Grid, data_ranges, magic_of};

/// File systems whose direct reads take all data from the one block device, and nothing for holes:
/// ext2 to ext4, XFS. Others compress data or keep them in several places.
pub(super) const READ_AS_THEY_ARE: [u64; 2] = [0xef53, 0x5846_5342];

/// Bytes that direct reads of a range ask of a block device, and those that they do not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeviceReads {
    /// Bytes of data.
    pub(crate) data: u64,
    /// Bytes of holes, which are zeroes without a read.
    pub(crate) holes: u64,
}

impl DeviceReads {
    /// Counts ranges of a file or device; `None` if its file system does not tell them apart.
    ///
    /// # Errors
    /// As [`data_ranges`].
    pub(crate) fn count(
        file: &File,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> io::Result<Option<Self>> {
        let mut found = Self::default();
        for range in ranges {
            let mut extents = data_ranges(file, range, Grid { origin: 0, block: 1 })?;
            for extent in extents.by_ref() {
                match extent? {
                    Extent::Data(data) => found.data += data.end - data.start,
                    Extent::Hole(hole) => found.holes += hole.end - hole.start,
                }
            }
            let is_known = match extents.density() {
                Density::BlockDevice => true,
                Density::Asked => READ_AS_THEY_ARE.contains(&magic_of(file)?),
                _ => false,
            };
            if !is_known {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }
}
