//! One run of one case: its transfers side by side, observed from outside, put into one record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use peerlane_engine::measure::{FlowOutcome, FlowTools, Hold, MeasureError, PlannedFlow};
use peerlane_engine::{MonotonicClock, Phase, Watch};
use peerlane_results::{
    BytesByRoute, CaseRecord, CaseSpec, FlowRecord, Latency, Limit, RouteEvidence, Verification,
    VerifyMode, Warning,
};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::gate::Meeting;
use super::observe::{Observation, Observer, places};
use super::{Conditions, WorkloadProgress};
use crate::guards::{RateDrift, SourceContent, Surroundings};
use crate::statistics::percentiles;

/// Interval between looks at things that exist only while payload moves; each look costs a few
/// milliseconds of a
/// processor, which count as the case's.
const LOOK: Duration = Duration::from_secs(1);

/// A case that was looked at.
#[derive(Debug)]
pub(super) struct PlannedCase<'a> {
    pub(super) spec: &'a CaseSpec,
    pub(super) flows: Vec<PlannedFlow>,
    /// Content of its sources, by the name of the drive that each is on.
    pub(super) content: Vec<(String, SourceContent)>,
}

impl PlannedCase<'_> {
    /// Content that is read from a drive; zeroes only where that is so of all that is read from it.
    fn content_of(&self, drive: &str) -> SourceContent {
        let own = self.content.iter().filter(|one| one.0 == drive).map(|one| one.1);
        let worse = |one, other| if one == SourceContent::AllZero { other } else { one };
        own.reduce(worse).unwrap_or_default()
    }
}

/// A run with the latencies of its blocks.
pub(super) struct Ran {
    pub(super) record: CaseRecord,
    /// Surroundings; the guards judge the case by them.
    pub(super) around: Surroundings,
    pub(super) block: Vec<Histogram<u64>>,
}

/// Stops a transfer when the flag is set.
pub(super) struct StopFlag<'a>(pub(super) &'a AtomicBool);

impl Watch for StopFlag<'_> {
    fn stop_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs a case once.
///
/// # Errors
/// The first transfer that failed for a reason of its own.
pub(super) fn run(
    case: &PlannedCase<'_>,
    repeat: u32,
    seed: u64,
    conditions: &Conditions<'_>,
    progress: &mut dyn WorkloadProgress,
) -> Result<Ran, MeasureError> {
    run_by(&PlannedFlow::carry, case, repeat, seed, conditions, progress)
}

/// Carries a transfer out.
pub(super) type Carry<'a> =
    dyn Fn(&PlannedFlow, &mut FlowTools<'_>) -> Result<FlowOutcome, MeasureError> + Sync + 'a;

/// As [`run`], by this way to carry each transfer out.
pub(super) fn run_by(
    carry: &Carry<'_>,
    case: &PlannedCase<'_>,
    repeat: u32,
    seed: u64,
    conditions: &Conditions<'_>,
    progress: &mut dyn WorkloadProgress,
) -> Result<Ran, MeasureError> {
    let hold = Hold::new(&case.flows, conditions.deadline)?;
    for flow in case.flows.iter().filter(|flow| flow.target().is_some()) {
        let flow = flow.flow();
        let start = flow.target_offset.0;
        progress.overwrites(&flow.target, start..start.saturating_add(flow.bytes.0));
    }
    let meeting = Meeting::new(case.flows.len());
    let clock: MonotonicClock = conditions.clock;
    let mut seen = None;
    let outcomes: Vec<Result<FlowOutcome, MeasureError>> = thread::scope(|scope| {
        let handles: Vec<_> = case
            .flows
            .iter()
            .enumerate()
            .map(|(index, flow)| {
                let (meeting, hold) = (&meeting, &hold);
                scope.spawn(move || {
                    let place = meeting.place(index, flow.flow().start_ns);
                    let mut tools = FlowTools {
                        clock: &clock,
                        watch: &mut StopFlag(conditions.stop),
                        gate: &place,
                        hold,
                        trace: conditions.trace,
                        seed: seed.wrapping_add(index as u64),
                        time: case.spec.time_ns,
                        deadline: conditions.deadline,
                    };
                    carry(flow, &mut tools)
                })
            })
            .collect();
        if meeting.all_ready() {
            progress.phase(Phase::Move);
            let mut watch = Observer::begin(conditions.fabric, &case.flows, &clock);
            meeting.begin();
            watch.look();
            while !meeting.all_ended(LOOK) {
                watch.look();
            }
            // Before anything is checked, which reads the drives again.
            seen = Some(watch.end(conditions.fabric, &case.flows, &meeting.moved(), &clock));
            progress.phase(Phase::Check);
        }
        meeting.release();
        let panicked = || Err(MeasureError::WithOthers);
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| panicked())).collect()
    });
    let outcomes = first_failure(outcomes)?;
    let seen = seen.ok_or(MeasureError::WithOthers)?;
    Ok(record(case, repeat, outcomes, seen, conditions))
}

/// The reason of the transfer that failed itself, not of one that gave up because of it.
fn first_failure(
    outcomes: Vec<Result<FlowOutcome, MeasureError>>,
) -> Result<Vec<FlowOutcome>, MeasureError> {
    let (mut done, mut failed) = (Vec::new(), None);
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => done.push(outcome),
            Err(error) if failed.is_none() => failed = Some(error),
            Err(error) if matches!(failed, Some(MeasureError::WithOthers)) => failed = Some(error),
            Err(_) => {}
        }
    }
    failed.map_or(Ok(done), Err)
}

fn record(
    case: &PlannedCase<'_>,
    repeat: u32,
    outcomes: Vec<FlowOutcome>,
    seen: Observation,
    conditions: &Conditions<'_>,
) -> Ran {
    let start = outcomes.iter().map(|one| one.start).min().unwrap_or_default();
    let end = outcomes.iter().map(|one| one.end).max().unwrap_or_default();
    let bytes = Bytes(outcomes.iter().map(|one| one.bytes.0).sum());
    let sum = |of: fn(&FlowOutcome) -> Bytes| Bytes(outcomes.iter().map(|one| of(one).0).sum());
    let bytes_by_route = BytesByRoute {
        p2p: sum(|one| one.bytes_by_route.p2p),
        host: sum(|one| one.bytes_by_route.host),
    };
    let Observation { observed, mut around } = seen;
    around.pace = pace(case, &outcomes);
    for drive in &mut around.drives {
        drive.content = case.content_of(&drive.drive.name);
    }
    if conditions.is_emulated() {
        // Emulated links carry whatever their host manages, so that no rate is above what they can.
        around.ceilings.clear();
    }
    let mut evidence: Vec<RouteEvidence> = Vec::new();
    for outcome in &outcomes {
        for item in &outcome.evidence {
            if !evidence.contains(item) {
                evidence.push(item.clone());
            }
        }
    }
    evidence.extend(observed.evidence);
    let flows = outcomes
        .iter()
        .zip(&case.flows)
        .map(|(one, flow)| FlowRecord {
            bytes: one.bytes,
            elapsed_ns: one.end.since(one.start),
            first_done_ns: one.first_done.since(start),
            memory: one.memory.clone(),
            bytes_by_route: one.bytes_by_route,
            block: percentiles([&one.block]),
            limited_by: None,
            knee: None,
            places: Some(places(conditions.fabric, flow)),
            stage: one.stage.clone(),
        })
        .collect();
    let record = CaseRecord {
        asked: case.spec.clone(),
        repeat,
        bytes,
        elapsed_ns: end.since(start),
        bytes_by_route,
        latency: Latency {
            read: percentiles(outcomes.iter().map(|one| &one.read)),
            write: percentiles(outcomes.iter().map(|one| &one.write)),
        },
        cpu: observed.cpu,
        host_memory: observed.host_memory,
        flows,
        verification: verification(&outcomes),
        verdict: peerlane_evidence::verdict(&evidence),
        evidence,
        limits: if conditions.is_emulated() { Vec::new() } else { limits(&case.flows) },
        links: Vec::new(),
        prediction: None,
        page_faults: observed.page_faults,
        warnings: warnings(&case.flows, &outcomes, conditions),
    };
    Ran { record, around, block: outcomes.into_iter().map(|one| one.block).collect() }
}

/// A run that is shorter says little of how its rate goes on.
const PACED: Nanos = Nanos::seconds(1);

/// Returns the total rate through the run; `None` where some transfers begin later, which slows
/// the others.
fn pace(case: &PlannedCase<'_>, outcomes: &[FlowOutcome]) -> Option<RateDrift> {
    let is_long = |one: &FlowOutcome| one.end.since(one.start) >= PACED;
    let begin_together = case.flows.iter().all(|flow| flow.flow().start_ns == Nanos(0));
    if !begin_together || !outcomes.iter().all(is_long) {
        return None;
    }
    let paces: Option<Vec<RateDrift>> =
        outcomes.iter().map(|one| RateDrift::from_looks(&one.pace)).collect();
    let sum = |of: fn(&RateDrift) -> ByteRate, paces: &[RateDrift]| {
        ByteRate(paces.iter().map(|one| of(one).0).fold(0, u64::saturating_add))
    };
    let paces = paces.filter(|paces| !paces.is_empty())?;
    Some(RateDrift { first: sum(|one| one.first, &paces), last: sum(|one| one.last, &paces) })
}

/// All checks together; `None` where nothing was stored.
fn verification(outcomes: &[FlowOutcome]) -> Option<Verification> {
    let all = outcomes.iter().filter_map(|one| one.verification);
    all.reduce(|one, other| Verification {
        mode: VerifyMode::Full,
        bytes: Bytes(one.bytes.0 + other.bytes.0),
        mismatches: one.mismatches + other.mismatches,
    })
}

/// Returns the bound of the total: for several transfers, only resources that all of them cross.
fn limits(flows: &[PlannedFlow]) -> Vec<Limit> {
    let Some((first, others)) = flows.split_first() else { return Vec::new() };
    let is_everywhere = |limit: &&Limit| others.iter().all(|flow| flow.limits().contains(limit));
    first.limits().iter().filter(is_everywhere).cloned().collect()
}

fn warnings(
    flows: &[PlannedFlow],
    outcomes: &[FlowOutcome],
    conditions: &Conditions<'_>,
) -> Vec<Warning> {
    let planned = flows.iter().flat_map(PlannedFlow::warnings);
    let seen = outcomes.iter().flat_map(|one| &one.warnings);
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in planned.chain(seen).chain(conditions.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    warnings
}

/// Returns the seed of a run of a case.
pub(super) fn seed_of(seed: u64, case: usize, repeat: u32) -> u64 {
    let mixed = seed ^ (case as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.rotate_left(17) ^ u64::from(repeat).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The longest wait for a single request, by default.
pub const DEADLINE: Nanos = Nanos::seconds(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_is_empty_if_all_reads_are() {
        use SourceContent::{AllZero, NotLookedAt, Something};
        let of = |all: &[SourceContent]| {
            let spec = crate::testing::spec("one", peerlane_results::Path::P2p);
            let content = all.iter().map(|one| ("nvme0n1".to_owned(), *one)).collect();
            PlannedCase { spec: &spec, flows: Vec::new(), content }.content_of("nvme0n1")
        };
        assert_eq!(of(&[]), NotLookedAt);
        assert_eq!(of(&[AllZero, AllZero]), AllZero);
        assert_eq!(of(&[AllZero, Something, AllZero]), Something);
    }
}
