//! Work of a relay, piece by piece, and its accounts for each target.
//!
//! A copy that goes on after a crash, or one of a file with holes, is many pieces. They are asked
//! for one at a time while others are in flight: memory in use grows neither with their number nor
//! with the length of the copy, and the drives never run dry between two of them.

use std::io;
use std::ops::Range;

use peerlane_units::Nanos;

use crate::plan::TARGETS_MAX;

/// A set of targets, by their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Targets(u16);

impl Targets {
    /// The set of all targets below `count` that satisfy `holds`.
    pub(crate) fn from_fn(count: usize, holds: impl Fn(usize) -> bool) -> Self {
        (0..count.min(TARGETS_MAX))
            .filter(|&target| holds(target))
            .fold(Self(0), |set, target| Self(set.0 | 1 << target))
    }

    /// The set of one target.
    pub(crate) fn only(target: usize) -> Self {
        Self::from_fn(TARGETS_MAX, |one| one == target)
    }

    /// True when the target is in it.
    pub(crate) fn contains(self, target: usize) -> bool {
        target < TARGETS_MAX && self.0 & 1 << target != 0
    }

    /// True when no target is in it.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers in it, in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..TARGETS_MAX).filter(move |&target| self.contains(target))
    }

    /// The first of them, and the others.
    pub(super) fn split(self) -> Option<(usize, Self)> {
        let first = self.iter().next()?;
        Some((first, Self(self.0 & !(1 << first))))
    }
}

/// A piece of the copy, and each target's share of it; a target without one has it already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkPiece {
    /// Offsets from the start of the copy.
    pub range: Range<u64>,
    /// These get the bytes read from the source.
    pub payload: Targets,
    /// It reads as zeroes at the source: these targets get zeroes, without moving bytes if
    /// possible.
    pub zeroes: Targets,
    /// It reads as zeroes at the source and there already.
    pub nothing: Targets,
}

impl WorkPiece {
    /// A piece that is read and written to these targets.
    pub(crate) fn data(range: Range<u64>, payload: Targets) -> Self {
        let none = Targets::default();
        Self { range, payload, zeroes: none, nothing: none }
    }

    /// A piece that is made zero at these targets.
    pub(super) fn zeroes(range: Range<u64>, zeroes: Targets) -> Self {
        let none = Targets::default();
        Self { range, payload: none, zeroes, nothing: none }
    }
}

/// Source of a relay's work. Keeps account of it for each target.
pub(crate) trait RelayWork {
    /// The next piece, or `None` at the end. Pieces do not overlap; each begins on a block of source
    /// and targets, counted from the start of the copy, and ends on one or with the copy.
    ///
    /// # Errors
    /// When the next piece cannot be told; the relay then drains and stops.
    fn next_piece(&mut self) -> Option<io::Result<WorkPiece>>;

    /// Bytes of the copy that a target has and that no piece holds for it: where progress begins.
    fn done_before(&self, target: usize) -> u64 {
        let _ = target;
        0
    }

    /// Is told of a range that reads at the target as it does at the source, flushed or not.
    fn wrote(&mut self, target: usize, range: Range<u64>) {
        let _ = (target, range);
    }

    /// Is told of a range that reads as zeroes at the source and was not moved.
    fn is_zero(&mut self, range: Range<u64>) {
        let _ = range;
    }

    /// Time until another part may begin under a limit to the rate; zero when one may now.
    fn pause(&self, now: Nanos) -> Nanos {
        let _ = now;
        Nanos(0)
    }

    /// Is told when a part that moves `bytes` begins.
    fn begins(&mut self, bytes: u64, now: Nanos) {
        let _ = (bytes, now);
    }

    /// Is told when a part that began is over at every target.
    fn ends(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// True when a target is to be flushed now.
    fn flush_is_due(&self, target: usize, now: Nanos) -> bool {
        let _ = (target, now);
        false
    }

    /// Is told before a flush is submitted: it vouches for all writes up to now, while other
    /// requests go on.
    fn flush_begins(&mut self, target: usize) {
        let _ = target;
    }

    /// Is told how the flush ended; after one that failed the target is dropped.
    fn flush_ended(&mut self, target: usize, outcome: FlushOutcome) {
        let _ = (target, outcome);
    }
}

/// Outcome of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushOutcome {
    /// All that it vouches for is on stable storage.
    Flushed,
    /// Nothing is known of the writes since the flush before.
    Failed,
}

/// All of a copy to one target in one piece, without an account.
pub(super) struct Whole(pub(super) Option<Range<u64>>);

impl RelayWork for Whole {
    fn next_piece(&mut self) -> Option<io::Result<WorkPiece>> {
        self.0.take().map(|range| Ok(WorkPiece::data(range, Targets::only(0))))
    }
}
