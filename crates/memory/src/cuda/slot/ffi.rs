//! Reads into pinned memory.

use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::slice;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::PinnedSlot;

impl PinnedSlot {
    /// Reads from an offset of a file to one of the slot; the bytes that came, fewer where the file ends or `flags` say so.
    ///
    /// # Errors
    /// `EINVAL` beyond the end of the slot; else the system's answer.
    pub fn read(
        &mut self,
        (at, length): (u64, u64),
        (file, offset): (impl AsFd, u64),
        flags: ReadWriteFlags,
    ) -> Result<u64, Errno> {
        if at.checked_add(length).is_none_or(|end| end > self.pinned.length().0) {
            return Err(Errno::INVAL);
        }
        let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
        let address = self.pinned.at(at).cast::<u8>();
        // SAFETY: as many bytes lie there, mapped and initialised until `pinned` is dropped. `&mut self` makes this the
        // only reference: others have the memory by its address (`Pinned::bytes_mut` gives none while it is shared).
        let bytes = unsafe { slice::from_raw_parts_mut(address, length) };
        preadv2(file, &mut [IoSliceMut::new(bytes)], offset, flags).map(|count| count as u64)
    }
}
