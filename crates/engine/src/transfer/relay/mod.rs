//! Moves payload from a file to one or several others through slots of one region.
//!
//! Each part of the copy is read once into a slot and written to every target out of it, after the
//! stages have worked on it there; the slot is free when all writes are over. With several slots, reading and writing overlap. The relay neither
//! chooses sizes nor verifies content, and knows nothing of files but their blocks: the plan and the
//! caller do. [`relay`] moves a copy from end to end; `relay_work` moves the pieces that a `RelayWork`
//! names, makes zeroes of others, and flushes while it goes on, for a journal to be kept;
//! `relay_to` does so for several targets.
//!
//! A target that fails or does not answer is dropped and named. The others go on; with none left the
//! relay ends.
//!
//! Parts begin in order and end in any order, so after a failure only the ranges of
//! [`Moved::written`] are certain. A request that is never answered is given up after its deadline,
//! while the device may still use its slot. A slot that the device may still write is not used
//! again. Neither is a slot with a merged block, which holds bytes from outside the copy. Any other
//! slot is used again, and its range does not count as written. Memory in use does not grow with
//! the length of the copy.

mod load;
mod moved;
mod pace;
mod settle;
mod shape;
mod slot;
mod stages;
mod state;
mod tail;
#[cfg(test)]
mod tests;
mod work;

use std::slice;

use peerlane_results::{MemoryKind, Tail};
use peerlane_units::{Bytes, Nanos};

use crate::io::clock::Clock;
use crate::io::failure::RequestError;
use crate::io::request::LONGEST_SLEEP;
use crate::io::ring::{FileId, PushError, RegionId, Ring};
use crate::io::watch::Watch;
use crate::plan::TARGETS_MAX;
pub use moved::Moved;
pub(crate) use moved::{count, latencies, percentiles};
pub(crate) use pace::Pace;
pub(crate) use shape::ShapeFault;
pub(crate) use stages::StageTally;
use state::RelayState;
pub use tail::merge_in_host;
use work::Whole;
pub(crate) use work::{FlushOutcome, RelayWork, Targets, WorkPiece};

/// The longest wait for a single request that a caller without a better figure takes.
pub const DEADLINE: Nanos = Nanos::seconds(60);

/// Ends, memory and shape of a relay. All offsets, lengths and blocks are in bytes; blocks are
/// powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The end that payload comes from.
    pub source: FileId,
    /// The end that payload goes to.
    pub target: FileId,
    /// Region that payload rests in between.
    pub region: RegionId,
    /// Owner of that memory; decides the meaning of an errno.
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
    /// Treatment of an end that is not a whole target block. With [`Tail::MergeInHost`] only the
    /// whole blocks are moved here; [`merge_in_host`] does the rest.
    pub tail: Tail,
    /// Stages that work on each chunk between its read and its writes, numbered from 0 in the ring. With
    /// any, a chunk is a request, counted from the start of the copy, and is never cut.
    pub stages: u32,
    /// The longest wait for a single request, and for a stage to be done with a chunk.
    pub deadline: Nanos,
}

/// Reason why a relay stopped before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The transfer does not add up; nothing was moved.
    #[error("cannot move payload: {0}")]
    Shape(ShapeFault),
    /// The ring still has requests of an earlier use; nothing was moved.
    #[error("cannot move payload: {in_flight} earlier requests are in flight")]
    Busy {
        /// Number of requests.
        in_flight: u32,
    },
    /// A request failed. Requests in flight have ended, unless the ring says otherwise.
    #[error("copy stopped after {} bytes", moved.written.total())]
    Stopped {
        /// Failure of the request.
        #[source]
        source: RequestError,
        /// Progress at the target.
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

/// Outcome of a relay to several targets.
#[derive(Debug)]
pub(crate) struct Relayed {
    /// Progress at each target, and the error of one that was dropped. Reads are those of all.
    pub targets: Vec<(Moved, Option<RequestError>)>,
    /// Payload read from the source, each byte once besides tails.
    pub read: Bytes,
    /// Error that stopped all of it: the source, a stage, or the ring.
    pub stopped: Option<RequestError>,
    /// The account of each stage.
    pub stages: Vec<StageTally>,
    /// A watch asked for the end before all was moved.
    pub interrupted: bool,
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

/// Moves the pieces of `work` to one target until their end, a failure, or the watch's wish.
///
/// Pieces of zeroes are made by the target itself if it can; else they are written out of
/// `zeroes`, host memory full of zeroes that holds a target block at least. Without `zeroes` they are
/// moved like data.
///
/// # Errors
/// As [`relay`].
pub(crate) fn relay_work<R: Ring>(
    ring: &mut R,
    transfer: &Transfer,
    work: &mut dyn RelayWork,
    zeroes: Option<RegionId>,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Moved, RelayError> {
    relay_to(ring, slice::from_ref(transfer), work, zeroes, clock, watch)?.into_one()
}

/// Moves the pieces of `work` to every target until their end, a failure of the source, or the watch's
/// wish. The transfers differ in their targets only. `zeroes` is as for [`relay_work`].
///
/// # Errors
/// When the transfers do not add up, or the ring is busy: nothing was moved.
pub(crate) fn relay_to<R: Ring>(
    ring: &mut R,
    transfers: &[Transfer],
    work: &mut dyn RelayWork,
    zeroes: Option<RegionId>,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Relayed, RelayError> {
    check(ring, transfers)?;
    let zeroes = zeroes.map(|region| (region, ring.region_length(region).unwrap_or(0)));
    let mut state = RelayState::new(transfers, work, zeroes, watch, clock.now());
    if let Err(error) = drive(ring, &mut state, clock, transfers[0].deadline) {
        state.stop(error);
    }
    Ok(state.finish())
}

impl Relayed {
    /// Nothing lacked.
    pub(crate) fn nothing(targets: usize) -> Self {
        let targets = (0..targets).map(|_| (Moved::nothing(), None)).collect();
        Self { targets, read: Bytes::ZERO, stopped: None, stages: Vec::new(), interrupted: false }
    }

    /// The only target's part of it.
    pub(crate) fn into_one(mut self) -> Result<Moved, RelayError> {
        let (moved, failed) = self.targets.pop().unwrap_or((Moved::nothing(), None));
        match self.stopped.or(failed) {
            None => Ok(moved),
            Some(source) => Err(RelayError::Stopped { source, moved: Box::new(moved) }),
        }
    }
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

/// Hands requests to the ring and takes completions; an error leaves requests in flight.
fn drive<R: Ring>(
    ring: &mut R,
    state: &mut RelayState<'_>,
    clock: &dyn Clock,
    deadline: Nanos,
) -> Result<(), RequestError> {
    let sleep = LONGEST_SLEEP.min(Nanos(deadline.0 / 4)).max(Nanos(1));
    let mut checked = clock.now();
    loop {
        state.hear_stop();
        while ring.space() > 0 {
            let Some(operation) = state.next(clock.now()) else { break };
            ring.push(operation)?;
        }
        let pause = state.pause();
        if state.is_idle() && pause == Nanos(0) {
            // Requests that were given up may hold all of the ring, or every slot.
            return match ring.space() {
                _ if state.is_over() => Ok(()),
                0 => Err(PushError::Full { space: 0 }.into()),
                _ => Err(RequestError::NoSlot),
            };
        }
        let asked = clock.now();
        ring.submit(1, if pause > Nanos(0) { sleep.min(pause) } else { sleep })?;
        let now = clock.now();
        while let Some(completion) = ring.pop() {
            state.ended(completion, now);
        }
        if now.since(checked) >= sleep {
            checked = now;
            // A program that was stopped for a while finds everything old: what counts is what was so
            // before the kernel was asked.
            state.give_up(asked, deadline);
        }
    }
}
