//! The pieces that targets lack by their journals, cut into data and holes of the source.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;

use super::options::Sparse;
use crate::io::extents::{Extent, Extents, Grid, data_ranges};
use crate::io::ranges::RangeSet;
use crate::transfer::relay::{Targets, WorkPiece};

/// Shortest hole between data that is left out, unless something makes holes dear: a request for each
/// takes longer.
pub(super) const HOLE_MIN: u64 = 64 << 10;

/// Work that holes of the source need at the target.
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
    /// Returns the work for a target that was made for this run, or was there before.
    pub(super) fn at(sparse: Sparse, is_new: bool) -> Self {
        match sparse {
            Sparse::Never => Self::Moved,
            Sparse::Auto if is_new => Self::Left,
            Sparse::Auto => Self::Zeroed,
        }
    }
}

/// Range of a copy in the source, and the blocks that it is cut in. All in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyLayout {
    pub(super) source_offset: u64,
    pub(super) length: u64,
    /// The larger block of both ends.
    pub(super) block: u64,
    /// Shorter holes are moved with the data on both sides of them.
    pub(super) hole_min: u64,
    /// Length of the chunks of stages: no piece begins within one.
    pub(super) chunk: Option<u64>,
}

impl CopyLayout {
    /// Walks data and holes of a range of the copy; offsets are those of the source.
    pub(super) fn walk(&self, source: &File, range: &Range<u64>) -> io::Result<Extents> {
        let block = self.chunk.map_or(self.block, |chunk| self.block.next_multiple_of(chunk));
        let grid = Grid { origin: self.source_offset, block };
        let within = self.source_offset + range.start..self.source_offset + range.end;
        Ok(data_ranges(source, within, grid)?.joining(self.hole_min))
    }

    /// The unit that pieces are made of.
    fn unit(&self) -> u64 {
        self.chunk.unwrap_or(self.block).max(1)
    }

    /// A range of the source as one of the copy.
    pub(super) fn in_copy(&self, range: &Range<u64>) -> Range<u64> {
        range.start - self.source_offset..range.end - self.source_offset
    }
}

/// The ranges done at one target, and its treatment of holes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lack<'a> {
    pub(super) done: &'a RangeSet,
    pub(super) holes: Holes,
}

/// The pieces of a copy, in ascending order. Where one ends, the next is a hole, or another target begins
/// to lack something or ceases to.
#[derive(Debug)]
pub(super) struct Pieces {
    source: File,
    layout: CopyLayout,
    holes: Vec<Holes>,
    missing: VecDeque<(Range<u64>, Targets)>,
    walk: Option<(Extents, Targets)>,
    /// A chunk that a hole ends in, to come next.
    rest: Option<WorkPiece>,
    /// Bytes that each target has already; no piece comes for those.
    pub(super) done_before: Vec<u64>,
}

impl Pieces {
    /// Pieces that each target lacks; the block of `layout` is a multiple of every block.
    pub(super) fn new(source: File, layout: CopyLayout, lacks: &[Lack<'_>]) -> Self {
        let lists: Vec<Vec<Range<u64>>> = lacks
            .iter()
            .map(|lack| lack.done.missing_in_blocks(0..layout.length, layout.unit()).collect())
            .collect();
        let lacking = |list: &[Range<u64>]| list.iter().map(|one| one.end - one.start).sum::<u64>();
        let done_before = lists.iter().map(|list| layout.length - lacking(list)).collect();
        Self {
            source,
            layout,
            holes: lacks.iter().map(|lack| lack.holes).collect(),
            missing: sweep(&lists),
            walk: None,
            rest: None,
            done_before,
        }
    }

    pub(super) fn next_piece(&mut self) -> Option<io::Result<WorkPiece>> {
        if let Some(rest) = self.rest.take() {
            return Some(Ok(rest));
        }
        loop {
            if let Some((walk, wanted)) = &mut self.walk {
                let wanted = *wanted;
                match walk.next() {
                    Some(Ok(Extent::Data(range))) => {
                        return Some(Ok(WorkPiece::data(self.layout.in_copy(&range), wanted)));
                    }
                    Some(Ok(Extent::Hole(range))) => {
                        let whole = self.whole_chunks(self.layout.in_copy(&range), wanted);
                        match whole {
                            Some(range) => return Some(Ok(self.hole(range, wanted))),
                            None => return self.rest.take().map(Ok),
                        }
                    }
                    Some(Err(error)) => return Some(Err(error)),
                    None => self.walk = None,
                }
            }
            let (range, wanted) = self.missing.pop_front()?;
            if self.holes.iter().all(|holes| *holes == Holes::Moved) {
                return Some(Ok(WorkPiece::data(range, wanted)));
            }
            match self.layout.walk(&self.source, &range) {
                Ok(walk) => self.walk = Some((walk, wanted)),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The whole chunks of a hole; the part of one at the end of the copy is kept as data: a target may not
    /// be able to make it zero, and a chunk is never cut.
    fn whole_chunks(&mut self, range: Range<u64>, wanted: Targets) -> Option<Range<u64>> {
        let Some(chunk) = self.layout.chunk else { return Some(range) };
        let end = range.end / chunk * chunk;
        if end < range.end {
            self.rest = Some(WorkPiece::data(end.max(range.start)..range.end, wanted));
        }
        (end > range.start).then_some(range.start..end)
    }

    fn hole(&self, range: Range<u64>, wanted: Targets) -> WorkPiece {
        let asks = |what| {
            Targets::from_fn(self.holes.len(), |one| {
                wanted.contains(one) && self.holes[one] == what
            })
        };
        WorkPiece {
            range,
            payload: asks(Holes::Moved),
            zeroes: asks(Holes::Zeroed),
            nothing: asks(Holes::Left),
        }
    }
}

/// Ranges that at least one list holds, and which lists do; each list is in ascending order.
fn sweep(lists: &[Vec<Range<u64>>]) -> VecDeque<(Range<u64>, Targets)> {
    let edges: BTreeSet<u64> =
        lists.iter().flatten().flat_map(|range| [range.start, range.end]).collect();
    let mut next = vec![0; lists.len()];
    let mut found = VecDeque::new();
    let edges: Vec<u64> = edges.into_iter().collect();
    for pair in edges.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        for (list, next) in lists.iter().zip(&mut next) {
            while list.get(*next).is_some_and(|range| range.end <= start) {
                *next += 1;
            }
        }
        let holds =
            |one: usize| lists[one].get(next[one]).is_some_and(|range| range.start <= start);
        let wanted = Targets::from_fn(lists.len(), holds);
        if !wanted.is_empty() {
            found.push_back((start..end, wanted));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranges_are_cut_at_boundaries() {
        let of = |targets: &[usize]| Targets::from_fn(3, |one| targets.contains(&one));
        let lists = [vec![0..4, 8..12], vec![2..6, 6..10], vec![]];
        let found: Vec<_> = sweep(&lists).into();
        let expected = [
            (0..2, of(&[0])),
            (2..4, of(&[0, 1])),
            (4..6, of(&[1])),
            (6..8, of(&[1])),
            (8..10, of(&[0, 1])),
            (10..12, of(&[0])),
        ];
        assert_eq!(found, expected);
        assert_eq!(sweep(&[vec![], vec![]]).len(), 0);
    }
}
