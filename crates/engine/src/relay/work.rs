//! What a relay moves, piece by piece, and who is told that it is there.
//!
//! A copy that goes on after a crash, or one of a file with holes, is many pieces. They are asked for
//! one at a time while others are in flight, so that neither their number nor the length of the copy
//! shows in memory, and the drives never run dry between two of them.

use std::io;
use std::ops::Range;

use peerlane_units::Nanos;

/// A piece of the copy; offsets from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Is read and written.
    Data(Range<u64>),
    /// Reads as zeroes at the source: is made zero at the target, where that is possible without moving
    /// bytes.
    Zeroes(Range<u64>),
    /// Is zero at both ends: there is nothing to do.
    Nothing(Range<u64>),
}

/// What a relay moves, and who keeps account of it.
pub trait Work {
    /// The next piece, or `None` at the end. Pieces do not overlap; each begins on a block of source
    /// and target, counted from the start of the copy, and ends on one or with the copy.
    ///
    /// # Errors
    /// When it is not to be known what follows; the relay then drains and stops.
    fn next_piece(&mut self) -> Option<io::Result<Piece>>;

    /// Bytes of the copy that no piece holds since they are done: where progress begins.
    fn done_before(&self) -> u64 {
        0
    }

    /// Is told of a range that reads at the target as it does at the source, flushed or not.
    fn wrote(&mut self, range: Range<u64>) {
        let _ = range;
    }

    /// Time until another part may begin, where there is a limit to the rate; zero when one may now.
    fn pause(&self, now: Nanos) -> Nanos {
        let _ = now;
        Nanos(0)
    }

    /// Is told when a part that moves `bytes` begins.
    fn begins(&mut self, bytes: u64, now: Nanos) {
        let _ = (bytes, now);
    }

    /// Is told when a part that began is written, or given up.
    fn ends(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Whether the target is to be flushed now.
    fn flush_is_due(&self, now: Nanos) -> bool {
        let _ = now;
        false
    }

    /// Is told before a flush is submitted: it vouches for what was written up to now, while other
    /// requests go on.
    fn flush_begins(&mut self) {}

    /// Is told how the flush ended; after one that failed the relay drains and stops.
    fn flush_ended(&mut self, outcome: FlushOutcome) {
        let _ = outcome;
    }
}

/// How a flush ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushOutcome {
    /// What it vouches for is on stable storage.
    Flushed,
    /// Nothing is known of what was written since the flush before.
    Failed,
}

/// All of a copy in one piece, of which no account is kept.
pub(super) struct Whole(pub(super) Option<Range<u64>>);

impl Work for Whole {
    fn next_piece(&mut self) -> Option<io::Result<Piece>> {
        self.0.take().map(|range| Ok(Piece::Data(range)))
    }
}
