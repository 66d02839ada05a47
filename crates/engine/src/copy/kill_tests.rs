//! Copies that are killed at any moment, on simulated drives with real journals.
//!
//! The target has a cache: only what was there when a flush was submitted survives a kill. What the
//! journal claims must be among it; everything else is overwritten with rubbish, since a cache that
//! was lost may leave anything. What is equal in the end was claimed rightly or moved again.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use peerlane_results::{MemoryKind, Route, Tail};
use peerlane_units::{Bytes, Nanos};
use rustix::io::Errno;

use super::CopyOptions;
use super::ledger::{Account, Keeper, Ledger, Turn};
use super::pieces::{HOLE_MIN, Holes, Layout, Pieces};
use crate::Clock;
use crate::failure::RequestError;
use crate::journal::{
    Cadence, DeviceIdentity, IdKind, Identity, Journal, Options, Recorder, StableId, Store,
};
use crate::random::Random;
use crate::ranges::RangeSet;
use crate::relay::{Moved, RelayError, Transfer, relay_work};
use crate::ring::sim::{Mood, SimClock, SimFault, SimFile, SimRegion, SimRing};
use crate::ring::{Action, Around, Completion, FileId, Operation, PushError, RegionId, Ring};

const GRAIN: u64 = 64 << 10;
const BLOCK: u64 = 512;

/// A ring whose process dies after a number of calls, and whose target has a cache.
struct Mortal {
    ring: SimRing,
    calls_left: Cell<u64>,
    target: FileId,
    /// What survives.
    stable: Vec<u8>,
    /// What a flush under way is going to keep, and the flush's tag.
    flushing: Option<(u64, Vec<u8>)>,
}

impl Around for Mortal {
    type Inner = SimRing;

    fn inner(&self) -> &SimRing {
        &self.ring
    }

    fn inner_mut(&mut self) -> &mut SimRing {
        &mut self.ring
    }

    fn on_push(&mut self, operation: Operation) -> Result<(), PushError> {
        if operation.action == Action::Flush {
            let content = self.ring.file(self.target).unwrap().bytes.clone();
            self.flushing = Some((operation.tag, content));
        }
        self.ring.push(operation)
    }

    fn on_submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        let left = self.calls_left.get();
        if left == 0 {
            return Err(io::Error::other("killed"));
        }
        self.calls_left.set(left - 1);
        self.ring.submit(wait, timeout)
    }

    fn on_pop(&mut self) -> Option<Completion> {
        let completion = self.ring.pop()?;
        if let Some((_, content)) = self.flushing.take_if(|(tag, _)| *tag == completion.tag) {
            if completion.result.is_ok() {
                self.stable = content;
            }
        }
        Some(completion)
    }
}

/// A copy drawn from a seed.
struct Case {
    random: Random,
    folder: tempfile::TempDir,
    source: Vec<u8>,
    /// The same as a file with holes, for the walk.
    sparse: File,
    target: Vec<u8>,
    zero_refusal: Option<Errno>,
    faults: Vec<SimFault>,
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    // A flush of a file in memory costs nothing.
    let memory = Path::new("/dev/shm");
    let folder =
        if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let length = GRAIN * (1 + random.below(12)) + BLOCK * random.below(4);
    let mut source = vec![0; index(length)];
    let sparse = tempfile::tempfile_in(folder.path()).unwrap();
    sparse.set_len(length).unwrap();
    let mut offset = 0;
    while offset < length {
        let end = length.min(offset + GRAIN);
        if random.below(2) == 0 {
            let bytes = &mut source[index(offset)..index(end)];
            random.fill(bytes);
            sparse.write_all_at(bytes, offset).unwrap();
        }
        offset = end;
    }
    let mut target = vec![0; source.len()];
    random.fill(&mut target);
    let zero_refusal = (random.below(2) == 0).then_some(Errno::OPNOTSUPP);
    Case { random, folder, source, sparse, target, zero_refusal, faults: Vec::new() }
}

fn drive(serial: &str) -> Identity {
    Identity::Device(DeviceIdentity {
        name: "nvme0n1".to_owned(),
        model: None,
        ids: vec![StableId { kind: IdKind::Serial, value: serial.to_owned() }],
        size: Bytes(1 << 40),
        partition: None,
    })
}

fn noon() -> u64 {
    1_800_000_000
}

impl Case {
    fn journal(&self) -> Journal {
        Journal {
            program: "test".to_owned(),
            source: drive("A"),
            target: drive("B"),
            options: Options {
                source_offset: Bytes(0),
                target_offset: Bytes(0),
                length: Bytes(self.source.len() as u64),
            },
            route: Route::P2p,
            partial: None,
            done: RangeSet::new(),
            overwrites: None,
            created: noon(),
            updated: noon(),
        }
    }

    fn ring(&mut self, calls: u64) -> (Mortal, Transfer, RegionId) {
        let mood = Mood { short: 100, again: 50, early: 50 };
        let mut ring = SimRing::new(64, self.random.next(), mood);
        let file = |bytes: &[u8]| SimFile {
            bytes: bytes.to_vec(),
            block: BLOCK,
            page_time: Nanos(1000),
            latency: Nanos(50_000),
            ..SimFile::default()
        };
        let source = ring.attach_file(file(&self.source)).unwrap();
        let mut target = file(&self.target);
        target.zero_refusal = self.zero_refusal;
        target.faults.clone_from(&self.faults);
        let target = ring.attach_file(target).unwrap();
        let (request, slots) = (BLOCK * (1 + self.random.below(64)), 1 + self.random.below(6));
        let bytes = vec![0x5a; index(request * slots)];
        let region = ring.attach_region(SimRegion { bytes, is_device: true });
        let bytes = vec![0; 16 << 10];
        let zeroes = ring.attach_region(SimRegion { bytes, is_device: false });
        let transfer = Transfer {
            source,
            target,
            region,
            memory: MemoryKind::P2pmem,
            source_offset: 0,
            target_offset: 0,
            length: self.source.len() as u64,
            request,
            slots: u32::try_from(slots).unwrap(),
            slot_stride: request,
            source_block: BLOCK,
            target_block: BLOCK,
            tail: Tail::None,
            deadline: Nanos::seconds(1),
        };
        let (calls_left, stable) = (Cell::new(calls), self.target.clone());
        (Mortal { ring, calls_left, target, stable, flushing: None }, transfer, zeroes)
    }

    /// Runs until the end or the kill; the target then is what the ring left.
    fn run(&mut self, calls: u64) -> Result<Moved, RelayError> {
        let store = Store::open(&self.folder.path().join("journal")).unwrap();
        let mut keeper = match store.load().unwrap() {
            None => Keeper::begin(store, self.journal(), noon).unwrap(),
            Some(journal) => Keeper::go_on(store, journal, noon),
        };
        let (mut ring, transfer, zeroes) = self.ring(calls);
        let clock = ring.ring.clock();
        // Often, in the time of the simulation: every few parts.
        let cadence =
            Cadence { first: Nanos(400_000), every: Nanos(400_000), bytes: Bytes(2 * GRAIN) };
        let done = keeper.journal().done.clone();
        let layout =
            Layout { source_offset: 0, length: transfer.length, block: BLOCK, hole_min: HOLE_MIN };
        let source = self.sparse.try_clone().unwrap();
        let pieces = Pieces::new(source, layout, Holes::Zeroed, &done);
        let mut recorder = Recorder::new(cadence, done, clock.now());
        let mut ledger = Ledger {
            pieces,
            account: Account::of(&mut recorder, Some(&mut keeper)),
            turn: Turn::of(&CopyOptions::default()),
            clock: &clock as &SimClock,
        };
        let outcome = relay_work(&mut ring, &transfer, &mut ledger, Some(zeroes), &clock, &mut ());
        assert!(ledger.account.unsaved.is_none());
        self.target = match outcome {
            Ok(_) => ring.ring.file(transfer.target).unwrap().bytes.clone(),
            Err(_) => ring.stable,
        };
        outcome
    }

    /// What the journal on disk claims.
    fn claimed(&self) -> RangeSet {
        let path = self.folder.path().join("journal");
        if path.exists() { Store::read(&path).unwrap().done } else { RangeSet::new() }
    }

    /// Checks what the journal claims, and makes rubbish of everything else.
    fn lose_the_rest(&mut self, seed: u64) {
        let claimed = self.claimed();
        for range in claimed.iter() {
            let range = index(range.start)..index(range.end);
            assert!(
                self.target[range.clone()] == self.source[range.clone()],
                "seed {seed}: {range:?} is claimed and not there"
            );
        }
        for range in claimed.missing(0..self.source.len() as u64) {
            self.random.fill(&mut self.target[index(range.start)..index(range.end)]);
        }
    }
}

#[test]
fn a_copy_that_is_killed_at_any_moment_resumes_to_equal_content() {
    let (mut kills, mut resumed) = (0, 0);
    for seed in 0..200 {
        let mut case = case(seed);
        for _ in 0..1 + case.random.below(4) {
            let calls = case.random.below(120);
            let had = case.claimed().total();
            match case.run(calls) {
                Ok(moved) => {
                    let sum = moved.bytes + moved.zeroed + moved.zeroes_written + moved.skipped;
                    let length = case.source.len() as u64;
                    assert!(sum + had >= length, "seed {seed}: {sum} + {had} of {length}");
                }
                Err(RelayError::Stopped { source: RequestError::Ring(_), .. }) => kills += 1,
                Err(error) => panic!("seed {seed}: {error:?}"),
            }
            case.lose_the_rest(seed);
            resumed += u32::from(!case.claimed().is_empty());
        }
        case.run(u64::MAX).unwrap();
        assert!(case.target == case.source, "seed {seed}: content differs");
    }
    assert!(kills > 100 && resumed > 100, "{kills} kills, {resumed} with something done");
}

#[test]
fn a_failed_flush_ends_the_copy_and_claims_nothing_it_was_to_vouch_for() {
    for seed in 0..50 {
        let mut case = case(seed);
        case.faults = vec![SimFault { action: Action::Flush, offset: 0, errno: Some(Errno::IO) }];
        let outcome = case.run(u64::MAX);
        assert!(case.claimed().is_empty(), "seed {seed}");
        if case.source.len() as u64 > 4 * GRAIN {
            let error = outcome.unwrap_err();
            let RelayError::Stopped { source: RequestError::Failed(failure), .. } = error else {
                panic!("seed {seed}: {error:?}")
            };
            assert_eq!(failure.to_string(), "cannot flush the target", "seed {seed}");
        }
        case.lose_the_rest(seed);
        case.faults.clear();
        case.run(u64::MAX).unwrap();
        assert!(case.target == case.source, "seed {seed}: content differs");
    }
}

#[test]
fn a_flush_that_hangs_is_reported_at_its_deadline() {
    let mut case = case(3);
    case.faults = vec![SimFault { action: Action::Flush, offset: 0, errno: None }];
    let error = case.run(u64::MAX).unwrap_err();
    let RelayError::Stopped { source: RequestError::Stuck(stuck), .. } = error else {
        panic!("{error:?}")
    };
    assert!(stuck.action == Action::Flush && stuck.age >= Nanos::seconds(1), "{stuck}");
    assert!(case.claimed().is_empty());
}

#[test]
fn zeroes_are_made_by_the_target_or_written_and_counted_apart() {
    for refusal in [None, Some(Errno::OPNOTSUPP), Some(Errno::IO)] {
        let mut case = case(5);
        case.zero_refusal = refusal;
        let moved = case.run(u64::MAX).unwrap();
        assert!(case.target == case.source);
        let data = case.source.chunks(index(GRAIN)).filter(|part| part.iter().any(|&b| b != 0));
        let data: u64 = data.map(|part| part.len() as u64).sum();
        let holes = case.source.len() as u64 - data;
        assert!(data > 0 && holes > 0, "the seed has both");
        let expected = if refusal.is_none() { (data, holes, 0) } else { (data, 0, holes) };
        assert_eq!((moved.bytes, moved.zeroed, moved.zeroes_written), expected, "{refusal:?}");
    }
}
