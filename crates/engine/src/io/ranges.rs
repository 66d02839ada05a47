//! Sets of byte ranges: which bytes of a copy are done, and which are missing.
//!
//! Ranges are half open (`start..end`), offsets count from the start of the copy, in bytes. A set is
//! bounded: past its limit it forgets its smallest range. Forgetting means copying those bytes
//! again; a set never holds a byte that was not inserted.

use std::iter::FusedIterator;
use std::ops::Range;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ranges that a set holds unless told otherwise. As text a range is at most 44 bytes, so a full
/// set stays far below the size limit of a journal.
pub(crate) const RANGES_MAX: usize = 4096;

/// A bounded set of bytes, kept as sorted ranges that neither overlap nor touch.
///
/// Serialised as an array of `[start, end]`; reading refuses anything that is not in that form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSet {
    ranges: Vec<Range<u64>>,
    limit: usize,
}

/// The limit of sets that are made without one.
#[cfg(not(any(test, feature = "simulation")))]
fn limit() -> usize {
    RANGES_MAX
}

#[cfg(any(test, feature = "simulation"))]
pub(crate) use lowered::{LoweredLimit, limit};

/// A limit that a short copy reaches, for the simulation.
#[cfg(any(test, feature = "simulation"))]
mod lowered {
    use std::cell::Cell;

    use super::RANGES_MAX;

    thread_local! {
        static LIMIT: Cell<usize> = const { Cell::new(RANGES_MAX) };
    }

    pub(crate) fn limit() -> usize {
        LIMIT.get()
    }

    /// Sets of this thread have this limit until it is dropped.
    #[derive(Debug)]
    pub(crate) struct LoweredLimit(());

    impl LoweredLimit {
        pub(crate) fn new(limit: usize) -> Self {
            LIMIT.set(limit);
            Self(())
        }
    }

    impl Drop for LoweredLimit {
        fn drop(&mut self) {
            LIMIT.set(RANGES_MAX);
        }
    }
}

impl Default for RangeSet {
    fn default() -> Self {
        Self::new()
    }
}

impl RangeSet {
    /// Makes an empty set of at most [`RANGES_MAX`] ranges.
    pub fn new() -> Self {
        Self::with_limit(limit())
    }

    /// Makes an empty set of at most `limit` ranges; with zero it holds nothing.
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { ranges: Vec::new(), limit }
    }

    /// Adds the bytes of `range`; an empty range adds nothing.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Every range that overlaps or touches the new one becomes one with it.
        let first = self.ranges.partition_point(|held| held.end < range.start);
        let last = self.ranges.partition_point(|held| held.start <= range.end);
        let mut merged = range;
        if first < last {
            merged.start = merged.start.min(self.ranges[first].start);
            merged.end = merged.end.max(self.ranges[last - 1].end);
        }
        self.ranges.splice(first..last, [merged]);
        self.forget_beyond_limit();
    }

    /// Takes the bytes of `range` out.
    pub(crate) fn subtract(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|held| held.end <= range.start);
        let last = self.ranges.partition_point(|held| held.start < range.end);
        if first >= last {
            return;
        }
        let before = self.ranges[first].start..range.start;
        let after = range.end..self.ranges[last - 1].end;
        let left = [before, after].into_iter().filter(|piece| !piece.is_empty());
        self.ranges.splice(first..last, left);
        self.forget_beyond_limit();
    }

    /// Adds every byte of `other`.
    pub fn union(&mut self, other: &Self) {
        for range in other.iter() {
            self.insert(range);
        }
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Tells whether the byte at `offset` is in the set.
    pub fn contains(&self, offset: u64) -> bool {
        let at = self.ranges.partition_point(|held| held.end <= offset);
        self.ranges.get(at).is_some_and(|held| held.start <= offset)
    }

    /// Tells whether every byte of `range` is in the set; true for an empty range.
    pub(crate) fn contains_range(&self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let at = self.ranges.partition_point(|held| held.end <= range.start);
        let held = self.ranges.get(at);
        held.is_some_and(|held| held.start <= range.start && range.end <= held.end)
    }

    /// Walks the bytes of `within` that are not in the set, in ascending order.
    pub fn missing(&self, within: Range<u64>) -> Missing<'_> {
        let next = self.ranges.partition_point(|held| held.end <= within.start);
        Missing { held: &self.ranges[next..], rest: within }
    }

    /// Walks the ranges missing in `within` in whole blocks: each range is rounded outward to
    /// multiples of `block` bytes from offset zero and cut to `within`, ranges that then touch are
    /// one.
    ///
    /// Some bytes that are done come again by it: copying them twice writes the same bytes. A `block`
    /// of zero rounds nothing.
    pub(crate) fn missing_in_blocks(&self, within: Range<u64>, block: u64) -> MissingInBlocks<'_> {
        MissingInBlocks { missing: self.missing(within.clone()), within, block, held_back: None }
    }

    /// Walks the ranges in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + '_ {
        self.ranges.iter().cloned()
    }

    /// Counts the bytes in the set.
    pub fn total(&self) -> u64 {
        self.ranges.iter().map(|held| held.end - held.start).sum()
    }

    /// Tells whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the end of the last range, zero for an empty set.
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |held| held.end)
    }

    fn forget_beyond_limit(&mut self) {
        while self.ranges.len() > self.limit {
            let sizes = self.ranges.iter().map(|held| held.end - held.start).enumerate();
            let Some((smallest, _)) = sizes.min_by_key(|&(_, size)| size) else { return };
            self.ranges.remove(smallest);
        }
    }
}

/// Ranges that a set lacks; see [`RangeSet::missing`].
#[derive(Debug, Clone)]
pub struct Missing<'a> {
    held: &'a [Range<u64>],
    rest: Range<u64>,
}

impl Iterator for Missing<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        while !self.rest.is_empty() {
            let Some((held, after)) = self.held.split_first() else {
                let last = self.rest.clone();
                self.rest.start = self.rest.end;
                return Some(last);
            };
            let gap = self.rest.start..held.start.min(self.rest.end);
            self.rest.start = self.rest.start.max(held.end);
            self.held = after;
            if !gap.is_empty() {
                return Some(gap);
            }
        }
        None
    }
}

impl FusedIterator for Missing<'_> {}

/// Ranges that a set lacks, in whole blocks; see [`RangeSet::missing_in_blocks`].
#[derive(Debug, Clone)]
pub(crate) struct MissingInBlocks<'a> {
    missing: Missing<'a>,
    within: Range<u64>,
    block: u64,
    held_back: Option<Range<u64>>,
}

impl MissingInBlocks<'_> {
    fn round(&self, range: &Range<u64>) -> Range<u64> {
        let block = self.block.max(1);
        let start = range.start / block * block;
        let end = range.end.div_ceil(block).saturating_mul(block);
        start.max(self.within.start)..end.min(self.within.end)
    }
}

impl Iterator for MissingInBlocks<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        loop {
            let Some(found) = self.missing.next() else { return self.held_back.take() };
            let rounded = self.round(&found);
            match &mut self.held_back {
                Some(held) if rounded.start <= held.end => held.end = rounded.end,
                Some(held) => return Some(std::mem::replace(held, rounded)),
                None => self.held_back = Some(rounded),
            }
        }
    }
}

impl FusedIterator for MissingInBlocks<'_> {}

impl Serialize for RangeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.ranges.iter().map(|held| [held.start, held.end]))
    }
}

impl<'de> Deserialize<'de> for RangeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(InOrder)
    }
}

/// Reads ranges that ascend and neither overlap nor touch, at most [`RANGES_MAX`].
struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = RangeSet;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at most {RANGES_MAX} ascending [start, end] pairs that do not touch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<RangeSet, A::Error> {
        let mut set = RangeSet::new();
        while let Some([start, end]) = sequence.next_element::<[u64; 2]>()? {
            let follows = set.ranges.last().is_none_or(|last| last.end < start);
            if !follows || start >= end {
                return Err(A::Error::custom(format!("range {start}..{end} is out of order")));
            }
            if set.ranges.len() == set.limit {
                return Err(A::Error::custom(format!("more than {RANGES_MAX} ranges")));
            }
            set.ranges.push(start..end);
        }
        Ok(set)
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPACE: u64 = 96;

    /// One flag a byte.
    type Bitmap = Vec<bool>;

    fn fill(bitmap: &mut Bitmap, range: &Range<u64>, value: bool) {
        for offset in range.clone() {
            bitmap[usize::try_from(offset).unwrap()] = value;
        }
    }

    fn bitmap_of(ranges: impl Iterator<Item = Range<u64>>) -> Bitmap {
        let mut bitmap = vec![false; usize::try_from(SPACE).unwrap()];
        ranges.for_each(|range| fill(&mut bitmap, &range, true));
        bitmap
    }

    fn assert_in_form(set: &RangeSet) -> Result<(), TestCaseError> {
        prop_assert!(set.ranges.iter().all(|held| held.start < held.end));
        prop_assert!(set.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        prop_assert!(set.ranges.len() <= set.limit);
        Ok(())
    }

    fn any_range() -> impl Strategy<Value = Range<u64>> {
        (0..SPACE, 0u64..24).prop_map(|(start, length)| start..(start + length).min(SPACE))
    }

    fn steps() -> impl Strategy<Value = Vec<(bool, Range<u64>)>> {
        proptest::collection::vec((proptest::bool::weighted(0.75), any_range()), 0..40)
    }

    fn run(limit: usize, steps: &[(bool, Range<u64>)]) -> (RangeSet, Bitmap) {
        let mut set = RangeSet::with_limit(limit);
        let mut bitmap = bitmap_of(std::iter::empty());
        for (insert, range) in steps {
            if *insert {
                set.insert(range.clone());
            } else {
                set.subtract(range.clone());
            }
            fill(&mut bitmap, range, *insert);
        }
        (set, bitmap)
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(steps in steps(), within in any_range()) {
            let (set, bitmap) = run(RANGES_MAX, &steps);
            assert_in_form(&set)?;
            prop_assert_eq!(bitmap_of(set.iter()), bitmap.clone());
            prop_assert_eq!(set.total(), bitmap.iter().filter(|held| **held).count() as u64);
            for offset in 0..SPACE {
                let held = bitmap[usize::try_from(offset).unwrap()];
                prop_assert_eq!(set.contains(offset), held);
            }
            let inside = |offset: &u64| bitmap[usize::try_from(*offset).unwrap()];
            prop_assert_eq!(set.contains_range(within.clone()), within.clone().all(|o| inside(&o)));
            let missing: Vec<u64> = set.missing(within.clone()).flatten().collect();
            let expected: Vec<u64> = within.filter(|offset| !inside(offset)).collect();
            prop_assert_eq!(missing, expected);
        }

        #[test]
        fn never_invents_a_byte_when_it_forgets(steps in steps(), limit in 0usize..5) {
            let (set, _) = run(limit, &steps);
            assert_in_form(&set)?;
            // Without a limit the same steps hold all that a bounded set may hold.
            let (_, bitmap) = run(RANGES_MAX, &steps);
            for offset in set.iter().flatten() {
                prop_assert!(bitmap[usize::try_from(offset).unwrap()]);
            }
        }

        #[test]
        fn missing_blocks_cover_what_is_missing(
            steps in steps(), within in any_range(), block in 0u64..20,
        ) {
            let (set, _) = run(RANGES_MAX, &steps);
            let blocks: Vec<Range<u64>> = set.missing_in_blocks(within.clone(), block).collect();
            prop_assert!(blocks.windows(2).all(|pair| pair[0].end < pair[1].start));
            let unit = block.max(1);
            for range in &blocks {
                prop_assert!(within.start <= range.start && range.end <= within.end);
                prop_assert!(range.start % unit == 0 || range.start == within.start);
                prop_assert!(range.end % unit == 0 || range.end == within.end);
            }
            let covered = bitmap_of(blocks.into_iter());
            for offset in set.missing(within).flatten() {
                prop_assert!(covered[usize::try_from(offset).unwrap()]);
            }
        }

        #[test]
        fn union_holds_the_bytes_of_both(left in steps(), right in steps()) {
            let (mut set, mut bitmap) = run(RANGES_MAX, &left);
            let (other, other_bitmap) = run(RANGES_MAX, &right);
            set.union(&other);
            for (held, other) in bitmap.iter_mut().zip(other_bitmap) {
                *held |= other;
            }
            assert_in_form(&set)?;
            prop_assert_eq!(bitmap_of(set.iter()), bitmap);
        }

        #[test]
        fn survives_json(steps in steps()) {
            let (set, _) = run(RANGES_MAX, &steps);
            let text = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<RangeSet>(&text).unwrap(), set);
        }
    }

    #[test]
    fn forgets_the_smallest_range() {
        let mut set = RangeSet::with_limit(2);
        set.insert(0..10);
        set.insert(20..22);
        set.insert(30..35);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0..10, 30..35]);
    }

    #[test]
    fn works_up_to_the_last_offset() {
        let mut set = RangeSet::new();
        set.insert(u64::MAX - 1..u64::MAX);
        set.insert(0..1);
        assert_eq!(set.missing(0..u64::MAX).collect::<Vec<_>>(), [1..u64::MAX - 1]);
        let blocks: Vec<_> = set.missing_in_blocks(0..u64::MAX, 1 << 20).collect();
        assert_eq!(blocks, [0..u64::MAX]);
    }

    #[test]
    fn refuses_ranges_that_are_out_of_order() {
        for text in [
            "[[0,0]]",
            "[[5,4]]",
            "[[0,4],[4,8]]",
            "[[0,4],[2,8]]",
            "[[8,9],[0,1]]",
            "[[0]]",
            "[[-1,2]]",
        ] {
            assert!(serde_json::from_str::<RangeSet>(text).is_err(), "{text}");
        }
        let many: Vec<[u64; 2]> = (0..=RANGES_MAX as u64).map(|n| [2 * n, 2 * n + 1]).collect();
        assert!(serde_json::from_str::<RangeSet>(&serde_json::to_string(&many).unwrap()).is_err());
    }
}
