//! Relays with stages, on simulated drives.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use peerlane_results::{MemoryKind, Tail};
use peerlane_units::Nanos;
use proptest::prelude::*;

use super::super::*;
use crate::io::random::Random;
use crate::io::ring::sim::{Mood, SimFile, SimRegion, SimRing};
use crate::io::ring::{Around as _, Ring, Staged};
use crate::io::stage::{Chunk, Stage, StageFault};

const REQUEST: u64 = 8 << 10;

/// Offset and length of chunks, in the order of their arrival at a stage.
type SharedChunks = Rc<RefCell<Vec<(u64, u64)>>>;

/// Inverts every byte, and ends after it was asked a few times.
#[derive(Default)]
struct Inverter {
    open: VecDeque<(u64, u32)>,
    /// Questions before the end of a chunk.
    patience: u32,
    /// Most chunks at a time.
    room: usize,
    /// The chunk at this offset fails, or has no end.
    fails: Option<u64>,
    hangs: Option<u64>,
    /// Chunks that it was given.
    told: Option<SharedChunks>,
}

impl Stage for Inverter {
    fn room(&self) -> usize {
        self.room.saturating_sub(self.open.len())
    }

    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault> {
        assert!(self.room() > 0, "it is asked for no more than it takes");
        if self.fails == Some(chunk.offset) {
            return Err(StageFault("it is broken".to_owned()));
        }
        let content = chunk.content.ok_or_else(|| StageFault("no content".to_owned()))?;
        content.iter_mut().for_each(|byte| *byte = !*byte);
        if let Some(told) = &self.told {
            told.borrow_mut().push((chunk.offset, chunk.length));
        }
        let patience = if self.hangs == Some(chunk.offset) { u32::MAX } else { self.patience };
        self.open.push_back((chunk.tag, patience));
        Ok(())
    }

    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)> {
        for (_, left) in &mut self.open {
            *left = left.saturating_sub(1);
        }
        let ended = self.open.iter().position(|(_, left)| *left == 0)?;
        let (tag, _) = self.open.remove(ended)?;
        Some((tag, Ok(())))
    }

    fn cancel(&mut self) -> bool {
        self.open.is_empty()
    }
}

struct StageCase {
    length: u64,
    slots: u32,
    seed: u64,
    mood: Mood,
    stages: Vec<Inverter>,
    tail: Tail,
    deadline: Nanos,
}

impl StageCase {
    fn new(length: u64, stages: Vec<Inverter>) -> Self {
        let (slots, seed, mood) = (6, 1, Mood::default());
        Self {
            length,
            slots,
            seed,
            mood,
            stages,
            tail: Tail::RoundUpAndCut,
            deadline: Nanos::seconds(9),
        }
    }

    /// The source, the content of the target, and the outcome of the relay.
    fn run(self) -> (Vec<u8>, Vec<u8>, Result<Relayed, RelayError>) {
        let mut ring = SimRing::new(32, self.seed, self.mood);
        let room = usize::try_from(self.length.next_multiple_of(4096)).unwrap();
        let mut bytes = vec![0; room];
        Random::new(self.seed).fill(&mut bytes);
        let drive = |bytes, grows| SimFile {
            bytes,
            block: 512,
            latency: Nanos(20_000),
            page_time: Nanos(500),
            grows,
            ..SimFile::default()
        };
        let source = ring.attach_file(drive(bytes.clone(), false)).unwrap();
        let old = vec![0xaa; room];
        let target = ring.attach_file(drive(old, false)).unwrap();
        let slots = usize::try_from(REQUEST * u64::from(self.slots)).unwrap();
        let region = ring.attach_region(SimRegion { bytes: vec![0; slots], is_device: false });
        let host = ring.attach_region(SimRegion { bytes: vec![0; 64 << 10], is_device: false });
        let transfer = Transfer {
            source,
            target,
            region,
            memory: MemoryKind::Host,
            source_offset: 0,
            target_offset: 0,
            length: self.length,
            request: REQUEST,
            slots: self.slots,
            slot_stride: REQUEST,
            source_block: 512,
            target_block: 512,
            tail: self.tail,
            stages: u32::try_from(self.stages.len()).unwrap(),
            deadline: self.deadline,
        };
        let clock = ring.clock();
        let mut ring = Staged::new(ring);
        for stage in self.stages {
            ring.add(Box::new(stage));
        }
        let mut work = Whole(Some(0..transfer.relayed()));
        let transfers = [transfer];
        let mut relayed = relay_to(&mut ring, &transfers, &mut work, None, &clock, &mut ());
        if let (Tail::MergeInHost, Ok(done)) = (self.tail, &relayed) {
            if done.stopped.is_none() {
                if let Err(error) = merge_in_host(&mut ring, &transfer, host, &clock) {
                    relayed = Err(error);
                }
            }
        }
        let target = ring.inner_mut().file(target).unwrap().bytes.clone();
        (bytes, target, relayed)
    }
}

fn inverter() -> Inverter {
    Inverter { patience: 3, room: 2, ..Inverter::default() }
}

fn inverted(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_chunk_is_worked_on_once(
        length in 1u64..200_000,
        slots in 1u32..9,
        seed: u64,
        (short, again, early) in (0u64..300, 0u64..200, 0u64..300),
        (patience, room) in (1u32..6, 1usize..5),
    ) {
        let told = SharedChunks::default();
        let stage = Inverter { patience, room, told: Some(told.clone()), ..Inverter::default() };
        let mood = Mood { short, again, early };
        let (source, target, relayed) = StageCase { slots, seed, mood, ..StageCase::new(length, vec![stage]) }.run();
        let relayed = relayed.unwrap();
        prop_assert!(relayed.stopped.is_none(), "{:?}", relayed.stopped);
        let end = usize::try_from(length).unwrap();
        prop_assert_eq!(&target[..end], &inverted(&source)[..end]);
        let (told, grid) = (sorted(&told), grid(length));
        prop_assert_eq!(&told, &grid);
        prop_assert_eq!(relayed.stages[0].chunks, grid.len() as u64);
        prop_assert_eq!(relayed.stages[0].bytes, length);
    }
}

/// Chunks that a stage was given, by their offset.
fn sorted(told: &SharedChunks) -> Vec<(u64, u64)> {
    let mut told = told.borrow().clone();
    told.sort_unstable();
    told
}

/// Offsets and lengths of the chunks of a copy.
fn grid(length: u64) -> Vec<(u64, u64)> {
    let numbers = 0..length.div_ceil(REQUEST);
    numbers.map(|n| (n * REQUEST, REQUEST.min(length - n * REQUEST))).collect()
}

#[test]
fn two_stages_work_in_a_row() {
    let (source, target, relayed) = StageCase::new(REQUEST * 9, vec![inverter(), inverter()]).run();
    assert!(relayed.unwrap().stopped.is_none());
    assert_eq!(target, source);
}

#[test]
fn odd_ends_merge_after_the_stage() {
    for (tail, length) in [
        (Tail::MergeInHost, 3 * REQUEST + 5000 + 7),
        (Tail::MergeInHost, 100),
        (Tail::MergeInSlot, 3 * REQUEST + 5 * 512),
    ] {
        let told = SharedChunks::default();
        let stage = Inverter { told: Some(told.clone()), ..inverter() };
        let (source, target, relayed) =
            StageCase { tail, ..StageCase::new(length, vec![stage]) }.run();
        assert_eq!(sorted(&told), grid(length), "a chunk is never cut");
        assert!(relayed.unwrap().stopped.is_none());
        let end = usize::try_from(length).unwrap();
        assert_eq!(target[..end], inverted(&source)[..end]);
        assert!(target[end..].iter().all(|byte| *byte == 0xaa), "what lies behind stays");
    }
}

#[test]
fn failed_stage_ends_the_relay() {
    let stage = Inverter { fails: Some(3 * REQUEST), ..inverter() };
    let (_, _, relayed) = StageCase::new(REQUEST * 40, vec![inverter(), stage]).run();
    let relayed = relayed.unwrap();
    let Some(RequestError::Stage { number: 1, .. }) = relayed.stopped else {
        panic!("{:?}", relayed.stopped)
    };
    assert!(!relayed.targets[0].0.written.contains(3 * REQUEST), "its chunk is not at the target");
}

#[test]
fn endless_stage_is_given_up() {
    let stage = Inverter { hangs: Some(REQUEST), ..inverter() };
    let deadline = Nanos(50_000_000);
    let (_, _, relayed) = StageCase { deadline, ..StageCase::new(REQUEST * 40, vec![stage]) }.run();
    let relayed = relayed.unwrap();
    assert!(relayed.stopped.as_ref().is_some_and(RequestError::is_stuck), "{:?}", relayed.stopped);
    assert!(!relayed.targets[0].0.written.contains(REQUEST));
}

#[test]
fn requests_continue_while_stage_works() {
    let stage = Inverter { patience: 40, room: 1, ..Inverter::default() };
    let (_, _, relayed) = StageCase::new(REQUEST * 64, vec![stage]).run();
    let relayed = relayed.unwrap();
    let (moved, tally) = (&relayed.targets[0].0, &relayed.stages[0]);
    assert!(
        tally.busy.0 * 10 > moved.last_done.0 * 9,
        "the slowest of the three is never idle for long"
    );
}
