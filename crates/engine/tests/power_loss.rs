//! A copy that loses power at any moment, resumes, and has every byte right.
//!
//! The first test runs the journal's rules against a model of a drive with a volatile cache: writes
//! complete in any order and rest in the cache, a flush keeps those that completed before it was
//! submitted, a loss of power keeps any part of the others. The second kills a real process that saves
//! real journals.

#![allow(clippy::unwrap_used, reason = "a failure in a test is a panic")]

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use peerlane_engine::journal::{
    Cadence, DeviceIdentity, IdKind, Identity, Journal, Options, Recorder, StableId, Store, decode,
    encode,
};
use peerlane_engine::ranges::RangeSet;
use peerlane_results::Route;
use peerlane_units::{Bytes, Nanos};
use proptest::prelude::*;

const LENGTH: u64 = 48;

fn drive(serial: &str) -> Identity {
    Identity::Device(DeviceIdentity {
        name: "nvme0n1".to_owned(),
        model: None,
        ids: vec![StableId { kind: IdKind::Serial, value: serial.to_owned() }],
        size: Bytes(1 << 30),
        partition: None,
    })
}

fn journal(length: u64, done: RangeSet) -> Journal {
    Journal {
        program: "peerlane 0.1.0".to_owned(),
        source: drive("A1"),
        target: drive("B2"),
        options: Options {
            source_offset: Bytes(0),
            target_offset: Bytes(0),
            length: Bytes(length),
        },
        route: Route::P2p,
        partial: None,
        done,
        overwrites: None,
        created: 1,
        updated: 1,
    }
}

fn source() -> Vec<u8> {
    (1..=u8::try_from(LENGTH).unwrap()).collect()
}

fn indices(range: Range<u64>) -> Range<usize> {
    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
}

/// Decisions drawn from a list; past its end everything goes the plain way.
struct Choices {
    drawn: std::vec::IntoIter<u32>,
}

impl Choices {
    fn below(&mut self, count: usize) -> usize {
        self.drawn.next().map_or(0, |value| usize::try_from(value).unwrap() % count.max(1))
    }

    fn has_more(&self) -> bool {
        !self.drawn.as_slice().is_empty()
    }
}

/// A drive that keeps what was flushed, and of the rest what chance leaves.
struct Target {
    stable: Vec<u8>,
    cache: Vec<Range<u64>>,
}

impl Target {
    fn keep(&mut self, count: usize) {
        let source = source();
        for range in self.cache.drain(..count) {
            let range = indices(range);
            self.stable[range.clone()].copy_from_slice(&source[range]);
        }
    }

    /// What is in the cache reaches the medium byte by byte, or not at all.
    fn lose(&mut self, choices: &mut Choices) {
        let source = source();
        for offset in self.cache.drain(..).flatten() {
            if choices.below(2) == 1 {
                let offset = usize::try_from(offset).unwrap();
                self.stable[offset] = source[offset];
            }
        }
    }
}

/// How one run of the copy ends.
#[derive(PartialEq, Eq)]
enum End {
    Complete,
    PowerLost,
    FlushFailed,
}

/// Runs the copy from the journal in `text` until it is complete, power is lost, or a flush fails.
fn run(text: &mut Vec<u8>, target: &mut Target, choices: &mut Choices) -> End {
    let found = decode(text).unwrap();
    let block = [1, 2, 3, 5, 8, 16][choices.below(6)];
    let mut in_flight: Vec<Range<u64>> = Vec::new();
    for run in found.missing(Bytes(block)) {
        let mut start = run.start;
        while start < run.end {
            let end = (start / block * block + block).min(run.end);
            in_flight.push(start..end);
            start = end;
        }
    }
    let mut recorder = Recorder::new(Cadence::default(), found.done, Nanos(0));
    let mut flushing: Option<usize> = None;
    loop {
        match choices.below(16) {
            _ if in_flight.is_empty() && flushing.is_none() && !recorder.has_unflushed() => {
                return End::Complete;
            }
            15 => {
                target.lose(choices);
                return End::PowerLost;
            }
            0..=8 if !in_flight.is_empty() => {
                let range = in_flight.swap_remove(choices.below(in_flight.len()));
                recorder.wrote(range.clone());
                target.cache.push(range);
            }
            14 if flushing.is_some() => {
                recorder.flush_ended(false);
                target.lose(choices);
                *text = encode(&journal(LENGTH, recorder.done().clone())).unwrap();
                return End::FlushFailed;
            }
            _ => match flushing.take() {
                None => {
                    recorder.flush_begins();
                    flushing = Some(target.cache.len());
                }
                Some(vouched) => {
                    target.keep(vouched);
                    recorder.flush_ended(true);
                    let new = encode(&journal(LENGTH, recorder.done().clone())).unwrap();
                    // Power lost while saving leaves the old journal or the new one.
                    let lost = choices.below(12) == 11;
                    if !lost || choices.below(2) == 1 {
                        *text = new;
                    }
                    if lost {
                        target.lose(choices);
                        return End::PowerLost;
                    }
                    recorder.saved(Nanos(0));
                }
            },
        }
    }
}

/// Checks that every byte that the journal claims is on the medium.
fn assert_true(text: &[u8], target: &Target) -> Result<(), TestCaseError> {
    let source = source();
    for range in decode(text).unwrap().done.iter() {
        let range = indices(range);
        prop_assert_eq!(&target.stable[range.clone()], &source[range]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_copy_that_loses_power_any_number_of_times_has_every_byte(
        drawn in proptest::collection::vec(any::<u32>(), 0..400),
    ) {
        let mut choices = Choices { drawn: drawn.into_iter() };
        let mut target = Target { stable: vec![0; source().len()], cache: Vec::new() };
        let mut text = encode(&journal(LENGTH, RangeSet::new())).unwrap();
        loop {
            let had_choices = choices.has_more();
            let end = run(&mut text, &mut target, &mut choices);
            assert_true(&text, &target)?;
            if end == End::Complete {
                break;
            }
            prop_assert!(had_choices, "without faults a run completes");
        }
        prop_assert!(decode(&text).unwrap().is_complete());
        prop_assert_eq!(target.stable, source());
    }
}

const STEP: u64 = 4096;
const SAVES: u64 = 300;
const PLACE: &str = "PEERLANE_TEST_JOURNAL";

/// Runs by itself as a test of many saves; the test below runs it as a process to be killed.
#[test]
fn many_saves_leave_the_last_journal() {
    let directory = tempfile::tempdir().unwrap();
    let place =
        std::env::var_os(PLACE).map_or_else(|| directory.path().join("journal"), PathBuf::from);
    let store = Store::open(&place).unwrap();
    let mut done = RangeSet::new();
    for count in 1..=SAVES {
        done.insert((count - 1) * STEP..count * STEP);
        store.save(&journal(SAVES * STEP, done.clone())).unwrap();
        println!("\nsaved {count}");
    }
    assert!(store.load().unwrap().is_some_and(|journal| journal.is_complete()));
}

/// Starts the saving process, waits until it says that `count` journals were saved, and kills it.
fn kill_after(place: &Path, count: u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "many_saves_leave_the_last_journal", "--nocapture"])
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = format!("saved {count}");
    let reached = lines.map_while(Result::ok).any(|line| line == said);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reached, "the process ended before it had saved {count} journals");
}

#[test]
fn a_killed_process_leaves_a_whole_journal_that_knows_all_it_reported() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("journal");
    for count in [1, 2, 3, 5, 17, 100, 200] {
        kill_after(&place, count);
        let store = Store::open(&place).unwrap();
        let found = store.load().unwrap().unwrap();
        assert!(found.done.contains_range(0..count * STEP), "after {count} saves");
        assert_eq!(found.done.range_count(), 1);
        store.save(&found).unwrap();
    }
}
