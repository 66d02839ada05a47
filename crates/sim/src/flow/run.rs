//! Transfers that begin and end: rates are solved anew whenever the set of active ones changes.
//!
//! Leaves out what happens within the moments between two sets: rates change at once. The one thing to
//! know: parts of the network that share nothing run on their own, so that an end in one costs nothing
//! in another, and the result does not depend on the number of threads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rayon::prelude::*;

use super::network::{Network, NetworkError};
use super::parts::{Part, Parts, View};
use super::solve::{Settings, Solution, Solver};
use crate::threads;

/// One transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Its class in the network, whose own `count` is not looked at.
    pub class: usize,
    /// When it begins, in nanoseconds.
    pub start: f64,
    /// Payload to move; infinite for one that goes on until its time is over.
    pub bytes: f64,
    /// How long it goes on at most, in nanoseconds; infinite for one that ends by its payload.
    pub time: f64,
}

/// How a run is carried out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunSettings {
    /// For each solution.
    pub solve: Settings,
    /// Ends that lie no further apart, in nanoseconds, lead to one solution.
    pub quantum: f64,
}

/// What one transfer did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Payload moved.
    pub bytes: f64,
    /// When it ended, in nanoseconds.
    pub end: f64,
    /// The resource that limited it for the longest time; `None` where that was its own demand.
    pub limit: Option<usize>,
}

/// A set of active transfers, and how it went while they were.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// For each class of the whole network that has any, how many transfers were active.
    pub active: Vec<(usize, u32)>,
    /// Rate of each of those, payload a nanosecond.
    pub rates: Vec<f64>,
    /// The transfers themselves, and the rate of each.
    pub members: Vec<(usize, f64)>,
    /// How long such a set was active, in nanoseconds.
    pub time: f64,
    /// When it was first.
    pub first: f64,
}

/// What a transfer moved at about one rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pace {
    /// Payload.
    pub bytes: f64,
    /// How long that took, in nanoseconds.
    pub time: f64,
}

/// Paces by the number of their rate.
type Paces = BTreeMap<i32, Pace>;

impl Pace {
    /// The rates that count as one: 5 % wide.
    #[expect(clippy::cast_possible_truncation, reason = "some hundreds")]
    fn of(rate: f64) -> i32 {
        (rate.ln() / 1.05_f64.ln()).floor() as i32
    }

    /// The mean rate, payload a nanosecond.
    pub fn rate(&self) -> f64 {
        self.bytes / self.time
    }
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// One for each transfer.
    pub outcomes: Vec<Outcome>,
    /// What each resource carried, in its unit.
    pub carried: Vec<f64>,
    /// When the last transfer ended.
    pub end: f64,
    /// The sets of active transfers of each part that lasted longest, longest first.
    pub phases: Vec<Vec<Phase>>,
    /// At which rates each transfer moved how much, slowest first.
    pub paces: Vec<Vec<Pace>>,
    /// Sets of active transfers that there were, those that are not kept, too.
    pub sets: usize,
    /// How often rates were solved.
    pub solutions: u64,
    /// The largest residual of those.
    pub residual: f64,
    /// The residual of those that had not settled, at most 1, on average over the time of the part of the network where
    /// that is most; 0 where all had.
    pub unsettled: f64,
}

/// Phases kept for each part.
const PHASES: usize = 8;
/// Solutions for each part at most; beyond, transfers keep the rate that they have.
const MOST_SOLUTIONS: u64 = 10_000_000;

/// Runs transfers on a network.
///
/// # Errors
/// What [`Network::check`] finds.
pub fn run(
    network: &Network,
    transfers: &[Transfer],
    settings: RunSettings,
) -> Result<Run, NetworkError> {
    network.check()?;
    threads::prepare();
    let parts = Parts::of(network);
    let mut part_of = vec![(0, 0); network.classes.len()];
    for (number, part) in parts.parts.iter().enumerate() {
        for &(whole, class) in &part.members {
            part_of[whole] = (number, class);
        }
    }
    let mut of_part: Vec<Vec<(usize, Transfer)>> = vec![Vec::new(); parts.parts.len()];
    for (index, transfer) in transfers.iter().enumerate() {
        let (part, class) = part_of[transfer.class];
        of_part[part].push((index, Transfer { class, ..*transfer }));
    }
    let runs: Vec<PartRun> = parts
        .parts
        .par_iter()
        .zip(&of_part)
        .map(|(part, transfers)| PartRun::new(parts.view(part), settings).run(transfers))
        .collect();
    let mut whole = Run {
        outcomes: vec![Outcome::default(); transfers.len()],
        carried: vec![0.0; network.resources.len()],
        paces: vec![Vec::new(); transfers.len()],
        ..Run::default()
    };
    for ((part, run), transfers) in parts.parts.iter().zip(runs).zip(&of_part) {
        run.put_into(&mut whole, part, transfers);
    }
    Ok(whole)
}

/// A number that heaps can order.
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

/// The transfers of a class that are active. They have one rate, so that each ends when the class has
/// served so much more than when it began.
#[derive(Debug, Clone, Default)]
struct Queue {
    /// Payload that a transfer which was always active would have moved.
    served: f64,
    rate: f64,
    /// What `served` will be at each end, and whose.
    ends: BinaryHeap<Reverse<(Ordered, usize)>>,
}

/// Transfers by a moment of each, in order.
struct Moments(Vec<(f64, usize)>);

impl Moments {
    /// Those whose moment comes.
    fn of(transfers: &[(usize, Transfer)], moment: impl Fn(&Transfer) -> f64) -> Self {
        let moments = transfers.iter().enumerate().map(|(at, (_, one))| (moment(one), at));
        let mut moments: Vec<_> = moments.filter(|(moment, _)| moment.is_finite()).collect();
        moments.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        Self(moments)
    }

    /// The first that has not come.
    fn next(&self) -> f64 {
        self.0.last().map_or(f64::INFINITY, |&(moment, _)| moment)
    }

    /// Takes the first transfer whose moment has come by then.
    fn take(&mut self, by: f64) -> Option<usize> {
        let &(_, index) = self.0.last().filter(|(moment, _)| *moment <= by)?;
        self.0.pop();
        Some(index)
    }
}

struct PartRun {
    settings: RunSettings,
    solver: Solver,
    queues: Vec<Queue>,
    now: f64,
    outcomes: Vec<Outcome>,
    /// What its class had been served when each transfer began.
    begun: Vec<f64>,
    /// For each class, how long each resource limited it, and the one that did last.
    limited: Vec<BTreeMap<u32, f64>>,
    limit: Vec<Option<u32>>,
    load: Vec<f64>,
    carried: Vec<f64>,
    phases: BTreeMap<Vec<(usize, u32)>, Phase>,
    /// For each class, how a transfer went that was always active, and what of that was before each transfer began.
    paces: Vec<Paces>,
    before: Vec<Paces>,
    /// How each transfer went that has ended.
    own: Vec<Vec<Pace>>,
    sets: usize,
    solutions: u64,
    residual: f64,
    /// How far from settled the rates of now are, and those so far over time.
    off: f64,
    off_so_far: f64,
}

impl PartRun {
    fn new(view: View, settings: RunSettings) -> Self {
        let (classes, resources) = (view.part.first.len(), view.part.resources.len());
        let mut solver = Solver::of(view);
        (0..classes).for_each(|class| solver.set_count(class, 0));
        Self {
            settings,
            solver,
            queues: vec![Queue::default(); classes],
            now: 0.0,
            outcomes: Vec::new(),
            begun: Vec::new(),
            limited: vec![BTreeMap::new(); classes],
            limit: vec![None; classes],
            load: vec![0.0; resources],
            carried: vec![0.0; resources],
            phases: BTreeMap::new(),
            paces: vec![Paces::new(); classes],
            before: Vec::new(),
            own: Vec::new(),
            sets: 0,
            solutions: 0,
            residual: 0.0,
            off: 0.0,
            off_so_far: 0.0,
        }
    }

    fn run(mut self, transfers: &[(usize, Transfer)]) -> Self {
        self.outcomes = vec![Outcome::default(); transfers.len()];
        self.begun = vec![0.0; transfers.len()];
        self.before = vec![Paces::new(); transfers.len()];
        self.own = vec![Vec::new(); transfers.len()];
        let mut begins = Moments::of(transfers, |transfer| transfer.start);
        let mut stops = Moments::of(transfers, |transfer| transfer.start + transfer.time);
        loop {
            let next = self.next_end().min(begins.next()).min(stops.next());
            if !next.is_finite() {
                break;
            }
            // Everything that happens within a quantum is one change.
            let by = (next + self.settings.quantum).min(stops.next());
            self.advance(by.max(self.now));
            self.end_served(transfers, by);
            while let Some(index) = begins.take(by) {
                let transfer = transfers[index].1;
                let queue = &mut self.queues[transfer.class];
                // What began within the quantum has had its rate since then.
                let ahead = (by - transfer.start).max(0.0) * queue.rate;
                self.begun[index] = queue.served - ahead;
                self.before[index].clone_from(&self.paces[transfer.class]);
                let end = self.begun[index] + transfer.bytes;
                queue.ends.push(Reverse((Ordered(end), index)));
            }
            // Behind those that begin, since one may do both within a quantum.
            while let Some(index) = stops.take(by) {
                self.stop(index, transfers[index].1);
            }
            self.solve();
        }
        self.stop_all(transfers);
        self
    }

    /// When the next active transfer ends.
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
            let limit = self.limit[class].unwrap_or(u32::MAX);
            *self.limited[class].entry(limit).or_default() += time;
            if queue.rate > 0.0 && time > 0.0 {
                let pace = self.paces[class].entry(Pace::of(queue.rate)).or_default();
                pace.bytes += queue.rate * time;
                pace.time += time;
            }
        }
        for (carried, load) in self.carried.iter_mut().zip(&self.load) {
            *carried += load * time;
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
        let rates = active.iter().map(|&(class, _)| self.queues[class].rate).collect();
        let of_queue = |queue: &Queue| {
            let members = queue.ends.iter().map(|Reverse((_, index))| (*index, queue.rate));
            members.collect::<Vec<_>>()
        };
        let mut members: Vec<(usize, f64)> = self.queues.iter().flat_map(of_queue).collect();
        members.sort_unstable_by_key(|&(index, _)| index);
        let phase = Phase { active: active.clone(), rates, members, time, first: self.now };
        self.phases.insert(active, phase);
    }

    /// Takes off what has ended by now, each at its own moment.
    fn end_served(&mut self, transfers: &[(usize, Transfer)], by: f64) {
        for class in 0..self.queues.len() {
            let queue = &mut self.queues[class];
            let tolerance = queue.served.abs() * 1e-12;
            while let Some(&Reverse((end, index))) = queue.ends.peek() {
                let left = end.0 - queue.served;
                // After a very long time what is left may take less than the clock can tell apart.
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
                self.own[index] = since(&self.paces[class], &self.before[index]);
            }
            self.forget(class);
        }
    }

    /// Begins the count of what a class has been served anew where no transfer of it is left: small numbers stay exact.
    fn forget(&mut self, class: usize) {
        if self.queues[class].ends.is_empty() {
            self.queues[class].served = 0.0;
            self.limited[class].clear();
            self.paces[class].clear();
        }
    }

    /// Ends a transfer whose time is over, if it is still active.
    fn stop(&mut self, index: usize, transfer: Transfer) {
        let queue = &mut self.queues[transfer.class];
        let before = queue.ends.len();
        queue.ends.retain(|&Reverse((_, active))| active != index);
        if queue.ends.len() < before {
            let bytes = (queue.served - self.begun[index]).min(transfer.bytes);
            let limit = longest(&self.limited[transfer.class]);
            self.outcomes[index] = Outcome { bytes, end: self.now, limit };
            self.own[index] = since(&self.paces[transfer.class], &self.before[index]);
            self.forget(transfer.class);
        }
    }

    fn solve(&mut self) {
        for (class, queue) in self.queues.iter().enumerate() {
            self.solver.set_count(class, u32::try_from(queue.ends.len()).unwrap_or(u32::MAX));
        }
        if self.solutions >= MOST_SOLUTIONS {
            return;
        }
        let solution = self.solver.solve(self.settings.solve);
        let is_settled = solution.has_converged(self.settings.solve);
        let Solution { rates, limits, load, residual, .. } = solution;
        self.off = if is_settled { 0.0 } else { residual.min(1.0) };
        for (queue, rate) in self.queues.iter_mut().zip(rates) {
            queue.rate = if queue.ends.is_empty() { 0.0 } else { rate };
        }
        self.limit = limits;
        self.load = load;
        self.solutions += 1;
        self.residual = self.residual.max(residual);
    }

    /// Ends what is still active though it gets nothing any more.
    fn stop_all(&mut self, transfers: &[(usize, Transfer)]) {
        let classes = self.queues.iter_mut().zip(&self.limited).zip(&self.paces);
        for ((queue, limited), paces) in classes {
            for Reverse((_, index)) in queue.ends.drain() {
                let bytes = (queue.served - self.begun[index]).min(transfers[index].1.bytes);
                self.outcomes[index] = Outcome { bytes, end: self.now, limit: longest(limited) };
                self.own[index] = since(paces, &self.before[index]);
            }
        }
    }

    fn put_into(self, whole: &mut Run, part: &Part, transfers: &[(usize, Transfer)]) {
        for ((index, _), paces) in transfers.iter().zip(self.own) {
            whole.paces[*index] = paces;
        }
        for ((index, _), outcome) in transfers.iter().zip(&self.outcomes) {
            let limit = outcome.limit.map(|at| part.resources[at]);
            whole.outcomes[*index] = Outcome { limit, ..*outcome };
            whole.end = whole.end.max(outcome.end);
        }
        for (&resource, carried) in part.resources.iter().zip(&self.carried) {
            whole.carried[resource] = *carried;
        }
        let mut phases: Vec<Phase> = self.phases.into_values().collect();
        phases.sort_by(|a, b| b.time.total_cmp(&a.time).then(a.first.total_cmp(&b.first)));
        phases.truncate(PHASES);
        for phase in &mut phases {
            for (class, _) in &mut phase.active {
                *class = part.first[*class];
            }
            for (member, _) in &mut phase.members {
                *member = transfers[*member].0;
            }
        }
        whole.phases.push(phases);
        whole.sets += self.sets;
        whole.solutions += self.solutions;
        whole.residual = whole.residual.max(self.residual);
        whole.unsettled = whole.unsettled.max(self.off_so_far / self.now.max(1.0));
    }
}

/// What came since, in order of rates.
fn since(now: &Paces, before: &Paces) -> Vec<Pace> {
    let of = |(rate, pace): (&i32, &Pace)| {
        let before = before.get(rate).copied().unwrap_or_default();
        Pace { bytes: pace.bytes - before.bytes, time: pace.time - before.time }
    };
    now.iter().map(of).filter(|pace| pace.time > 0.0).collect()
}

/// The resource that limited for the longest time.
fn longest(limited: &BTreeMap<u32, f64>) -> Option<usize> {
    let longest = limited.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
    longest.filter(|(at, _)| **at != u32::MAX).map(|(at, _)| *at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::network::{Class, Hop, NONE, Resource};

    /// One link of 4 bytes a nanosecond, and transfers that ask for 3.
    fn link(classes: usize) -> Network {
        let hop = Hop { resource: 0, port: NONE, turn: 1.0, cost: 1.0 };
        Network {
            resources: vec![Resource {
                capacity: 4.0,
                rank: 0,
                is_held: false,
                ..Resource::default()
            }],
            classes: vec![
                Class { count: 1, demand: 3.0, legs: vec![vec![hop]], ..Class::default() };
                classes
            ],
        }
    }

    fn settings() -> RunSettings {
        RunSettings { solve: Settings::default(), quantum: 0.0 }
    }

    fn transfer(class: usize, start: f64, bytes: f64) -> Transfer {
        Transfer { class, start, bytes, time: f64::INFINITY }
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-6 * expected
    }

    #[test]
    fn a_transfer_speeds_up_when_another_ends() {
        let transfers = [transfer(0, 0.0, 100.0), transfer(1, 0.0, 500.0)];
        let run = run(&link(2), &transfers, settings()).expect("in order");
        // Both at 2 until 50, then 400 bytes at 3.
        assert!(near(run.outcomes[0].end, 50.0), "{run:?}");
        assert!(near(run.outcomes[1].end, 50.0 + 400.0 / 3.0), "{run:?}");
        assert!(near(run.carried[0], 600.0));
        assert_eq!(run.outcomes[0].limit, Some(0));
    }

    #[test]
    fn a_transfer_of_several_legs_speeds_up_as_well() {
        let mut network = link(2);
        for (class, rank) in network.classes.iter_mut().zip(1..) {
            // Each has a medium of its own, which is slower than the link alone.
            class.add(vec![Hop { resource: rank, port: NONE, turn: 1.0, cost: 1.0 }], 1.0);
            network.resources.push(Resource { capacity: 3.0, rank: 0, ..Resource::default() });
        }
        let transfers = [transfer(0, 0.0, 100.0), transfer(1, 0.0, 500.0)];
        let run = run(&network, &transfers, settings()).expect("in order");
        assert!((run.outcomes[0].end / 50.0 - 1.0).abs() < 1e-3, "{run:?}");
        assert!((run.outcomes[1].end / (50.0 + 400.0 / 3.0) - 1.0).abs() < 1e-3, "{run:?}");
    }

    #[test]
    fn a_transfer_that_comes_later_takes_its_turn_from_then_on() {
        let transfers = [transfer(0, 0.0, 300.0), transfer(0, 50.0, 100.0)];
        let run = run(&link(1), &transfers, settings()).expect("in order");
        // 150 bytes alone at 3, then both at 2: the second ends at 100, the first has 50 left at 3.
        assert!(near(run.outcomes[1].end, 100.0), "{run:?}");
        assert!(near(run.outcomes[0].end, 100.0 + 50.0 / 3.0), "{run:?}");
    }

    #[test]
    fn each_transfer_has_the_rates_at_which_it_went_itself() {
        let transfers = [transfer(0, 0.0, 300.0), transfer(0, 50.0, 100.0), transfer(0, 1e3, 30.0)];
        let run = run(&link(1), &transfers, settings()).expect("in order");
        let of = |index: usize| -> Vec<(f64, f64)> {
            run.paces[index].iter().map(|pace| (pace.rate(), pace.bytes)).collect()
        };
        let expected = [vec![(2.0, 100.0), (3.0, 200.0)], vec![(2.0, 100.0)], vec![(3.0, 30.0)]];
        for (index, expected) in expected.iter().enumerate() {
            let found = of(index);
            let is_near = found.len() == expected.len()
                && found.iter().zip(expected).all(|(a, b)| near(a.0, b.0) && near(a.1, b.1));
            assert!(is_near, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn what_has_no_end_stops_when_time_is_up() {
        let endless = |start| Transfer { time: 30.0, ..transfer(0, start, f64::INFINITY) };
        let exact = run(&link(1), &[endless(0.0), endless(0.0)], settings()).expect("in order");
        assert!(exact.outcomes.iter().all(|one| near(one.bytes, 60.0)), "{exact:?}");
        assert!(near(exact.end, 30.0));
        // One that is over within a quantum is over, too.
        let settings = RunSettings { quantum: 1_000.0, ..settings() };
        let batched = run(&link(1), &[endless(0.0), endless(5.0)], settings).expect("in order");
        assert!(near(batched.outcomes[0].end, 30.0) && near(batched.outcomes[1].end, 35.0));
    }

    #[test]
    fn each_transfer_has_its_time_from_when_it_began() {
        let timed = |start, bytes| Transfer { time: 30.0, ..transfer(0, start, bytes) };
        let transfers = [timed(0.0, f64::INFINITY), timed(10.0, f64::INFINITY), timed(100.0, 30.0)];
        let run = run(&link(1), &transfers, settings()).expect("in order");
        // 10 ns alone at 3, 20 together at 2, 10 alone; the last begins when all is over, and ends by its bytes.
        let bytes = run.outcomes.iter().map(|outcome| outcome.bytes);
        assert!(bytes.zip([70.0, 70.0, 30.0]).all(|(a, b)| near(a, b)), "{run:?}");
        let ends = run.outcomes.iter().map(|outcome| outcome.end);
        assert!(ends.zip([30.0, 40.0, 110.0]).all(|(a, b)| near(a, b)), "{run:?}");
        assert!(run.outcomes.iter().all(|one| one.limit.is_none() || one.limit == Some(0)));
    }

    #[test]
    fn what_takes_less_than_the_clock_can_tell_apart_ends() {
        // At 1e30 ns the next moment is 1e14 ns later, and 300 bytes take 100.
        let transfers = [transfer(0, 1e30, 300.0), transfer(0, 1e30, 600.0)];
        let run = run(&link(1), &transfers, settings()).expect("in order");
        assert!(
            run.outcomes.iter().all(|one| near(one.end, 1e30) && one.bytes >= 300.0),
            "{run:?}"
        );
    }

    #[test]
    fn ends_within_a_quantum_take_one_solution() {
        let transfers: Vec<Transfer> =
            (0..10).map(|index| transfer(0, 0.0, 1000.0 + f64::from(index))).collect();
        let exact = run(&link(1), &transfers, settings()).expect("in order");
        let settings = RunSettings { quantum: 100.0, ..settings() };
        let batched = run(&link(1), &transfers, settings).expect("in order");
        assert!(batched.solutions < exact.solutions, "{} {}", batched.solutions, exact.solutions);
        for (a, b) in exact.outcomes.iter().zip(&batched.outcomes) {
            assert!((a.end - b.end).abs() <= 0.05 * a.end && near(a.bytes, b.bytes), "{a:?} {b:?}");
        }
    }

    #[test]
    fn what_has_not_settled_in_its_rounds_is_told() {
        // A queue in front of two outputs of which one is slow takes rounds.
        let hop = |resource, port| Hop { resource, port, turn: 1.0, cost: 1.0 };
        let resource = |capacity, rank| Resource { capacity, rank, ..Resource::default() };
        let leg = |output| vec![vec![hop(0, NONE), hop(output, 0)]];
        let class = |output| Class { count: 1, demand: 3.0, legs: leg(output), ..Class::default() };
        let network = Network {
            resources: vec![resource(4.0, 0), resource(1.0, 1), resource(4.0, 1)],
            classes: vec![class(1), class(2)],
        };
        let transfers =
            [0, 1].map(|class| Transfer { time: 100.0, ..transfer(class, 0.0, f64::INFINITY) });
        let of = |rounds| {
            let solve = Settings { tolerance: 1e-6, rounds };
            let settings = RunSettings { solve, quantum: 0.0 };
            run(&network, &transfers, settings).expect("in order").unsettled
        };
        assert!(of(1) > 0.1, "{}", of(1));
        assert_eq!(of(2000), 0.0);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let mut network = link(0);
        network.resources =
            vec![Resource { capacity: 4.0, rank: 0, is_held: false, ..Resource::default() }; 40];
        for resource in 0..40 {
            let hop = Hop { resource, port: NONE, turn: 1.0, cost: 1.0 + f64::from(resource) };
            network.classes.push(Class {
                count: 1,
                demand: 3.0,
                legs: vec![vec![hop]],
                ..Class::default()
            });
        }
        let transfers: Vec<Transfer> =
            (0..400_u32).map(|i| transfer((i % 40) as usize, f64::from(i % 7), 100.0)).collect();
        let on = |threads| {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| run(&network, &transfers, settings()).expect("in order"))
        };
        assert_eq!(on(1), on(4));
    }
}
