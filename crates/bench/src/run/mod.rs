//! Carries a workload out on this machine: every case as often as asked, in random order, saved as it goes.
//!
//! Leaves out who watches and where the record is kept: a [`WorkloadProgress`] is told. A run whose
//! evidence contradicts its route ends the workload as an error, and is in no record.

mod case;
mod error;
mod gate;
mod location;
mod observe;
mod routes;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

pub use peerlane_engine::measure::Consent;
use peerlane_engine::measure::{FlowTools, Hold, Made, PlannedFlow};
use peerlane_engine::trace::Tracer;
use peerlane_engine::{Clock as _, MonotonicClock, Phase, Surveyor};
use peerlane_fabric::Fabric;
pub use peerlane_results::BenchRecord;
use peerlane_results::{BENCH_SCHEMA, Basis, CaseRecord, Warning, Workload, warnings_of_machine};
use peerlane_units::{Bytes, Nanos};

use crate::guards::{self, SourceContent};
use crate::statistics::{Enough, enough, order};
pub use case::DEADLINE;
use case::PlannedCase;
pub use error::RunError;
pub use routes::{LeftOut, possible_cases};
use summary::Summaries;
pub(crate) use summary::summaries;

/// Inputs of a workload from outside.
pub struct Conditions<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// Permission to write.
    pub consent: &'a Consent,
    /// Tells the time.
    pub clock: MonotonicClock,
    /// Asks for the end when set.
    pub stop: &'a AtomicBool,
    /// Notes the requests of every transfer, if a trace is wanted.
    pub trace: Option<&'a Tracer>,
    /// The longest wait for a single request.
    pub deadline: Nanos,
    /// Seconds since 1970 at the start.
    pub started_s: u64,
    /// Facts of the machine for a reader.
    pub warnings: &'a [Warning],
}

impl Conditions<'_> {
    /// True when figures are those of an emulated machine.
    fn is_emulated(&self) -> bool {
        self.warnings.iter().any(|one| matches!(one, Warning::Emulated { .. }))
    }
}

/// Is told how far a workload is.
pub trait WorkloadProgress {
    /// Called before and after payload moves, when no request is in flight.
    fn phase(&mut self, phase: Phase);

    /// Called before a range of a source is given a pattern.
    fn fills(&mut self, source: &str, range: Range<u64>);

    /// Called before each run of a case, for each range that it overwrites.
    fn overwrites(&mut self, target: &str, range: Range<u64>);

    /// Called when the workload came to no end, for each file that it had made: it is removed again.
    fn removes(&mut self, target: &str);

    /// Called before each run: how many are done, how many there are at most, and which is next.
    fn next(&mut self, done: u32, most: u32, case: &str);

    /// Called after each counted run with all that ran; keeps it.
    ///
    /// # Errors
    /// When it could not be kept; the workload then ends.
    fn keep(
        &mut self,
        record: &BenchRecord,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// Facts of a machine for a reader, and the basis of its figures.
pub fn of_machine(fabric: &Fabric) -> (Basis, Vec<Warning>) {
    let warnings = warnings_of_machine(fabric);
    let is_emulated = warnings.iter().any(|one| matches!(one, Warning::Emulated { .. }));
    (if is_emulated { Basis::Emulated } else { Basis::Measured }, warnings)
}

/// Carries a workload out, or the rest of one.
///
/// # Errors
/// [`RunError`]; before the first run nothing was changed.
pub fn run(
    workload: &Workload,
    earlier: Option<BenchRecord>,
    conditions: &Conditions<'_>,
    progress: &mut dyn WorkloadProgress,
) -> Result<BenchRecord, RunError> {
    crate::workload::check(workload)?;
    let (basis, _) = of_machine(conditions.fabric);
    let fresh = BenchRecord {
        schema: BENCH_SCHEMA.to_owned(),
        asked: workload.clone(),
        machine: conditions.fabric.into(),
        outline: conditions.fabric.outline(),
        basis,
        started_s: Some(conditions.started_s),
        cases: Vec::new(),
        summaries: Vec::new(),
        effects: Vec::new(),
        warnings: Vec::new(),
    };
    let record = match earlier {
        None => fresh,
        Some(earlier) => goes_on(earlier, &fresh)?,
    };
    progress.phase(Phase::Check);
    let cases = look(workload, conditions)?;
    let made = make(&cases)?;
    let rates = cases.iter().map(|case| rates_of(&record.cases, &case.spec.name)).collect();
    let ran = record.cases.iter().map(|run| (run.asked.name.clone(), run.repeat)).collect();
    let summaries = Summaries::default();
    let runner = Runner { workload, cases, rates, ran, record, summaries, conditions };
    let result = runner.run(progress);
    match &result {
        // What differs is there for whoever wants to know why.
        Err(error) if !error.is_difference() => made.names().for_each(|one| progress.removes(one)),
        _ => made.keep(),
    }
    result
}

/// Makes the target files that are not there.
fn make(cases: &[PlannedCase<'_>]) -> Result<Made, RunError> {
    Made::targets(cases.iter().flat_map(|case| &case.flows)).map_err(|source| {
        let case = cases.first().map(|case| case.spec.name.clone()).unwrap_or_default();
        RunError::Flow { case, source: Box::new(source) }
    })
}

/// The earlier record, if it is of the same workload on the same machine as the fresh one.
///
/// # Errors
/// [`RunError::Other`] with the difference.
pub fn goes_on(earlier: BenchRecord, fresh: &BenchRecord) -> Result<BenchRecord, RunError> {
    let what = if earlier.schema != fresh.schema {
        format!("its schema is `{}`, not `{}`", earlier.schema, fresh.schema)
    } else if earlier.asked.repeats != fresh.asked.repeats {
        "the record was made with other --repeats, --warm-up or --until".to_owned()
    } else if earlier.asked != fresh.asked {
        format!("the record is of another workload: {}", differs(&earlier.asked, &fresh.asked))
    } else if earlier.machine != fresh.machine {
        format!(
            "it is of {}, and this is {}, or a device, the kernel or this program changed since",
            earlier.machine.name, fresh.machine.name
        )
    } else if earlier.basis != fresh.basis {
        "its figures have another basis".to_owned()
    } else {
        return Ok(earlier);
    };
    Err(RunError::Other { what })
}

/// Returns the first difference between two workloads that are not equal.
fn differs(earlier: &Workload, now: &Workload) -> String {
    if earlier.seed != now.seed {
        return format!("its seed is {}, not {}", earlier.seed, now.seed);
    }
    let names = |of: &Workload| of.cases.iter().map(|case| case.name.clone()).collect::<Vec<_>>();
    if names(earlier) != names(now) {
        return "it has other cases".to_owned();
    }
    let mut pairs = earlier.cases.iter().zip(&now.cases);
    let Some((before, after)) = pairs.find(|(before, after)| before != after) else {
        return "it has another name or kind".to_owned();
    };
    let first = crate::compare::specs(before, after).into_iter().next();
    first.map_or_else(|| before.name.clone(), |reason| format!("{}: {reason}", before.name))
}

fn rates_of(cases: &[CaseRecord], name: &str) -> Vec<f64> {
    let own = cases.iter().filter(|case| case.asked.name == name);
    own.filter_map(CaseRecord::rate).map(|rate| rate.0 as f64).collect()
}

/// Looks at every transfer of every case before the first byte moves.
fn look<'a>(
    workload: &'a Workload,
    conditions: &Conditions<'_>,
) -> Result<Vec<PlannedCase<'a>>, RunError> {
    let surveyor = Surveyor::new(&conditions.clock, conditions.deadline);
    let mut cases = Vec::new();
    for spec in &workload.cases {
        let name = || spec.name.clone();
        let mut flows: Vec<PlannedFlow> = Vec::new();
        for flow in &spec.flows {
            let flow = PlannedFlow::look(conditions.fabric, flow, conditions.consent, &surveyor)
                .map_err(|source| RunError::Flow { case: name(), source: Box::new(source) })?;
            if let Some(refusal) = flows.iter().find_map(|other| flow.conflict(other)) {
                return Err(RunError::Conflict { case: name(), reason: refusal.reason });
            }
            flows.push(flow);
        }
        cases.push(PlannedCase { spec, flows, content: Vec::new() });
    }
    Ok(cases)
}

/// Gives every source that may be written a pattern, once each, until the end is asked for.
fn fill(
    cases: &[PlannedCase<'_>],
    seed: u64,
    conditions: &Conditions<'_>,
    progress: &mut dyn WorkloadProgress,
) -> Result<(), RunError> {
    let mut filled: Vec<(String, Bytes, Bytes)> = Vec::new();
    let flows = cases.iter().flat_map(|case| case.flows.iter().map(move |flow| (case, flow)));
    let mut flows: Vec<_> = flows.collect();
    // The longest first: shorter ones begin where they do.
    flows.sort_by_key(|(_, flow)| std::cmp::Reverse(flow.flow().bytes));
    for (case, flow) in flows {
        let Some(source) = flow.source().filter(|_| flow.has_scratch_source()) else { continue };
        let (offset, bytes) = (flow.flow().offset, flow.flow().bytes);
        let is_within = |one: &(String, Bytes, Bytes)| {
            one.0 == source.path && one.1 <= offset && offset.0 + bytes.0 <= one.1.0 + one.2.0
        };
        if filled.iter().any(is_within) {
            continue;
        }
        progress.fills(&flow.flow().source, offset.0..offset.0 + bytes.0);
        let filled_it = by_itself(seed, conditions, |tools| flow.fill_source(tools));
        let is_whole = filled_it.map_err(|source| RunError::Flow {
            case: case.spec.name.clone(),
            source: Box::new(source),
        })?;
        if !is_whole {
            break;
        }
        filled.push((source.path.clone(), offset, bytes));
    }
    Ok(())
}

/// Tests the content of the sources for zeroes, each range once.
fn sample(cases: &mut [PlannedCase<'_>], conditions: &Conditions<'_>) -> Result<(), RunError> {
    let mut seen: Vec<(String, Bytes, Bytes, bool)> = Vec::new();
    for case in cases {
        if conditions.stop.load(Ordering::Relaxed) {
            break;
        }
        let mut found = Vec::new();
        for flow in &case.flows {
            let Some(source) = flow.source() else { continue };
            let (offset, bytes) = (flow.flow().offset, flow.flow().bytes);
            let same = seen
                .iter()
                .find(|one| (one.0.as_str(), one.1, one.2) == (&*source.path, offset, bytes));
            let Some(drive) = source.device.clone() else { continue };
            let of = |is_zero| match is_zero {
                true => SourceContent::AllZero,
                false => SourceContent::Something,
            };
            if let Some(one) = same {
                found.push((drive, of(one.3)));
                continue;
            }
            let is_zero = by_itself(0, conditions, |tools| flow.source_is_zero(tools));
            let is_zero = is_zero.map_err(|source| RunError::Flow {
                case: case.spec.name.clone(),
                source: Box::new(source),
            })?;
            let Some(is_zero) = is_zero else { continue };
            seen.push((source.path.clone(), offset, bytes, is_zero));
            found.push((drive, of(is_zero)));
        }
        case.content = found;
    }
    Ok(())
}

/// Gives `act`, a step before the first run, its tools.
fn by_itself<T>(
    seed: u64,
    conditions: &Conditions<'_>,
    act: impl FnOnce(&FlowTools<'_>) -> T,
) -> T {
    act(&FlowTools {
        clock: &conditions.clock,
        watch: &mut case::StopFlag(conditions.stop),
        gate: &(),
        hold: &Hold::default(),
        trace: None,
        seed,
        time: None,
        deadline: conditions.deadline,
    })
}

struct Runner<'a> {
    workload: &'a Workload,
    cases: Vec<PlannedCase<'a>>,
    /// Rates of each case so far.
    rates: Vec<Vec<f64>>,
    /// Runs of an earlier record, by case.
    ran: HashSet<(String, u32)>,
    record: BenchRecord,
    summaries: Summaries,
    conditions: &'a Conditions<'a>,
}

impl Runner<'_> {
    fn run(mut self, progress: &mut dyn WorkloadProgress) -> Result<BenchRecord, RunError> {
        let (workload, conditions) = (self.workload, self.conditions);
        fill(&self.cases, workload.seed, conditions, progress)?;
        sample(&mut self.cases, conditions)?;
        if conditions.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted(Box::new(self.record)));
        }
        let repeats = &workload.repeats;
        let most = repeats.most.max(1);
        let count = u32::try_from(self.cases.len()).unwrap_or(u32::MAX);
        let mut warmed = vec![false; self.cases.len()];
        let start = conditions.clock.now();
        let all = most.saturating_mul(count);
        for (position, turn) in order(workload.seed, self.cases.len(), most).enumerate() {
            let name = &self.cases[turn.case].spec.name;
            let has_run = self.ran.contains(&(name.clone(), turn.repeat));
            let elapsed = conditions.clock.now().since(start);
            if has_run || enough(repeats, &self.rates[turn.case], elapsed) != Enough::NotYet {
                continue;
            }
            progress.next(u32::try_from(position).unwrap_or(u32::MAX), all, name);
            if !warmed[turn.case] {
                warmed[turn.case] = true;
                for number in 0..repeats.warm_up {
                    // Numbers that no counted run has.
                    self.once(turn.case, u32::MAX - number, progress)?;
                }
            }
            let ran = self.once(turn.case, turn.repeat, progress)?;
            let rate = ran.record.rate().map_or(0.0, |rate| rate.0 as f64);
            self.rates[turn.case].push(rate);
            self.summaries.add(ran.record.asked.name.clone(), ran.block);
            self.record.cases.push(ran.record);
            self.record.summaries = self.summaries.all(workload, &self.record.cases);
            progress.keep(&self.record).map_err(RunError::Save)?;
            if conditions.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted(Box::new(self.record)));
            }
        }
        self.judge_runs();
        let fabric = conditions.fabric;
        self.record.effects =
            location::effects(fabric, workload, &self.cases, &self.record.summaries);
        progress.keep(&self.record).map_err(RunError::Save)?;
        Ok(self.record)
    }

    /// Adds the warnings from all runs of a case together.
    fn judge_runs(&mut self) {
        self.record.warnings = self.conditions.warnings.to_vec();
        // The program chose the number of runs, and the interval shows how far it got.
        let is_chosen = self.workload.repeats.time_ns.is_some();
        for (case, rates) in self.cases.iter().zip(&self.rates) {
            let warnings = guards::judge_runs(&case.spec.name, rates).into_iter();
            let is_due = |one: &Warning| !(is_chosen && matches!(one, Warning::Variance { .. }));
            self.record.warnings.extend(warnings.filter(is_due));
        }
    }

    fn once(
        &mut self,
        index: usize,
        repeat: u32,
        progress: &mut dyn WorkloadProgress,
    ) -> Result<case::Ran, RunError> {
        let (planned, conditions) = (&self.cases[index], self.conditions);
        let seed = case::seed_of(self.workload.seed, index, repeat);
        let ran = case::run(planned, repeat, seed, conditions, progress).map_err(|source| {
            let case = planned.spec.name.clone();
            RunError::Flow { case, source: Box::new(source) }
        });
        if conditions.stop.load(Ordering::Relaxed) {
            // Whatever it moved, it was not all.
            return Err(RunError::Interrupted(Box::new(self.record.clone())));
        }
        let mut ran = ran?;
        if ran.record.bytes == Bytes::ZERO {
            return Err(RunError::Nothing { case: planned.spec.name.clone() });
        }
        match guards::judge(&ran.record, &ran.around) {
            Ok(warnings) => {
                for warning in warnings {
                    if !ran.record.warnings.contains(&warning) {
                        ran.record.warnings.push(warning);
                    }
                }
            }
            Err(source) => {
                return Err(RunError::Nonsense { case: Box::new(ran.record), source });
            }
        }
        Ok(ran)
    }
}
