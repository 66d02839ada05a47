//! Moves payload from a file to another through slots of one region.
//!
//! Each slot carries one linked read and write; when the write is over the slot takes the next part of
//! the copy. With several slots, reading and writing overlap. The relay neither chooses sizes nor
//! verifies content, and knows nothing of files but their blocks: the plan and the caller do.
//! [`relay`] moves a copy from end to end; [`relay_work`] moves the pieces that a [`Work`] names,
//! makes zeroes of others, and flushes while it goes on, so that a journal can be kept.
//!
//! What a reader must know: parts begin in order and end in any order, so after a failure only what
//! [`Moved::written`] holds is certain. Memory in use does not grow with the length of the copy.

mod fan_out;
mod moved;
mod pace;
mod shape;
mod slot;
mod tail;
#[cfg(test)]
mod tests;
mod work;

use std::ops::Range;

use peerlane_results::{MemoryKind, Tail};
use peerlane_units::{Bytes, Nanos};

use crate::failure::{Cause, Failure, RequestError, Role, Stuck};
use crate::request::LONGEST_SLEEP;
use crate::ring::{Action, Completion, FileId, Operation, RegionId, Ring};
use crate::{Clock, Watch};
pub use fan_out::{
    FannedOut, SharedPiece, SharedWork, TARGETS_MAX, Targets, fan_out, shared_length,
};
pub use moved::Moved;
pub(crate) use moved::latencies;
pub use pace::Pace;
pub use shape::ShapeFault;
use shape::{Kind, Part};
use slot::{Slot, Turn};
pub use tail::merge_in_host;
use work::Whole;
pub use work::{FlushOutcome, Piece, Work};

/// The longest wait for a single request that a caller without a better figure takes.
pub const DEADLINE: Nanos = Nanos::seconds(60);

/// The most that a target is asked to make zero at once: a drive without a fast way writes it in a
/// second or two, far within any sensible deadline.
const ZERO_MAX: u64 = 1 << 30;

/// Marks the completion of a flush; no slot has this tag.
const FLUSH: u64 = u64::MAX;

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
    #[error("copy stopped after {} bytes", moved.written.total())]
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
            Self::Stopped { moved, .. } => moved.contiguous(),
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
    let mut whole = Whole(Some(0..transfer.relayed()));
    relay_work(ring, transfer, &mut whole, None, clock, watch)
}

/// Moves the pieces of `work` until their end, a failure, or the watch's wish.
///
/// Pieces of zeroes are made by the target itself where it can; else they are written out of
/// `zeroes`, host memory full of zeroes that holds a target block at least. Without `zeroes` they are
/// moved like data.
///
/// # Errors
/// As [`relay`].
pub fn relay_work<R: Ring>(
    ring: &mut R,
    transfer: &Transfer,
    work: &mut dyn Work,
    zeroes: Option<RegionId>,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Moved, RelayError> {
    transfer.check(ring.region_length(transfer.region)).map_err(RelayError::Shape)?;
    match ring.in_flight() {
        0 => {}
        in_flight => return Err(RelayError::Busy { in_flight }),
    }
    let room = |region| ring.region_length(region).unwrap_or(0).min(transfer.request);
    let zeroes = zeroes.map(|region| Zeroes {
        region,
        write: room(region) / transfer.target_block * transfer.target_block,
        is_asked: true,
    });
    let mut relay = Relay {
        transfer,
        clock,
        start: clock.now(),
        accounted: work.done_before(),
        work,
        pieces: Vec::new(),
        zeroes: zeroes.filter(|zeroes| zeroes.write > 0),
        slots: (0..transfer.slots).map(Slot::new).collect(),
        idle: (0..transfer.slots as usize).rev().collect(),
        flush: None,
        pause: Nanos(0),
        moved: Moved::nothing(),
        failed: None,
        checked: clock.now(),
    };
    relay.run(ring, watch);
    relay.finish()
}

struct Relay<'a> {
    transfer: &'a Transfer,
    clock: &'a dyn Clock,
    start: Nanos,
    work: &'a mut dyn Work,
    /// What has been begun of the work, the next last: a piece, and zeroes that were given back.
    pieces: Vec<Piece>,
    zeroes: Option<Zeroes>,
    slots: Vec<Slot>,
    /// Slots with nothing in flight: they want the next part, or the rest of theirs.
    idle: Vec<usize>,
    /// When the flush that is under way began.
    flush: Option<Nanos>,
    /// Time until the next part may begin; zero unless that is all that keeps it.
    pause: Nanos,
    /// Bytes of the copy that are done, those before this relay included.
    accounted: u64,
    moved: Moved,
    failed: Option<RequestError>,
    /// When deadlines were looked at last.
    checked: Nanos,
}

/// How zeroes get to the target.
#[derive(Debug, Clone, Copy)]
struct Zeroes {
    region: RegionId,
    /// Bytes of one write of zeroes.
    write: u64,
    /// Whether the target is asked to make them; no longer once it could not.
    is_asked: bool,
}

/// Whether anything is in flight after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    GoesOn,
    Over,
}

impl Relay<'_> {
    fn run<R: Ring>(&mut self, ring: &mut R, watch: &mut dyn Watch) {
        let sleep = LONGEST_SLEEP.min(Nanos(self.transfer.deadline.0 / 4)).max(Nanos(1));
        loop {
            match self.step(ring, sleep, watch) {
                Ok(Step::GoesOn) => {}
                Ok(Step::Over) => return,
                Err(error) => {
                    self.failed.get_or_insert(error);
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

    /// Gives work to the ring and takes what has ended; an error leaves requests in flight.
    fn step<R: Ring>(
        &mut self,
        ring: &mut R,
        sleep: Nanos,
        watch: &mut dyn Watch,
    ) -> Result<Step, RequestError> {
        if !self.moved.interrupted && watch.stop_requested() {
            self.moved.interrupted = self.has_more(watch);
        }
        self.feed(ring, watch)?;
        self.start_flush(ring)?;
        let is_paused = self.pause > Nanos(0);
        if self.idle.len() == self.slots.len() && self.flush.is_none() && !is_paused {
            return Ok(Step::Over);
        }
        let asked = self.clock.now();
        ring.submit(1, if is_paused { sleep.min(self.pause) } else { sleep })?;
        let now = self.clock.now();
        while let Some(completion) = ring.pop() {
            self.settle(completion, now, watch);
        }
        if now.since(self.checked) >= sleep {
            self.checked = now;
            // What was old before the kernel was asked, and has not ended: a program that was stopped
            // for a while finds everything old.
            if let Some(stuck) = self.overdue(asked) {
                return Err(stuck.into());
            }
        }
        Ok(Step::GoesOn)
    }

    /// Gives idle slots work: the rest of their part, or the next one.
    fn feed<R: Ring>(&mut self, ring: &mut R, watch: &mut dyn Watch) -> Result<(), RequestError> {
        let (mut reading, most_reading) = (self.reading(), self.most_reading());
        let mut position = 0;
        self.pause = Nanos(0);
        while position < self.idle.len() && self.failed.is_none() {
            let index = self.idle[position];
            let wants_part = self.slots[index].is_free() && !self.moved.interrupted;
            if wants_part && reading < most_reading && self.may_begin(watch) {
                if let Some(part) = self.next_part(watch) {
                    if part.kind != Kind::Zero {
                        self.work.begins(part.length, self.clock.now());
                    }
                    let slot = &mut self.slots[index];
                    match (part.kind, self.zeroes) {
                        (Kind::Zero | Kind::WriteZeroes, Some(zeroes)) => {
                            slot.load_zeroes(self.transfer, part, zeroes.region);
                        }
                        _ => {
                            reading += 1;
                            slot.load(self.transfer, part);
                        }
                    }
                }
            }
            let slot = &mut self.slots[index];
            if slot.is_free() {
                position += 1;
                continue;
            }
            if ring.space() < slot.operations(ring) && ring.in_flight() > 0 {
                return Ok(());
            }
            slot.push(ring, self.clock.now())?;
            self.idle.swap_remove(position);
        }
        Ok(())
    }

    /// Whether the rate lets a part begin now; if not, and there is one, the relay pauses.
    fn may_begin(&mut self, watch: &mut dyn Watch) -> bool {
        let pause = self.work.pause(self.clock.now());
        if pause > Nanos(0) && self.has_more(watch) {
            self.pause = pause;
        }
        pause == Nanos(0)
    }

    /// The next part of the work; a failure to find it is kept, and then there is none.
    fn next_part(&mut self, watch: &mut dyn Watch) -> Option<Part> {
        while self.has_more(watch) {
            let piece = self.pieces.pop()?;
            let (Piece::Data(mut range) | Piece::Zeroes(mut range) | Piece::Nothing(mut range)) =
                piece.clone();
            let part = match piece {
                Piece::Zeroes(_) => self.part_of_zeroes(&range),
                _ => self.transfer.part(&range),
            };
            let Some(part) = part else { continue };
            range.start = part.end();
            if !range.is_empty() {
                self.pieces.push(match piece {
                    Piece::Zeroes(_) => Piece::Zeroes(range),
                    _ => Piece::Data(range),
                });
            }
            return Some(part);
        }
        None
    }

    /// The target is asked for whole blocks; what is left at the end is moved.
    fn part_of_zeroes(&self, range: &Range<u64>) -> Option<Part> {
        let offset = range.start;
        let whole = self.transfer.whole_blocks().min(range.end).saturating_sub(offset);
        match self.zeroes {
            Some(zeroes) if whole > 0 => {
                let (most, kind) = if zeroes.is_asked {
                    (ZERO_MAX, Kind::Zero)
                } else {
                    (zeroes.write, Kind::WriteZeroes)
                };
                Some(Part { offset, length: whole.min(most), kind })
            }
            _ => self.transfer.part(range),
        }
    }

    /// Whether anything is left to be begun; pieces with nothing to do are done by it.
    fn has_more(&mut self, watch: &mut dyn Watch) -> bool {
        while self.pieces.is_empty() && self.failed.is_none() {
            match self.work.next_piece() {
                None => break,
                Some(Ok(Piece::Nothing(range))) => {
                    self.moved.skipped += range.end - range.start;
                    self.account(range, watch);
                }
                Some(Ok(piece)) => self.pieces.push(piece),
                Some(Err(error)) => self.failed = Some(RequestError::Holes(error)),
            }
        }
        !self.pieces.is_empty()
    }

    fn start_flush<R: Ring>(&mut self, ring: &mut R) -> Result<(), RequestError> {
        let now = self.clock.now();
        let is_wanted = self.flush.is_none() && self.failed.is_none();
        if !is_wanted || ring.space() == 0 || !self.work.flush_is_due(now) {
            return Ok(());
        }
        self.work.flush_begins();
        ring.push(Operation {
            action: Action::Flush,
            file: self.transfer.target,
            file_offset: 0,
            region: self.transfer.region,
            region_offset: 0,
            length: 0,
            linked: false,
            tag: FLUSH,
        })?;
        self.flush = Some(now);
        Ok(())
    }

    fn settle(&mut self, completion: Completion, now: Nanos, watch: &mut dyn Watch) {
        if completion.tag == FLUSH {
            self.flush = None;
            match completion.result {
                Ok(_) => self.work.flush_ended(FlushOutcome::Flushed),
                Err(errno) => {
                    self.work.flush_ended(FlushOutcome::Failed);
                    let cause = Cause::of(errno, Action::Flush, MemoryKind::Host);
                    let (role, action) = (Role::Target, Action::Flush);
                    let failure = Failure { role, action, offset: 0, length: 0, cause };
                    self.failed.get_or_insert(failure.into());
                }
            }
            return;
        }
        let Some(index) = slot::index_of(completion.tag) else { return };
        let Some(slot) = self.slots.get_mut(index) else { return };
        if let Some(failure) = slot.take(completion, now, &mut self.moved) {
            let unmade = slot.unload();
            if let (Some(part), Some(zeroes)) = (unmade, &mut self.zeroes) {
                // Whatever the reason, writing them is right, and says so when it is not possible.
                zeroes.is_asked = false;
                self.pieces.push(Piece::Zeroes(part.offset..part.end()));
                self.idle.push(index);
                return;
            }
            self.failed.get_or_insert(failure.into());
        }
        match slot.turn() {
            Turn::InFlight => {}
            Turn::Rest => self.idle.push(index),
            Turn::Written(part) => {
                self.idle.push(index);
                self.moved.last_done = now.since(self.start);
                if self.moved.first_done == Nanos(0) {
                    self.moved.first_done = self.moved.last_done;
                }
                if part.kind != Kind::Zero {
                    self.work.ends(part.length);
                }
                match part.kind {
                    Kind::Move | Kind::Merge => self.moved.bytes += part.length,
                    Kind::Zero => self.moved.zeroed += part.length,
                    Kind::WriteZeroes => self.moved.zeroes_written += part.length,
                }
                self.account(part.offset..part.end(), watch);
            }
        }
    }

    /// Counts a range that reads at the target as it does at the source.
    fn account(&mut self, range: Range<u64>, watch: &mut dyn Watch) {
        self.accounted += range.end - range.start;
        self.moved.written.insert(range.clone());
        self.work.wrote(range);
        let total = self.transfer.relayed();
        watch.progress(Bytes(self.accounted.min(total)), Bytes(total));
    }

    fn overdue(&self, now: Nanos) -> Option<Stuck> {
        let slots = self.slots.iter().filter_map(|slot| {
            let age = slot.age(now)?;
            slot.stuck(age)
        });
        let flush = self.flush.map(|since| {
            let age = now.since(since);
            Stuck { role: Role::Target, action: Action::Flush, offset: 0, age }
        });
        let oldest = slots.chain(flush).max_by_key(|stuck| stuck.age)?;
        (oldest.age >= self.transfer.deadline).then_some(oldest)
    }

    fn finish(self) -> Result<Moved, RelayError> {
        match self.failed {
            None => Ok(self.moved),
            Some(source) => Err(RelayError::Stopped { source, moved: Box::new(self.moved) }),
        }
    }
}
