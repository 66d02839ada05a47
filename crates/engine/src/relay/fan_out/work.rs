//! What a fan-out moves, piece by piece, and who is told what is at which target.

use std::io;
use std::ops::Range;

use peerlane_units::Nanos;

use crate::relay::FlushOutcome;

/// Most targets of one copy: each holds every slot until it has written it.
pub const TARGETS_MAX: usize = 16;

/// A set of targets, by their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Targets(u16);

impl Targets {
    /// The set of those below `count` for which `holds` is true.
    pub fn of(count: usize, holds: impl Fn(usize) -> bool) -> Self {
        (0..count.min(TARGETS_MAX))
            .filter(|&target| holds(target))
            .fold(Self(0), |set, target| Self(set.0 | 1 << target))
    }

    /// Whether the target is in it.
    pub fn contains(self, target: usize) -> bool {
        target < TARGETS_MAX && self.0 & 1 << target != 0
    }

    /// Whether there is none in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers in it, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..TARGETS_MAX).filter(move |&target| self.contains(target))
    }
}

/// A piece of the copy, and which target wants what of it; one that wants nothing has it already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPiece {
    /// Offsets from the start of the copy.
    pub range: Range<u64>,
    /// These get what is read from the source.
    pub payload: Targets,
    /// It reads as zeroes at the source: these are made zero there.
    pub zeroes: Targets,
    /// It reads as zeroes at the source and there already.
    pub nothing: Targets,
}

/// What a fan-out moves, and who keeps account of it for each target.
pub trait SharedWork {
    /// The next piece, or `None` at the end; rules as for [`Work`](crate::relay::Work).
    ///
    /// # Errors
    /// When it is not to be known what follows; the fan-out then drains and stops.
    fn next_piece(&mut self) -> Option<io::Result<SharedPiece>>;

    /// Bytes of the copy that a target has already.
    fn done_before(&self, target: usize) -> u64;

    /// Is told of a range that reads at the target as it does at the source, flushed or not.
    fn wrote(&mut self, target: usize, range: Range<u64>);

    /// Time until another part may begin; zero when one may now.
    fn pause(&self, now: Nanos) -> Nanos {
        let _ = now;
        Nanos(0)
    }

    /// Is told when a part that reads `bytes` begins.
    fn begins(&mut self, bytes: u64, now: Nanos) {
        let _ = (bytes, now);
    }

    /// Is told when a part that began is over at every target.
    fn ends(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Whether a target is to be flushed now.
    fn flush_is_due(&self, target: usize, now: Nanos) -> bool;

    /// Is told before a flush of a target is submitted.
    fn flush_begins(&mut self, target: usize);

    /// Is told how it ended; after one that failed the target is dropped.
    fn flush_ended(&mut self, target: usize, outcome: FlushOutcome);
}
