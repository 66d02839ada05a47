//! Streams with a stage, on a simulated drive.

use std::cell::RefCell;
use std::rc::Rc;

use peerlane_results::{MemoryKind, Order};
use peerlane_units::Nanos;

use super::blocks::{BlockAccount, BlockLayout, Blocks};
use super::stream::{RegionLocation, StreamSetup, Streamed, stream};
use crate::io::clock::Clock as _;
use crate::io::failure::RequestError;
use crate::io::ring::sim::{Mood, SimClock, SimFile, SimRegion, SimRing};
use crate::io::ring::{Action, Around as _, Ring as _, Staged};
use crate::io::stage::{Chunk, Stage, StageFault};

const LENGTH: u64 = 256 << 10;
const BLOCK: u64 = 4096;
const SLOTS: u32 = 4;
/// Service time of the simulated drive.
const SERVICE: Nanos = Nanos(20_000);

/// Offset and length of chunks, in the order of their start.
type Started = Rc<RefCell<Vec<(u64, u64)>>>;

/// Adds one to every byte, and ends a chunk after a time, and after it was asked a few times.
#[derive(Default)]
struct Adder {
    started: Started,
    /// Tag, place in the memory, questions before the end and start of open chunks.
    open: Vec<(u64, u64, u32, Nanos)>,
    /// Time of a chunk, by the clock of the ring.
    time: Nanos,
    clock: Option<SimClock>,
    /// The chunk at this offset fails, or has no end.
    fails: Option<u64>,
    hangs: Option<u64>,
}

impl Adder {
    fn now(&self) -> Nanos {
        self.clock.as_ref().map_or(Nanos(0), SimClock::now)
    }
}

impl Stage for Adder {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault> {
        if self.fails == Some(chunk.offset) {
            return Err(StageFault("it is broken".to_owned()));
        }
        let content =
            chunk.content.ok_or_else(|| StageFault("a request has the slot".to_owned()))?;
        content.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        assert!(
            self.open.iter().all(|(_, place, ..)| *place != chunk.memory_offset),
            "its own slot"
        );
        let questions = if self.hangs == Some(chunk.offset) { u32::MAX } else { 3 };
        let now = self.now();
        self.open.push((chunk.tag, chunk.memory_offset, questions, now));
        assert!(self.open.len() <= SLOTS as usize, "the depth holds for the stage");
        self.started.borrow_mut().push((chunk.offset, chunk.length));
        Ok(())
    }

    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)> {
        let (now, time) = (self.now(), self.time);
        self.open.iter_mut().for_each(|(_, _, left, _)| *left = left.saturating_sub(1));
        let mut open = self.open.iter();
        let ended = open.position(|(_, _, left, start)| *left == 0 && now.since(*start) >= time)?;
        Some((self.open.remove(ended).0, Ok(())))
    }

    fn cancel(&mut self) -> bool {
        self.open.is_empty()
    }
}

/// Moves a range once, from or to a drive of sevens, by slots of zeroes. Returns the content of the
/// drive, and the outcome.
fn moved(action: Action, seed: u64, stage: Adder) -> (Vec<u8>, Result<Streamed, RequestError>) {
    let mood = Mood { short: 100, again: 100, early: 0 };
    let mut ring = SimRing::new(16, seed, mood);
    let bytes = vec![7; usize::try_from(LENGTH).unwrap()];
    let file = SimFile { bytes, block: 512, latency: SERVICE, ..SimFile::default() };
    let file = ring.attach_file(file).unwrap();
    let memory = vec![0; usize::try_from(BLOCK * u64::from(SLOTS)).unwrap()];
    let region = ring.attach_region(SimRegion { bytes: memory, is_device: false });
    let clock = ring.clock();
    let mut ring = Staged::new(ring);
    ring.add(Box::new(Adder { clock: Some(clock.clone()), ..stage }));
    let way = StreamSetup {
        action,
        file,
        offset: 0,
        file_block: 512,
        region,
        memory: MemoryKind::Host,
        slots: SLOTS,
        place: RegionLocation::Slot(BLOCK),
        has_stage: true,
        deadline: Nanos::seconds(1),
    };
    let order = Order::Sequential;
    let cut = BlockLayout { length: LENGTH, block: BLOCK, request: BLOCK, order, seed };
    let mut blocks = Blocks::new(&clock, &cut, BlockAccount::OfBlocks, None, None);
    let outcome = stream(&mut ring, &way, &mut blocks, &mut (), &clock, &mut ());
    let bytes = ring.inner_mut().file(file).unwrap().bytes.clone();
    (bytes, outcome)
}

/// Every chunk of the range.
fn grid() -> Vec<(u64, u64)> {
    (0..LENGTH / BLOCK).map(|number| (number * BLOCK, BLOCK)).collect()
}

#[test]
fn each_chunk_is_worked_on_once() {
    for action in [Action::Read, Action::Write] {
        for seed in 0..50 {
            let started = Started::default();
            let stage = Adder { started: Rc::clone(&started), ..Adder::default() };
            let done = moved(action, seed, stage).1.unwrap();
            let mut started = started.borrow().clone();
            started.sort_unstable();
            assert_eq!(started, grid(), "{action:?} {seed}");
            let chunks = LENGTH / BLOCK;
            assert_eq!((done.bytes, done.latency.len()), (LENGTH, chunks));
            assert_eq!((done.stage.chunks, done.stage.bytes), (chunks, LENGTH));
            assert!(done.stage.busy > Nanos(0) && done.stage.latency.len() == chunks);
        }
    }
}

#[test]
fn written_content_is_the_stages() {
    let (bytes, done) = moved(Action::Write, 1, Adder::default());
    done.unwrap();
    // A slot of zeroes is added to each time that it is written.
    assert!(bytes.chunks(4096).all(|block| block[0] > 0 && block.iter().all(|b| *b == block[0])));
    let (bytes, done) = moved(Action::Read, 1, Adder::default());
    done.unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7), "a source stays as it is");
}

#[test]
fn drive_latency_leaves_the_stage_out() {
    const TIME: Nanos = Nanos(2_000_000);
    for action in [Action::Read, Action::Write] {
        let done = moved(action, 3, Adder { time: TIME, ..Adder::default() }).1.unwrap();
        let (stage, drive) = (done.stage.latency, done.latency);
        assert!(stage.min() > TIME.0 * 99 / 100, "{}", stage.min());
        assert!(drive.value_at_quantile(0.5) < TIME.0, "{}", drive.value_at_quantile(0.5));
        // Four chunks at a time, one slot each.
        let chunks = LENGTH / BLOCK;
        assert!(done.stage.busy.0 > chunks / u64::from(SLOTS) * TIME.0, "{}", done.stage.busy);
    }
}

#[test]
fn failed_stage_ends_the_stream() {
    for action in [Action::Read, Action::Write] {
        let stage = Adder { fails: Some(3 * BLOCK), ..Adder::default() };
        let (bytes, outcome) = moved(action, 2, stage);
        let Err(RequestError::Stage { number: 0, source }) = outcome else { panic!("it fails") };
        assert!(matches!(*source, RequestError::Failed(_)), "{source:?}");
        let at = usize::try_from(3 * BLOCK).unwrap();
        assert!(bytes[at..][..4096].iter().all(|byte| *byte == 7), "not written");
    }
}

#[test]
fn stage_without_an_end_is_stuck() {
    for action in [Action::Read, Action::Write] {
        let stage = Adder { hangs: Some(3 * BLOCK), ..Adder::default() };
        let Err(error) = moved(action, 2, stage).1 else { panic!("it hangs") };
        assert!(matches!(error, RequestError::Stage { .. }) && error.is_stuck(), "{error:?}");
    }
}
