//! Moves payload from a file to another through slots of one region.
//!
//! Each slot carries one linked read and write; when the write is over the slot takes the next part of
//! the copy. With several slots, reading and writing overlap. The relay neither chooses sizes nor
//! verifies content, and knows nothing of files but their blocks: the plan and the caller do.
//!
//! What a reader must know: parts begin in order and end in any order, so after a failure only what
//! lies below [`Moved::contiguous`] is certain. Memory in use does not grow with the length of the copy.

mod shape;
mod slot;
mod tail;
#[cfg(test)]
mod tests;

use std::fmt;

use hdrhistogram::Histogram;
use peerlane_results::{MemoryKind, Tail};
use peerlane_units::{Bytes, Nanos};

use crate::failure::RequestError;
use crate::request::LONGEST_SLEEP;
use crate::ring::{Completion, FileId, RegionId, Ring};
use crate::{Clock, Watch};
pub use shape::ShapeFault;
use slot::{Slot, Turn};
pub use tail::merge_in_host;

/// The longest wait for a single request that a caller without a better figure takes.
pub const DEADLINE: Nanos = Nanos::seconds(60);

/// Latencies above an hour are counted as an hour.
const LATENCY_MAX: u64 = 3_600_000_000_000;

/// What to move, and how. All offsets, lengths and blocks are in bytes; blocks are powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Where payload comes from.
    pub source: FileId,
    /// Where payload goes to.
    pub target: FileId,
    /// Where payload rests between.
    pub region: RegionId,
    /// Whose memory that is; decides what an errno means.
    pub memory: MemoryKind,
    /// Offset in the source, a multiple of its block.
    pub source_offset: u64,
    /// Offset in the target, a multiple of its block.
    pub target_offset: u64,
    /// Bytes to move.
    pub length: u64,
    /// Bytes of one read and one write, a multiple of both blocks.
    pub request: u64,
    /// Parts in flight.
    pub slots: u32,
    /// From the start of a slot in the region to the start of the next; whole pages for P2P.
    pub slot_stride: u64,
    /// Block size of the source.
    pub source_block: u64,
    /// Block size of the target.
    pub target_block: u64,
    /// How an end that is no whole target block is written. With [`Tail::MergeInHost`] only the whole
    /// blocks are moved here; [`merge_in_host`] does the rest.
    pub tail: Tail,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// What was moved.
#[derive(Clone)]
pub struct Moved {
    /// Payload written, wherever it lies.
    pub bytes: u64,
    /// Everything below this offset of the copy is written.
    pub contiguous: u64,
    /// From the start to the end of the first write; zero when there was none.
    pub first_done: Nanos,
    /// From the start to the end of the last write.
    pub last_done: Nanos,
    /// A watch asked for the end before all was moved.
    pub interrupted: bool,
    /// Reads of the source, in nanoseconds as the engine sees them.
    pub read_latency: Histogram<u64>,
    /// Writes to the target, from the end of their read as the engine sees it.
    pub write_latency: Histogram<u64>,
    /// Reads whose write ended before the engine looked again. Where the one ended and the other began
    /// is not known, so they are in neither latency; many of them make the latencies a biased sample.
    pub unsplit: u64,
    /// Requests that came back short or were tried again.
    pub repeats: u64,
}

/// Why a relay stopped before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The transfer does not add up; nothing was moved.
    #[error("cannot move payload this way: {0}")]
    Shape(ShapeFault),
    /// The ring still has requests of an earlier use; nothing was moved.
    #[error("cannot move payload: {in_flight} earlier requests are in flight")]
    Busy {
        /// How many.
        in_flight: u32,
    },
    /// A request failed. What was in flight has ended, unless the ring says otherwise.
    #[error("copy stopped after {} bytes", moved.contiguous)]
    Stopped {
        /// Why.
        #[source]
        source: RequestError,
        /// What is at the target.
        moved: Box<Moved>,
    },
}

impl RelayError {
    /// Everything below this offset of the copy is written.
    pub fn contiguous(&self) -> u64 {
        match self {
            Self::Stopped { moved, .. } => moved.contiguous,
            Self::Shape(_) | Self::Busy { .. } => 0,
        }
    }
}

/// Moves payload until the end, a failure, or the watch's wish. Flushes nothing.
///
/// # Errors
/// [`RelayError`]. After [`RequestError::Stuck`], or with anything left in flight, the ring is not to
/// be used again.
pub fn relay<R: Ring>(
    ring: &mut R,
    transfer: &Transfer,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Moved, RelayError> {
    transfer.check(ring.region_length(transfer.region)).map_err(RelayError::Shape)?;
    match ring.in_flight() {
        0 => {}
        in_flight => return Err(RelayError::Busy { in_flight }),
    }
    let mut relay = Relay {
        transfer,
        clock,
        start: clock.now(),
        next: 0,
        slots: (0..transfer.slots).map(Slot::new).collect(),
        idle: (0..transfer.slots as usize).rev().collect(),
        moved: Moved::nothing(),
        failed: None,
        checked: clock.now(),
    };
    relay.run(ring, watch);
    relay.finish()
}

impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moved")
            .field("bytes", &self.bytes)
            .field("contiguous", &self.contiguous)
            .field("first_done", &self.first_done)
            .field("last_done", &self.last_done)
            .field("interrupted", &self.interrupted)
            .field("reads", &self.read_latency.len())
            .field("writes", &self.write_latency.len())
            .field("unsplit", &self.unsplit)
            .field("repeats", &self.repeats)
            .finish()
    }
}

impl Moved {
    fn nothing() -> Self {
        let latency =
            || Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("constant bounds are in order");
        Self {
            bytes: 0,
            contiguous: 0,
            first_done: Nanos(0),
            last_done: Nanos(0),
            interrupted: false,
            read_latency: latency(),
            write_latency: latency(),
            unsplit: 0,
            repeats: 0,
        }
    }
}

struct Relay<'a> {
    transfer: &'a Transfer,
    clock: &'a dyn Clock,
    start: Nanos,
    /// Offset in the copy of the first byte that no slot has taken.
    next: u64,
    slots: Vec<Slot>,
    /// Slots with nothing in flight: they want the next part, or the rest of theirs.
    idle: Vec<usize>,
    moved: Moved,
    failed: Option<RequestError>,
    /// When deadlines were looked at last.
    checked: Nanos,
}

impl Relay<'_> {
    fn run<R: Ring>(&mut self, ring: &mut R, watch: &mut dyn Watch) {
        let sleep = LONGEST_SLEEP.min(Nanos(self.transfer.deadline.0 / 4)).max(Nanos(1));
        loop {
            if !self.moved.interrupted && watch.stop_requested() {
                self.moved.interrupted = self.next < self.transfer.relayed();
            }
            if let Err(error) = self.feed(ring) {
                self.failed.get_or_insert(error);
                return;
            }
            if self.idle.len() == self.slots.len() {
                return;
            }
            if let Err(error) = ring.submit(1, sleep) {
                self.failed.get_or_insert(error.into());
                return;
            }
            let now = self.clock.now();
            while let Some(completion) = ring.pop() {
                self.settle(completion, now, watch);
            }
            if now.since(self.checked) >= sleep {
                self.checked = now;
                if let Some(stuck) = self.overdue(now) {
                    self.failed.get_or_insert(stuck);
                    return;
                }
            }
        }
    }

    /// Slots whose payload is still on its way from the source.
    fn reading(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_reading()).count()
    }

    /// Slots that may read at a time: half of them. A drive that serves its requests by turns ends them
    /// together; with every slot reading, all would then write while nobody reads, and so on by turns.
    fn most_reading(&self) -> usize {
        self.slots.len().div_ceil(2)
    }

    /// Gives idle slots work: the rest of their part, or the next one.
    fn feed<R: Ring>(&mut self, ring: &mut R) -> Result<(), RequestError> {
        let (mut reading, most_reading) = (self.reading(), self.most_reading());
        let mut position = 0;
        while position < self.idle.len() && self.failed.is_none() {
            let slot = &mut self.slots[self.idle[position]];
            if slot.is_free() && !self.moved.interrupted && reading < most_reading {
                if let Some(part) = self.transfer.part(self.next) {
                    reading += 1;
                    self.next = part.end();
                    slot.load(self.transfer, part);
                }
            }
            if slot.is_free() {
                position += 1;
                continue;
            }
            if ring.space() < slot.operations() && ring.in_flight() > 0 {
                return Ok(());
            }
            slot.push(ring, self.clock.now())?;
            self.idle.swap_remove(position);
        }
        Ok(())
    }

    fn settle(&mut self, completion: Completion, now: Nanos, watch: &mut dyn Watch) {
        let Some(index) = slot::index_of(completion.tag) else { return };
        let Some(slot) = self.slots.get_mut(index) else { return };
        if let Some(failure) = slot.take(completion, now, &mut self.moved) {
            self.failed.get_or_insert(failure.into());
        }
        match slot.turn() {
            Turn::InFlight => {}
            Turn::Rest => self.idle.push(index),
            Turn::Written { length } => {
                self.idle.push(index);
                self.moved.bytes += length;
                self.moved.last_done = now.since(self.start);
                if self.moved.first_done == Nanos(0) {
                    self.moved.first_done = self.moved.last_done;
                }
                watch.progress(Bytes(self.moved.bytes), Bytes(self.transfer.relayed()));
            }
        }
    }

    fn overdue(&self, now: Nanos) -> Option<RequestError> {
        let (age, slot) = self
            .slots
            .iter()
            .filter_map(|slot| Some((slot.age(now)?, slot)))
            .max_by_key(|s| s.0)?;
        if age < self.transfer.deadline { None } else { slot.stuck(age).map(Into::into) }
    }

    fn finish(mut self) -> Result<Moved, RelayError> {
        let unfinished = self.slots.iter().filter_map(Slot::offset).min();
        self.moved.contiguous = unfinished.unwrap_or(self.next);
        match self.failed {
            None => Ok(self.moved),
            Some(source) => Err(RelayError::Stopped { source, moved: Box::new(self.moved) }),
        }
    }
}
