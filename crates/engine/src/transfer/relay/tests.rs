//! The relay on simulated drives: thousands of seeds, each a copy of its own with faults of its own.

mod several;
mod stages;

use std::cell::Cell;

use peerlane_units::ByteRate;
use rustix::io::Errno;

use super::*;
use crate::io::failure::{Cause, Role};
use crate::io::random::Random;
use crate::io::ring::Action;
use crate::io::ring::sim::{Halting, Lost, Mood, SimFault, SimFile, SimRegion, SimRing};

/// A copy drawn from a seed, on a ring of its own.
struct RelayCase {
    ring: SimRing,
    transfer: Transfer,
    host: RegionId,
    payload: Vec<u8>,
    before: Vec<u8>,
}

fn case(seed: u64, mood: Mood) -> RelayCase {
    let mut random = Random::new(seed);
    let blocks = [512, 4096];
    let (source_block, target_block) = (pick(&mut random, &blocks), pick(&mut random, &blocks));
    let larger = source_block.max(target_block);
    let request = larger * (1 + random.below(8));
    let tails = [Tail::None, Tail::RoundUpAndCut, Tail::MergeInSlot, Tail::MergeInHost];
    let tail = pick(&mut random, &tails);
    let unit = match tail {
        Tail::None => target_block,
        Tail::MergeInSlot => source_block,
        Tail::RoundUpAndCut | Tail::MergeInHost => 1,
    };
    let length = random.below(40 * larger) / unit * unit;
    let source_offset = source_block * random.below(5);
    let target_offset = target_block * random.below(5);
    let slots = u32::try_from(1 + random.below(12)).unwrap();

    let mut source = vec![0; usize_of((source_offset + length).next_multiple_of(source_block))];
    random.fill(&mut source);
    if tail == Tail::RoundUpAndCut || random.below(2) == 0 {
        // A file may end within a block.
        source.truncate(usize_of(source_offset + length));
    }
    let payload = source[usize_of(source_offset)..usize_of(source_offset + length)].to_vec();
    let behind = random.below(3) * target_block;
    let end = (target_offset + length).next_multiple_of(target_block) + behind;
    let mut before = vec![0; usize_of(end)];
    random.fill(&mut before);

    let mut ring = SimRing::new(4 + u32::try_from(random.below(28)).unwrap(), seed, mood);
    let file = |bytes: Vec<u8>, block| SimFile {
        bytes,
        block,
        page_time: Nanos(1000),
        latency: Nanos(20_000),
        ..SimFile::default()
    };
    let source = ring.attach_file(file(source, source_block)).unwrap();
    let target = ring.attach_file(file(before.clone(), target_block)).unwrap();
    let slot_stride = request + 4096 * random.below(2);
    let bytes = vec![0x5a; usize_of(slot_stride * u64::from(slots))];
    let region = ring.attach_region(SimRegion { bytes, is_device: true });
    let host = ring.attach_region(SimRegion { bytes: vec![0x5a; 16384], is_device: false });
    let transfer = Transfer {
        source,
        target,
        region,
        memory: MemoryKind::P2pmem,
        source_offset,
        target_offset,
        length,
        request,
        slots,
        slot_stride,
        source_block,
        target_block,
        tail,
        stages: 0,
        deadline: Nanos::seconds(1),
    };
    RelayCase { ring, transfer, host, payload, before }
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[usize_of(random.below(from.len() as u64))]
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

impl RelayCase {
    fn run(&mut self) -> Result<Moved, RelayError> {
        let clock = self.ring.clock();
        relay(&mut self.ring, &self.transfer, &clock, &mut ())
    }

    fn target(&mut self) -> Vec<u8> {
        self.ring.file(self.transfer.target).unwrap().bytes.clone()
    }

    /// Checks the target beyond the payload. It keeps its old content, except for rubbish up to the
    /// end of a block that the owner is going to cut off.
    fn check_surroundings(&mut self, seed: u64) {
        let start = usize_of(self.transfer.target_offset);
        let end = start + self.payload.len();
        let cut = end.next_multiple_of(usize_of(self.transfer.target_block));
        let end = if self.transfer.tail == Tail::RoundUpAndCut { cut } else { end };
        let before = self.before.clone();
        let target = self.target();
        assert_eq!(target.len(), before.len(), "seed {seed}");
        assert!(
            target[..start] == before[..start],
            "seed {seed}: something before the target changed"
        );
        assert!(target[end..] == before[end..], "seed {seed}: something behind the target changed");
    }

    fn check_prefix(&mut self, length: u64, seed: u64) {
        let start = usize_of(self.transfer.target_offset);
        let payload = self.payload[..usize_of(length)].to_vec();
        assert!(
            self.target()[start..start + payload.len()] == payload,
            "seed {seed}: content differs"
        );
    }
}

const DIFFICULT: Mood = Mood { short: 200, again: 100, early: 100 };

#[test]
fn every_copy_arrives_whole_and_nothing_beside_it_changes() {
    for seed in 0..2000 {
        let mood = if seed % 4 == 0 { Mood::default() } else { DIFFICULT };
        let mut case = case(seed, mood);
        let moved = case.run().unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        let clock = case.ring.clock();
        let merged = match case.transfer.tail {
            Tail::MergeInHost => {
                merge_in_host(&mut case.ring, &case.transfer, case.host, &clock).unwrap()
            }
            _ => 0,
        };
        let length = case.transfer.length;
        assert_eq!(
            (moved.bytes + merged, moved.contiguous() + merged),
            (length, length),
            "seed {seed}"
        );
        assert!(moved.repeats == 0 || mood != Mood::default(), "seed {seed}");
        let writes = moved.write_latency.len();
        let least = length.div_ceil(case.transfer.request) - u64::from(merged > 0);
        assert!(writes >= least && moved.read_latency.len() == writes, "seed {seed}");
        assert!(moved.read_latency.is_empty() || moved.read_latency.min() > 0, "seed {seed}");
        assert!(!moved.interrupted && case.ring.in_flight() == 0, "seed {seed}");
        case.check_prefix(length, seed);
        case.check_surroundings(seed);
    }
}

#[test]
fn a_failed_copy_claims_only_what_is_written() {
    let mut failed = 0;
    for seed in 0..2000 {
        let mut case = case(seed, DIFFICULT);
        let mut random = Random::new(seed ^ 0xfa17);
        let at_source = random.below(2) == 0;
        let (file, action, start) = if at_source {
            (case.transfer.source, Action::Read, case.transfer.source_offset)
        } else {
            (case.transfer.target, Action::Write, case.transfer.target_offset)
        };
        let offset = start + random.below(case.transfer.length.max(1));
        let fault = SimFault { action, offset, errno: Some(Errno::NODATA) };
        case.ring.file(file).unwrap().faults.push(fault);
        let contiguous = match case.run() {
            Ok(moved) => moved.contiguous(),
            Err(error) => {
                failed += 1;
                let contiguous = error.contiguous();
                let RelayError::Stopped { source: RequestError::Failed(failure), .. } = error
                else {
                    panic!("seed {seed}: {error:?}")
                };
                let role = if at_source { Role::Source } else { Role::Target };
                assert_eq!(failure.role, role, "seed {seed}");
                assert_eq!(failure.cause, Cause::BadSector { action }, "seed {seed}");
                let end = failure.offset + failure.length;
                assert!((failure.offset..end.max(offset + 1)).contains(&offset), "seed {seed}");
                assert!(contiguous <= offset - start, "seed {seed}");
                contiguous
            }
        };
        assert_eq!(case.ring.in_flight(), 0, "seed {seed}");
        case.check_prefix(contiguous, seed);
        case.check_surroundings(seed);
    }
    assert!(failed > 1500, "{failed}");
}

#[test]
fn hanging_request_ends_copy_at_deadline() {
    for seed in 0..500 {
        let mut case = case(seed, Mood { early: 100, ..Mood::default() });
        if case.transfer.relayed() == 0 {
            continue;
        }
        let offset = case.transfer.target_offset;
        let fault = SimFault { action: Action::Write, offset, errno: None };
        case.ring.file(case.transfer.target).unwrap().faults.push(fault);
        let error = case.run().unwrap_err();
        let RelayError::Stopped { source: RequestError::Stuck(stuck), moved } = error else {
            panic!("seed {seed}: {error:?}")
        };
        assert_eq!((stuck.role, stuck.action), (Role::Target, Action::Write), "seed {seed}");
        assert_eq!(stuck.offset, offset, "seed {seed}");
        let deadline = case.transfer.deadline;
        assert!(stuck.age >= deadline && stuck.age.0 < 2 * deadline.0, "seed {seed}: {stuck}");
        assert_eq!(moved.contiguous(), 0, "seed {seed}");
        assert!(case.ring.in_flight() > 0, "seed {seed}");
    }
}

/// Nothing hangs; it is the program that was not there to see how soon all of it ended.
#[test]
fn relay_survives_pause_beyond_deadline() {
    for seed in 0..300 {
        let mut case = case(seed, DIFFICULT);
        let clock = case.ring.clock();
        let (time, ring) = (Nanos(2 * case.transfer.deadline.0), case.ring);
        let mut halting = Halting { ring, time };
        let moved = relay(&mut halting, &case.transfer, &clock, &mut ())
            .unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        case.ring = halting.ring;
        assert_eq!(moved.bytes, case.transfer.relayed(), "seed {seed}");
        case.check_prefix(moved.bytes, seed);
    }
}

#[test]
fn a_request_that_never_gets_on_is_given_up() {
    let mut case = case(11, Mood { again: 1024, ..Mood::default() });
    let RelayError::Stopped { source: RequestError::Failed(failure), moved } =
        case.run().unwrap_err()
    else {
        panic!("not stopped")
    };
    let Cause::NoProgress { tries, errno: Some(_) } = failure.cause else { panic!("{failure:?}") };
    assert_eq!((tries, moved.contiguous(), case.ring.in_flight()), (64, 0, 0));
}

#[test]
fn a_source_that_ends_early_is_named() {
    for seed in 0..500 {
        let mut case = case(seed, DIFFICULT);
        let length = case.transfer.relayed();
        if length == 0 {
            continue;
        }
        let kept = Random::new(seed).below(length);
        let end = usize_of(case.transfer.source_offset + kept);
        case.ring.file(case.transfer.source).unwrap().bytes.truncate(end);
        let error = case.run().unwrap_err();
        let contiguous = error.contiguous();
        let RelayError::Stopped { source: RequestError::Failed(failure), .. } = error else {
            panic!("seed {seed}: {error:?}")
        };
        assert_eq!((failure.role, failure.cause), (Role::Source, Cause::EndedEarly), "seed {seed}");
        assert!(contiguous <= kept, "seed {seed}");
        case.check_prefix(contiguous, seed);
        case.check_surroundings(seed);
    }
}

/// Stops after a number of parts.
struct StopAfter {
    parts: Cell<u32>,
    done: u64,
}

impl Watch for StopAfter {
    fn progress(&mut self, done: Bytes, total: Bytes) {
        assert!(done.0 > self.done && done <= total);
        self.done = done.0;
        self.parts.set(self.parts.get().saturating_sub(1));
    }

    fn stop_requested(&self) -> bool {
        self.parts.get() == 0
    }
}

#[test]
fn stopped_copy_drains_and_reports() {
    let mut interrupted = 0;
    for seed in 0..1000 {
        let mut case = case(seed, DIFFICULT);
        let mut watch = StopAfter { parts: Cell::new(2), done: 0 };
        let clock = case.ring.clock();
        let moved = relay(&mut case.ring, &case.transfer, &clock, &mut watch).unwrap();
        interrupted += u32::from(moved.interrupted);
        assert_eq!(case.ring.in_flight(), 0, "seed {seed}");
        assert_eq!(moved.interrupted, moved.bytes < case.transfer.relayed(), "seed {seed}");
        assert_eq!(moved.bytes, moved.contiguous(), "seed {seed}: every part begun was finished");
        assert_eq!(watch.done, moved.bytes, "seed {seed}");
        case.check_prefix(moved.contiguous(), seed);
        case.check_surroundings(seed);
    }
    assert!(interrupted > 300, "{interrupted}");
}

#[test]
fn a_route_that_is_refused_moves_nothing() {
    for (errno, cause) in
        [(Errno::INVAL, Cause::RouteRefused), (Errno::REMOTEIO, Cause::MemoryNotAccepted)]
    {
        let mut case = case(11, Mood::default());
        case.ring.file(case.transfer.source).unwrap().device_refusal = Some(errno);
        let RelayError::Stopped { source: RequestError::Failed(failure), moved } =
            case.run().unwrap_err()
        else {
            panic!("not stopped")
        };
        assert_eq!((failure.cause, moved.bytes), (cause, 0));
        let before = case.before.clone();
        assert!(case.target() == before);
    }
}

/// Reading and writing take a second each; one after the other would be two.
#[test]
fn reading_and_writing_overlap() {
    let elapsed = |slots| {
        let mut case = case(3, Mood::default());
        let length = 1000 * 4096;
        for file in [case.transfer.source, case.transfer.target] {
            let mut file = case.ring.file(file).unwrap();
            *file = SimFile { bytes: vec![1; length], block: 512, ..SimFile::default() };
            file.page_time = Nanos(1_000_000);
        }
        let region = SimRegion { bytes: vec![0; 8 * 65536], is_device: true };
        case.transfer = Transfer {
            region: case.ring.attach_region(region),
            source_offset: 0,
            target_offset: 0,
            length: length as u64,
            request: 65536,
            slots,
            slot_stride: 65536,
            source_block: 512,
            target_block: 512,
            tail: Tail::None,
            ..case.transfer
        };
        let moved = case.run().unwrap();
        assert_eq!(moved.bytes, length as u64);
        moved
    };
    let alone = elapsed(1);
    assert_eq!(alone.last_done, Nanos(2_000_000_000));
    assert_eq!(alone.first_done, Nanos(32_000_000));
    for latency in [alone.read_latency, alone.write_latency] {
        let median = latency.value_at_quantile(0.5);
        assert!(median.abs_diff(16_000_000) < 20_000, "{median} ns");
    }
    let deep = elapsed(4).last_done.0 / 1_000_000;
    assert!((1000..1100).contains(&deep), "{deep} ms");
}

#[test]
fn a_transfer_that_does_not_add_up_is_refused() {
    let good = case(3, Mood::default()).transfer;
    let good = Transfer { length: 8192, request: 8192, slots: 1, slot_stride: 8192, ..good };
    let good = Transfer { source_block: 512, target_block: 4096, tail: Tail::None, ..good };
    let good = Transfer { source_offset: 0, target_offset: 0, ..good };
    let check = |transfer: Transfer| transfer.check(Some(8192));
    assert_eq!(check(good), Ok(()));
    let tail = |length, block, tail| Err(ShapeFault::Tail { length, block, tail });
    assert_eq!(check(Transfer { source_block: 0, ..good }), Err(ShapeFault::Block { block: 0 }));
    assert_eq!(
        check(Transfer { target_block: 520, ..good }),
        Err(ShapeFault::Block { block: 520 })
    );
    let fault = ShapeFault::Offset { offset: 512, block: 4096 };
    assert_eq!(check(Transfer { target_offset: 512, ..good }), Err(fault));
    let fault = ShapeFault::Request { request: 512, block: 4096 };
    assert_eq!(check(Transfer { request: 512, ..good }), Err(fault));
    let fault = ShapeFault::Slots { slots: 2, stride: 8192, region_length: 8192 };
    assert_eq!(check(Transfer { slots: 2, ..good }), Err(fault));
    let fault = ShapeFault::Slots { slots: 0, stride: 8192, region_length: 8192 };
    assert_eq!(check(Transfer { slots: 0, ..good }), Err(fault));
    assert_eq!(check(Transfer { length: 512, ..good }), tail(512, 4096, Tail::None));
    let merge = Transfer { length: 512, tail: Tail::MergeInSlot, ..good };
    assert_eq!(check(merge), Ok(()));
    assert_eq!(check(Transfer { length: 100, ..merge }), tail(100, 512, Tail::MergeInSlot));
    let fault = ShapeFault::TooLong { offset: 0, length: 1 << 63 };
    assert_eq!(check(Transfer { length: 1 << 63, ..good }), Err(fault));
}

#[test]
fn lost_dma_is_not_noticed_by_a_relay() {
    let mut case = case(5, Mood::default());
    case.ring.file(case.transfer.source).unwrap().lost = Lost::Reads;
    assert!(case.run().is_ok(), "which is why a route is proved and content verified");
}

/// A whole copy at a pace.
struct Paced(Whole, Pace);

impl RelayWork for Paced {
    fn next_piece(&mut self) -> Option<std::io::Result<WorkPiece>> {
        self.0.next_piece()
    }

    fn pause(&self, now: Nanos) -> Nanos {
        self.1.wait(now)
    }

    fn begins(&mut self, bytes: u64, now: Nanos) {
        self.1.begin(bytes, now);
    }
}

#[test]
fn a_limited_copy_keeps_its_rate_and_arrives_whole() {
    let mut compared = 0;
    for seed in 0..300 {
        let mood = if seed % 4 == 0 { Mood::default() } else { DIFFICULT };
        let mut case = case(seed, mood);
        let length = case.transfer.relayed();
        let rate = ByteRate(1000 << (seed % 8));
        let clock = case.ring.clock();
        let start = clock.now();
        let mut work = Paced(Whole(Some(0..length)), Pace::new(rate));
        let moved = relay_work(&mut case.ring, &case.transfer, &mut work, None, &clock, &mut ())
            .unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        assert_eq!(moved.bytes, length, "seed {seed}");
        case.check_prefix(length, seed);
        // A burst of 100 ms comes free, and the last part, of any length, is paid for when all is over.
        let time = |bytes: u64| Nanos(bytes * 1_000_000_000 / rate.0);
        let least = time(length.saturating_sub(case.transfer.request)).since(Nanos(100_000_000));
        let most = time(length).after(Nanos(time(length).0 / 100 + 10_000_000));
        let elapsed = clock.now().since(start);
        assert!((least..=most).contains(&elapsed), "seed {seed}: {elapsed}, not {least} to {most}");
        compared += u32::from(least > Nanos::seconds(1));
    }
    assert!(compared > 100, "{compared} copies of more than a second");
}

#[test]
fn a_limited_copy_stops_when_it_is_asked_to() {
    struct StopRelay;
    impl Watch for StopRelay {
        fn stop_requested(&self) -> bool {
            true
        }
    }
    let mut case = case(3, Mood::default());
    let clock = case.ring.clock();
    let mut pace = Pace::new(ByteRate(1));
    pace.begin(1_000_000, clock.now());
    let mut work = Paced(Whole(Some(0..case.transfer.relayed())), pace);
    let moved = relay_work(&mut case.ring, &case.transfer, &mut work, None, &clock, &mut StopRelay)
        .unwrap();
    assert!(moved.interrupted && moved.bytes == 0, "{moved:?}");
}
