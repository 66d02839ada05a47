//! Moves payload from a file to several others: each part is read once and written to every target out
//! of the same slot.
//!
//! The writes of a part are handed over together when its read was full, and the slot is free when all
//! of them are over. A target that fails is dropped and named; the others go on. What the targets'
//! tails need each by itself is left to [`relay_work`](super::relay_work): [`shared_length`] says how
//! much is moved here.
//!
//! What a reader must know: a request that is never answered is given up after its deadline, while the
//! device may still read its slot. Its target is dropped then and that range is not counted as written,
//! so that it may get other bytes of the copy there and nobody takes them for right. Tags are never
//! used twice, so that a late answer is told from another's; they lie above those of every other loop
//! over a ring.

mod load;
mod settle;
mod slot;
mod work;

use std::collections::{BTreeMap, VecDeque};

use peerlane_results::Tail;
use peerlane_units::{Bytes, Nanos};

use super::{Moved, RelayError, ShapeFault, Transfer};
use crate::failure::{RequestError, Role, Stuck};
use crate::relay::FlushOutcome;
use crate::request::LONGEST_SLEEP;
use crate::ring::{Action, Operation, PushError, RegionId, Ring};
use crate::{Clock, Watch};
use slot::Slot;
pub use work::{SharedPiece, SharedWork, TARGETS_MAX, Targets};

/// Tags from here on are a fan-out's.
const FIRST_TAG: u64 = 1 << 48;

/// What became of a fan-out.
#[derive(Debug)]
pub struct FannedOut {
    /// What is at each target, and why it was dropped if it was. Reads are those of all.
    pub targets: Vec<(Moved, Option<RequestError>)>,
    /// Payload read from the source, each byte once.
    pub read: Bytes,
    /// Why all of it stopped: the source, or the ring.
    pub stopped: Option<RequestError>,
    /// A watch asked for the end before all was moved.
    pub interrupted: bool,
}

/// How much of a copy is moved to all targets together; behind it each target has a tail of its own.
pub fn shared_length(transfers: &[Transfer]) -> u64 {
    let Some(first) = transfers.first() else { return 0 };
    let merges = |one: &Transfer| matches!(one.tail, Tail::MergeInSlot | Tail::MergeInHost);
    if !transfers.iter().any(merges) {
        return first.length;
    }
    let block = largest_block(transfers);
    first.length / block * block
}

fn largest_block(transfers: &[Transfer]) -> u64 {
    transfers.iter().flat_map(|one| [one.source_block, one.target_block]).max().unwrap_or(1)
}

/// Moves the pieces of `work` to every target until their end, a failure of the source, or the watch's
/// wish. The transfers differ in their targets only. `zeroes` is as for
/// [`relay_work`](super::relay_work).
///
/// # Errors
/// When the transfers do not add up, or the ring is busy: nothing was moved.
pub fn fan_out<R: Ring>(
    ring: &mut R,
    transfers: &[Transfer],
    work: &mut dyn SharedWork,
    zeroes: Option<RegionId>,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<FannedOut, RelayError> {
    check(ring, transfers)?;
    let zeroes = zeroes.map(|region| (region, ring.region_length(region).unwrap_or(0)));
    let lanes = (0..transfers.len()).map(|target| Lane {
        moved: Moved::nothing(),
        accounted: work.done_before(target),
        failed: None,
        makes_zeroes: true,
        flush: None,
    });
    let first = &transfers[0];
    let mut relay = FanOut {
        transfers,
        lanes: lanes.collect(),
        clock,
        start: clock.now(),
        work,
        zeroes,
        pieces: VecDeque::new(),
        slots: (0..first.slots).map(|_| Slot::default()).collect(),
        waiting: VecDeque::new(),
        flights: BTreeMap::new(),
        tag: FIRST_TAG,
        pause: Nanos(0),
        read: 0,
        stopped: None,
        interrupted: false,
    };
    relay.run(ring, watch);
    Ok(relay.finish())
}

fn check<R: Ring>(ring: &R, transfers: &[Transfer]) -> Result<(), RelayError> {
    let count = transfers.len();
    let first = transfers.first().ok_or(RelayError::Shape(ShapeFault::Targets { count }))?;
    let is_alike = |one: &Transfer| {
        let Transfer { target, target_offset, target_block, tail, .. } = *one;
        Transfer { target, target_offset, target_block, tail, ..*first } == *one
    };
    if count > TARGETS_MAX || !transfers.iter().all(is_alike) {
        return Err(RelayError::Shape(ShapeFault::Targets { count }));
    }
    for transfer in transfers {
        transfer.check(ring.region_length(transfer.region)).map_err(RelayError::Shape)?;
    }
    match ring.in_flight() {
        0 => Ok(()),
        in_flight => Err(RelayError::Busy { in_flight }),
    }
}

struct FanOut<'a> {
    transfers: &'a [Transfer],
    lanes: Vec<Lane>,
    clock: &'a dyn Clock,
    start: Nanos,
    work: &'a mut dyn SharedWork,
    /// Host memory full of zeroes, and its length.
    zeroes: Option<(RegionId, u64)>,
    /// What was begun of the work, the next first.
    pieces: VecDeque<SharedPiece>,
    slots: Vec<Slot>,
    /// Requests for which the ring had no room yet.
    waiting: VecDeque<Seat>,
    flights: BTreeMap<u64, (Seat, Nanos)>,
    tag: u64,
    pause: Nanos,
    read: u64,
    stopped: Option<RequestError>,
    interrupted: bool,
}

/// One target on the way.
struct Lane {
    moved: Moved,
    /// Bytes of the copy that it has, those of an earlier run included.
    accounted: u64,
    failed: Option<RequestError>,
    /// Whether it is asked to make zeroes; no longer once it could not.
    makes_zeroes: bool,
    /// The flush under way, by its tag.
    flush: Option<u64>,
}

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    Leg { slot: usize, leg: usize },
    Flush { target: usize },
}

impl Seat {
    /// The target, or `None` for the source.
    fn target(self) -> Option<usize> {
        match self {
            Self::Leg { leg, .. } => leg.checked_sub(1),
            Self::Flush { target } => Some(target),
        }
    }
}

impl FanOut<'_> {
    fn run<R: Ring>(&mut self, ring: &mut R, watch: &mut dyn Watch) {
        let deadline = self.transfers[0].deadline;
        let sleep = LONGEST_SLEEP.min(Nanos(deadline.0 / 4)).max(Nanos(1));
        let mut checked = self.start;
        loop {
            if !self.interrupted && watch.stop_requested() {
                self.interrupted = self.has_more(watch);
            }
            self.load(watch);
            self.start_flushes(ring);
            let is_paused = self.pause > Nanos(0);
            if let Err(error) = self.hand_over(ring) {
                self.stopped.get_or_insert(error);
                return;
            }
            if self.flights.is_empty() && self.waiting.is_empty() && !is_paused {
                return;
            }
            let wait = if is_paused { sleep.min(self.pause) } else { sleep };
            let asked = self.clock.now();
            if let Err(error) = ring.submit(1, wait) {
                self.stopped.get_or_insert(error.into());
                return;
            }
            let now = self.clock.now();
            while let Some(completion) = ring.pop() {
                self.settle(completion, now, watch);
            }
            if now.since(checked) >= sleep {
                checked = now;
                // A program that was stopped for a while finds everything old: what counts is what
                // was so before the kernel was asked.
                self.give_up(asked, deadline);
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.stopped.is_none() && !self.interrupted
    }

    fn is_lost(&self, target: usize) -> bool {
        self.lanes[target].failed.is_some()
    }

    /// Whether nobody wants what a leg would bring any more.
    fn is_in_vain(&self, leg: usize) -> bool {
        leg.checked_sub(1).map_or(self.stopped.is_some(), |target| self.is_lost(target))
    }

    fn remaining(&self, wanted: Targets) -> Targets {
        Targets::of(self.lanes.len(), |target| wanted.contains(target) && !self.is_lost(target))
    }

    fn start_flushes<R: Ring>(&mut self, ring: &R) {
        let now = self.clock.now();
        for target in 0..self.lanes.len() {
            let lane = &self.lanes[target];
            let is_wanted = lane.flush.is_none() && lane.failed.is_none() && self.stopped.is_none();
            let has_room = ring.space() as usize > self.waiting.len();
            if is_wanted && has_room && self.work.flush_is_due(target, now) {
                self.work.flush_begins(target);
                // Before what waits: it vouches for what was written up to now, and holds no slot.
                self.waiting.push_front(Seat::Flush { target });
                self.lanes[target].flush = Some(0);
            }
        }
    }

    fn hand_over<R: Ring>(&mut self, ring: &mut R) -> Result<(), RequestError> {
        while ring.space() > 0 {
            let Some(seat) = self.waiting.pop_front() else { return Ok(()) };
            self.tag += 1;
            let operation = match seat {
                Seat::Flush { target } => {
                    self.lanes[target].flush = Some(self.tag);
                    Operation {
                        action: Action::Flush,
                        file: self.transfers[target].target,
                        file_offset: 0,
                        region: self.transfers[target].region,
                        region_offset: 0,
                        length: 0,
                        linked: false,
                        tag: self.tag,
                    }
                }
                Seat::Leg { slot, leg } if self.is_in_vain(leg) => {
                    self.end_leg(slot, leg);
                    continue;
                }
                Seat::Leg { slot, leg } => match &self.slots[slot].legs[leg] {
                    Some(request) => request.operation(self.tag, false),
                    None => continue,
                },
            };
            ring.push(operation)?;
            self.flights.insert(self.tag, (seat, self.clock.now()));
        }
        // Requests that were given up may hold all of the ring.
        if self.flights.is_empty() && !self.waiting.is_empty() {
            return Err(PushError::Full { space: 0 }.into());
        }
        Ok(())
    }

    /// Drops whoever does not answer.
    fn give_up(&mut self, now: Nanos, deadline: Nanos) {
        let is_overdue = |(_, (_, since)): &(&u64, &(Seat, Nanos))| now.since(*since) >= deadline;
        let overdue: Vec<(u64, Seat, Nanos)> = (self.flights.iter().filter(is_overdue))
            .map(|(&tag, &(seat, since))| (tag, seat, now.since(since)))
            .collect();
        for (tag, seat, age) in overdue {
            self.flights.remove(&tag);
            let stuck = match seat {
                Seat::Flush { .. } => {
                    Stuck { role: Role::Target, action: Action::Flush, offset: 0, age }
                }
                Seat::Leg { slot, leg } => match &self.slots[slot].legs[leg] {
                    Some(request) => request.stuck(age),
                    None => continue,
                },
            };
            match seat.target() {
                None => {
                    self.stopped.get_or_insert(stuck.into());
                }
                Some(target) => {
                    if let Seat::Flush { .. } = seat {
                        self.work.flush_ended(target, FlushOutcome::Failed);
                    }
                    self.lanes[target].failed.get_or_insert(stuck.into());
                }
            }
            if let Seat::Leg { slot, leg } = seat {
                self.end_leg(slot, leg);
            }
        }
    }

    fn finish(self) -> FannedOut {
        let reads = self.lanes.first().map(|lane| lane.moved.read_latency.clone());
        let interrupted = self.interrupted;
        let targets = self.lanes.into_iter().map(|lane| {
            let mut moved = lane.moved;
            moved.interrupted = interrupted;
            if let Some(reads) = &reads {
                moved.read_latency.clone_from(reads);
            }
            (moved, lane.failed)
        });
        FannedOut {
            targets: targets.collect(),
            read: Bytes(self.read),
            stopped: self.stopped,
            interrupted,
        }
    }
}

#[cfg(test)]
mod tests;
