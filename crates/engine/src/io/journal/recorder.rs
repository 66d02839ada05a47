//! Decides when to flush and save, and which bytes a flush vouches for.
//!
//! A write that completed may still rest in a cache of the drive or the system. A flush vouches
//! only for writes that had completed when it was submitted, so a range goes through three sets:
//! written, flushing, done. A flush that fails vouches for nothing, and neither does a later one
//! that succeeds: the kernel reports a failed write-back once and forgets the pages.

use std::ops::Range;

use peerlane_units::{Bytes, Nanos};

use crate::io::ranges::RangeSet;

/// Limits the bytes to copy again after a crash: writes since the last save. Requests in
/// flight, and those that completed while the last flush ran, come on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    /// Time to the first save; it doubles with each, up to `every`. A copy that is killed early again and
    /// again gets on.
    pub first: Nanos,
    /// Longest time between two saves while bytes are being written.
    pub every: Nanos,
    /// Most bytes between two saves.
    pub bytes: Bytes,
}

impl Default for Cadence {
    /// After 100 ms, then ever more rarely up to every 2 s, or 1 GiB, whichever comes first.
    fn default() -> Self {
        Self { first: Nanos(100_000_000), every: Nanos::seconds(2), bytes: Bytes::mib(1024) }
    }
}

/// Follows a copy and decides when its journal is due. It does nothing by itself: the caller flushes
/// and saves.
///
/// [`Recorder::wrote`] on each completed write; when [`Recorder::is_due`]: [`Recorder::flush_begins`],
/// submit the flush, [`Recorder::flush_ended`] on its completion, save a journal with
/// [`Recorder::done`], [`Recorder::saved`]. Writes may go on all the while.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    cadence: Cadence,
    done: RangeSet,
    written: RangeSet,
    flushing: Option<RangeSet>,
    last_save: Nanos,
    /// Time to the next save.
    interval: Nanos,
}

impl Recorder {
    /// Begins with a journal's `done` ranges; `now` counts as the time of the last save.
    pub(crate) fn new(cadence: Cadence, done: RangeSet, now: Nanos) -> Self {
        let interval = cadence.first.min(cadence.every);
        let written = RangeSet::new();
        Self { cadence, done, written, flushing: None, last_save: now, interval }
    }

    /// Notes a write that completed in full; offsets from the start of the copy.
    ///
    /// Also for a hole whose bytes were made zero at the target, as that needs a flush like any write.
    pub(crate) fn wrote(&mut self, range: Range<u64>) {
        self.written.insert(range);
    }

    /// Tells whether to flush and save now: enough bytes or enough time since the last save,
    /// something written, and no flush under way.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        let elapsed = now.0.saturating_sub(self.last_save.0);
        self.flushing.is_none()
            && !self.written.is_empty()
            && (self.written.total() >= self.cadence.bytes.0 || elapsed >= self.interval.0)
    }

    /// Fixes the writes that a flush vouches for; called before the flush is submitted.
    ///
    /// While one flush is under way this does nothing: that one vouches for fewer writes.
    pub(crate) fn flush_begins(&mut self) {
        if self.flushing.is_none() {
            self.flushing = Some(std::mem::take(&mut self.written));
        }
    }

    /// Notes the end of the flush. When it failed, whatever was not done is forgotten and has to be
    /// written again.
    pub(crate) fn flush_ended(&mut self, success: bool) {
        let flushed = self.flushing.take();
        match flushed {
            Some(flushed) if success => self.done.union(&flushed),
            _ if success => {}
            _ => self.written.clear(),
        }
    }

    /// Notes that a journal with [`Recorder::done`] is on disk.
    pub(crate) fn saved(&mut self, now: Nanos) {
        self.last_save = now;
        let doubled = Nanos(self.interval.0.saturating_mul(2).max(1));
        self.interval = doubled.min(self.cadence.every);
    }

    /// Returns the ranges written and flushed, which a journal may claim.
    pub(crate) fn done(&self) -> &RangeSet {
        &self.done
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
mod tests {
    use super::*;

    fn recorder(seconds: u64, bytes: u64) -> Recorder {
        let every = Nanos::seconds(seconds);
        let cadence = Cadence { first: every, every, bytes: Bytes(bytes) };
        Recorder::new(cadence, RangeSet::new(), Nanos::seconds(100))
    }

    fn ranges(set: &RangeSet) -> Vec<Range<u64>> {
        set.iter().collect()
    }

    #[test]
    fn save_due_by_bytes_or_time() {
        let mut recorder = recorder(2, 1000);
        assert!(!recorder.is_due(Nanos::seconds(500)));
        recorder.wrote(0..999);
        assert!(!recorder.is_due(Nanos::seconds(101)));
        assert!(recorder.is_due(Nanos::seconds(102)));
        recorder.wrote(999..1000);
        assert!(recorder.is_due(Nanos::seconds(100)));
    }

    #[test]
    fn early_saves_come_at_doubling_intervals() {
        let (first, every) = (Nanos::seconds(1), Nanos::seconds(3));
        let cadence = Cadence { first, every, bytes: Bytes(1000) };
        let mut recorder = Recorder::new(cadence, RangeSet::new(), Nanos(0));
        let mut saves = Vec::new();
        for second in 0..12 {
            let now = Nanos::seconds(second);
            recorder.wrote(second..second + 1);
            if recorder.is_due(now) {
                recorder.flush_begins();
                recorder.flush_ended(true);
                recorder.saved(now);
                saves.push(second);
            }
        }
        assert_eq!(saves, [1, 3, 6, 9]);
    }

    #[test]
    fn the_time_counts_from_the_last_save() {
        let mut recorder = recorder(2, 1000);
        recorder.wrote(0..1);
        recorder.flush_begins();
        assert!(!recorder.is_due(Nanos::seconds(500)), "a flush is under way");
        recorder.flush_ended(true);
        recorder.saved(Nanos::seconds(103));
        recorder.wrote(1..2);
        assert!(!recorder.is_due(Nanos::seconds(104)));
        assert!(recorder.is_due(Nanos::seconds(105)));
        assert!(!recorder.is_due(Nanos::seconds(1)), "a clock that runs backwards");
    }

    #[test]
    fn a_flush_vouches_only_for_what_completed_before_it() {
        let mut recorder = recorder(2, 1000);
        recorder.wrote(0..10);
        recorder.flush_begins();
        recorder.wrote(10..20);
        recorder.flush_ended(true);
        assert_eq!(ranges(recorder.done()), [0..10]);
        recorder.flush_begins();
        recorder.flush_ended(true);
        assert_eq!(ranges(recorder.done()), [0..20]);
    }

    #[test]
    fn second_begin_does_not_widen_flush() {
        let mut recorder = recorder(2, 1000);
        recorder.wrote(0..10);
        recorder.flush_begins();
        recorder.wrote(10..20);
        recorder.flush_begins();
        recorder.flush_ended(true);
        assert_eq!(ranges(recorder.done()), [0..10]);
    }

    #[test]
    fn a_failed_flush_forgets_what_waited_for_it() {
        let mut recorder = recorder(2, 1000);
        recorder.wrote(0..10);
        recorder.flush_begins();
        recorder.wrote(10..20);
        recorder.flush_ended(false);
        recorder.flush_begins();
        recorder.flush_ended(true);
        assert!(recorder.done().is_empty());
    }
}
