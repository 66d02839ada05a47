//! A thread of a load: reads the next piece into a slot while the copy engine works on the other.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::cuda::CudaError;

use super::job::{LoadJob, Piece};
use super::piece::{self, PieceBytes};
use super::pool::{PinnedPool, SLOTS, SlotPair};
use super::{LoadError, first_block};

/// Bytes of one registration.
const REGISTERED: u64 = 16 << 20;
/// Interval between two polls of a copy: a quarter of a slot at the rate of PCIe 5.0 x16.
const NAP: Duration = Duration::from_micros(20);
/// Wait for copies under way after a stop or failure.
const END_WAIT: Duration = Duration::from_millis(100);

/// A worker with its pair.
pub(super) struct Worker {
    pub(super) job: Arc<LoadJob>,
    pub(super) pool: Arc<PinnedPool>,
    pub(super) pair: SlotPair,
    pub(super) number: usize,
    /// Registers the page cache with the GPU instead of copying it.
    pub(super) registers: bool,
    /// Leaves the slots uncleared for the next load.
    pub(super) keeps: bool,
    pub(super) sent: [Option<Sent>; SLOTS],
}

/// A piece whose copy is under way.
pub(super) struct Sent {
    part: usize,
    bytes: PieceBytes,
}

/// Reason for a worker to end.
enum Halt {
    /// The load is over.
    Over,
    Failed(Option<usize>, LoadError),
}

impl From<CudaError> for Halt {
    fn from(error: CudaError) -> Self {
        Self::Failed(None, error.into())
    }
}

impl Worker {
    /// Runs until no piece is left, then returns the pair to the pool.
    pub(super) fn run(mut self) {
        let worked = self.work();
        // A pair of a reset device would fail the next load, too.
        let is_broken = matches!(worked, Err(Halt::Failed(_, LoadError::Cuda(_))));
        if let Err(Halt::Failed(part, error)) = worked {
            self.job.fail(part, error);
        }
        let is_settled = (0..SLOTS).all(|slot| self.settle(slot).is_ok());
        let Self { job, pool, mut pair, keeps, .. } = self;
        if is_settled && !is_broken && (keeps || pair.clear()) {
            pool.give_back([pair]);
        } else {
            drop(pair);
        }
        job.leave();
    }

    fn work(&mut self) -> Result<(), Halt> {
        for mark in &self.job.marks {
            self.pair.queue.wait_for(mark)?;
        }
        let most = if self.registers { REGISTERED } else { self.pair.slot_bytes() };
        let mut slot = 0;
        while !self.job.is_over() && self.job.allows(self.number) {
            let Some(piece) = self.job.next(most) else { break };
            let carried = self.carry(&piece, &mut slot);
            match carried {
                Err(Halt::Failed(Some(part), error)) => self.job.fail(Some(part), error),
                Err(Halt::Over) => break,
                done => done?,
            }
        }
        (0..SLOTS).try_for_each(|slot| self.settle(slot))
    }

    /// Sends a piece from the registered page cache, or through the slots in turn.
    fn carry(&mut self, piece: &Piece, slot: &mut usize) -> Result<(), Halt> {
        if self.registers && self.register(piece, slot)? {
            return Ok(());
        }
        let (mut at, most) = (piece.range.start, self.pair.slot_bytes());
        while at < piece.range.end {
            let end = piece.range.end.min(first_block(at) + most);
            self.fill(piece, at..end, *slot)?;
            *slot = (*slot + 1) % SLOTS;
            at = end;
        }
        Ok(())
    }

    /// Reads a range into a slot and sends it.
    fn fill(&mut self, piece: &Piece, range: Range<u64>, slot: usize) -> Result<(), Halt> {
        self.settle(slot)?;
        let job = Arc::clone(&self.job);
        let part = job.part(piece);
        let used = range.end.next_multiple_of(super::BLOCK) - first_block(range.start);
        self.pair.used[slot] = self.pair.used[slot].max(used);
        let read = piece::read(&mut self.pair.slots[slot], &part.file, range.clone());
        let bytes = read.map_err(|failure| Halt::Failed(Some(piece.part), failure.into()))?;
        self.step();
        if job.is_over() {
            return Err(Halt::Over);
        }
        let from = (self.pair.slots[slot].pinned(), range.start - first_block(range.start));
        let to = (&part.memory, part.place(range.start));
        self.pair.queue.send(from, to, range.end - range.start, slot as u64)?;
        job.send();
        self.sent[slot] = Some(Sent { part: piece.part, bytes });
        Ok(())
    }

    /// Sends a piece from the page cache itself; false if it is not fully cached or cannot be registered.
    fn register(&mut self, piece: &Piece, slot: &mut usize) -> Result<bool, Halt> {
        let job = Arc::clone(&self.job);
        let (part, range) = (job.part(piece), &piece.range);
        if !part.file.is_cached(range) {
            return Ok(false);
        }
        self.settle(*slot)?;
        let Some(mapped) = part.mapped() else { return Ok(false) };
        let first = first_block(range.start);
        let Ok(pinned) = part.memory.gpu().register(mapped, first..range.end) else {
            return Ok(false);
        };
        self.step();
        let (from, to) = ((&pinned, range.start - first), (&part.memory, part.place(range.start)));
        let length = range.end - range.start;
        self.pair.queue.send(from, to, length, *slot as u64)?;
        job.send();
        let bytes = PieceBytes { page_cache: length, drive: 0 };
        self.sent[*slot] = Some(Sent { part: piece.part, bytes });
        *slot = (*slot + 1) % SLOTS;
        Ok(true)
    }

    fn step(&self) {
        self.job.step();
        self.pool.step();
    }

    /// Waits for the copy out of a slot; after a stop or failure for [`END_WAIT`] at most.
    fn settle(&mut self, slot: usize) -> Result<(), Halt> {
        let mut end = None;
        while self.sent[slot].is_some() {
            if let Some(tag) = self.pair.queue.finished()? {
                let sent =
                    usize::try_from(tag).ok().and_then(|slot| self.sent.get_mut(slot)?.take());
                if let Some(sent) = sent {
                    self.pool.step();
                    self.job.arrive(sent.part, sent.bytes);
                }
                continue;
            }
            if self.job.is_over()
                && *end.get_or_insert_with(Instant::now) + END_WAIT < Instant::now()
            {
                return Err(Halt::Over);
            }
            thread::sleep(NAP);
        }
        Ok(())
    }
}
