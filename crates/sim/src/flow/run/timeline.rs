//! The transfers of a part of a network, from the first start to the last end.
//!
//! Leaves out the rates, see `active`. Of many transfers, ends near each other lead to one
//! solution.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::Ordering;

use super::super::parts::{NetworkPart, PartView};
use super::active::Active;
use super::{
    FlowRun, FlowTransfer, Paces, RunSettings, TransferOutcome, TransferPace, TransferSet,
};

/// Phases kept of each part.
const PHASES: usize = 8;
/// Most solutions of a part; beyond, transfers keep their rates.
const MOST_SOLUTIONS: u64 = 10_000_000;
/// Active transfers, and the share of the time since the last start within which ends lead to one solution then.
const TOGETHER: [(usize, f64); 2] = [(10_000, 0.01), (256, 0.003)];

/// A number with a total order, for heaps.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Active transfers of a class. They have one rate, so that each ends when the class has served its bytes since it
/// began.
#[derive(Debug, Clone, Default)]
struct ClassQueue {
    /// Payload of a transfer that was always active, and its paces.
    served: f64,
    paces: Paces,
    rate: f64,
    /// `served` at each end, and the transfer.
    ends: BinaryHeap<Reverse<(Ordered, usize)>>,
    /// Time for which each resource limited it.
    limited: BTreeMap<u32, f64>,
    /// Transfers that have not begun.
    to_come: u32,
}

impl ClassQueue {
    fn count(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    fn advance(&mut self, time: f64, limit: Option<u32>) {
        self.served += self.rate * time;
        *self.limited.entry(limit.unwrap_or(u32::MAX)).or_default() += time;
        if self.rate > 0.0 && time > 0.0 {
            let pace = self.paces.entry(TransferPace::number(self.rate)).or_default();
            pace.bytes += self.rate * time;
            pace.time += time;
        }
    }

    /// The resource that limited longest.
    fn limit(&self) -> Option<usize> {
        let longest = self.limited.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
        longest.filter(|(at, _)| **at != u32::MAX).map(|(at, _)| *at as usize)
    }

    /// Resets an idle class, so that small numbers stay exact.
    fn reset_if_idle(&mut self) {
        if self.ends.is_empty() {
            self.served = 0.0;
            self.limited.clear();
            self.paces.clear();
        }
    }
}

/// One transfer under way or ended.
#[derive(Debug, Clone, Default)]
struct TransferProgress {
    /// `served` and paces of its class at its start.
    begun: f64,
    before: Paces,
    outcome: TransferOutcome,
    paces: Vec<TransferPace>,
}

/// Transfers in order of a moment of each.
struct TransferMoments(Vec<(f64, usize)>);

impl TransferMoments {
    fn new(transfers: &[(usize, FlowTransfer)], moment: impl Fn(&FlowTransfer) -> f64) -> Self {
        let moments = transfers.iter().enumerate().map(|(at, (_, one))| (moment(one), at));
        let mut moments: Vec<_> = moments.filter(|(moment, _)| moment.is_finite()).collect();
        moments.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        Self(moments)
    }

    fn next(&self) -> f64 {
        self.0.last().map_or(f64::INFINITY, |&(moment, _)| moment)
    }

    /// Takes a transfer whose moment is due.
    fn take(&mut self, by: f64) -> Option<usize> {
        let &(_, index) = self.0.last().filter(|(moment, _)| *moment <= by)?;
        self.0.pop();
        Some(index)
    }
}

pub(super) struct Timeline<'a> {
    settings: RunSettings<'a>,
    active: Active<'a>,
    queues: Vec<ClassQueue>,
    transfers: &'a [(usize, FlowTransfer)],
    progress: Vec<TransferProgress>,
    now: f64,
    /// The last start, and the number of active transfers.
    last_begin: f64,
    under_way: usize,
    phases: BTreeMap<Vec<(usize, u32)>, TransferSet>,
    sets: usize,
    solutions: u64,
    /// Residual of the present rates where they have not settled, and its integral over time.
    off: f64,
    off_so_far: f64,
}

impl<'a> Timeline<'a> {
    /// Runs the transfers of a part.
    pub(super) fn run(
        view: PartView<'a>,
        settings: RunSettings<'a>,
        transfers: &'a [(usize, FlowTransfer)],
    ) -> Self {
        let mut timeline = Self {
            settings,
            active: Active::new(view),
            queues: vec![ClassQueue::default(); view.part.first.len()],
            transfers,
            progress: vec![TransferProgress::default(); transfers.len()],
            now: 0.0,
            last_begin: 0.0,
            under_way: 0,
            phases: BTreeMap::new(),
            sets: 0,
            solutions: 0,
            off: 0.0,
            off_so_far: 0.0,
        };
        for (_, transfer) in transfers {
            timeline.queues[transfer.class].to_come += 1;
        }
        timeline.go();
        timeline
    }

    fn go(&mut self) {
        let mut begins = TransferMoments::new(self.transfers, |transfer| transfer.start);
        let mut stops =
            TransferMoments::new(self.transfers, |transfer| transfer.start + transfer.time);
        loop {
            let next = self.next_end().min(begins.next()).min(stops.next());
            if !next.is_finite() {
                break;
            }
            // All events within a quantum lead to one solution.
            let quantum = next + self.settings.quantum;
            let by = quantum.max(self.together(next).min(begins.next())).min(stops.next());
            self.advance(by.max(self.now));
            self.end_served(by);
            while let Some(index) = begins.take(by) {
                self.begin(index, by);
            }
            // After the starts: a transfer may start and stop within a quantum.
            while let Some(index) = stops.take(by) {
                self.stop(index);
            }
            self.solve();
        }
        // What is left has no rate.
        for class in 0..self.queues.len() {
            for Reverse((_, index)) in std::mem::take(&mut self.queues[class].ends) {
                self.end(index, self.now, self.queues[class].served, 0.0);
            }
        }
    }

    /// End of the span in which ends lead to one solution, from the first of them on.
    fn together(&self, next: f64) -> f64 {
        let mut shares = TOGETHER.iter().filter(|(few, _)| self.under_way > *few);
        let share = shares.next().map_or(0.0, |(_, share)| *share).max(self.settings.together);
        next + share * (next - self.last_begin)
    }

    /// The next end of an active transfer.
    fn next_end(&self) -> f64 {
        let end = |queue: &ClassQueue| match queue.ends.peek() {
            Some(Reverse((end, _))) if queue.rate > 0.0 => {
                self.now + ((end.0 - queue.served) / queue.rate).max(0.0)
            }
            _ => f64::INFINITY,
        };
        self.queues.iter().map(end).fold(f64::INFINITY, f64::min)
    }

    fn advance(&mut self, to: f64) {
        let time = to - self.now;
        let active = self.queues.iter_mut().zip(&self.active.limits);
        for (queue, &limit) in active.filter(|(queue, _)| !queue.ends.is_empty()) {
            queue.advance(time, limit);
        }
        if time > 0.0 {
            self.note_phase(time);
        }
        self.off_so_far += self.off * time;
        self.now = to;
    }

    fn note_phase(&mut self, time: f64) {
        let counts = self.queues.iter().map(ClassQueue::count).enumerate();
        let active: Vec<(usize, u32)> = counts.filter(|(_, count)| *count > 0).collect();
        if active.is_empty() {
            return;
        }
        if let Some(phase) = self.phases.get_mut(&active) {
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
        let of_queue = |queue: &ClassQueue| {
            let members = queue.ends.iter().map(|Reverse((_, index))| (*index, queue.rate));
            members.collect::<Vec<_>>()
        };
        let mut members: Vec<(usize, f64)> = self.queues.iter().flat_map(of_queue).collect();
        members.sort_unstable_by_key(|&(index, _)| index);
        self.phases.insert(active, TransferSet { members, time });
    }

    /// Begins a transfer, with the rate of its class since its start within the quantum before now.
    fn begin(&mut self, index: usize, now: f64) {
        let (_, transfer) = self.transfers[index];
        let queue = &mut self.queues[transfer.class];
        let ahead = (now - transfer.start).max(0.0) * queue.rate;
        let progress = &mut self.progress[index];
        progress.begun = queue.served - ahead;
        progress.before.clone_from(&queue.paces);
        queue.ends.push(Reverse((Ordered(progress.begun + transfer.bytes), index)));
        queue.to_come -= 1;
        self.under_way += 1;
        self.last_begin = now;
    }

    /// Ends the transfers that are served by now, each at its own moment.
    fn end_served(&mut self, by: f64) {
        for class in 0..self.queues.len() {
            let (served, rate) = (self.queues[class].served, self.queues[class].rate);
            while let Some(&Reverse((end, index))) = self.queues[class].ends.peek() {
                let left = end.0 - served;
                // After a very long time the rest may take less than the clock resolves.
                if left > served.abs() * 1e-12 && (rate <= 0.0 || by + left / rate > by) {
                    break;
                }
                self.queues[class].ends.pop();
                let late = if rate > 0.0 { -left / rate } else { 0.0 };
                let start = self.transfers[index].1.start;
                self.end(index, (by - late).max(start), f64::INFINITY, late);
            }
            self.queues[class].reset_if_idle();
        }
    }

    /// Stops an active transfer whose time is over.
    fn stop(&mut self, index: usize) {
        let class = self.transfers[index].1.class;
        let before = self.queues[class].ends.len();
        self.queues[class].ends.retain(|&Reverse((_, active))| active != index);
        if self.queues[class].ends.len() < before {
            self.end(index, self.now, self.queues[class].served, 0.0);
            self.queues[class].reset_if_idle();
        }
    }

    /// Notes the outcome of a transfer that has left its queue, with `served` of its class at its end, which was `late`
    /// nanoseconds ago.
    fn end(&mut self, index: usize, end: f64, served: f64, late: f64) {
        let (_, transfer) = self.transfers[index];
        let queue = &self.queues[transfer.class];
        let progress = &mut self.progress[index];
        let bytes = (served - progress.begun).min(transfer.bytes);
        progress.outcome = TransferOutcome { bytes, end, limit: queue.limit() };
        progress.paces = since(&queue.paces, &progress.before, (queue.rate, late));
        self.under_way -= 1;
        if let Some(ended) = self.settings.ended {
            ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn solve(&mut self) {
        for (class, queue) in self.queues.iter().enumerate() {
            self.active.set_count(class, queue.count());
        }
        if self.solutions >= MOST_SOLUTIONS {
            return;
        }
        self.active.forget(|class| self.queues[class].to_come == 0);
        self.solutions += self.active.solve(self.settings.solve);
        for (queue, &rate) in self.queues.iter_mut().zip(&self.active.rates) {
            queue.rate = if queue.ends.is_empty() { 0.0 } else { rate };
        }
        let residual = self.active.residual();
        let is_settled = residual <= self.settings.solve.tolerance;
        self.off = if is_settled { 0.0 } else { residual.min(1.0) };
    }

    /// Adds the outcomes of the part to those of the whole.
    pub(super) fn put_into(self, whole: &mut FlowRun, part: &NetworkPart) {
        for ((index, _), progress) in self.transfers.iter().zip(self.progress) {
            let limit = progress.outcome.limit.map(|at| part.resources[at]);
            whole.outcomes[*index] = TransferOutcome { limit, ..progress.outcome };
            whole.paces[*index] = progress.paces;
        }
        let mut phases: Vec<TransferSet> = self.phases.into_values().collect();
        phases.sort_by(|a, b| b.time.total_cmp(&a.time));
        phases.truncate(PHASES);
        for (member, _) in phases.iter_mut().flat_map(|phase| &mut phase.members) {
            *member = self.transfers[*member].0;
        }
        whole.phases.push(phases);
        whole.sets += self.sets;
        whole.solutions += self.solutions;
        whole.unsettled = whole.unsettled.max(self.off_so_far / self.now.max(1.0));
    }
}

/// Paces since a moment, in order of rates, less those at `rate` for the time `over`.
fn since(now: &Paces, before: &Paces, (rate, over): (f64, f64)) -> Vec<TransferPace> {
    let last = TransferPace::number(rate);
    let pace = |(number, pace): (&i32, &TransferPace)| {
        let before = before.get(number).copied().unwrap_or_default();
        let over = if *number == last { over } else { 0.0 };
        TransferPace {
            bytes: pace.bytes - before.bytes - rate * over,
            time: pace.time - before.time - over,
        }
    };
    now.iter().map(pace).filter(|pace| pace.time > 0.0).collect()
}
