//! What is to be moved: what the journal lacks, cut into data and holes of the source.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;

use super::options::Sparse;
use crate::extents::{Extent, Extents, Grid, data_ranges};
use crate::ranges::RangeSet;
use crate::relay::Piece;

/// Shortest hole that is left out, unless something makes holes dear: a request for each takes longer.
pub(super) const HOLE_MIN: u64 = 64 << 10;

/// What holes of the source ask of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// To be written like data.
    Moved,
    /// Nothing: the target was made for this copy and is a hole there.
    Left,
    /// To be made zero: the target may hold something there.
    Zeroed,
}

impl Holes {
    /// What they ask of a target that was made for this run, or was there before.
    pub(super) fn at(sparse: Sparse, is_new: bool) -> Self {
        match sparse {
            Sparse::Never => Self::Moved,
            Sparse::Auto if is_new => Self::Left,
            Sparse::Auto => Self::Zeroed,
        }
    }
}

/// Where a copy lies in the source, and the blocks that it is cut in. All in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) source_offset: u64,
    pub(super) length: u64,
    /// The larger block of both ends.
    pub(super) block: u64,
    /// Holes shorter than this are moved with the data around them.
    pub(super) hole_min: u64,
}

impl Layout {
    /// Walks data and holes of a range of the copy; offsets are those of the source.
    pub(super) fn walk(&self, source: &File, range: &Range<u64>) -> io::Result<Extents> {
        let grid = Grid { origin: self.source_offset, block: self.block.max(self.hole_min) };
        let within = self.source_offset + range.start..self.source_offset + range.end;
        data_ranges(source, within, grid)
    }

    /// A range of the source as one of the copy.
    pub(super) fn in_copy(&self, range: &Range<u64>) -> Range<u64> {
        range.start - self.source_offset..range.end - self.source_offset
    }
}

/// The pieces of a copy, in ascending order.
#[derive(Debug)]
pub(super) struct Pieces {
    source: File,
    layout: Layout,
    holes: Holes,
    missing: VecDeque<Range<u64>>,
    walk: Option<Extents>,
    /// Bytes that are done and of which no piece comes.
    pub(super) done_before: u64,
}

impl Pieces {
    pub(super) fn new(source: File, layout: Layout, holes: Holes, done: &RangeSet) -> Self {
        let missing: VecDeque<_> =
            done.missing_in_blocks(0..layout.length, layout.block.max(1)).collect();
        let lacking: u64 = missing.iter().map(|range| range.end - range.start).sum();
        let done_before = layout.length - lacking;
        Self { source, layout, holes, missing, walk: None, done_before }
    }

    pub(super) fn next_piece(&mut self) -> Option<io::Result<Piece>> {
        loop {
            match self.walk.as_mut().and_then(Iterator::next) {
                Some(Ok(Extent::Data(range))) => {
                    return Some(Ok(Piece::Data(self.layout.in_copy(&range))));
                }
                Some(Ok(Extent::Hole(range))) => {
                    let range = self.layout.in_copy(&range);
                    return Some(Ok(match self.holes {
                        Holes::Moved => Piece::Data(range),
                        Holes::Left => Piece::Nothing(range),
                        Holes::Zeroed => Piece::Zeroes(range),
                    }));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {}
            }
            let range = self.missing.pop_front()?;
            if self.holes == Holes::Moved {
                return Some(Ok(Piece::Data(range)));
            }
            match self.layout.walk(&self.source, &range) {
                Ok(walk) => self.walk = Some(walk),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
