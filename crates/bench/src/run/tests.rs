//! The runner on transfers with files of this machine, honest ones and one that lies.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use peerlane_engine::measure::{FlowMoved, FlowOutcome, FlowTools, Gate, MeasureError};
use peerlane_results::{BytesByRoute, CaseSpec, RouteVerdict};

use super::case::{Carry, run_by};
use super::*;
use crate::guards::{Nonsense, Surroundings};
use crate::testing;

/// Watches nothing.
struct NoWatch;

impl WorkloadProgress for NoWatch {
    fn phase(&mut self, _: Phase) {}

    fn fills(&mut self, _: &str, _: Range<u64>) {}

    fn overwrites(&mut self, _: &str, _: Range<u64>) {}

    fn removes(&mut self, _: &str) {}

    fn next(&mut self, _: u32, _: u32, _: &str) {}

    fn keep(&mut self, _: &BenchRecord) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// A case that reads a file of this content into host memory.
fn reading(folder: &Path, content: &[u8]) -> CaseSpec {
    let source = folder.join("source");
    fs::write(&source, content).unwrap();
    let mut spec = testing::spec("read", peerlane_results::Path::HostPipelined);
    let flow = &mut spec.flows[0];
    (flow.source, flow.target) = (source.display().to_string(), "host".to_owned());
    (flow.block, flow.bytes, flow.depth) = (Bytes::kib(64), Bytes(content.len() as u64), 4);
    spec
}

/// Returns the usual conditions.
fn conditions<'a>(
    fabric: &'a Fabric,
    consent: &'a Consent,
    stop: &'a AtomicBool,
) -> Conditions<'a> {
    Conditions {
        fabric,
        consent,
        clock: MonotonicClock::start(),
        stop,
        trace: None,
        deadline: DEADLINE,
        started_s: 0,
        warnings: &[],
    }
}

/// Runs it once as the runner does, by a transfer of the test's.
fn once(
    carry: &Carry<'_>,
    spec: &CaseSpec,
) -> (CaseRecord, Surroundings, Result<Vec<Warning>, Nonsense>) {
    let fabric = Fabric::discover_quietly(Path::new("/")).unwrap();
    let (consent, stop) = (Consent::default(), AtomicBool::new(false));
    let conditions = conditions(&fabric, &consent, &stop);
    let surveyor = Surveyor::new(&conditions.clock, conditions.deadline);
    let flow = PlannedFlow::look(&fabric, &spec.flows[0], conditions.consent, &surveyor).unwrap();
    let mut cases = vec![PlannedCase { spec, flows: vec![flow], content: Vec::new() }];
    sample(&mut cases, &conditions).unwrap();
    let ran = run_by(carry, &cases[0], 0, 1, &conditions, &mut NoWatch).unwrap();
    let judged = guards::judge(&ran.record, &ran.around);
    (ran.record, ran.around, judged)
}

/// Tells the others a number that differs from the count.
struct Lying<'a>(&'a dyn Gate);

impl Gate for Lying<'_> {
    fn begin(&self) -> bool {
        self.0.begin()
    }

    fn end(&self, moved: FlowMoved) {
        let bytes = moved.requested.host;
        let requested = BytesByRoute { p2p: Bytes::kib(64), host: Bytes(bytes.0 - (64 << 10)) };
        self.0.end(FlowMoved { requested, ..moved });
    }
}

#[test]
fn requests_to_unplanned_memory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let spec = reading(folder.path(), &[7; 1 << 20]);
    let (honest, _, judged) = once(&PlannedFlow::carry, &spec);
    assert_ne!(honest.verdict, RouteVerdict::Contradicted, "{:?}", honest.evidence);
    assert!(judged.is_ok(), "{judged:?}");
    let lie =
        |flow: &PlannedFlow, tools: &mut FlowTools<'_>| -> Result<FlowOutcome, MeasureError> {
            let gate = Lying(tools.gate);
            flow.carry(&mut FlowTools { gate: &gate, watch: &mut (), ..*tools })
        };
    let (_, _, judged) = once(&lie, &spec);
    let Err(Nonsense::RouteContradicted { looked_at, showed, .. }) = judged else {
        panic!("{judged:?}")
    };
    assert_eq!(looked_at, "the memory that each request named");
    assert!(showed.contains("983040 of 1048576 through host memory"), "{showed}");
}

#[test]
fn zero_source_is_seen_before_measuring() {
    let folder = tempfile::tempdir().unwrap();
    let mut content = vec![0; 1 << 20];
    let (zeroes, around, judged) = once(&PlannedFlow::carry, &reading(folder.path(), &content));
    // A file on something that is not a drive has none to warn of.
    let drives = around.drives.len();
    let is_empty = |one: &Warning| matches!(one, Warning::NeverWritten { .. });
    assert_eq!(judged.unwrap().iter().filter(|one| is_empty(one)).count(), drives);
    assert_eq!(zeroes.bytes, Bytes(1 << 20));
    content[32 << 10] = 1;
    let (_, _, judged) = once(&PlannedFlow::carry, &reading(folder.path(), &content));
    assert!(!judged.unwrap().iter().any(is_empty));
}

#[test]
fn drift_of_long_run_follows_completions() {
    let folder = tempfile::tempdir().unwrap();
    let spec = reading(folder.path(), &[7; 1 << 20]);
    // The machine decides how long it took; the test, how long it is said to have taken.
    let slowing_in = |seconds: u64| {
        move |flow: &PlannedFlow, tools: &mut FlowTools<'_>| {
            let outcome = flow.carry(tools)?;
            assert!(outcome.pace.len() >= 6, "{:?}", outcome.pace);
            let at = |look: u64| (look + look.saturating_sub(4)) * 250_000_000;
            let pace = (0..9).map(|look| (Nanos(at(look)), Bytes(look * 100_000_000))).collect();
            let end = outcome.start.after(Nanos::seconds(seconds));
            Ok(FlowOutcome { end, pace, ..outcome })
        }
    };
    let (_, short, _) = once(&slowing_in(0), &spec);
    assert_eq!(short.pace, None, "less than a second says little");
    let (_, around, _) = once(&slowing_in(3), &spec);
    let pace = around.pace.expect("it took long enough");
    assert_eq!((pace.first.0, pace.last.0), (400_000_000, 200_000_000));
}

#[test]
fn record_with_gaps_runs_missing_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let spec = reading(folder.path(), &[7; 1 << 20]);
    let mut asked = testing::record(&[("read", vec![1e9])]).asked;
    asked.cases = vec![spec];
    asked.repeats = peerlane_results::Repeats {
        warm_up: 0,
        least: 3,
        most: 3,
        until_per_mille: None,
        time_ns: None,
    };
    let fabric = Fabric::discover_quietly(Path::new("/")).unwrap();
    let (consent, stop) = (Consent::default(), AtomicBool::new(false));
    let conditions = conditions(&fabric, &consent, &stop);
    let whole = super::run(&asked, None, &conditions, &mut NoWatch).unwrap();
    for (kept, repeats) in [(0, [0, 1, 2]), (1, [1, 0, 2]), (2, [2, 0, 1])] {
        let mut with_gaps = whole.clone();
        with_gaps.cases.retain(|run| run.repeat == kept);
        let found = super::run(&asked, Some(with_gaps), &conditions, &mut NoWatch).unwrap();
        let found: Vec<u32> = found.cases.iter().map(|run| run.repeat).collect();
        assert_eq!(found, repeats, "each once, however they are in the record");
    }
}
