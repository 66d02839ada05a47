//! Memory that a card's library mapped as the slots of a relay: direct I/O into the map and out of it, on
//! the io_uring of the running kernel. The library is a stand-in; there is no card.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

use crate::xrt_mock;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::common::{direct, folder, noise, ring};
use crate::xrt_mock::{CARD, XrtMock};
use peerlane_engine::MonotonicClock;
use peerlane_engine::failure::RequestError;
use peerlane_engine::relay::{DEADLINE, Moved, RelayError, Transfer, relay};
use peerlane_engine::ring::{
    Action, Around, Completion, Operation, PushError, Ring, Staged, Uring,
};
use peerlane_engine::stage::CardStage;
use peerlane_memory::xrt::Xrt;
use peerlane_results::{MemoryKind, Tail};
use peerlane_units::{Bytes, Nanos};

const BLOCK: u64 = 4096;

#[test]
fn card_map_holds_relay_slots() {
    let Some(mut uring): Option<Uring> = ring(64) else { return };
    let Some(mock) = XrtMock::build(&[]) else { return };
    let folder = folder();
    let (source_path, target_path) = (folder.path().join("source"), folder.path().join("target"));
    let payload = noise(3 << 20, 7);
    std::fs::write(&source_path, &payload).unwrap();
    std::fs::write(&target_path, b"").unwrap();
    let Some(source) = direct(&source_path) else { return };
    let Some(target) = direct(&target_path) else { return };
    let (source, target) = (uring.attach_file(source).unwrap(), uring.attach_file(target).unwrap());

    let xrt = Xrt::load_from(mock.library().as_os_str()).unwrap();
    let card = xrt.open(&mock.root(), CARD).unwrap();
    let region = uring.attach_region(card.allocate(Bytes(4 * 16 * BLOCK)).unwrap());
    assert!(uring.host_bytes(region).is_none(), "the engine is not shown it either");
    let transfer = Transfer {
        source,
        target,
        region,
        memory: MemoryKind::P2pmem,
        source_offset: 0,
        target_offset: 0,
        length: payload.len() as u64,
        request: 16 * BLOCK,
        slots: 4,
        slot_stride: 16 * BLOCK,
        source_block: BLOCK,
        target_block: BLOCK,
        tail: Tail::None,
        stages: 0,
        deadline: DEADLINE,
    };
    let moved = relay(&mut uring, &transfer, &MonotonicClock::start(), &mut ()).unwrap();
    assert_eq!(moved.bytes, payload.len() as u64);
    assert!(std::fs::read(&target_path).unwrap() == payload, "the content differs");

    assert_eq!(mock.calls().last().map(String::as_str), Some("map"), "held as long as the ring is");
    drop((card, xrt));
    drop(uring);
    assert_eq!(mock.calls()[3..], ["free", "close"]);
}

const REQUEST: u64 = 16 * BLOCK;
const SLOTS: u32 = 4;

/// The kernel's ring, which notes among the calls of the library when payload comes and goes.
struct Noted<'a> {
    ring: Uring,
    mock: &'a XrtMock,
    open: HashMap<u64, Operation>,
}

impl Noted<'_> {
    fn note(&self, edge: &str, operation: &Operation) {
        let verb = if operation.action == Action::Read { "read" } else { "write" };
        let (slot, offset) = (operation.region_offset, operation.file_offset);
        self.mock.note(&format!("{verb} {edge} {slot} {offset}"));
    }
}

impl Around for Noted<'_> {
    type Inner = Uring;

    fn inner(&self) -> &Uring {
        &self.ring
    }

    fn inner_mut(&mut self) -> &mut Uring {
        &mut self.ring
    }

    fn on_push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.note("begins", &operation);
        self.open.insert(operation.tag, operation);
        self.ring.push(operation)
    }

    fn on_pop(&mut self) -> Option<Completion> {
        let completion = self.ring.pop()?;
        let operation = self.open.remove(&completion.tag).expect("one that was pushed");
        self.note("ends", &operation);
        Some(completion)
    }
}

/// A relay by the memory of a card and a kernel of it: the content of the target, and the outcome.
/// All of it is given back then.
struct CardOutcome {
    target: Vec<u8>,
    moved: Result<Moved, RelayError>,
    fault: Option<String>,
}

fn relayed(mock: &XrtMock, kernel: &str, payload: &[u8], deadline: Nanos) -> Option<CardOutcome> {
    let folder = folder();
    let (source_path, target_path) = (folder.path().join("source"), folder.path().join("target"));
    std::fs::write(&source_path, payload).unwrap();
    std::fs::write(&target_path, b"").unwrap();
    let image = mock.file("card.xclbin", &xrt_mock::image(1024));
    let mut card = Xrt::load_from(mock.library().as_os_str()).unwrap().open(&mock.root(), CARD);
    let card = card.as_mut().unwrap();
    card.load(&image).unwrap();
    let kernel = card.kernel(kernel).unwrap();
    let region = card.allocate_for(&kernel, Bytes(u64::from(SLOTS) * REQUEST)).unwrap();
    let buffer = region.card_buffer().unwrap();

    let mut staged = Staged::new(Noted { ring: ring(64)?, mock, open: HashMap::new() });
    staged.add(Box::new(CardStage::new(kernel, buffer)));
    let source = staged.attach_file(direct(&source_path)?).unwrap();
    let target = staged.attach_file(direct(&target_path)?).unwrap();
    let transfer = Transfer {
        source,
        target,
        region: staged.attach_region(region),
        memory: MemoryKind::P2pmem,
        source_offset: 0,
        target_offset: 0,
        length: payload.len() as u64,
        request: REQUEST,
        slots: SLOTS,
        slot_stride: REQUEST,
        source_block: BLOCK,
        target_block: BLOCK,
        tail: Tail::RoundUpAndCut,
        stages: 1,
        deadline,
    };
    let moved = relay(&mut staged, &transfer, &MonotonicClock::start(), &mut ());
    let fault = staged.fault().map(ToString::to_string);
    drop(staged);
    Some(CardOutcome { target: std::fs::read(&target_path).unwrap(), moved, fault })
}

/// Phase of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotPhase {
    Free,
    Reading,
    Read,
    /// With the kernel, which was asked for so many times.
    Working(u32),
    Writing,
}

/// Asserts for each chunk: read, set and started as the chunk that it is, ended, then written; returns the chunks.
#[track_caller]
fn expect_order(calls: &[String]) -> BTreeMap<u64, u64> {
    let mut slots: BTreeMap<u64, (SlotPhase, u64)> = BTreeMap::new();
    let mut runs: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
    let mut chunks = BTreeMap::new();
    for call in calls {
        let words: Vec<&str> = call.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let mut step = |slot: u64, from: SlotPhase, to: SlotPhase, offset: u64| {
            let found = slots.insert(slot, (to, offset)).unwrap_or((SlotPhase::Free, offset));
            assert!(
                found == (from, offset) || from == SlotPhase::Free && found.0 == from,
                "{call}: {found:?}"
            );
        };
        match words.as_slice() {
            ["read", "begins", ..] => {
                step(number(2), SlotPhase::Free, SlotPhase::Reading, number(3));
            }
            ["read", "ends", ..] => step(number(2), SlotPhase::Reading, SlotPhase::Read, number(3)),
            ["write", "begins", ..] => {
                step(number(2), SlotPhase::Working(2), SlotPhase::Writing, number(3));
            }
            ["write", "ends", ..] => {
                step(number(2), SlotPhase::Writing, SlotPhase::Free, number(3));
            }
            ["set", ..] => {
                let run = runs.entry(number(1)).or_default();
                run[usize::try_from(number(2)).unwrap()] = number(3);
            }
            ["start", ..] => {
                let [slot, bytes, offset] = runs[&number(1)];
                step(slot, SlotPhase::Read, SlotPhase::Working(0), offset);
                assert_eq!(chunks.insert(offset, bytes), None, "each chunk once");
            }
            ["state", ..] => {
                let [slot, _, offset] = runs[&number(1)];
                let SlotPhase::Working(looks) = slots[&slot].0 else { panic!("{call}: {slots:?}") };
                slots.insert(slot, (SlotPhase::Working(looks + 1), offset));
            }
            _ => {}
        }
    }
    chunks
}

/// The names of the calls, those of a kind that follow each other once.
fn kinds(calls: &[String]) -> Vec<String> {
    let name =
        |call: &String| call.trim_end_matches(|one: char| one.is_ascii_digit()).trim().to_owned();
    let mut kinds: Vec<String> = calls.iter().map(name).collect();
    kinds.dedup();
    kinds
}

fn expect_no_misuse(calls: &[String]) {
    assert!(!calls.iter().any(|call| call.starts_with("MISUSE")), "{calls:#?}");
}

#[test]
fn card_kernel_works_between_read_and_write() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let payload = noise((3 << 20) + 5001, 8);
    let Some(outcome) = relayed(&mock, "invert", &payload, DEADLINE) else { return };
    assert_eq!(outcome.moved.unwrap().bytes, payload.len() as u64);
    let inverted: Vec<u8> = payload.iter().map(|byte| !byte).collect();
    assert!(outcome.target[..payload.len()] == inverted, "the content differs");
    let calls = mock.calls();
    let length = payload.len() as u64;
    let starts = (0..length.div_ceil(REQUEST)).map(|number| number * REQUEST);
    let grid: BTreeMap<u64, u64> =
        starts.map(|start| (start, REQUEST.min(length - start))).collect();
    assert_eq!(expect_order(&calls), grid);
    let starts = |word: &str| calls.iter().filter(|call| call.starts_with(word)).count();
    let runs = starts("run ");
    assert!(runs <= SLOTS as usize && starts("close run") == runs, "a run serves many chunks");
    let end = ["close run", "free part", "close kernel", "free", "close"];
    assert!(kinds(&calls).ends_with(&end.map(str::to_owned)), "{:?}", kinds(&calls));
    expect_no_misuse(&calls);
}

#[test]
fn failed_card_kernel_ends_the_relay() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let payload = noise(3 << 20, 9);
    let Some(outcome) = relayed(&mock, "fails", &payload, DEADLINE) else { return };
    let error = outcome.moved.unwrap_err();
    let RelayError::Stopped { source: RequestError::Stage { number: 0, .. }, moved } = error else {
        panic!("{error:?}")
    };
    assert_eq!((moved.bytes, outcome.target.len()), (0, 0), "nothing of it is at the target");
    assert_eq!(outcome.fault.as_deref(), Some("kernel fails ended with an error (5)"));
    let calls = mock.calls();
    assert!(!calls.iter().any(|call| call.starts_with("write")));
    let end = ["close run", "free part", "close kernel", "free", "close"];
    assert!(kinds(&calls).ends_with(&end.map(str::to_owned)), "{:?}", kinds(&calls));
    expect_no_misuse(&calls);
}

#[test]
fn endless_card_kernel_keeps_its_memory() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let (payload, start) = (noise(3 << 20, 10), Instant::now());
    let Some(outcome) = relayed(&mock, "never", &payload, Nanos(300_000_000)) else { return };
    assert!(start.elapsed().as_secs() < 20, "given up at its deadline");
    let error = outcome.moved.unwrap_err();
    let RelayError::Stopped { source, moved } = error else { panic!("{error:?}") };
    let RequestError::Stage { number: 0, source } = source else { panic!("{source:?}") };
    assert!(matches!(*source, RequestError::Stuck(_)), "{source:?}");
    assert_eq!((moved.bytes, outcome.target.len()), (0, 0));
    let calls = mock.calls();
    let is_let_go = |call: &&String| call.starts_with("free") || call.starts_with("close");
    assert_eq!(calls.iter().find(is_let_go), None, "the card may still work there");
    expect_no_misuse(&calls);
}
