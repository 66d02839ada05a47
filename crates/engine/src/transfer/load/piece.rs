//! A piece of a file read into a slot: cached ranges out of the page cache, others round it.

use std::ops::Range;

use peerlane_memory::cuda::PinnedSlot;
use peerlane_results::MemoryKind;
use rustix::io::{Errno, ReadWriteFlags};

use super::file::LoadFile;
use super::{BLOCK, first_block};
use crate::io::failure::{Cause, RequestFailure, Role};
use crate::io::ring::Action;

/// Bytes of a piece, by origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PieceBytes {
    pub(super) page_cache: u64,
    pub(super) drive: u64,
}

/// A read into a slot that starts with the first block of the piece.
struct PieceRead<'a> {
    slot: &'a mut PinnedSlot,
    file: &'a LoadFile,
    range: Range<u64>,
    bytes: PieceBytes,
}

/// Reads a range that fits the slot from its first block on. A file that ends before is an error.
pub(super) fn read(
    slot: &mut PinnedSlot,
    file: &LoadFile,
    range: Range<u64>,
) -> Result<PieceBytes, RequestFailure> {
    let mut piece = PieceRead { slot, file, range, bytes: PieceBytes::default() };
    for missing in piece.read_cached()? {
        piece.read_missing(missing)?;
    }
    Ok(piece.bytes)
}

impl PieceRead<'_> {
    /// Reads cached windows; returns the missing ranges.
    fn read_cached(&mut self) -> Result<Vec<Range<u64>>, RequestFailure> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for (window, is_cached) in self.file.windows(&self.range) {
            if is_cached {
                self.read_through_cache(window)?;
                continue;
            }
            match missing.last_mut().filter(|last| last.end == window.start) {
                Some(last) => last.end = window.end,
                None => missing.push(window),
            }
        }
        Ok(missing)
    }

    fn read_through_cache(&mut self, range: Range<u64>) -> Result<(), RequestFailure> {
        let mut at = range.start;
        while at < range.end {
            let place = (at - first_block(self.range.start), range.end - at);
            match self.slot.read(place, (self.file.cached(), at), ReadWriteFlags::empty()) {
                Ok(0) => return Err(self.failure(at, Cause::EndedEarly)),
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.refused(at, errno)),
            }
        }
        self.bytes.page_cache += range.end - range.start;
        Ok(())
    }

    /// Reads whole blocks by direct I/O, or through the page cache if the file takes none.
    fn read_missing(&mut self, missing: Range<u64>) -> Result<(), RequestFailure> {
        if self.file.direct().is_some() && self.read_direct(&missing)? {
            self.bytes.drive += missing.end - missing.start;
            return Ok(());
        }
        self.read_through_cache(missing)
    }

    /// Returns false if the file refuses direct I/O after all.
    fn read_direct(&mut self, missing: &Range<u64>) -> Result<bool, RequestFailure> {
        let Some(direct) = self.file.direct() else { return Ok(false) };
        let first = first_block(self.range.start);
        let end = missing.end.next_multiple_of(BLOCK);
        let mut at = first_block(missing.start);
        while at < missing.end {
            let place = (at - first, end - at);
            match self.slot.read(place, (direct, at), ReadWriteFlags::empty()) {
                // A part of a block is the end of the file, and read again as nothing.
                Ok(count) if count / BLOCK == 0 && at + count < missing.end => {
                    return Err(self.failure(at + count, Cause::EndedEarly));
                }
                Ok(count) if at + count < missing.end => at += count / BLOCK * BLOCK,
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) => return Ok(false),
                Err(errno) => return Err(self.refused(at, errno)),
            }
        }
        Ok(true)
    }

    fn refused(&self, offset: u64, errno: Errno) -> RequestFailure {
        self.failure(offset, Cause::from_errno(errno, Action::Read, MemoryKind::Host))
    }

    fn failure(&self, offset: u64, cause: Cause) -> RequestFailure {
        let length = self.range.end.saturating_sub(offset);
        RequestFailure { role: Role::Source, action: Action::Read, offset, length, cause }
    }
}
