//! The transfers of a part of a network, from the first start to the last end.
//!
//! Leaves out the rates, see `active`. The one thing to know: of many transfers, ends near each other lead to one solution.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::Ordering;

use super::super::parts::{Part, View};
use super::active::Active;
use super::{Outcome, Pace, Paces, Phase, Run, RunSettings, Transfer};

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
struct Queue {
    /// Payload of a transfer that was always active.
    served: f64,
    rate: f64,
    /// `served` at each end, and the transfer.
    ends: BinaryHeap<Reverse<(Ordered, usize)>>,
}

/// Transfers in order of a moment of each.
struct Moments(Vec<(f64, usize)>);

impl Moments {
    fn new(transfers: &[(usize, Transfer)], moment: impl Fn(&Transfer) -> f64) -> Self {
        let moments = transfers.iter().enumerate().map(|(at, (_, one))| (moment(one), at));
        let mut moments: Vec<_> = moments.filter(|(moment, _)| moment.is_finite()).collect();
        moments.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        Self(moments)
    }

    /// The next moment.
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
    queues: Vec<Queue>,
    now: f64,
    outcomes: Vec<Outcome>,
    /// `served` of its class when each transfer began.
    begun: Vec<f64>,
    /// By class, the time for which each resource limited it.
    limited: Vec<BTreeMap<u32, f64>>,
    /// The last start, and the number of active transfers.
    last_begin: f64,
    under_way: usize,
    /// By class, transfers that have not begun.
    to_come: Vec<u32>,
    phases: BTreeMap<Vec<(usize, u32)>, Phase>,
    /// Paces by class of a transfer that was always active, and those before each transfer began.
    paces: Vec<Paces>,
    before: Vec<Paces>,
    /// Paces of the transfers that have ended.
    own: Vec<Vec<Pace>>,
    sets: usize,
    solutions: u64,
    /// Residual of the present rates where they have not settled, and its integral over time.
    off: f64,
    off_so_far: f64,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(view: View<'a>, settings: RunSettings<'a>) -> Self {
        let classes = view.part.first.len();
        Self {
            settings,
            active: Active::new(view),
            queues: vec![Queue::default(); classes],
            now: 0.0,
            outcomes: Vec::new(),
            begun: Vec::new(),
            limited: vec![BTreeMap::new(); classes],
            last_begin: 0.0,
            under_way: 0,
            to_come: vec![0; classes],
            phases: BTreeMap::new(),
            paces: vec![Paces::new(); classes],
            before: Vec::new(),
            own: Vec::new(),
            sets: 0,
            solutions: 0,
            off: 0.0,
            off_so_far: 0.0,
        }
    }

    pub(super) fn run(mut self, transfers: &[(usize, Transfer)]) -> Self {
        self.outcomes = vec![Outcome::default(); transfers.len()];
        self.begun = vec![0.0; transfers.len()];
        self.before = vec![Paces::new(); transfers.len()];
        self.own = vec![Vec::new(); transfers.len()];
        for (_, transfer) in transfers {
            self.to_come[transfer.class] += 1;
        }
        let mut begins = Moments::new(transfers, |transfer| transfer.start);
        let mut stops = Moments::new(transfers, |transfer| transfer.start + transfer.time);
        loop {
            let next = self.next_end().min(begins.next()).min(stops.next());
            if !next.is_finite() {
                break;
            }
            // Everything that happens within a quantum is one change.
            let quantum = next + self.settings.quantum;
            let by = quantum.max(self.together(next).min(begins.next())).min(stops.next());
            self.advance(by.max(self.now));
            self.end_served(transfers, by);
            while let Some(index) = begins.take(by) {
                self.begin(index, transfers[index].1, by);
            }
            // After the starts: a transfer may start and stop within a quantum.
            while let Some(index) = stops.take(by) {
                self.stop(index, transfers[index].1);
            }
            self.solve();
        }
        self.stop_all(transfers);
        self
    }

    /// End of the span in which ends lead to one solution, from the first of them on.
    fn together(&self, next: f64) -> f64 {
        let mut shares = TOGETHER.iter().filter(|(few, _)| self.under_way > *few);
        let share = shares.next().map_or(0.0, |(_, share)| *share).max(self.settings.together);
        next + share * (next - self.last_begin)
    }

    /// Begins a transfer, with the rate of its class since its start within the quantum before now.
    fn begin(&mut self, index: usize, transfer: Transfer, now: f64) {
        let queue = &mut self.queues[transfer.class];
        let ahead = (now - transfer.start).max(0.0) * queue.rate;
        self.begun[index] = queue.served - ahead;
        self.before[index].clone_from(&self.paces[transfer.class]);
        let end = self.begun[index] + transfer.bytes;
        queue.ends.push(Reverse((Ordered(end), index)));
        self.to_come[transfer.class] -= 1;
        self.under_way += 1;
        self.last_begin = now;
    }

    /// The next end of an active transfer.
    fn next_end(&self) -> f64 {
        let end = |queue: &Queue| match queue.ends.peek() {
            Some(Reverse((end, _))) if queue.rate > 0.0 => {
                self.now + ((end.0 - queue.served) / queue.rate).max(0.0)
            }
            _ => f64::INFINITY,
        };
        self.queues.iter().map(end).fold(f64::INFINITY, f64::min)
    }

    fn advance(&mut self, to: f64) {
        let time = to - self.now;
        for (class, queue) in
            self.queues.iter_mut().enumerate().filter(|(_, queue)| !queue.ends.is_empty())
        {
            queue.served += queue.rate * time;
            let limit = self.active.limits[class].unwrap_or(u32::MAX);
            *self.limited[class].entry(limit).or_default() += time;
            if queue.rate > 0.0 && time > 0.0 {
                let pace = self.paces[class].entry(Pace::number(queue.rate)).or_default();
                pace.bytes += queue.rate * time;
                pace.time += time;
            }
        }
        if time > 0.0 {
            self.note_phase(time);
        }
        self.off_so_far += self.off * time;
        self.now = to;
    }

    fn note_phase(&mut self, time: f64) {
        let active: Vec<(usize, u32)> = self
            .queues
            .iter()
            .enumerate()
            .filter(|(_, queue)| !queue.ends.is_empty())
            .map(|(class, queue)| (class, u32::try_from(queue.ends.len()).unwrap_or(u32::MAX)))
            .collect();
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
            let Some(key) =
                shortest.filter(|(_, phase)| phase.time < time).map(|(key, _)| key.clone())
            else {
                return;
            };
            self.phases.remove(&key);
        }
        let of_queue = |queue: &Queue| {
            let members = queue.ends.iter().map(|Reverse((_, index))| (*index, queue.rate));
            members.collect::<Vec<_>>()
        };
        let mut members: Vec<(usize, f64)> = self.queues.iter().flat_map(of_queue).collect();
        members.sort_unstable_by_key(|&(index, _)| index);
        self.phases.insert(active, Phase { members, time });
    }

    /// Ends the transfers that are served by now, each at its own moment.
    fn end_served(&mut self, transfers: &[(usize, Transfer)], by: f64) {
        let mut ended = 0;
        for class in 0..self.queues.len() {
            let queue = &mut self.queues[class];
            let tolerance = queue.served.abs() * 1e-12;
            while let Some(&Reverse((end, index))) = queue.ends.peek() {
                let left = end.0 - queue.served;
                // After a very long time the rest may take less than the clock resolves.
                if left > tolerance && (queue.rate <= 0.0 || by + left / queue.rate > by) {
                    break;
                }
                queue.ends.pop();
                let late = if queue.rate > 0.0 { (queue.served - end.0) / queue.rate } else { 0.0 };
                self.outcomes[index] = Outcome {
                    bytes: transfers[index].1.bytes,
                    end: (by - late).max(transfers[index].1.start),
                    limit: longest(&self.limited[class]),
                };
                let over = (queue.rate, late);
                self.own[index] = since(&self.paces[class], &self.before[index], over);
                ended += 1;
            }
            self.forget(class);
        }
        self.count_ended(ended);
    }

    fn count_ended(&mut self, count: usize) {
        self.under_way -= count;
        if let Some(ended) = self.settings.ended {
            ended.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Resets an idle class, so that small numbers stay exact.
    fn forget(&mut self, class: usize) {
        if self.queues[class].ends.is_empty() {
            self.queues[class].served = 0.0;
            self.limited[class].clear();
            self.paces[class].clear();
        }
    }

    /// Stops an active transfer whose time is over.
    fn stop(&mut self, index: usize, transfer: Transfer) {
        let queue = &mut self.queues[transfer.class];
        let before = queue.ends.len();
        queue.ends.retain(|&Reverse((_, active))| active != index);
        if queue.ends.len() < before {
            let bytes = (queue.served - self.begun[index]).min(transfer.bytes);
            let limit = longest(&self.limited[transfer.class]);
            self.outcomes[index] = Outcome { bytes, end: self.now, limit };
            self.own[index] = since(&self.paces[transfer.class], &self.before[index], (0.0, 0.0));
            self.count_ended(1);
            self.forget(transfer.class);
        }
    }

    fn solve(&mut self) {
        for (class, queue) in self.queues.iter().enumerate() {
            self.active.set_count(class, u32::try_from(queue.ends.len()).unwrap_or(u32::MAX));
        }
        if self.solutions >= MOST_SOLUTIONS {
            return;
        }
        self.active.forget(|class| self.to_come[class] == 0);
        self.active.solve(self.settings.solve);
        self.solutions += 1;
        for (queue, &rate) in self.queues.iter_mut().zip(&self.active.rates) {
            queue.rate = if queue.ends.is_empty() { 0.0 } else { rate };
        }
        let residual = self.active.residual;
        let is_settled = residual <= self.settings.solve.tolerance;
        self.off = if is_settled { 0.0 } else { residual.min(1.0) };
    }

    /// Stops active transfers whose rate is zero.
    fn stop_all(&mut self, transfers: &[(usize, Transfer)]) {
        let classes = self.queues.iter_mut().zip(&self.limited).zip(&self.paces);
        for ((queue, limited), paces) in classes {
            for Reverse((_, index)) in queue.ends.drain() {
                let bytes = (queue.served - self.begun[index]).min(transfers[index].1.bytes);
                self.outcomes[index] = Outcome { bytes, end: self.now, limit: longest(limited) };
                self.own[index] = since(paces, &self.before[index], (0.0, 0.0));
            }
        }
    }

    pub(super) fn put_into(self, whole: &mut Run, part: &Part, transfers: &[(usize, Transfer)]) {
        for ((index, _), paces) in transfers.iter().zip(self.own) {
            whole.paces[*index] = paces;
        }
        for ((index, _), outcome) in transfers.iter().zip(&self.outcomes) {
            let limit = outcome.limit.map(|at| part.resources[at]);
            whole.outcomes[*index] = Outcome { limit, ..*outcome };
        }
        let mut phases: Vec<Phase> = self.phases.into_values().collect();
        phases.sort_by(|a, b| b.time.total_cmp(&a.time));
        phases.truncate(PHASES);
        for phase in &mut phases {
            for (member, _) in &mut phase.members {
                *member = transfers[*member].0;
            }
        }
        whole.phases.push(phases);
        whole.sets += self.sets;
        whole.solutions += self.solutions;
        whole.unsettled = whole.unsettled.max(self.off_so_far / self.now.max(1.0));
    }
}

/// Paces since a moment, in order of rates, less those at `rate` for the time `over`.
fn since(now: &Paces, before: &Paces, (rate, over): (f64, f64)) -> Vec<Pace> {
    let last = Pace::number(rate);
    let of = |(number, pace): (&i32, &Pace)| {
        let before = before.get(number).copied().unwrap_or_default();
        let over = if *number == last { over } else { 0.0 };
        Pace {
            bytes: pace.bytes - before.bytes - rate * over,
            time: pace.time - before.time - over,
        }
    };
    now.iter().map(of).filter(|pace| pace.time > 0.0).collect()
}

/// The resource that limited longest.
fn longest(limited: &BTreeMap<u32, f64>) -> Option<usize> {
    let longest = limited.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
    longest.filter(|(at, _)| **at != u32::MAX).map(|(at, _)| *at as usize)
}
