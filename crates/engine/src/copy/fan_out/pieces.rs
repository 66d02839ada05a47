//! What several targets lack, cut into data and holes of the source.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;

use crate::copy::pieces::{Holes, Layout};
use crate::extents::{Extent, Extents};
use crate::ranges::RangeSet;
use crate::relay::{SharedPiece, Targets};

/// What one target has, and what holes ask of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lack<'a> {
    pub(super) done: &'a RangeSet,
    pub(super) holes: Holes,
}

/// The pieces of a fan-out, in ascending order: where one ends, another target begins to lack something
/// or ceases to.
#[derive(Debug)]
pub(super) struct SharedPieces {
    source: File,
    layout: Layout,
    holes: Vec<Holes>,
    missing: VecDeque<(Range<u64>, Targets)>,
    walk: Option<(Extents, Targets)>,
    /// Bytes that each target has and of which no piece comes.
    pub(super) done_before: Vec<u64>,
}

impl SharedPieces {
    /// `layout` ends where the targets' own tails begin; its block is a multiple of every block.
    pub(super) fn new(source: File, layout: Layout, lacks: &[Lack<'_>]) -> Self {
        let lists: Vec<Vec<Range<u64>>> = lacks
            .iter()
            .map(|lack| {
                lack.done.missing_in_blocks(0..layout.length, layout.block.max(1)).collect()
            })
            .collect();
        let lacking = |list: &[Range<u64>]| list.iter().map(|one| one.end - one.start).sum::<u64>();
        let done_before = lists.iter().map(|list| layout.length - lacking(list)).collect();
        Self {
            source,
            layout,
            holes: lacks.iter().map(|lack| lack.holes).collect(),
            missing: sweep(&lists),
            walk: None,
            done_before,
        }
    }

    pub(super) fn next_piece(&mut self) -> Option<io::Result<SharedPiece>> {
        loop {
            if let Some((walk, wanted)) = &mut self.walk {
                let wanted = *wanted;
                match walk.next() {
                    Some(Ok(Extent::Data(range))) => return Some(Ok(self.data(&range, wanted))),
                    Some(Ok(Extent::Hole(range))) => return Some(Ok(self.hole(&range, wanted))),
                    Some(Err(error)) => return Some(Err(error)),
                    None => self.walk = None,
                }
            }
            let (range, wanted) = self.missing.pop_front()?;
            if self.holes.iter().all(|holes| *holes == Holes::Moved) {
                let none = Targets::default();
                return Some(Ok(SharedPiece {
                    range,
                    payload: wanted,
                    zeroes: none,
                    nothing: none,
                }));
            }
            match self.layout.walk(&self.source, &range) {
                Ok(walk) => self.walk = Some((walk, wanted)),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn data(&self, range: &Range<u64>, payload: Targets) -> SharedPiece {
        let (range, none) = (self.layout.in_copy(range), Targets::default());
        SharedPiece { range, payload, zeroes: none, nothing: none }
    }

    fn hole(&self, range: &Range<u64>, wanted: Targets) -> SharedPiece {
        let asks = |what| {
            Targets::of(self.holes.len(), |one| wanted.contains(one) && self.holes[one] == what)
        };
        SharedPiece {
            range: self.layout.in_copy(range),
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
        let wanted = Targets::of(lists.len(), holds);
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
    fn what_some_lack_is_cut_where_another_begins_to_lack() {
        let of = |targets: &[usize]| Targets::of(3, |one| targets.contains(&one));
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
