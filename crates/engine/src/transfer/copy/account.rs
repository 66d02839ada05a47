//! The account of a copy under way, for its record.

use std::mem;

use peerlane_results::{Evidence, Plan, Route, RouteEvidence, RouteVerdict, Warning};
use peerlane_units::Bytes;

use super::CopyError;
use super::witness::Witnesses;
use crate::io::ranges::RangeSet;
use crate::transfer::relay::Moved;

/// Bytes moved to a target, the memory they went through, and evidence of the route.
pub(super) struct Account {
    pub(super) evidence: Vec<RouteEvidence>,
    pub(super) witnesses: Witnesses,
    pub(super) warnings: Vec<Warning>,
    /// Name of the device memory in use.
    pub(super) memory: Option<String>,
    /// Ranges that earlier runs moved.
    pub(super) before: RangeSet,
    /// The last move of this run.
    pub(super) moved: Payload,
    /// The moves before it in this run.
    by_lost_memory: MovedByLostMemory,
}

impl Account {
    /// The account of a copy that has moved nothing in this run.
    pub(super) fn new(plan: &Plan, before: RangeSet, witnesses: Witnesses) -> Self {
        Self {
            evidence: Vec::new(),
            witnesses,
            warnings: plan.warnings.clone(),
            memory: None,
            before,
            moved: Payload::default(),
            by_lost_memory: MovedByLostMemory::default(),
        }
    }

    /// Payload of all moves of this run, the last one given.
    pub(super) fn payload(&self, moved: Moved, tail: Bytes, length: u64) -> Payload {
        let by_lost_memory = self.by_lost_memory.less(&moved, tail, length);
        let this_run = moved.total() + tail.0 + by_lost_memory.total();
        // A tail that was there may lie in a block of which other bytes were missing.
        let before = Bytes(length.saturating_sub(this_run));
        Payload { moved, tail, before, by_lost_memory }
    }

    /// Keeps the account of a move by memory that went away, as far as the copy goes on from it.
    pub(super) fn keep_lost(&mut self, done: &RangeSet, length: u64) {
        let moved = mem::take(&mut self.moved);
        self.by_lost_memory.add(&moved, done, length);
    }

    /// True when a witness shows the route.
    pub(super) fn is_shown(&self) -> bool {
        self.evidence.iter().any(|one| one.says == RouteVerdict::Shown)
    }

    /// Refuses a copy whose peer-to-peer route a witness contradicts.
    pub(super) fn judge_route(&self, route: Route) -> Result<(), CopyError> {
        let against = |one: &&RouteEvidence| one.says == RouteVerdict::Contradicted;
        match self.evidence.iter().find(against) {
            Some(RouteEvidence { evidence, .. }) if route == Route::P2p => {
                let Evidence { looked_at, showed } = evidence.clone();
                Err(CopyError::Contradicted { route, looked_at, showed })
            }
            _ => Ok(()),
        }
    }
}

/// Payload of one target.
#[derive(Debug, Clone)]
pub(super) struct Payload {
    pub(super) moved: Moved,
    /// Payload that went through host memory although the route did not.
    pub(super) tail: Bytes,
    /// Bytes that an earlier run moved.
    pub(super) before: Bytes,
    /// Bytes that this run moved before, by a memory that went away.
    pub(super) by_lost_memory: MovedByLostMemory,
}

impl Default for Payload {
    fn default() -> Self {
        let (tail, before) = (Bytes::ZERO, Bytes::ZERO);
        Self { moved: Moved::nothing(), tail, before, by_lost_memory: MovedByLostMemory::default() }
    }
}

/// Bytes that a run moved by device memory that went away since, and that are done.
#[derive(Debug, Clone, Default)]
pub(super) struct MovedByLostMemory {
    pub(super) data: u64,
    /// Payload that host memory carried.
    pub(super) tail: u64,
    pub(super) skipped: u64,
    pub(super) zeroed: u64,
    pub(super) zeroes_written: u64,
    ranges: RangeSet,
}

impl MovedByLostMemory {
    fn total(&self) -> u64 {
        self.data + self.tail + self.skipped + self.zeroed + self.zeroes_written
    }

    /// Adds a move, as far as it is done.
    fn add(&mut self, Payload { moved, tail, .. }: &Payload, done: &RangeSet, length: u64) {
        self.data += moved.bytes;
        self.tail += tail.0;
        self.zeroed += moved.zeroed;
        self.zeroes_written += moved.zeroes_written;
        self.skipped += moved.skipped;
        self.ranges.union(&moved.written);
        self.ranges.insert(length - tail.0..length);
        done.missing(0..length).for_each(|undone| self.ranges.subtract(undone));
        self.keep(self.ranges.total());
    }

    /// Subtracts whole blocks that were moved again.
    fn less(&self, moved: &Moved, Bytes(tail): Bytes, length: u64) -> Self {
        let mut less = self.clone();
        moved.written.iter().for_each(|range| less.ranges.subtract(range));
        less.ranges.subtract(length - tail..length);
        less.keep(less.ranges.total());
        less
    }

    /// Reduces the counts to so many bytes; payload is first.
    fn keep(&mut self, total: u64) {
        let mut over = self.total().saturating_sub(total);
        let counts = [
            &mut self.data,
            &mut self.tail,
            &mut self.zeroed,
            &mut self.zeroes_written,
            &mut self.skipped,
        ];
        for count in counts {
            let less = over.min(*count);
            *count -= less;
            over -= less;
        }
    }
}
