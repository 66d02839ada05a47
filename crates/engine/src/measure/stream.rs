//! One drive against one memory: requests in one direction only, as many in flight as there are slots.

use std::ops::Range;

use hdrhistogram::Histogram;
use peerlane_results::MemoryKind;
use peerlane_units::Nanos;

use super::blocks::Blocks;
use crate::io::clock::Clock;
use crate::io::failure::{RequestError, Role};
use crate::io::request::{FilePlace, LONGEST_SLEEP, MemoryPlace, Request};
use crate::io::ring::{Action, FileId, RegionId, Ring};
use crate::io::watch::Watch;
use crate::transfer::relay::{RelayWork, StageTally, count, latencies};

/// Action, ends and sizes of a stream. Offsets and lengths are in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamSetup {
    pub(super) action: Action,
    pub(super) file: FileId,
    /// Start of the range in the file.
    pub(super) offset: u64,
    /// Block size of the file.
    pub(super) file_block: u64,
    pub(super) region: RegionId,
    pub(super) memory: MemoryKind,
    pub(super) slots: u32,
    pub(super) place: RegionLocation,
    /// True if stage 0 of the ring works on a slot: after its read, or before its write.
    pub(super) has_stage: bool,
    pub(super) deadline: Nanos,
}

/// Place of a request's bytes in the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegionLocation {
    /// In a slot of its own; the bytes from the start of one to the start of the next.
    Slot(u64),
    /// At their offset in the range, which begins here.
    Range(u64),
}

/// Outcome of a stream.
pub(super) struct Streamed {
    pub(super) bytes: u64,
    /// Requests of the drive.
    pub(super) latency: Histogram<u64>,
    pub(super) stage: StageTally,
    pub(super) interrupted: bool,
}

/// Is told which slot served which range; both ends of a request see it.
pub(super) trait SlotLog {
    /// A request is handed over.
    fn begun(&mut self, _: &Range<u64>) {}

    /// It has ended, and well.
    fn done(&mut self, slot: u32, range: Range<u64>);
}

impl SlotLog for () {
    fn done(&mut self, _: u32, _: Range<u64>) {}
}

/// A step of a slot, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotStep {
    Drive,
    Stage,
}

impl SlotStep {
    /// A failure by the step that it is of.
    fn blamed(self, error: RequestError) -> RequestError {
        match self {
            Self::Drive => error,
            Self::Stage => RequestError::Stage { number: 0, source: Box::new(error) },
        }
    }
}

impl StreamSetup {
    fn first_step(&self) -> SlotStep {
        if self.has_stage && self.action == Action::Write {
            SlotStep::Stage
        } else {
            SlotStep::Drive
        }
    }

    fn step_after(&self, step: SlotStep) -> Option<SlotStep> {
        match (self.action, step) {
            _ if !self.has_stage => None,
            (Action::Write, SlotStep::Stage) => Some(SlotStep::Drive),
            (Action::Write, SlotStep::Drive) | (_, SlotStep::Stage) => None,
            (_, SlotStep::Drive) => Some(SlotStep::Stage),
        }
    }

    /// The request of a step for a range in a slot.
    fn request(&self, slot: usize, step: SlotStep, range: &Range<u64>) -> Request {
        let need = range.end - range.start;
        let role = if self.action == Action::Read { Role::Source } else { Role::Target };
        let offset = match self.place {
            RegionLocation::Slot(stride) => slot as u64 * stride,
            RegionLocation::Range(start) => start + range.start,
        };
        let place = MemoryPlace { region: self.region, offset, kind: self.memory };
        let (action, file) = match step {
            SlotStep::Drive => {
                let (file, offset) = (self.file, self.offset + range.start);
                (self.action, FilePlace { file, offset, block: self.file_block })
            }
            SlotStep::Stage => {
                (Action::Stage, FilePlace { file: FileId(0), offset: range.start, block: 1 })
            }
        };
        Request::new(role, action, file, place, need)
    }
}

/// A slot's request, its range, and the time of its beginning.
struct SlotLane {
    step: SlotStep,
    request: Request,
    since: Nanos,
    /// Since when the kernel has it: after a short answer, the rest of it.
    handed: Nanos,
    range: Range<u64>,
}

struct StreamRun<'a, 'b> {
    way: &'a StreamSetup,
    blocks: &'a mut Blocks<'b>,
    log: &'a mut dyn SlotLog,
    clock: &'a dyn Clock,
    lanes: Vec<Option<SlotLane>>,
    idle: Vec<usize>,
    out: Streamed,
    failed: Option<RequestError>,
}

/// Moves the blocks until their end, a failure, or the watch's wish.
///
/// # Errors
/// The first failure; requests in flight have ended, unless the ring says otherwise.
pub(super) fn stream<R: Ring>(
    ring: &mut R,
    way: &StreamSetup,
    blocks: &mut Blocks<'_>,
    log: &mut dyn SlotLog,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<Streamed, RequestError> {
    let slots = way.slots as usize;
    let stage = StageTally::default();
    let out = Streamed { bytes: 0, latency: latencies(), stage, interrupted: false };
    let mut stream = StreamRun {
        way,
        blocks,
        log,
        clock,
        lanes: (0..slots).map(|_| None).collect(),
        idle: (0..slots).rev().collect(),
        out,
        failed: None,
    };
    stream.run(ring, watch)?;
    match stream.failed {
        Some(error) => Err(error),
        None => Ok(stream.out),
    }
}

impl StreamRun<'_, '_> {
    fn run<R: Ring>(&mut self, ring: &mut R, watch: &mut dyn Watch) -> Result<(), RequestError> {
        let sleep = LONGEST_SLEEP.min(Nanos(self.way.deadline.0 / 4)).max(Nanos(1));
        let (mut is_over, mut checked) = (false, self.clock.now());
        loop {
            self.out.interrupted |= watch.stop_requested();
            let mut pause = Nanos(0);
            while !(is_over || self.out.interrupted || self.failed.is_some() || ring.space() == 0) {
                let Some(slot) = self.idle.pop() else { break };
                let now = self.clock.now();
                pause = self.blocks.pause(now);
                let range = if pause > Nanos(0) { None } else { self.blocks.next() };
                let Some(range) = range else {
                    self.idle.push(slot);
                    is_over = pause == Nanos(0);
                    break;
                };
                self.blocks.begins(range.end - range.start, now);
                self.begin(ring, slot, range, now)?;
            }
            if self.idle.len() == self.lanes.len() && pause == Nanos(0) {
                return Ok(());
            }
            let asked = self.clock.now();
            ring.submit(1, if pause > Nanos(0) { sleep.min(pause) } else { sleep })?;
            let now = self.clock.now();
            while let Some(completion) = ring.pop() {
                let slot = usize::try_from(completion.tag).unwrap_or(usize::MAX);
                self.settle(ring, slot, completion.result, now)?;
            }
            if now.since(checked) >= sleep {
                checked = now;
                // A program that was stopped for a while finds everything old: what counts is what
                // was so before the kernel was asked.
                self.overdue(asked)?;
            }
        }
    }

    fn begin<R: Ring>(
        &mut self,
        ring: &mut R,
        slot: usize,
        range: Range<u64>,
        now: Nanos,
    ) -> Result<(), RequestError> {
        let begun = range.clone();
        self.take_step(ring, slot, (self.way.first_step(), range), now)?;
        self.log.begun(&begun);
        // Handed over together, neighbours would be merged into one request and end together, again and
        // again, so that ever fewer of them are in flight. fio's default is one by one, too.
        Ok(ring.submit(0, Nanos(0))?)
    }

    /// Queues the request of a step.
    fn take_step<R: Ring>(
        &mut self,
        ring: &mut R,
        slot: usize,
        (step, range): (SlotStep, Range<u64>),
        now: Nanos,
    ) -> Result<(), RequestError> {
        let request = self.way.request(slot, step, &range);
        ring.push(request.operation(slot as u64))?;
        if step == SlotStep::Stage {
            self.out.stage.begins(now);
        }
        self.lanes[slot] = Some(SlotLane { step, request, since: now, handed: now, range });
        Ok(())
    }

    fn settle<R: Ring>(
        &mut self,
        ring: &mut R,
        slot: usize,
        result: Result<u32, rustix::io::Errno>,
        now: Nanos,
    ) -> Result<(), RequestError> {
        let Some(lane) = self.lanes.get_mut(slot).and_then(Option::as_mut) else { return Ok(()) };
        let failure = lane.request.take(result).err();
        if failure.is_none() && !lane.request.is_done() {
            ring.push(lane.request.operation(slot as u64))?;
            lane.handed = now;
            return Ok(());
        }
        let (step, since, range) = (lane.step, lane.since, lane.range.clone());
        self.lanes[slot] = None;
        self.account(step, failure.is_none().then_some(&range), (since, now));
        let next = self.way.step_after(step).filter(|_| self.failed.is_none());
        if let Some(next) = next.filter(|_| failure.is_none()) {
            return self.take_step(ring, slot, (next, range), now);
        }
        self.idle.push(slot);
        match failure {
            Some(failure) => {
                self.failed.get_or_insert(step.blamed(failure.into()));
            }
            // Another failed, and the rest of this one is not done any more.
            None if self.way.step_after(step).is_some() => {}
            None => {
                self.out.bytes += range.end - range.start;
                self.log.done(u32::try_from(slot).unwrap_or(u32::MAX), range.clone());
                self.blocks.done(range, now);
            }
        }
        Ok(())
    }

    /// Counts a step; the range is that of one that ended well.
    fn account(
        &mut self,
        step: SlotStep,
        range: Option<&Range<u64>>,
        (since, now): (Nanos, Nanos),
    ) {
        let latency = now.since(since);
        match (step, range) {
            (SlotStep::Drive, Some(_)) => count(&mut self.out.latency, latency),
            (SlotStep::Drive, None) => {}
            (SlotStep::Stage, range) => {
                self.out.stage.ends(now);
                if let Some(range) = range {
                    self.out.stage.done(range.end - range.start, latency);
                }
            }
        }
    }

    fn overdue(&self, now: Nanos) -> Result<(), RequestError> {
        let lanes = self.lanes.iter().flatten();
        let Some(oldest) = lanes.min_by_key(|lane| lane.handed) else { return Ok(()) };
        let age = now.since(oldest.handed);
        if age < self.way.deadline {
            return Ok(());
        }
        Err(oldest.step.blamed(oldest.request.stuck(age).into()))
    }
}

#[cfg(test)]
mod tests {
    use peerlane_results::Order;

    use super::super::blocks::{BlockAccount, BlockLayout};
    use super::*;
    use crate::io::ring::sim::{Halting, Mood, SimFault, SimFile, SimRegion, SimRing};

    const LENGTH: u64 = 256 << 10;

    /// Reads a file with a program that stands still for two seconds again and again, with a deadline of one.
    fn read_halting(seed: u64, faults: Vec<SimFault>) -> Result<Streamed, RequestError> {
        let mut ring = SimRing::new(8, seed, Mood { short: 0, again: 100, early: 100 });
        let bytes = vec![7; usize::try_from(LENGTH).unwrap()];
        let latency = Nanos(50_000_000);
        let file = SimFile { bytes, block: 512, latency, faults, ..SimFile::default() };
        let file = ring.attach_file(file).unwrap();
        let region = ring.attach_region(SimRegion { bytes: vec![0; 4 * 4096], is_device: false });
        let clock = ring.clock();
        let way = StreamSetup {
            action: Action::Read,
            file,
            offset: 0,
            file_block: 512,
            region,
            memory: MemoryKind::Host,
            slots: 4,
            place: RegionLocation::Slot(4096),
            has_stage: false,
            deadline: Nanos::seconds(1),
        };
        let order = Order::Sequential;
        let cut = BlockLayout { length: LENGTH, block: 4096, request: 4096, order, seed };
        let mut blocks = Blocks::new(&clock, &cut, BlockAccount::OfRequests, None, None);
        let mut halting = Halting { ring, time: Nanos::seconds(2) };
        stream(&mut halting, &way, &mut blocks, &mut (), &clock, &mut ())
    }

    #[test]
    fn stream_survives_pause_beyond_deadline() {
        for seed in 0..100 {
            let read = read_halting(seed, Vec::new()).map(|streamed| streamed.bytes);
            assert_eq!(read.unwrap_or_else(|error| panic!("seed {seed}: {error:?}")), LENGTH);
        }
        let hangs = SimFault { action: Action::Read, offset: 100 << 10, errno: None };
        assert!(matches!(read_halting(1, vec![hangs]), Err(RequestError::Stuck(_))));
    }
}
