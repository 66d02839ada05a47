//! What a ring knows of its operations: whose they are, and where the chains that wait for the kernel
//! begin and end.

use std::collections::VecDeque;

use super::{Operation, RegionId};

/// Operations that are queued or submitted, by the number that travels with them through the kernel.
#[derive(Debug)]
pub(super) struct InFlight {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) tag: u64,
    /// `None` for an operation that touches no memory.
    pub(super) region: Option<RegionId>,
    /// Bytes of a full completion; `None` where any success is full.
    pub(super) length: Option<u32>,
    /// Set for a command of NVMe, whose result is a status: what is left to do after it.
    pub(super) command: Option<Command>,
}

/// What is known of a command through a passthrough node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    /// What one command could not cover.
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

    pub(super) fn insert(&mut self, entry: Entry) -> Option<u64> {
        let index = self.free.pop()?;
        self.entries[index] = Some(entry);
        Some(index as u64)
    }

    /// The entry with a number, to be changed.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        let index = usize::try_from(number).ok()?;
        let entry = self.entries.get_mut(index)?.take()?;
        self.free.push(index);
        Some(entry)
    }

    pub(super) fn touches(&self, region: RegionId) -> bool {
        self.entries.iter().flatten().any(|entry| entry.region == Some(region))
    }
}

/// What is queued for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    /// An operation, linked to the next one or not.
    Operation { is_linked: bool },
    /// A question whether a worker has answered.
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

    /// Those of them that are operations.
    pub(super) fn operations(&self) -> usize {
        self.queued.iter().filter(|one| **one != Queued::Poll).count()
    }

    /// Whether the next operation starts only when the last one has ended.
    pub(super) fn is_linked_on(&self) -> bool {
        self.queued.back() == Some(&Queued::Operation { is_linked: true })
    }

    /// Notes that only the newest `left` still wait. False when that cuts a chain in two: its second
    /// part, handed over later, would start without waiting for the first.
    pub(super) fn keep_newest(&mut self, left: usize) -> bool {
        let mut cut = false;
        while self.queued.len() > left {
            cut = self.queued.pop_front() == Some(Queued::Operation { is_linked: true });
        }
        !(cut && left > 0)
    }
}

/// Chains that the kernel cannot keep: to it a command that the drive refused has not failed
/// (`io_uring_cmd_done` in io_uring/uring_cmd.c fails a request only by a negative result), so it would
/// start what is linked to it. The ring hands the next operation over when the one before it was full.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// The number of an operation that has a successor, and what that is.
    held: Vec<(u64, Held)>,
    /// The operation that the next one pushed is linked to.
    open: Option<u64>,
}

/// An operation that waits for the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) number: u64,
    pub(super) operation: Operation,
}

impl Chains {
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether the next operation pushed is one to be held.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Says that the next operation pushed is linked to this one, or that it is linked to none.
    pub(super) fn set_open(&mut self, number: Option<u64>) {
        self.open = number;
    }

    /// Holds an operation back until the one that is open was full.
    pub(super) fn hold(&mut self, held: Held) {
        if let Some(before) = self.open {
            self.held.push((before, held));
        }
    }

    /// What was held for this operation.
    pub(super) fn after(&mut self, number: u64) -> Option<Held> {
        let at = self.held.iter().position(|(before, _)| *before == number)?;
        Some(self.held.swap_remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_taken_in_parts_is_noticed() {
        let fill = || {
            let mut waiting = Waiting::default();
            [true, false, true, true, false].into_iter().for_each(|linked| {
                waiting.push(Queued::Operation { is_linked: linked });
            });
            waiting
        };
        for (left, whole) in [(5, true), (4, false), (3, true), (2, false), (1, false), (0, true)] {
            assert_eq!(fill().keep_newest(left), whole, "{left}");
        }
    }

    #[test]
    fn numbers_are_reused_only_after_their_end() {
        let mut in_flight = InFlight::new(2);
        let entry =
            |tag| Entry { tag, region: Some(RegionId(3)), length: Some(512), command: None };
        let first = in_flight.insert(entry(7)).unwrap();
        assert!(in_flight.insert(entry(8)).is_some());
        assert_eq!(in_flight.insert(entry(9)), None);
        assert!(in_flight.touches(RegionId(3)) && !in_flight.touches(RegionId(4)));
        assert_eq!(in_flight.remove(first), Some(entry(7)));
        assert_eq!(in_flight.remove(first), None);
        assert_eq!(in_flight.remove(99), None);
        assert_eq!((in_flight.count(), in_flight.space()), (1, 1));
    }

    #[test]
    fn what_is_held_waits_for_the_one_before_it() {
        let held = |number| Held {
            number,
            operation: Operation {
                action: crate::ring::Action::Write,
                file: crate::ring::FileId(0),
                file_offset: 0,
                region: RegionId(0),
                region_offset: 0,
                length: 512,
                linked: false,
                tag: number,
            },
        };
        let mut chains = Chains::default();
        assert!(!chains.is_open());
        chains.set_open(Some(1));
        assert!(chains.is_open());
        chains.hold(held(2));
        chains.set_open(Some(2));
        chains.hold(held(3));
        chains.set_open(None);
        assert_eq!((chains.held(), chains.is_open()), (2, false));
        assert_eq!(chains.after(3), None);
        assert_eq!(chains.after(1), Some(held(2)));
        assert_eq!(chains.after(1), None);
        assert_eq!(chains.after(2), Some(held(3)));
        assert_eq!(chains.held(), 0);
    }
}
