//! One slot of the relay: a part of the copy on its way.
//!
//! A part is up to three requests in a row: the target's block for a merge, the read, the write. They
//! are handed over as one chain; the kernel starts each only when the one before it was full, so a
//! short read never writes stale bytes. When the chain has ended, what is left is handed over again.
//! A ring without chains gets the first that is left, and the next when that has ended in full.

use peerlane_results::MemoryKind;
use peerlane_units::Nanos;
use rustix::io::Errno;

use super::shape::{Kind, Part};
use super::{Moved, Transfer};
use crate::failure::{Cause, Failure, Role, Stuck};
use crate::request::{End, Progress, Request};
use crate::ring::{Action, Completion, PushError, RegionId, Ring};

/// Requests of a part at most.
const LEGS: usize = 3;
const MERGE: usize = 0;
const READ: usize = 1;
const WRITE: usize = 2;

/// What a slot wants after a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing: requests are in flight.
    InFlight,
    /// To hand over the rest of its part, or nothing if it failed.
    Rest,
    /// The next part: this one is written.
    Written(Part),
}

#[derive(Debug)]
pub(super) struct Slot {
    index: u32,
    part: Option<Part>,
    legs: [Option<Leg>; LEGS],
    /// When the first request that is in flight began, as the engine sees it.
    since: Nanos,
    /// When the read was seen to end, and how long it took, until it is known when the write ends.
    read: Option<(Nanos, Nanos)>,
}

#[derive(Debug, Clone, Copy)]
struct Leg {
    request: Request,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// In flight; whether it is the first of its chain.
    InFlight {
        is_first: bool,
    },
    /// Moved all that was asked for.
    Full,
    /// Cancelled, since the one before it was not full.
    Cancelled,
}

/// The slot that a tag belongs to.
pub(super) fn index_of(tag: u64) -> Option<usize> {
    usize::try_from(tag / LEGS as u64).ok()
}

impl Slot {
    pub(super) fn new(index: u32) -> Self {
        Self { index, part: None, legs: [None; LEGS], since: Nanos(0), read: None }
    }

    pub(super) fn is_free(&self) -> bool {
        self.part.is_none()
    }

    /// Gives a part back that its target cannot make zero by itself.
    pub(super) fn unload(&mut self) -> Option<Part> {
        let part = self.part.filter(|part| part.kind == Kind::Zero)?;
        self.part = None;
        Some(part)
    }

    /// Whether payload is still on its way from the source.
    pub(super) fn is_reading(&self) -> bool {
        self.part.is_some() && self.legs[READ].is_some_and(|leg| !leg.request.is_done())
    }

    /// Takes a part of zeroes, which are written out of `zeroes` unless the target makes them; the slot
    /// must be free.
    pub(super) fn load_zeroes(&mut self, transfer: &Transfer, part: Part, zeroes: RegionId) {
        let request = Request {
            role: Role::Target,
            action: if part.kind == Kind::Zero { Action::Zero } else { Action::Write },
            file: transfer.target,
            file_offset: transfer.target_offset + part.offset,
            region: zeroes,
            region_offset: 0,
            memory: MemoryKind::Host,
            need: part.length,
            ask: part.length,
            block: transfer.target_block,
            end: End::Fails,
            progress: Progress::default(),
        };
        self.part = Some(part);
        self.legs = [None, None, Some(Leg { request, state: State::Idle })];
    }

    /// Takes a part that is moved; the slot must be free.
    pub(super) fn load(&mut self, transfer: &Transfer, part: Part) {
        let slot_offset = u64::from(self.index) * transfer.slot_stride;
        let leg = |role, action, need: u64, rounded_to_block: bool| {
            let (file, start, block) = match role {
                Role::Source => (transfer.source, transfer.source_offset, transfer.source_block),
                Role::Target => (transfer.target, transfer.target_offset, transfer.target_block),
            };
            let ask = need.next_multiple_of(block);
            let request = Request {
                role,
                action,
                file,
                file_offset: start + part.offset,
                region: transfer.region,
                region_offset: slot_offset,
                memory: transfer.memory,
                need: if rounded_to_block { ask } else { need },
                ask,
                block,
                end: End::Fails,
                progress: Progress::default(),
            };
            Some(Leg { request, state: State::Idle })
        };
        self.part = Some(part);
        self.legs = [
            if part.kind == Kind::Merge {
                leg(Role::Target, Action::Read, part.length, true)
            } else {
                None
            },
            // The source may end within its last block; what counts is the payload.
            leg(Role::Source, Action::Read, part.length, false),
            leg(Role::Target, Action::Write, part.length, true),
        ];
    }

    /// Operations that [`Slot::push`] is going to queue.
    pub(super) fn operations<R: Ring>(&self, ring: &R) -> u32 {
        let most = if ring.takes_chains() { LEGS } else { 1 };
        let open = self.legs.iter().flatten().filter(|leg| !leg.request.is_done()).count();
        u32::try_from(open.min(most)).unwrap_or(u32::MAX)
    }

    /// Queues what is left of the part as one chain, or its first operation where the ring has no chains.
    pub(super) fn push<R: Ring>(&mut self, ring: &mut R, now: Nanos) -> Result<(), PushError> {
        let mut left = self.operations(ring);
        let space = ring.space();
        if space < left {
            return Err(PushError::Full { space });
        }
        let mut is_first = true;
        for (number, leg) in self.legs.iter_mut().enumerate() {
            let Some(leg) = leg else { continue };
            leg.state = State::Idle;
            if leg.request.is_done() || left == 0 {
                continue;
            }
            left -= 1;
            let tag = u64::from(self.index) * LEGS as u64 + number as u64;
            ring.push(leg.request.operation(tag, left > 0))?;
            leg.state = State::InFlight { is_first };
            is_first = false;
        }
        self.since = now;
        Ok(())
    }

    /// Takes the end of one of its operations.
    pub(super) fn take(
        &mut self,
        completion: Completion,
        now: Nanos,
        moved: &mut Moved,
    ) -> Option<Failure> {
        let number = usize::try_from(completion.tag % LEGS as u64).ok()?;
        let leg = self.legs[number].as_mut()?;
        let State::InFlight { is_first } = leg.state else { return None };
        let result = completion.result;
        if result == Err(Errno::CANCELED) && !is_first {
            leg.state = State::Cancelled;
            if number == WRITE {
                self.count(None, now, moved);
            }
            return self.cancelled_for_nothing();
        }
        leg.state = if leg.request.is_full(result) { State::Full } else { State::Idle };
        let repeats = leg.request.progress.repeats;
        let failure = leg.request.take(result).err();
        moved.repeats += u64::from(leg.request.progress.repeats - repeats);
        match number {
            READ if result.is_ok() => self.read = Some((now, now.since(self.since))),
            // How long a drive takes to make zeroes is no latency of a write.
            WRITE if self.is_payload() => {
                self.count(result.is_ok().then_some(now.since(self.since)), now, moved);
            }
            _ => {}
        }
        self.since = now;
        failure.or_else(|| self.cancelled_for_nothing())
    }

    fn is_payload(&self) -> bool {
        self.part.is_some_and(|part| matches!(part.kind, Kind::Move | Kind::Merge))
    }

    /// Counts the latency of a read and of the write that has just ended, unless both ends were seen at
    /// once: then nobody knows when the one ended and the other began.
    fn count(&mut self, write: Option<Nanos>, now: Nanos, moved: &mut Moved) {
        let read = self.read.take();
        if write.is_some() && read.is_some_and(|(seen, _)| seen == now) {
            moved.unsplit += 1;
            return;
        }
        if let Some((_, latency)) = read {
            moved.read_latency.saturating_record(latency.0);
        }
        if let Some(latency) = write {
            moved.write_latency.saturating_record(latency.0);
        }
    }

    /// A request that was cancelled although the one before it was full would be tried for ever.
    fn cancelled_for_nothing(&self) -> Option<Failure> {
        let pairs = [(MERGE, READ), (READ, WRITE)];
        pairs.into_iter().find_map(|(before, after)| {
            let (before, after) = (self.legs[before]?, self.legs[after]?);
            let is_odd = before.state == State::Full && after.state == State::Cancelled;
            is_odd.then(|| after.request.failure(Cause::Other { errno: Errno::CANCELED }))
        })
    }

    /// What the slot wants now.
    pub(super) fn turn(&mut self) -> Turn {
        let mut legs = self.legs.iter().flatten();
        if legs.any(|leg| matches!(leg.state, State::InFlight { .. })) {
            return Turn::InFlight;
        }
        match self.part {
            Some(part) if self.legs.iter().flatten().all(|leg| leg.request.is_done()) => {
                self.part = None;
                Turn::Written(part)
            }
            _ => Turn::Rest,
        }
    }

    /// The request in flight that the others of the chain wait for.
    fn active(&self) -> Option<&Request> {
        let mut legs = self.legs.iter().flatten();
        legs.find(|leg| matches!(leg.state, State::InFlight { .. })).map(|leg| &leg.request)
    }

    /// How long the request that the others wait for has been in flight.
    pub(super) fn age(&self, now: Nanos) -> Option<Nanos> {
        self.active().map(|_| now.since(self.since))
    }

    pub(super) fn stuck(&self, age: Nanos) -> Option<Stuck> {
        self.active().map(|request| request.stuck(age))
    }
}
