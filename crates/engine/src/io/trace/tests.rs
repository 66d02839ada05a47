//! Traces of relays on simulated drives, whose clock moves only while the ring is waited for.

use peerlane_results::{MemoryKind, PhaseKind, Tail, TraceOutcome, TraceRequest};
use peerlane_units::Nanos;

use super::*;
use crate::io::ring::sim::{Mood, SimFile, SimRegion, SimRing};
use crate::io::ring::{Action, Operation, Ring};
use crate::transfer::relay::{Moved, Transfer, relay};

const REQUEST: u64 = 16 << 10;
const SLOTS: u32 = 6;

/// A relay of `blocks` blocks with room for `room` notes.
fn traced(blocks: u64, room: usize, seed: u64, mood: Mood) -> (Moved, Trace) {
    let mut ring = SimRing::new(32, seed, mood);
    let file = || SimFile {
        bytes: vec![7; usize::try_from(blocks * REQUEST).unwrap()],
        block: 512,
        page_time: Nanos(1000),
        latency: Nanos(20_000),
        ..SimFile::default()
    };
    let (source, target) = (ring.attach_file(file()).unwrap(), ring.attach_file(file()).unwrap());
    let bytes = vec![0; usize::try_from(REQUEST * u64::from(SLOTS)).unwrap()];
    let region = ring.attach_region(SimRegion { bytes, is_device: true });
    let clock = ring.clock();
    let log = NoteLog::new("a to b".to_owned(), Box::new(clock.clone()), room, None);
    let mut ring = Traced::new(ring, Some(log));
    ring.name_file(source, "a");
    ring.name_file(target, "b");
    ring.name_region(region, "cmb:nvme2", MemoryKind::P2pmem);
    ring.slots(region, REQUEST, SLOTS);
    ring.phase(PhaseKind::Move);
    let transfer = Transfer {
        source,
        target,
        region,
        memory: MemoryKind::P2pmem,
        source_offset: 0,
        target_offset: 0,
        length: blocks * REQUEST,
        request: REQUEST,
        slots: SLOTS,
        slot_stride: REQUEST,
        source_block: 512,
        target_block: 512,
        tail: Tail::None,
        stages: 0,
        deadline: Nanos::seconds(60),
    };
    let moved = relay(&mut ring, &transfer, &clock, &mut ()).unwrap();
    ring.phase(PhaseKind::Flush);
    let trace = ring.trace().unwrap();
    (moved, trace)
}

fn with_action(trace: &Trace, action: Action) -> Vec<TraceRequest> {
    trace.requests.iter().filter(|one| one.action == action).copied().collect()
}

#[test]
fn trace_has_each_block_once() {
    let (moved, trace) = traced(100, 10_000, 1, Mood::default());
    assert_eq!((moved.repeats, trace.left_out), (0, 0));
    assert_eq!(trace.drives, ["a", "b"]);
    assert_eq!(trace.memories.len(), 1, "host memory is not in a copy between devices");
    assert_eq!(trace.memories[0].name, "cmb:nvme2");
    for (action, drive) in [(Action::Read, 0), (Action::Write, 1)] {
        let requests = with_action(&trace, action);
        let mut offsets: Vec<u64> = requests.iter().map(|one| one.offset).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..100).map(|block| block * REQUEST).collect::<Vec<_>>());
        assert!(requests.iter().all(|one| (one.drive, one.memory) == (drive, Some(0))));
        assert!(requests.iter().all(|one| one.outcome == TraceOutcome::Full));
    }
    assert_eq!(moved.read_latency.len(), 100, "as many as the record counts");
}

#[test]
fn spans_and_slots_stay_in_bounds() {
    let difficult = Mood { short: 200, again: 100, early: 100 };
    for seed in 0..300 {
        let (moved, trace) = traced(40, 10_000, seed, difficult);
        let full = |action| {
            let all = with_action(&trace, action);
            all.iter()
                .map(|one| match one.outcome {
                    TraceOutcome::Full => one.bytes,
                    TraceOutcome::Short(bytes) => bytes / 512 * 512,
                    _ => 0,
                })
                .sum::<u64>()
        };
        assert!(full(Action::Write) >= moved.bytes, "seed {seed}");
        assert!(trace.requests.iter().all(|one| one.span.begin <= one.span.end), "seed {seed}");
        assert!(trace.waits.iter().all(|one| one.begin <= one.end), "seed {seed}");
        let slots = trace.requests.iter().map(|one| one.slot.unwrap());
        assert!(slots.max().unwrap() < u64::from(SLOTS), "seed {seed}");
        assert!(trace.requests.iter().all(|one| one.outcome != TraceOutcome::Unanswered));
    }
}

#[test]
fn write_begins_after_its_read() {
    let (_, trace) = traced(50, 10_000, 3, Mood::default());
    let reads = with_action(&trace, Action::Read);
    for write in with_action(&trace, Action::Write) {
        let read = reads.iter().find(|read| read.offset == write.offset).unwrap();
        assert!(write.span.begin >= read.span.end, "{read:?} {write:?}");
    }
}

#[test]
fn full_log_counts_what_it_omits() {
    let (_, whole) = traced(100, 10_000, 1, Mood::default());
    let (moved, cut) = traced(100, 200, 1, Mood::default());
    assert_eq!(moved.bytes, 100 * REQUEST, "the copy goes on");
    assert!(cut.requests.len() < whole.requests.len());
    assert_eq!(cut.requests.len() as u64 + cut.left_out, 200, "each is in it or counted");
    let is_whole = |one| whole.requests.contains(one);
    assert!(cut.requests.iter().all(is_whole), "what is in it is the same");
}

#[test]
fn a_request_without_an_answer_lasts_until_the_end() {
    let mut ring = SimRing::new(8, 1, Mood::default());
    let file = SimFile { bytes: vec![0; 4096], block: 512, ..SimFile::default() };
    let file = ring.attach_file(file).unwrap();
    let region = ring.attach_region(SimRegion { bytes: vec![0; 4096], is_device: false });
    let clock = ring.clock();
    let log = NoteLog::new("a".to_owned(), Box::new(clock), 16, None);
    let mut ring = Traced::new(ring, Some(log));
    let operation = Operation {
        action: Action::Read,
        file,
        file_offset: 0,
        region,
        region_offset: 0,
        length: 4096,
        tag: 9,
    };
    ring.push(operation).unwrap();
    let trace = ring.trace().unwrap();
    assert_eq!(trace.requests.len(), 1);
    assert_eq!(trace.requests[0].outcome, TraceOutcome::Unanswered);
    assert_eq!(trace.memories[0].kind, MemoryKind::Host, "memory without a name");
}

#[derive(Clone, Copy)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Nanos {
        Nanos(5)
    }
}

#[test]
fn logs_share_room_and_return_rest() {
    let tracer = Tracer::new(Still, 1000, 2);
    let (first, second) = (tracer.log("first".to_owned()), tracer.log("second".to_owned()));
    assert_eq!((first.room(), second.room()), (500, 250));
    drop(first);
    assert_eq!(tracer.log("third".to_owned()).room(), 375, "half of what is free");
    drop(second);
    let names: Vec<String> = tracer.finish().into_iter().map(|trace| trace.name).collect();
    assert_eq!(names, ["first", "third", "second"]);
}
