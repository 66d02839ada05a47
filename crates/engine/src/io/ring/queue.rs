//! Bookkeeping of a ring's operations: their owners, and those that wait for the kernel.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Operation, RegionId};

/// Operations that are queued or submitted, by the number that travels with them through the kernel.
#[derive(Debug)]
pub(super) struct InFlight {
    entries: Vec<Option<QueueEntry>>,
    free: Vec<usize>,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueEntry {
    pub(super) tag: u64,
    /// The region and the offset in it; `None` for an operation that touches no memory.
    pub(super) region: Option<(RegionId, u64)>,
    /// Bytes of a full completion and of the memory; `None` if any success is full.
    pub(super) length: Option<u32>,
    /// Set for a command of NVMe, whose result is a status: the work left after it.
    pub(super) command: Option<PassthroughCommand>,
}

/// State of a command through a passthrough node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassthroughCommand {
    /// Remainder that one command could not cover.
    pub(super) rest: Option<Operation>,
}

impl InFlight {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: vec![None; capacity], free: (0..capacity).rev().collect() }
    }

    pub(super) fn space(&self) -> usize {
        self.free.len()
    }

    pub(super) fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, entry: QueueEntry) -> Option<u64> {
        let index = self.free.pop()?;
        self.entries[index] = Some(entry);
        Some(index as u64)
    }

    /// The entry with a number, to be changed.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut QueueEntry> {
        self.entries.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<QueueEntry> {
        let index = usize::try_from(number).ok()?;
        let entry = self.entries.get_mut(index)?.take()?;
        self.free.push(index);
        Some(entry)
    }

    /// True if an operation works on a part of a range of a region.
    pub(super) fn touches(&self, region: RegionId, range: &Range<u64>) -> bool {
        let overlaps = |entry: &QueueEntry| {
            let Some((_, start)) = entry.region.filter(|(one, _)| *one == region) else {
                return false;
            };
            start < range.end && range.start < start + u64::from(entry.length.unwrap_or(0))
        };
        self.entries.iter().flatten().any(overlaps)
    }
}

/// An entry that is queued for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    Operation,
    /// A question to the kernel: has a worker answered?
    Poll,
}

/// Entries that the kernel has not taken yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queued: VecDeque<Queued>,
}

impl Waiting {
    pub(super) fn push(&mut self, queued: Queued) {
        self.queued.push_back(queued);
    }

    pub(super) fn count(&self) -> usize {
        self.queued.len()
    }

    /// Counts the entries that are operations.
    pub(super) fn operations(&self) -> usize {
        self.queued.iter().filter(|one| **one == Queued::Operation).count()
    }

    /// Notes that only the newest `left` still wait.
    pub(super) fn keep_newest(&mut self, left: usize) {
        self.queued.drain(..self.queued.len().saturating_sub(left));
    }
}

/// An operation that waits to be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldOperation {
    pub(super) number: u64,
    pub(super) operation: Operation,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_only_after_their_end() {
        let mut in_flight = InFlight::new(2);
        let entry = |tag| QueueEntry {
            tag,
            region: Some((RegionId(3), 512)),
            length: Some(512),
            command: None,
        };
        let first = in_flight.insert(entry(7)).unwrap();
        assert!(in_flight.insert(entry(8)).is_some());
        assert_eq!(in_flight.insert(entry(9)), None);
        let touches = |region, range| in_flight.touches(RegionId(region), &range);
        assert!(touches(3, 0..1024) && touches(3, 1023..1024) && !touches(4, 0..1024));
        assert!(!touches(3, 0..512) && !touches(3, 1024..2048));
        assert_eq!(in_flight.remove(first), Some(entry(7)));
        assert_eq!(in_flight.remove(first), None);
        assert_eq!(in_flight.remove(99), None);
        assert_eq!((in_flight.count(), in_flight.space()), (1, 1));
    }
}
