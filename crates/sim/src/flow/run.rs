//! Transfers that start and end: rates are solved anew for each set of active transfers.
//!
//! Leaves out the transition between two sets: rates change at once. Parts of the network that share nothing run on their
//! own, so the result does not depend on the number of threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::network::{FlowNetwork, NetworkPart, NotPositive};
use super::solve::{Solver, SolverSettings};
use crate::threads;

/// Ends this close, in nanoseconds, lead to one solution.
const QUANTUM: f64 = 1_000.0;
/// Active transfers, and the share of the time since the last start within which ends lead to one solution then.
const TOGETHER: [(usize, f64); 2] = [(10_000, 0.01), (256, 0.003)];
/// Phases kept of each part.
const PHASES: usize = 8;

/// One transfer, of the flow with its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FlowTransfer {
    /// Start, in nanoseconds.
    pub start: f64,
    /// Payload; infinite for a transfer that ends by its time.
    pub bytes: f64,
    /// Longest duration, in nanoseconds; infinite for a transfer that ends by its payload.
    pub time: f64,
}

/// Settings of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSettings<'a> {
    /// For each solution.
    pub solve: SolverSettings,
    /// Ends within this share of the time since the last start lead to one solution; a larger share with many transfers.
    pub together: f64,
    /// Counter of ended transfers, for progress.
    pub ended: Option<&'a AtomicUsize>,
}

/// A set of active transfers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransferSet {
    /// The transfers, and the rate of each in bytes of payload a nanosecond.
    pub members: Vec<(usize, f64)>,
    /// Total time that the set was active, in nanoseconds.
    pub time: f64,
}

/// Outcome of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TransferOutcome {
    /// Payload moved.
    pub bytes: f64,
    /// End, in nanoseconds.
    pub end: f64,
    /// The resource that limited it longest; `None` for its own demand.
    pub limit: Option<u32>,
}

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FlowRun {
    /// Outcome of each transfer.
    pub outcomes: Vec<TransferOutcome>,
    /// The longest phases of each part.
    pub phases: Vec<TransferSet>,
    /// Number of distinct sets of active transfers, kept or not.
    pub sets: usize,
    /// Mean over time of the residuals that had not settled, each at most 1, of the worst part; 0 where all settled.
    pub unsettled: f64,
}

/// Runs a transfer of each flow of a network.
///
/// # Errors
/// A number of the network that is not positive and finite.
pub(crate) fn run(
    network: &FlowNetwork,
    transfers: &[FlowTransfer],
    settings: RunSettings<'_>,
) -> Result<FlowRun, NotPositive> {
    network.check()?;
    threads::prepare();
    let parts = network.parts();
    let runs: Vec<FlowRun> =
        parts.par_iter().map(|part| Timeline::new(part, transfers, settings).run()).collect();
    let mut whole = FlowRun {
        outcomes: vec![TransferOutcome::default(); transfers.len()],
        ..FlowRun::default()
    };
    for (part, run) in parts.iter().zip(runs) {
        for (&index, outcome) in part.flows.iter().zip(run.outcomes) {
            let limit = outcome.limit.map(|at| part.resources[at as usize]);
            whole.outcomes[index] = TransferOutcome { limit, ..outcome };
        }
        whole.phases.extend(run.phases);
        whole.sets += run.sets;
        whole.unsettled = whole.unsettled.max(run.unsettled);
    }
    Ok(whole)
}

/// A transfer under way or ended.
#[derive(Debug, Clone, Default)]
struct TransferProgress {
    rate: f64,
    limit: Option<u32>,
    bytes: f64,
    end: f64,
    /// Time by the resource that limited it.
    limited: BTreeMap<Option<u32>, f64>,
}

/// The transfers of a part of a network, from the first start to the last end.
struct Timeline<'a> {
    part: &'a NetworkPart,
    settings: RunSettings<'a>,
    transfers: Vec<FlowTransfer>,
    progress: Vec<TransferProgress>,
    solver: Solver<'a>,
    /// Transfers that have not begun, latest first, and those under way.
    to_come: Vec<usize>,
    active: Vec<usize>,
    now: f64,
    phases: BTreeMap<Vec<usize>, TransferSet>,
    sets: usize,
    /// Integral over time of the residuals of rates that have not settled.
    unsettled: f64,
}

impl<'a> Timeline<'a> {
    fn new(part: &'a NetworkPart, all: &[FlowTransfer], settings: RunSettings<'a>) -> Self {
        let transfers: Vec<FlowTransfer> = part.flows.iter().map(|&flow| all[flow]).collect();
        let mut to_come: Vec<usize> = (0..transfers.len()).collect();
        to_come.sort_by(|&a, &b| transfers[b].start.total_cmp(&transfers[a].start).then(b.cmp(&a)));
        Self {
            part,
            settings,
            progress: vec![TransferProgress::default(); transfers.len()],
            transfers,
            solver: Solver::new(&part.network),
            to_come,
            active: Vec::new(),
            now: 0.0,
            phases: BTreeMap::new(),
            sets: 0,
            unsettled: 0.0,
        }
    }

    fn run(mut self) -> FlowRun {
        let mut last_start = 0.0;
        loop {
            let start = self.to_come.last().map_or(f64::INFINITY, |&at| self.transfers[at].start);
            let end = self.active.iter().map(|&at| self.end(at)).fold(f64::INFINITY, f64::min);
            let next = start.min(end);
            if !next.is_finite() {
                break;
            }
            let mut shares = TOGETHER.iter().filter(|(few, _)| self.active.len() > *few);
            let share = shares.next().map_or(0.0, |(_, share)| *share).max(self.settings.together);
            let together = QUANTUM.max(share * (next - last_start));
            self.advance((next + together).min(start).max(next));
            while let Some(&at) = self.to_come.last() {
                if self.transfers[at].start > self.now {
                    break;
                }
                self.to_come.pop();
                self.active.push(at);
                last_start = self.now;
            }
            self.solve();
        }
        // What is left has no rate.
        for at in std::mem::take(&mut self.active) {
            self.progress[at].end = self.now;
        }
        self.finish()
    }

    /// The moment at which a transfer under way ends.
    fn end(&self, at: usize) -> f64 {
        let (transfer, progress) = (&self.transfers[at], &self.progress[at]);
        let left = (transfer.bytes - progress.bytes).max(0.0);
        let served =
            if progress.rate > 0.0 { self.now + left / progress.rate } else { f64::INFINITY };
        served.min(transfer.start + transfer.time)
    }

    /// Moves on to a moment. Transfers that end before it do so at their own moment.
    fn advance(&mut self, to: f64) {
        let ends: Vec<f64> = self.active.iter().map(|&at| self.end(at)).collect();
        if to > self.now && !self.active.is_empty() {
            self.note_phase(to - self.now);
            let residual = self.solver.residual;
            if residual > self.settings.solve.tolerance {
                self.unsettled += residual.min(1.0) * (to - self.now);
            }
        }
        for (&at, &end) in self.active.iter().zip(&ends) {
            let progress = &mut self.progress[at];
            let time = (end.min(to) - self.now).max(0.0);
            let most = self.transfers[at].bytes - progress.bytes;
            let is_served = end <= to
                && most.is_finite()
                && end < self.transfers[at].start + self.transfers[at].time;
            let bytes = if is_served { most } else { (progress.rate * time).min(most) };
            progress.bytes += bytes;
            progress.end = end.min(to);
            *progress.limited.entry(progress.limit).or_default() += time;
        }
        let mut ends = ends.into_iter();
        let before = self.active.len();
        self.active.retain(|_| ends.next().is_some_and(|end| end > to));
        if let Some(ended) = self.settings.ended {
            ended.fetch_add(before - self.active.len(), Ordering::Relaxed);
        }
        self.now = to;
    }

    fn solve(&mut self) {
        self.solver.solve(&self.active, self.settings.solve);
        for &at in &self.active {
            let progress = &mut self.progress[at];
            (progress.rate, progress.limit) = (self.solver.rate(at), self.solver.limit(at));
        }
    }

    fn note_phase(&mut self, time: f64) {
        if let Some(phase) = self.phases.get_mut(&self.active) {
            phase.time += time;
            return;
        }
        self.sets += 1;
        if self.phases.len() >= 4 * PHASES {
            let shortest = self.phases.iter().min_by(|a, b| a.1.time.total_cmp(&b.1.time));
            let shorter = shortest.filter(|(_, phase)| phase.time < time);
            let Some(key) = shorter.map(|(key, _)| key.clone()) else { return };
            self.phases.remove(&key);
        }
        let member = |&at: &usize| (self.part.flows[at], self.progress[at].rate);
        let members = self.active.iter().map(member).collect();
        self.phases.insert(self.active.clone(), TransferSet { members, time });
    }

    fn finish(self) -> FlowRun {
        let outcome = |progress: TransferProgress| TransferOutcome {
            bytes: progress.bytes,
            end: progress.end,
            limit: progress.limited.iter().max_by(|a, b| a.1.total_cmp(b.1)).and_then(|one| *one.0),
        };
        let mut phases: Vec<TransferSet> = self.phases.into_values().collect();
        phases.sort_by(|a, b| b.time.total_cmp(&a.time));
        phases.truncate(PHASES);
        FlowRun {
            outcomes: self.progress.into_iter().map(outcome).collect(),
            phases,
            sets: self.sets,
            unsettled: self.unsettled / self.now.max(1.0),
        }
    }
}
