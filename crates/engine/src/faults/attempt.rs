//! One run of the program, from its journal to its end, in the order of `copy`.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use peerlane_results::{MemoryKind, Route, Tail};
use peerlane_units::{Bytes, Nanos};

use super::world::{Event, FaultRing, Power, World, index};
use crate::copy::check::{NotProved, flush_on, prove_on};
use crate::failure::RequestError;
use crate::journal::{self, Cadence, Journal, Recorder};
use crate::prove::{self, ProofCause};
use crate::random::Random;
use crate::ranges::RangeSet;
use crate::relay::{FlushOutcome, Piece, RelayError, Transfer, Work, merge_in_host, relay_work};
use crate::ring::sim::{SimClock, SimRegion, SimRing};
use crate::ring::{RegionId, Ring};
use crate::verify::{self, Comparison, Coverage, Verified, VerifyError};
use crate::{Clock, Watch};

/// Host memory for checks and tails: the proof's three parts, and two pages of the largest block.
pub(super) const HOST_BYTES: usize = 3 * (16 << 10);
pub(super) const ZERO_BYTES: usize = 8 << 10;

/// How a run of the program ended.
#[derive(Debug)]
pub(super) enum End {
    Complete { route: Route },
    Stopped,
    PowerLost,
    Differs,
    Failed(Blame),
}

/// What a failed run says.
#[derive(Debug)]
pub(super) enum Blame {
    Request(RequestError),
    /// A proof that left a pattern, or found the target at fault.
    Proof(#[allow(dead_code, reason = "shown by Debug")] String),
    Shape(#[allow(dead_code, reason = "shown by Debug")] String),
    JournalNotSaved,
}

/// What a run showed besides its end.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What the relay said is written.
    pub(super) written: RangeSet,
    /// What it counted: moved, zeroed, written as zeroes, skipped.
    pub(super) counted: u64,
    /// Bytes done before the relay, those of the relay, and what progress said at its end.
    pub(super) before: u64,
    pub(super) progress: Vec<u64>,
    pub(super) in_flight: u32,
    pub(super) operations: u64,
    /// A flush vouched for what is there.
    pub(super) is_verified: bool,
}

/// What may happen in a run, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    pub(super) event: Option<(u64, Event)>,
    /// Power is lost at this save.
    pub(super) cut_at_save: Option<u64>,
    /// Saving fails.
    pub(super) journal_is_full: bool,
    /// Only host memory is to be used.
    pub(super) only_host: bool,
    pub(super) coverage: Option<Coverage>,
}

struct Run<'a> {
    world: &'a mut World,
    ring: FaultRing,
    transfer: Transfer,
    host: RegionId,
    zeroes: Option<RegionId>,
    clock: SimClock,
    plan: Plan,
    seen: Seen,
    recorder: Recorder,
    journal: Journal,
    is_on_disk: bool,
    saves: u64,
    is_first: bool,
}

/// Runs the program once; the world is then what it left.
pub(super) fn attempt(world: &mut World, plan: Plan, is_first: bool) -> (End, Seen) {
    let found = world.journal.as_deref().and_then(|text| journal::decode(text).ok());
    // A journal that cannot be read is no journal: whoever goes on begins anew.
    let is_on_disk = found.is_some();
    let journal = found.unwrap_or_else(|| world.new_journal());
    world.power.set(Power::On);
    let seed = world.random.next();
    let mut ring = FaultRing {
        ring: SimRing::new(world.shape.entries, seed, world.mood()),
        source: crate::ring::FileId(0),
        target: crate::ring::FileId(1),
        operations: 0,
        event: plan.event,
        power: Rc::clone(&world.power),
        is_stopped: Rc::default(),
    };
    let clock = ring.ring.clock();
    let (Ok(source), Ok(target)) = (
        ring.attach_file(std::mem::take(&mut world.source)),
        ring.attach_file(std::mem::take(&mut world.target)),
    ) else {
        return (End::Failed(Blame::Shape("no file".to_owned())), Seen::default());
    };
    let region = |length, is_device| SimRegion { bytes: vec![0x5a; length], is_device };
    let shape = world.shape;
    let slots = ring.attach_region(region(index(shape.request * u64::from(shape.slots)), true));
    let host = ring.attach_region(region(HOST_BYTES, false));
    let zeroes = ring.attach_region(SimRegion { bytes: vec![0; ZERO_BYTES], is_device: false });
    let transfer = Transfer {
        source,
        target,
        region: slots,
        memory: MemoryKind::P2pmem,
        source_offset: shape.source_offset,
        target_offset: shape.target_offset,
        length: shape.length,
        request: shape.request,
        slots: shape.slots,
        slot_stride: shape.request,
        source_block: shape.source_block,
        target_block: shape.target_block,
        tail: shape.tail,
        deadline: Nanos::seconds(1),
    };
    let cadence =
        Cadence { first: Nanos(100_000), every: Nanos(100_000), bytes: Bytes(3 * shape.request) };
    let recorder = Recorder::new(cadence, journal.done.clone(), clock.now());
    let mut run = Run {
        world,
        ring,
        transfer,
        host,
        zeroes: Some(zeroes),
        clock,
        plan,
        seen: Seen::default(),
        recorder,
        journal,
        is_on_disk,
        saves: 0,
        is_first,
    };
    let end = run.copy();
    run.conclude(end)
}

impl Run<'_> {
    fn copy(&mut self) -> Result<Route, End> {
        let route = self.settle_route()?;
        self.relay()?;
        self.finish()?;
        self.verify()?;
        Ok(route)
    }

    fn settle_route(&mut self) -> Result<Route, End> {
        if !self.plan.only_host {
            // What a proof writes over must not be claimed meanwhile.
            let mut done = self.recorder.done().clone();
            done.subtract(0..prove::LENGTH_MAX.max(self.world.shape.block()));
            if self.is_on_disk && &done != self.recorder.done() {
                self.save(&done)?;
                self.recorder = Recorder::new(self.cadence(), done, self.clock.now());
            }
            let seed = self.world.random.next();
            match prove_on(&mut self.ring, &self.transfer, self.host, seed, &self.clock) {
                Ok(_) => return Ok(Route::P2p),
                Err(NotProved::Ended(failure)) => {
                    let failure = *failure;
                    return Err(match failure.cause {
                        ProofCause::Request(error) => self.failed(error),
                        other => End::Failed(Blame::Proof(other.to_string())),
                    });
                }
                Err(NotProved::Rejected { .. }) => {}
            }
        }
        let Some(slots) = self.ring.region_length(self.transfer.region) else {
            return Err(End::Failed(Blame::Shape("no region".to_owned())));
        };
        let fresh = self.fresh_ring();
        let old = std::mem::replace(&mut self.ring.ring, fresh);
        self.take_over(old);
        let bytes = vec![0x5a; index(slots)];
        self.transfer.region = self.ring.attach_region(SimRegion { bytes, is_device: false });
        self.transfer.memory = MemoryKind::Host;
        self.host =
            self.ring.attach_region(SimRegion { bytes: vec![0; HOST_BYTES], is_device: false });
        let bytes = vec![0; ZERO_BYTES];
        self.zeroes = Some(self.ring.attach_region(SimRegion { bytes, is_device: false }));
        Ok(Route::Host)
    }

    fn fresh_ring(&mut self) -> SimRing {
        SimRing::new(self.world.shape.entries, self.world.random.next(), self.world.mood())
    }

    /// Another memory is tried on a ring of its own.
    fn take_over(&mut self, mut old: SimRing) {
        old.abandon();
        for file in [self.transfer.source, self.transfer.target] {
            let taken = old.file(file).map(std::mem::take).unwrap_or_default();
            let attached = self.ring.attach_file(taken);
            debug_assert_eq!(attached.ok(), Some(file));
        }
        self.clock = self.ring.ring.clock();
        let done = self.recorder.done().clone();
        self.recorder = Recorder::new(self.cadence(), done, self.clock.now());
    }

    fn cadence(&self) -> Cadence {
        Cadence {
            first: Nanos(100_000),
            every: Nanos(100_000),
            bytes: Bytes(3 * self.world.shape.request),
        }
    }

    fn relay(&mut self) -> Result<(), End> {
        let pieces = self.pieces();
        let lacking: u64 = pieces.iter().map(|piece| bounds(piece).end - bounds(piece).start).sum();
        self.seen.before = self.transfer.length - lacking;
        let is_stopped = Rc::clone(&self.ring.is_stopped);
        let mut watch = Listener { is_stopped, progress: Vec::new() };
        let mut ledger = Ledger {
            pieces,
            before: self.seen.before,
            recorder: &mut self.recorder,
            journal: &mut self.journal,
            disk: &mut self.world.journal,
            is_on_disk: &mut self.is_on_disk,
            saves: &mut self.saves,
            plan: self.plan,
            power: Rc::clone(&self.world.power),
            clock: self.clock.clone(),
            random: &mut self.world.random,
            flush_failed: false,
        };
        let outcome = relay_work(
            &mut self.ring,
            &self.transfer,
            &mut ledger,
            self.zeroes,
            &self.clock,
            &mut watch,
        );
        let flush_failed = ledger.flush_failed;
        self.seen.progress = watch.progress;
        let (moved, ended) = match outcome {
            Ok(moved) if moved.interrupted => (Some(moved), Err(End::Stopped)),
            Ok(moved) => (Some(moved), Ok(())),
            Err(RelayError::Stopped { source, moved }) => (Some(*moved), Err(self.failed(source))),
            Err(other) => (None, Err(End::Failed(Blame::Shape(other.to_string())))),
        };
        if let Some(moved) = moved {
            self.seen.counted = moved.bytes + moved.zeroed + moved.zeroes_written + moved.skipped;
            self.seen.written = moved.written;
        }
        if ended.is_err() && !flush_failed && self.ring.in_flight() == 0 {
            // What was written before the end is worth a flush.
            self.recorder.flush_begins();
            let flushed = flush_on(&mut self.ring, &self.transfer, &self.clock);
            self.recorder.flush_ended(flushed.is_ok());
        }
        ended
    }

    /// The pieces that the journal lacks, cut into data and holes.
    fn pieces(&self) -> VecDeque<Piece> {
        let block = self.world.shape.block();
        let mut pieces = VecDeque::new();
        for missing in self.recorder.done().missing_in_blocks(0..self.transfer.length, block) {
            let mut start = missing.start;
            while start < missing.end {
                let end = (start + block).min(missing.end);
                let is_hole = self.world.holes.contains_range(start..end);
                pieces.push_back(match (is_hole, self.world.is_new && self.is_first) {
                    (true, true) => Piece::Nothing(start..end),
                    (true, false) => Piece::Zeroes(start..end),
                    (false, _) => Piece::Data(start..end),
                });
                start = end;
            }
        }
        pieces
    }

    /// Tail, flush, and the journal of a copy that is complete.
    fn finish(&mut self) -> Result<(), End> {
        let rest = self.transfer.length / self.transfer.target_block * self.transfer.target_block
            ..self.transfer.length;
        let is_there = self.recorder.done().contains_range(rest.clone());
        if self.transfer.tail == Tail::MergeInHost && !is_there {
            match merge_in_host(&mut self.ring, &self.transfer, self.host, &self.clock) {
                Ok(_) => self.recorder.wrote(rest),
                Err(RelayError::Stopped { source, .. }) => return Err(self.failed(source)),
                Err(other) => return Err(End::Failed(Blame::Shape(other.to_string()))),
            }
        }
        self.recorder.flush_begins();
        let flushed = flush_on(&mut self.ring, &self.transfer, &self.clock);
        self.recorder.flush_ended(flushed.is_ok());
        if let Err(error) = flushed {
            return Err(self.failed(error));
        }
        let mut all = RangeSet::new();
        all.insert(0..self.transfer.length);
        if self.is_on_disk {
            self.save(&all)?;
        }
        self.recorder = Recorder::new(self.cadence(), all, self.clock.now());
        Ok(())
    }

    fn verify(&mut self) -> Result<(), End> {
        let Some(coverage) = self.plan.coverage else { return Ok(()) };
        let transfer = self.transfer;
        match compare(&mut self.ring, &transfer, coverage, (self.host, &self.clock)) {
            Ok(verified) if verified.first.is_some() => Err(End::Differs),
            Ok(_) => {
                self.seen.is_verified = true;
                Ok(())
            }
            Err(VerifyError::Request(error)) => Err(self.failed(error)),
            Err(other) => Err(End::Failed(Blame::Shape(other.to_string()))),
        }
    }

    fn failed(&self, error: RequestError) -> End {
        match self.world.power.get() {
            Power::Lost => End::PowerLost,
            Power::On => End::Failed(Blame::Request(error)),
        }
    }

    fn save(&mut self, done: &RangeSet) -> Result<(), End> {
        if self.plan.journal_is_full {
            return Err(End::Failed(Blame::JournalNotSaved));
        }
        self.journal.done = done.clone();
        self.world.journal = journal::encode(&self.journal).ok();
        self.is_on_disk = true;
        Ok(())
    }

    /// Keeps what is done, gives the drives back, and says how it ended.
    fn conclude(mut self, end: Result<Route, End>) -> (End, Seen) {
        let end = end.map_or_else(|end| end, |route| End::Complete { route });
        self.seen.in_flight = self.ring.in_flight();
        self.seen.operations = self.ring.operations;
        let done = self.recorder.done().clone();
        match &end {
            End::PowerLost => {}
            End::Complete { .. } | End::Differs => self.world.journal = None,
            End::Stopped | End::Failed(_) if done.is_empty() => self.world.journal = None,
            End::Stopped | End::Failed(_) => drop(self.save(&done)),
        }
        let ring = &mut self.ring.ring;
        if matches!(end, End::PowerLost) {
            ring.cut_power();
        } else {
            ring.abandon();
        }
        self.world.source = ring.file(self.transfer.source).map(std::mem::take).unwrap_or_default();
        self.world.target = ring.file(self.transfer.target).map(std::mem::take).unwrap_or_default();
        (end, self.seen)
    }
}

fn bounds(piece: &Piece) -> Range<u64> {
    let (Piece::Data(range) | Piece::Zeroes(range) | Piece::Nothing(range)) = piece;
    range.clone()
}

/// The account of a run: as in `copy`, on a disk of memory.
struct Ledger<'a> {
    pieces: VecDeque<Piece>,
    before: u64,
    recorder: &'a mut Recorder,
    journal: &'a mut Journal,
    disk: &'a mut Option<Vec<u8>>,
    is_on_disk: &'a mut bool,
    saves: &'a mut u64,
    plan: Plan,
    power: Rc<Cell<Power>>,
    clock: SimClock,
    random: &'a mut Random,
    flush_failed: bool,
}

impl Work for Ledger<'_> {
    fn next_piece(&mut self) -> Option<io::Result<Piece>> {
        self.pieces.pop_front().map(Ok)
    }

    fn done_before(&self) -> u64 {
        self.before
    }

    fn wrote(&mut self, range: Range<u64>) {
        self.recorder.wrote(range);
    }

    fn flush_is_due(&self, now: Nanos) -> bool {
        self.recorder.is_due(now)
    }

    fn flush_begins(&mut self) {
        self.recorder.flush_begins();
    }

    fn flush_ended(&mut self, outcome: FlushOutcome) {
        self.recorder.flush_ended(outcome == FlushOutcome::Flushed);
        if outcome == FlushOutcome::Failed {
            self.flush_failed = true;
            return;
        }
        self.recorder.saved(self.clock.now());
        if self.power.get() == Power::Lost || self.plan.journal_is_full {
            return;
        }
        self.journal.done = self.recorder.done().clone();
        let text = journal::encode(self.journal).ok();
        *self.saves += 1;
        let is_cut = self.plan.cut_at_save.is_some_and(|at| at <= *self.saves);
        // A rename leaves the old journal or the new one.
        if !is_cut || self.random.below(2) == 0 {
            *self.disk = text;
            *self.is_on_disk = true;
        }
        if is_cut {
            self.power.set(Power::Lost);
        }
    }
}

/// Hears progress, and stops when it is told to.
pub(super) struct Listener {
    pub(super) is_stopped: Rc<Cell<bool>>,
    pub(super) progress: Vec<u64>,
}

impl Watch for Listener {
    fn progress(&mut self, done: Bytes, _total: Bytes) {
        self.progress.push(done.0);
    }

    fn stop_requested(&self) -> bool {
        self.is_stopped.get()
    }
}

/// Compares what a transfer moved, by a second region of host memory beside the one that is there.
pub(super) fn compare(
    ring: &mut FaultRing,
    transfer: &Transfer,
    coverage: Coverage,
    (host, clock): (RegionId, &SimClock),
) -> Result<Verified, VerifyError> {
    let spare = SimRegion { bytes: vec![0; HOST_BYTES], is_device: false };
    let spare = ring.attach_region(spare);
    let files = [transfer.source, transfer.target];
    let comparison = Comparison::of(transfer, files, coverage, [host, spare]);
    verify::verify(ring, &comparison, clock, &mut ())
}
