//! Many copies on several threads. One that does not end is a finding like any other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::{FaultKind, FaultedOutcome, Untrue, run};

/// A copy takes milliseconds. Only this limit stops a loop that asks its machine for nothing.
const COPY_TIME_MAX: Duration = Duration::from_secs(30);

/// A copy of a batch: its kind of fault, its seed, and its outcome.
pub type CopyOfBatch = (FaultKind, u64, Result<FaultedOutcome, Untrue>);

enum BatchEvent {
    Begun { thread: usize, number: usize },
    Ended { thread: usize, number: usize, outcome: Result<FaultedOutcome, Untrue> },
}

/// Runs these copies on so many threads, and stops soon after the first promise that was broken. In order.
///
/// A copy that hangs keeps its thread until the process ends.
pub fn run_batch(cases: Vec<(FaultKind, u64)>, threads: usize) -> Vec<CopyOfBatch> {
    let cases: Arc<[_]> = cases.into();
    let (next, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (sender, events) = mpsc::channel();
    for thread in 0..threads {
        let (cases, next, is_over) = (Arc::clone(&cases), Arc::clone(&next), Arc::clone(&is_over));
        let sender = sender.clone();
        thread::spawn(move || work(&cases, (&next, &is_over), thread, &sender));
    }
    drop(sender);
    let mut ended = BTreeMap::new();
    let mut running: BTreeMap<usize, (usize, Instant)> = BTreeMap::new();
    loop {
        let oldest = running.values().min_by_key(|(_, since)| *since).copied();
        let left = oldest
            .map_or(COPY_TIME_MAX, |(_, since)| COPY_TIME_MAX.saturating_sub(since.elapsed()));
        match (events.recv_timeout(left), oldest) {
            (Ok(BatchEvent::Begun { thread, number }), _) => {
                running.insert(thread, (number, Instant::now()));
            }
            (Ok(BatchEvent::Ended { thread, number, outcome }), _) => {
                running.remove(&thread);
                is_over.fetch_or(outcome.is_err(), Ordering::Relaxed);
                ended.insert(number, outcome);
            }
            (Err(RecvTimeoutError::Timeout), Some((number, _))) => {
                is_over.store(true, Ordering::Relaxed);
                let what = format!("the copy does not end within {COPY_TIME_MAX:?}");
                let (kind, seed) = cases[number];
                ended.insert(number, Err(Untrue { seed, kind, run: 0, what }));
                break;
            }
            (Err(RecvTimeoutError::Timeout), None) => {}
            (Err(RecvTimeoutError::Disconnected), _) => break,
        }
    }
    let named = |(number, outcome): (usize, _)| (cases[number].0, cases[number].1, outcome);
    ended.into_iter().map(named).collect()
}

fn work(
    cases: &[(FaultKind, u64)],
    (next, is_over): (&AtomicUsize, &AtomicBool),
    thread: usize,
    sender: &Sender<BatchEvent>,
) {
    while !is_over.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(&(kind, seed)) = cases.get(number) else { return };
        let outcome = sender.send(BatchEvent::Begun { thread, number }).and_then(|()| {
            sender.send(BatchEvent::Ended { thread, number, outcome: run(kind, seed) })
        });
        if outcome.is_err() {
            return;
        }
    }
}
