//! One run of the program over several targets, on disks of memory.

use std::collections::VecDeque;
use std::rc::Rc;

use peerlane_results::{MemoryKind, Route, Tail};
use peerlane_units::{Bytes, Nanos};

use super::WITH_ANOTHER;
use super::ledger::{Ledger, Rest};
use crate::Clock;
use crate::copy::check::{NotProved, flush_on, prove_on};
use crate::failure::RequestError;
use crate::faults::attempt::{Blame, End, Listener, Plan};
use crate::faults::world::{FaultRing, Power, Shape, World, index};
use crate::journal::{self, Cadence, Journal, Recorder};
use crate::prove::{self, ProofCause};
use crate::ranges::RangeSet;
use crate::relay::{
    Piece, RelayError, SharedPiece, Targets, Transfer, fan_out, merge_in_host, relay_work,
    shared_length,
};
use crate::ring::sim::{SimClock, SimRegion, SimRing};
use crate::ring::{FileId, RegionId, Ring};
use crate::verify::{self, Comparison, Coverage, Verified, VerifyError};

/// Host memory for checks and tails: the proof's three parts, and two pages of the largest block.
const HOST_BYTES: usize = 3 * (16 << 10);
const ZERO_BYTES: usize = 8 << 10;

/// One target in a run.
pub(super) struct Lane {
    pub(super) transfer: Transfer,
    pub(super) recorder: Recorder,
    pub(super) journal: Journal,
    pub(super) is_on_disk: bool,
    pub(super) flush_failed: bool,
    pub(super) end: Option<End>,
}

struct Run<'a> {
    worlds: Vec<&'a mut World>,
    ring: FaultRing,
    lanes: Vec<Lane>,
    host: RegionId,
    zeroes: RegionId,
    clock: SimClock,
    plan: Plan,
    is_first: bool,
    saves: u64,
}

/// Runs the program once. One end for each of the `lanes`.
pub(super) fn attempt(
    worlds: &mut [World],
    (lanes, broken): (&[usize], usize),
    plan: Plan,
    is_first: bool,
) -> (Vec<End>, u64) {
    let shape = worlds[broken].shape;
    let power = Rc::clone(&worlds[broken].power);
    power.set(Power::On);
    let (seed, mood) = (worlds[broken].random.next(), worlds[broken].mood());
    // As many as the product has: requests that are given up hold entries.
    let entries = (shape.slots * 2 * (u32::try_from(lanes.len()).unwrap_or(1) + 1)).max(16);
    let source = std::mem::take(&mut worlds[broken].source);
    let mut chosen: Vec<&mut World> = Vec::new();
    let mut at_broken = None;
    for (number, world) in worlds.iter_mut().enumerate() {
        if lanes.contains(&number) {
            if number == broken {
                at_broken = Some(chosen.len());
            }
            chosen.push(world);
        }
    }
    let mut ring = FaultRing {
        ring: SimRing::new(entries, seed, mood),
        source: FileId(0),
        target: FileId(u32::try_from(at_broken.unwrap_or(0)).unwrap_or(0) + 1),
        operations: 0,
        event: plan.event,
        power,
        is_stopped: Rc::default(),
    };
    let clock = ring.ring.clock();
    let attached = ring.attach_file(source).ok();
    let (region, host, zeroes) = regions(&mut ring, &shape, true);
    let mut all = Vec::new();
    for world in &mut chosen {
        let target = ring.attach_file(std::mem::take(&mut world.target)).ok();
        let transfer = Transfer {
            source: attached.unwrap_or(FileId(u32::MAX)),
            target: target.unwrap_or(FileId(u32::MAX)),
            region,
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
        let found = world.journal.as_deref().and_then(|text| journal::decode(text).ok());
        let is_on_disk = found.is_some();
        let journal = found.unwrap_or_else(|| world.new_journal());
        let recorder = Recorder::new(cadence(world), journal.done.clone(), clock.now());
        let (flush_failed, end) = (false, None);
        all.push(Lane { transfer, recorder, journal, is_on_disk, flush_failed, end });
    }
    let worlds_of_run = chosen;
    let mut run = Run {
        worlds: worlds_of_run,
        ring,
        lanes: all,
        host,
        zeroes,
        clock,
        plan,
        is_first,
        saves: 0,
    };
    let route = run.copy();
    let (ends, source, operations) = run.conclude(route);
    worlds[broken].source = source;
    (ends, operations)
}

fn cadence(world: &World) -> Cadence {
    Cadence { first: Nanos(100_000), every: Nanos(100_000), bytes: Bytes(3 * world.shape.request) }
}

/// Slots, host memory for checks, zeroes.
fn regions(ring: &mut FaultRing, shape: &Shape, is_device: bool) -> (RegionId, RegionId, RegionId) {
    let filled = |length, is_device, byte| SimRegion { bytes: vec![byte; length], is_device };
    let slots = index(shape.request * u64::from(shape.slots));
    (
        ring.attach_region(filled(slots, is_device, 0x5a)),
        ring.attach_region(filled(HOST_BYTES, false, 0)),
        ring.attach_region(filled(ZERO_BYTES, false, 0)),
    )
}

impl Run<'_> {
    fn live(&self) -> Vec<usize> {
        (0..self.lanes.len()).filter(|&lane| self.lanes[lane].end.is_none()).collect()
    }

    fn failed(&self, error: RequestError) -> End {
        match self.ring.power.get() {
            Power::Lost => End::PowerLost,
            Power::On => End::Failed(Blame::Request(error)),
        }
    }

    fn copy(&mut self) -> Route {
        let route = self.settle_route();
        self.move_together();
        let given_up = self.ring.in_flight();
        for lane in self.live() {
            let outcome = if self.ring.in_flight() > given_up {
                Err(End::Failed(Blame::Shape(WITH_ANOTHER.to_owned())))
            } else {
                self.finish(lane).and_then(|()| self.verify(lane))
            };
            self.lanes[lane].end = outcome.err();
        }
        route
    }

    fn settle_route(&mut self) -> Route {
        if !self.plan.only_host {
            for lane in self.live() {
                let mut done = self.lanes[lane].recorder.done().clone();
                done.subtract(0..prove::LENGTH_MAX.max(self.worlds[lane].shape.block()));
                if self.lanes[lane].is_on_disk && &done != self.lanes[lane].recorder.done() {
                    if self.save(lane, &done).is_err() {
                        self.lanes[lane].end = Some(End::Failed(Blame::JournalNotSaved));
                        continue;
                    }
                    let cadence = cadence(self.worlds[lane]);
                    self.lanes[lane].recorder = Recorder::new(cadence, done, self.clock.now());
                }
            }
            if self.prove_all() {
                return Route::P2p;
            }
        }
        self.renew(MemoryKind::Host);
        Route::Host
    }

    /// False when the memory does not serve one of the targets.
    fn prove_all(&mut self) -> bool {
        let mut unproved: VecDeque<usize> = self.live().into();
        while let Some(lane) = unproved.pop_front() {
            let (transfer, seed) = (self.lanes[lane].transfer, self.worlds[lane].random.next());
            match prove_on(&mut self.ring, &transfer, self.host, seed, &self.clock) {
                Ok(_) => {}
                Err(NotProved::Ended(failure)) => {
                    let end = match failure.cause {
                        ProofCause::Request(error) => self.failed(error),
                        other => End::Failed(Blame::Proof(other.to_string())),
                    };
                    self.lanes[lane].end = Some(end);
                    self.renew(MemoryKind::P2pmem);
                    unproved = self.live().into();
                }
                Err(NotProved::Rejected { .. }) => return false,
            }
        }
        true
    }

    /// Another memory, or what is left of the targets, is tried on a ring of its own.
    fn renew(&mut self, memory: MemoryKind) {
        let shape = self.worlds[0].shape;
        let entries =
            (shape.slots * 2 * (u32::try_from(self.lanes.len()).unwrap_or(1) + 1)).max(16);
        let fresh = SimRing::new(entries, self.worlds[0].random.next(), self.worlds[0].mood());
        let mut old = std::mem::replace(&mut self.ring.ring, fresh);
        old.abandon();
        let files = 1 + u32::try_from(self.lanes.len()).unwrap_or(0);
        for file in (0..files).map(FileId) {
            let taken = old.file(file).as_deref_mut().map(std::mem::take).unwrap_or_default();
            let attached = self.ring.attach_file(taken);
            debug_assert_eq!(attached.ok(), Some(file));
        }
        self.clock = self.ring.ring.clock();
        let (region, host, zeroes) = regions(&mut self.ring, &shape, memory == MemoryKind::P2pmem);
        (self.host, self.zeroes) = (host, zeroes);
        for (lane, world) in self.lanes.iter_mut().zip(&self.worlds) {
            (lane.transfer.region, lane.transfer.memory) = (region, memory);
            let done = lane.recorder.done().clone();
            lane.recorder = Recorder::new(cadence(world), done, self.clock.now());
        }
    }

    /// What all of them take out of the same slots, and a flush for each.
    fn move_together(&mut self) {
        let seats = self.live();
        if seats.is_empty() {
            return;
        }
        let transfers: Vec<Transfer> =
            seats.iter().map(|&lane| self.lanes[lane].transfer).collect();
        let (pieces, before) = self.pieces(&seats, shared_length(&transfers));
        let is_stopped = Rc::clone(&self.ring.is_stopped);
        let mut watch = Listener { is_stopped, ..Listener::default() };
        let mut ledger = Ledger {
            pieces,
            before,
            lanes: self.lanes.iter_mut().filter(|lane| lane.end.is_none()).collect(),
            disks: (self.worlds.iter_mut().enumerate())
                .filter(|(lane, _)| seats.contains(lane))
                .map(|(_, world)| &mut **world)
                .collect(),
            plan: self.plan,
            power: Rc::clone(&self.ring.power),
            saves: &mut self.saves,
            clock: self.clock.clone(),
        };
        let (ring, zeroes) = (&mut self.ring, Some(self.zeroes));
        let fanned = fan_out(ring, &transfers, &mut ledger, zeroes, &self.clock, &mut watch);
        drop(ledger);
        let fanned = match fanned {
            Ok(fanned) => fanned,
            Err(error) => {
                for lane in seats {
                    self.lanes[lane].end = Some(End::Failed(Blame::Shape(error.to_string())));
                }
                return;
            }
        };
        for (&lane, (_, failed)) in seats.iter().zip(fanned.targets) {
            let is_stuck = matches!(failed, Some(RequestError::Stuck(_)));
            let error = failed.or(fanned.stopped.as_ref().map(RequestError::again));
            let mut end = error.map(|error| self.failed(error));
            if !self.lanes[lane].flush_failed && !is_stuck {
                self.lanes[lane].recorder.flush_begins();
                let transfer = self.lanes[lane].transfer;
                let flushed = flush_on(&mut self.ring, &transfer, &self.clock);
                self.lanes[lane].recorder.flush_ended(flushed.is_ok());
                end = end.or(flushed.err().map(|error| self.failed(error)));
            }
            if fanned.interrupted {
                end = end.or(Some(End::Stopped));
            }
            self.lanes[lane].end = end;
        }
    }

    /// Pieces of one block each, as the targets lack them, and what each has already.
    fn pieces(&self, seats: &[usize], length: u64) -> (VecDeque<SharedPiece>, Vec<u64>) {
        let world = &self.worlds[0];
        let block = world.shape.block();
        let is_new = |seat: usize| self.worlds[seats[seat]].is_new && self.is_first;
        let mut lacks = vec![0; seats.len()];
        let mut pieces = VecDeque::new();
        let mut start = 0;
        while start < length {
            let end = (start + block).min(length);
            let wanted = Targets::of(seats.len(), |seat| {
                !self.lanes[seats[seat]].recorder.done().contains_range(start..end)
            });
            wanted.iter().for_each(|seat| lacks[seat] += end - start);
            let is_hole = world.holes.contains_range(start..end);
            let of = |holds: &dyn Fn(usize) -> bool| {
                Targets::of(seats.len(), |seat| wanted.contains(seat) && holds(seat))
            };
            pieces.push_back(SharedPiece {
                range: start..end,
                payload: of(&|_| !is_hole),
                zeroes: of(&|seat| is_hole && !is_new(seat)),
                nothing: of(&|seat| is_hole && is_new(seat)),
            });
            start = end;
        }
        (pieces, lacks.into_iter().map(|lack| length - lack).collect())
    }

    /// The tail of one target, flush, and the journal of a copy that is complete.
    fn finish(&mut self, number: usize) -> Result<(), End> {
        let transfer = self.lanes[number].transfer;
        let block = self.worlds[number].shape.block();
        let done = self.lanes[number].recorder.done().clone();
        let rest = done.missing_in_blocks(0..transfer.length, block);
        let rest: VecDeque<Piece> = rest.map(Piece::Data).collect();
        if !rest.is_empty() {
            let mut work = Rest { pieces: rest, recorder: &mut self.lanes[number].recorder };
            let outcome =
                relay_work(&mut self.ring, &transfer, &mut work, None, &self.clock, &mut ());
            outcome.map(drop).map_err(|error| self.ended(error))?;
        }
        let tail = transfer.length / transfer.target_block * transfer.target_block..transfer.length;
        if transfer.tail == Tail::MergeInHost && !done.contains_range(tail.clone()) {
            merge_in_host(&mut self.ring, &transfer, self.host, &self.clock)
                .map_err(|error| self.ended(error))?;
            self.lanes[number].recorder.wrote(tail);
        }
        self.lanes[number].recorder.flush_begins();
        let flushed = flush_on(&mut self.ring, &transfer, &self.clock);
        self.lanes[number].recorder.flush_ended(flushed.is_ok());
        flushed.map_err(|error| self.failed(error))?;
        let mut all = RangeSet::new();
        all.insert(0..transfer.length);
        if self.lanes[number].is_on_disk {
            self.save(number, &all)?;
        }
        let cadence = cadence(self.worlds[number]);
        self.lanes[number].recorder = Recorder::new(cadence, all, self.clock.now());
        Ok(())
    }

    fn ended(&self, error: RelayError) -> End {
        match error {
            RelayError::Stopped { source, .. } => self.failed(source),
            RelayError::Busy { .. } => End::Failed(Blame::Shape(WITH_ANOTHER.to_owned())),
            other => End::Failed(Blame::Shape(other.to_string())),
        }
    }

    fn verify(&mut self, number: usize) -> Result<(), End> {
        let Some(coverage) = self.plan.coverage else { return Ok(()) };
        let transfer = self.lanes[number].transfer;
        match compare(&mut self.ring, &transfer, coverage, (self.host, &self.clock)) {
            Ok(verified) if verified.first.is_some() => Err(End::Differs),
            Ok(_) => Ok(()),
            Err(VerifyError::Request(error)) => Err(self.failed(error)),
            Err(other) => Err(End::Failed(Blame::Shape(other.to_string()))),
        }
    }

    fn save(&mut self, number: usize, done: &RangeSet) -> Result<(), End> {
        if self.plan.journal_is_full {
            return Err(End::Failed(Blame::JournalNotSaved));
        }
        let lane = &mut self.lanes[number];
        lane.journal.done = done.clone();
        lane.is_on_disk = true;
        self.worlds[number].journal = journal::encode(&lane.journal).ok();
        Ok(())
    }

    /// Keeps what is done, gives the drives back, and says how it ended.
    fn conclude(mut self, route: Route) -> (Vec<End>, crate::ring::sim::SimFile, u64) {
        let mut ends = Vec::new();
        for number in 0..self.lanes.len() {
            let end = match self.lanes[number].end.take() {
                None => End::Complete { route },
                // Whatever a program without power says.
                Some(_) if self.ring.power.get() == Power::Lost => End::PowerLost,
                Some(end) => end,
            };
            let done = self.lanes[number].recorder.done().clone();
            match &end {
                End::PowerLost => {}
                End::Complete { .. } | End::Differs => self.worlds[number].journal = None,
                _ if done.is_empty() => self.worlds[number].journal = None,
                _ => drop(self.save(number, &done)),
            }
            ends.push(end);
        }
        let ring = &mut self.ring.ring;
        if self.ring.power.get() == Power::Lost {
            ring.cut_power();
        } else {
            ring.abandon();
        }
        for (lane, world) in self.lanes.iter().zip(&mut self.worlds) {
            world.target = ring
                .file(lane.transfer.target)
                .as_deref_mut()
                .map(std::mem::take)
                .unwrap_or_default();
        }
        let source = ring.file(FileId(0)).as_deref_mut().map(std::mem::take).unwrap_or_default();
        (ends, source, self.ring.operations)
    }
}

/// Compares what a transfer moved, by a second region of host memory beside the one that is there.
fn compare(
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
