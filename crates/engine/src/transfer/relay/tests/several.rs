//! Relays to several targets on simulated drives.

use std::cell::RefMut;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use super::*;

const KIB: u64 = 1 << 10;
const LENGTH: u64 = 256 * KIB + 512;

/// All of a copy for every target, and the calls for each.
struct Everything {
    pieces: VecDeque<WorkPiece>,
    wrote: Vec<u64>,
    flushes: Vec<u64>,
    flush_every: u64,
    open: i64,
}

impl Everything {
    fn new(pieces: impl IntoIterator<Item = WorkPiece>, targets: usize) -> Self {
        let pieces = pieces.into_iter().collect();
        let (wrote, flushes) = (vec![0; targets], vec![0; targets]);
        Self { pieces, wrote, flushes, flush_every: u64::MAX, open: 0 }
    }
}

impl RelayWork for Everything {
    fn next_piece(&mut self) -> Option<io::Result<WorkPiece>> {
        self.pieces.pop_front().map(Ok)
    }

    fn done_before(&self, _target: usize) -> u64 {
        0
    }

    fn wrote(&mut self, target: usize, range: Range<u64>) {
        self.wrote[target] += range.end - range.start;
    }

    fn begins(&mut self, bytes: u64, _now: Nanos) {
        self.open += i64::try_from(bytes).unwrap();
    }

    fn ends(&mut self, bytes: u64) {
        self.open -= i64::try_from(bytes).unwrap();
    }

    fn flush_is_due(&self, target: usize, _now: Nanos) -> bool {
        self.wrote[target] >= (self.flushes[target] + 1).saturating_mul(self.flush_every)
    }

    fn flush_begins(&mut self, target: usize) {
        self.flushes[target] += 1;
    }

    fn flush_ended(&mut self, _target: usize, _outcome: FlushOutcome) {}
}

fn all(count: usize) -> Targets {
    Targets::from_fn(count, |_| true)
}

struct SeveralRelayBench {
    ring: SimRing,
    transfers: Vec<Transfer>,
    zeroes: RegionId,
    source: Vec<u8>,
    work: Everything,
}

impl SeveralRelayBench {
    fn new(targets: usize, seed: u64, mood: Mood) -> Self {
        let mut random = Random::new(seed);
        let mut source = vec![0; usize::try_from(LENGTH).unwrap()];
        random.fill(&mut source);
        let mut ring = SimRing::new(7, seed, mood);
        let file = |bytes: Vec<u8>| SimFile {
            bytes,
            block: 512,
            page_time: Nanos(1000),
            latency: Nanos(20_000),
            ..SimFile::default()
        };
        let from = ring.attach_file(file(source.clone())).unwrap();
        let files: Vec<FileId> = (0..targets)
            .map(|_| ring.attach_file(file(vec![9; source.len() + 4096])).unwrap())
            .collect();
        let region = |length: u64, is_device| SimRegion {
            bytes: vec![0; usize::try_from(length).unwrap()],
            is_device,
        };
        let slots = ring.attach_region(region(4 * 16 * KIB, true));
        let zeroes = ring.attach_region(region(8 * KIB, false));
        let transfer = |target| Transfer {
            source: from,
            target,
            region: slots,
            memory: MemoryKind::P2pmem,
            source_offset: 0,
            target_offset: 4096,
            length: LENGTH,
            request: 16 * KIB,
            slots: 4,
            slot_stride: 16 * KIB,
            source_block: 512,
            target_block: 512,
            tail: Tail::None,
            stages: 0,
            deadline: Nanos::seconds(1),
        };
        let transfers = files.into_iter().map(transfer).collect();
        let work = Everything::new([WorkPiece::data(0..LENGTH, all(targets))], targets);
        Self { ring, transfers, zeroes, source, work }
    }

    fn run(&mut self) -> Relayed {
        let clock = self.ring.clock();
        let zeroes = Some(self.zeroes);
        relay_to(&mut self.ring, &self.transfers, &mut self.work, zeroes, &clock, &mut ()).unwrap()
    }

    fn target(&mut self, target: usize) -> RefMut<'_, SimFile> {
        self.ring.file(self.transfers[target].target).unwrap()
    }

    fn check(&mut self, target: usize, length: u64, seed: u64) {
        let length = usize::try_from(length).unwrap();
        let start = usize::try_from(self.transfers[target].target_offset).unwrap();
        let payload = self.source[..length].to_vec();
        let found = &self.target(target).bytes[start..start + length];
        assert!(found == payload, "seed {seed}, target {target}");
    }

    fn is_equal(&mut self, target: usize) -> bool {
        let source = self.source.clone();
        self.target(target).bytes[4096..] == source
    }
}

#[test]
fn every_target_gets_every_byte_of_one_read() {
    for seed in 0..25 {
        for targets in [1, 2, 3, 5] {
            let mut bench = SeveralRelayBench::new(targets, seed, DIFFICULT);
            bench.work.flush_every = 50 * KIB;
            let done = bench.run();
            assert_eq!(done.read, Bytes(LENGTH), "each byte is read once");
            assert!(done.stopped.is_none() && !done.interrupted);
            assert_eq!((bench.ring.in_flight(), bench.work.open), (0, 0));
            for target in 0..targets {
                let (moved, failed) = &done.targets[target];
                assert!(failed.is_none());
                assert_eq!((moved.bytes, moved.contiguous()), (LENGTH, LENGTH));
                assert!(bench.work.flushes[target] >= 4);
                assert!(bench.is_equal(target), "seed {seed}, target {target} of {targets}");
            }
        }
    }
}

#[test]
fn failed_target_named_others_go_on() {
    for seed in 0..25 {
        for (action, errno) in [
            (Action::Write, Some(Errno::NOSPC)),
            (Action::Write, None),
            (Action::Flush, Some(Errno::IO)),
            (Action::Flush, None),
        ] {
            let mut bench =
                SeveralRelayBench::new(3, seed, Mood { short: 40, again: 20, early: 100 });
            bench.work.flush_every = 50 * KIB;
            bench.target(1).faults.push(SimFault { action, offset: 4096 + 128 * KIB, errno });
            let done = bench.run();
            assert_eq!(done.read, Bytes(LENGTH));
            assert!(done.stopped.is_none());
            let failed = done.targets[1].1.as_ref().expect("a failure");
            assert_eq!(matches!(failed, RequestError::Stuck(_)), errno.is_none(), "{failed:?}");
            assert!(done.targets[0].1.is_none() && done.targets[2].1.is_none());
            assert!(bench.is_equal(0) && bench.is_equal(2), "seed {seed} {action:?} {errno:?}");
            assert_eq!(bench.work.open, 0);
            let written: Vec<Range<u64>> = done.targets[1].0.written.iter().collect();
            let source = bench.source.clone();
            for range in written {
                let at = |offset: u64| usize::try_from(offset).unwrap();
                let found = &bench.target(1).bytes[4096 + at(range.start)..4096 + at(range.end)];
                assert_eq!(found, &source[at(range.start)..at(range.end)], "seed {seed}");
            }
        }
    }
}

#[test]
fn pause_beyond_deadline_loses_no_target() {
    for seed in 0..25 {
        let mut bench = SeveralRelayBench::new(3, seed, DIFFICULT);
        bench.work.flush_every = 50 * KIB;
        let (clock, zeroes) = (bench.ring.clock(), Some(bench.zeroes));
        let time = Nanos(2 * bench.transfers[0].deadline.0);
        let mut halting = Halting { ring: bench.ring, time };
        let (transfers, work) = (&bench.transfers, &mut bench.work);
        let done = relay_to(&mut halting, transfers, work, zeroes, &clock, &mut ()).unwrap();
        bench.ring = halting.ring;
        assert!(done.stopped.is_none(), "seed {seed}: {:?}", done.stopped);
        for target in 0..3 {
            assert!(done.targets[target].1.is_none(), "seed {seed}: {:?}", done.targets[target].1);
            assert!(bench.is_equal(target), "seed {seed}, target {target}");
        }
    }
}

#[test]
fn a_source_that_fails_stops_all_of_it() {
    for errno in [Some(Errno::NODATA), None] {
        let mut bench = SeveralRelayBench::new(2, 3, Mood::default());
        let source = bench.transfers[0].source;
        let fault = SimFault { action: Action::Read, offset: 100 * KIB, errno };
        bench.ring.file(source).unwrap().faults.push(fault);
        let done = bench.run();
        assert!(done.stopped.is_some());
        for (moved, failed) in &done.targets {
            assert!(failed.is_none() && moved.contiguous() <= 100 * KIB);
        }
        assert_eq!(bench.work.open, 0);
    }
}

#[test]
fn all_targets_lost_is_an_end() {
    let mut bench = SeveralRelayBench::new(2, 3, Mood::default());
    for target in 0..2 {
        bench.target(target).is_gone = true;
    }
    let done = bench.run();
    assert!(done.targets.iter().all(|(_, failed)| failed.is_some()));
    assert!(done.read < Bytes(LENGTH));
    assert_eq!(bench.ring.in_flight(), 0);
}

#[test]
fn a_target_gets_only_what_it_lacks() {
    let mut bench = SeveralRelayBench::new(2, 5, DIFFICULT);
    let middle = 64 * KIB..128 * KIB;
    let only = Targets::only;
    bench.work.pieces = [
        WorkPiece::data(0..middle.start, all(2)),
        WorkPiece::data(middle.clone(), only(1)),
        WorkPiece::data(middle.end..LENGTH, all(2)),
    ]
    .into();
    let done = bench.run();
    assert_eq!(done.read, Bytes(LENGTH));
    assert_eq!(done.targets[0].0.bytes, LENGTH - (middle.end - middle.start));
    assert!(bench.is_equal(1) && !bench.is_equal(0));
    let skipped = &bench.target(0).bytes[4096 + 64 * 1024..4096 + 128 * 1024];
    assert!(skipped.iter().all(|&byte| byte == 9));
}

#[test]
fn holes_are_zeroed_in_used_targets() {
    for refuses in [false, true] {
        let mut bench = SeveralRelayBench::new(2, 11, DIFFICULT);
        let hole = 64 * KIB..128 * KIB;
        bench.source[64 * 1024..128 * 1024].fill(0);
        let only = Targets::only;
        bench.work.pieces = [
            WorkPiece::data(0..hole.start, all(2)),
            WorkPiece {
                range: hole.clone(),
                payload: Targets::default(),
                zeroes: only(0),
                nothing: only(1),
            },
            WorkPiece::data(hole.end..LENGTH, all(2)),
        ]
        .into();
        let from = bench.transfers[0].source;
        bench.ring.file(from).unwrap().bytes = bench.source.clone();
        if refuses {
            bench.target(0).zero_refusal = Some(Errno::OPNOTSUPP);
        }
        let done = bench.run();
        let (first, second) = (&done.targets[0].0, &done.targets[1].0);
        let zeroes = if refuses { (0, 64 * KIB) } else { (64 * KIB, 0) };
        assert_eq!((first.zeroed, first.zeroes_written), zeroes);
        assert_eq!(second.skipped, 64 * KIB);
        assert_eq!(done.read, Bytes(LENGTH - 64 * KIB));
        assert!(bench.is_equal(0) && !bench.is_equal(1));
    }
}

#[test]
fn transfers_of_different_payload_are_refused() {
    let mut bench = SeveralRelayBench::new(2, 1, Mood::default());
    bench.transfers[1].source_offset = 512;
    let clock = bench.ring.clock();
    let refused =
        relay_to(&mut bench.ring, &bench.transfers, &mut bench.work, None, &clock, &mut ());
    assert!(matches!(refused, Err(RelayError::Shape(ShapeFault::Targets { count: 2 }))));
}

#[test]
fn each_target_gets_its_own_tail() {
    let length = LENGTH - 512 + 100;
    for seed in 0..100 {
        let mut bench = SeveralRelayBench::new(4, seed, DIFFICULT);
        let tails = [
            (4096, Tail::MergeInHost),
            (512, Tail::RoundUpAndCut),
            (4096, Tail::MergeInHost),
            (512, Tail::RoundUpAndCut),
        ];
        bench.work = Everything::new([WorkPiece::data(0..length, all(4))], 4);
        for (transfer, (block, tail)) in bench.transfers.iter_mut().zip(tails) {
            *transfer = Transfer { length, target_block: block, tail, ..*transfer };
        }
        let done = bench.run();
        for (target, (moved, failed)) in done.targets.iter().enumerate() {
            let (_, tail) = tails[target];
            let relayed = if tail == Tail::MergeInHost { 256 * KIB } else { length };
            assert!(failed.is_none(), "seed {seed}: {failed:?}");
            assert_eq!((moved.bytes, moved.contiguous()), (relayed, relayed), "seed {seed}");
            bench.check(target, relayed, seed);
        }
    }
}

#[test]
fn merged_tail_keeps_content_behind_it() {
    for seed in 0..100 {
        let mut bench = SeveralRelayBench::new(3, seed, DIFFICULT);
        for (transfer, block) in bench.transfers.iter_mut().zip([4096, 512, 8192]) {
            transfer.target_block = block;
            transfer.target_offset = 8192;
            transfer.tail = Tail::MergeInSlot;
        }
        for target in 0..3 {
            bench.target(target).bytes = vec![9; usize::try_from(LENGTH + 16 * KIB).unwrap()];
        }
        let done = bench.run();
        for target in 0..3 {
            let (moved, failed) = &done.targets[target];
            assert!(failed.is_none(), "seed {seed}: {failed:?}");
            assert_eq!(moved.contiguous(), LENGTH);
            bench.check(target, LENGTH, seed);
            let end = usize::try_from(8192 + LENGTH).unwrap();
            let behind = &bench.target(target).bytes[end..];
            assert!(behind.iter().all(|&byte| byte == 9), "seed {seed}, target {target}");
        }
    }
}

#[test]
fn slot_of_a_stuck_merge_is_not_used_again() {
    let stuck = [Action::Read, Action::Write].into_iter();
    for (slots, action) in stuck.flat_map(|action| [(1, action), (4, action)]) {
        let mut bench = SeveralRelayBench::new(3, 1, Mood::default());
        for target in 0..3 {
            let transfer = &mut bench.transfers[target];
            (transfer.target_block, transfer.tail) = (4096, Tail::MergeInSlot);
            transfer.slots = slots;
            bench.target(target).bytes = vec![9; usize::try_from(LENGTH + 8 * KIB).unwrap()];
        }
        let offset = 4096 + 256 * KIB;
        bench.target(0).faults.push(SimFault { action, offset, errno: None });
        let done = bench.run();
        assert!(matches!(done.targets[0].1, Some(RequestError::Stuck(_))));
        let has_room = slots > 1;
        assert_eq!(done.stopped.is_none(), has_room, "{:?}", done.stopped);
        for target in 1..3 {
            let (moved, failed) = &done.targets[target];
            assert!(failed.is_none(), "{failed:?}");
            let length = if has_room { LENGTH } else { 256 * KIB };
            assert_eq!(moved.contiguous(), length);
            bench.check(target, length, 1);
        }
        // The stuck request happens after all.
        bench.ring.abandon();
        let end = usize::try_from(4096 + LENGTH).unwrap();
        let behind = &bench.target(0).bytes[end..];
        assert!(behind.iter().all(|&byte| byte == 9), "{slots} slots, {action:?}");
    }
}

#[test]
fn relay_on_a_busy_ring_is_refused() {
    let mut bench = SeveralRelayBench::new(2, 1, Mood::default());
    let fault = SimFault { action: Action::Write, offset: 4096, errno: None };
    bench.target(1).faults.push(fault);
    let done = bench.run();
    assert!(done.targets[1].1.is_some() && bench.is_equal(0));
    assert_eq!(bench.ring.in_flight(), 1, "given up");
    let first = &bench.transfers[..1];
    let clock = bench.ring.clock();
    let busy = relay_to(&mut bench.ring, first, &mut bench.work, None, &clock, &mut ());
    assert!(matches!(busy, Err(RelayError::Busy { in_flight: 1 })));
}
