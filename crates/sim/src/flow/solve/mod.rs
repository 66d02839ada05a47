//! The rates at which flows settle: a fixpoint of turn-taking arbiters and full buffers.
//!
//! A forward sweep visits resources by rank. Each takes turns among its inputs; an input that wants
//! more than its turn is cut to it, all its flows by the same factor, since they stand in one queue.
//! The buffer behind such an input fills up, so that the link into it carries only what the queue lets
//! go: its *effective* capacity sinks until what it brings and what is taken agree. `docs/model/flow.md`
//! derives the equations.
//!
//! Leaves out latency, bursts, and the order of packets. The one thing to know: existence and
//! uniqueness of the fixpoint are not proven; [`Solution::residual`] says how far from it a result is.

mod balance;
mod bursts;
mod fill;
mod heads;
mod layout;
mod maxmin;
mod means;
mod meet;
mod room;
mod sweep;
mod tags;
#[cfg(test)]
mod tests;

use bursts::Gaps;
use fill::Input;
use heads::{Crowd, Heads};
use layout::Layout;
use means::Means;
use meet::Met;
use room::Room;
use tags::Tags;

use super::network::{NONE, Network, NetworkError, Resource};
use super::parts::{Parts, View};

pub use maxmin::max_min;

/// Where two rates count as equal when it is asked who is cut.
const EDGE: f64 = 1e-6;
/// How much more a leg asks for than the slowest other leg of its flow gets.
const SLACK: f64 = 1e-4;
/// Share of a capacity that is left whatever goes ahead.
const LEAST: f64 = 0.01;
/// How much more a leg that went back and forth asks for in a round, in logarithms.
const MOST_GROWTH: f64 = std::f64::consts::LN_2;
/// Share of a change that a round makes before anything is known of the resource, and what it is multiplied with
/// after each that goes on the same way, and after each that goes back.
const DAMPING: f64 = 0.63;
const MORE: f64 = 1.08;
const LESS: f64 = 0.88;
/// How much of what the queue in front changed by in this round a queue follows at once.
const FOLLOW: f64 = 0.8;
/// A queue that is as full as this is full.
const NEARLY: f64 = 1e-3;
/// One to which so much less comes than it lets go, for so many rounds, is full no longer.
const ROOM: f64 = 0.01;
const EMPTY_AFTER: u32 = 10;
/// About how long a round trip takes when nothing waits, in nanoseconds.
const BASE: f64 = 1000.0;
/// Waits that are a smaller share of a round trip limit nobody.
const COUNTS: f64 = 0.1;
/// A round is traced that may be the last: the one before came as near to the tolerance as this.
const NEAR_END: f64 = 4.0;
/// Rounds between two looks at what goes ahead.
const OFTEN: u32 = 8;
/// Least and most share of a change; see [`Solver::damped`].
const DAMPING_RANGE: (f64, f64) = (0.02, 0.98);
/// Rounds after which shares shrink in proportion to the round, so that what goes round in circles
/// settles in the middle of them (Mann, "Mean value methods in iteration", 1953). Begins anew with each span of rounds whose
/// means differ from those before: shares that have shrunk too far lead nowhere.
const PATIENCE: f64 = 50.0;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Largest relative change that a further round would make.
    pub tolerance: f64,
    /// Most rounds.
    pub rounds: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tolerance: 1e-4, rounds: 2000 }
    }
}

/// Where flows settle.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Payload a nanosecond of each flow of each class.
    pub rates: Vec<f64>,
    /// What limits each class; `None` where its own demand does.
    pub limits: Vec<Option<u32>>,
    /// What all flows put on each resource, in its unit.
    pub load: Vec<f64>,
    /// Rounds that it took.
    pub rounds: u32,
    /// Largest relative change that a further round would make. Of what goes in circles, the largest
    /// relative difference between the means over the last two spans of rounds.
    pub residual: f64,
}

impl Solution {
    /// Whether the last round was within the tolerance.
    pub fn has_converged(&self, settings: Settings) -> bool {
        self.residual <= settings.tolerance
    }
}

/// Solves a network again and again while flows come and go, each time from where it stood.
#[derive(Debug)]
pub struct Solver {
    layout: Layout,
    resources: Vec<Resource>,
    /// What each flow of each class asks for.
    each: Vec<f64>,
    /// How many flows of each class there are now.
    counts: Vec<f64>,
    /// What all flows of each class ask for together.
    demand: Vec<f64>,
    /// What each leg asks for, all flows of its class together: less than their demand when another
    /// leg is slower.
    asked: Vec<f64>,
    /// Rate of each leg so far in this sweep, all flows of its class together.
    rate: Vec<f64>,
    /// Which legs got less than they asked for.
    is_slow: Vec<bool>,
    /// Capacities, what is left of them by what goes ahead, and what full queues leave of that.
    most: Vec<f64>,
    capacity: Vec<f64>,
    effective: Vec<f64>,
    /// What goes ahead on each resource.
    ahead: Vec<f64>,
    /// What passed each resource in this sweep.
    passed: Vec<f64>,
    /// For each resource, what those in front of it take of what it brings.
    room: Vec<Room>,
    /// For each resource, how long what passes waits in the queue behind it, in nanoseconds.
    delay: Vec<f64>,
    /// For each resource, how long what its egress buffer holds takes to be sent, in nanoseconds; what came in this sweep
    /// over what it sends; and the share of a change that a round makes, with the direction of the last one.
    stored: Vec<f64>,
    pressing: Vec<f64>,
    storing: Vec<(f64, f64)>,
    /// For each resource, for how many rounds less has come to the full queue behind it than it lets go; [`EMPTY_AFTER`]
    /// where it emptied for that.
    emptying: Vec<u32>,
    /// For each leg that holds a pool, how long it waited in this sweep where nothing is full, and in
    /// those before; and that with the time in queues.
    waiting: Vec<f64>,
    waited: Vec<f64>,
    delayed: Vec<f64>,
    /// Share of a change that a round makes, and the direction of the last one.
    damping: Vec<(f64, f64)>,
    /// Whether means of rates differ, so that queues change by all of their share, however steep waits are.
    goes_round: bool,
    /// By what factor each effective capacity changed in this round.
    moved: Vec<f64>,
    /// Share of a change of what each leg asks for that a round makes, and the last change.
    turning: Vec<(f64, f64)>,
    /// What queues of tags change by.
    tags: Tags,
    /// What commands wait for each other where classes have few; nothing where none has.
    gaps: Option<Box<Gaps>>,
    trace: Trace,
    inputs: Vec<Input>,
    crowd: Crowd,
    heads: Heads,
    /// For each pool, and each set of legs that hold one equally long, what a resource has of it.
    scratch: Vec<Met>,
}

/// Who cut what, in a sweep in which that is asked for.
#[derive(Debug, Default)]
struct Trace {
    /// The factor of the strongest cut of each leg, and the resource that made it, or [`NONE`].
    cut: Vec<(f64, u32)>,
}

impl Trace {
    /// Asks for it in the next sweep, for so many legs: all of them or none.
    fn begin(&mut self, legs: usize) {
        self.cut.clear();
        self.cut.resize(legs, (1.0, NONE));
    }

    fn note(&mut self, legs: &[u32], factor: f64, resource: u32) {
        if self.cut.is_empty() {
            return;
        }
        for &leg in legs {
            let strongest = &mut self.cut[leg as usize];
            if factor < strongest.0 {
                *strongest = (factor, resource);
            }
        }
    }
}

impl Solver {
    /// Takes a network, with nothing known of where it settles.
    ///
    /// # Errors
    /// What [`Network::check`] finds.
    pub fn new(network: &Network) -> Result<Self, NetworkError> {
        network.check()?;
        let whole = Parts::whole(network);
        Ok(Self::of(whole.view(&whole.parts[0])))
    }

    /// Takes a part of a network that was checked, with nothing known of where it settles.
    pub fn of(view: View) -> Self {
        let all: Vec<Resource> = view.resources().collect();
        let (layout, inputs) = Layout::of(view, &all);
        let resources = all.len();
        let legs = layout.class_of.len();
        let most: Vec<f64> = all.iter().map(|resource| resource.capacity).collect();
        let each: Vec<f64> = view.classes().map(|class| class.demand).collect();
        let counts: Vec<f64> = view.part.counts.iter().map(|&count| f64::from(count)).collect();
        let demand: Vec<f64> = each.iter().zip(&counts).map(|(each, count)| each * count).collect();
        Self {
            resources: all,
            asked: layout.class_of.iter().map(|&class| demand[class as usize]).collect(),
            each,
            counts,
            demand,
            rate: vec![0.0; legs],
            is_slow: vec![false; legs],
            capacity: most.clone(),
            effective: most.clone(),
            ahead: vec![0.0; resources],
            passed: vec![0.0; resources],
            room: vec![Room::default(); resources],
            delay: vec![0.0; resources],
            emptying: vec![0; resources],
            stored: vec![0.0; resources],
            pressing: vec![0.0; resources],
            storing: vec![(DAMPING, 0.0); resources],
            waiting: vec![0.0; legs],
            waited: vec![0.0; legs],
            delayed: vec![0.0; legs],
            damping: vec![(DAMPING, 0.0); resources],
            goes_round: false,
            moved: vec![1.0; resources],
            turning: vec![(1.0, 0.0); legs],
            gaps: Gaps::of(view, &layout),
            tags: Tags::default(),
            trace: Trace::default(),
            heads: Heads::new(&inputs, resources),
            inputs,
            crowd: Crowd::default(),
            scratch: vec![Met::default(); layout.sets],
            layout,
            most,
        }
    }

    /// Says how many flows of a class there are from now on.
    pub fn set_count(&mut self, class: usize, count: u32) {
        self.counts[class] = f64::from(count);
        self.demand[class] = self.each[class] * self.counts[class];
        self.asked[self.layout.legs_of[class].clone()].fill(self.demand[class]);
    }

    /// Takes over how many flows there are.
    fn count(&mut self) {
        let Self { layout, inputs, counts, .. } = self;
        for input in inputs.iter_mut() {
            input.take_turns(input.turn, layout.flows_at_once(input, counts));
        }
        self.heads.count(layout, inputs, counts);
    }

    /// Finds where the flows settle, from where they stood.
    pub fn solve(&mut self, settings: Settings) -> Solution {
        self.count();
        self.begin();
        self.open_queues();
        self.goes_round = false;
        let (mut rounds, mut begun) = (0, 0);
        let mut residual = f64::INFINITY;
        let mut changed = f64::INFINITY;
        let mut means = Means::new();
        let mut apart = f64::INFINITY;
        while rounds < settings.rounds && residual.min(apart) > settings.tolerance {
            rounds += 1;
            let most = (PATIENCE / f64::from(rounds - begun)).min(DAMPING_RANGE.1);
            let may_be_last = residual <= settings.tolerance * NEAR_END;
            self.trace.begin(if may_be_last { self.rate.len() } else { 0 });
            self.sweep(most);
            residual = self.balance_legs().max(self.balance_queues(most)).max(self.share_tags());
            residual = residual.max(self.balance_waits(most)).max(self.balance_egress(most));
            // What goes ahead is little, and changes little; what commands of few wait changes slowly.
            if rounds % OFTEN == 1 || residual <= settings.tolerance {
                changed = self.give_way().max(self.balance_bursts(most));
            }
            residual = residual.max(changed);
            if Means::wants(rounds) {
                let rates = (0..self.counts.len()).map(|class| self.rate_of_all(class));
                if let Some(difference) = means.take(rounds, rates) {
                    self.begin();
                    (apart, begun, self.goes_round) = (difference, rounds, true);
                }
            }
        }
        let classes = self.counts.iter().enumerate();
        let mut rates: Vec<f64> =
            classes.map(|(class, count)| self.rate_of_all(class) / count.max(1.0)).collect();
        if let Some((means, apart)) = means.last().filter(|_| residual > settings.tolerance) {
            let means = means.iter().zip(&self.counts);
            rates = means.map(|(mean, count)| mean / count.max(1.0)).collect();
            residual = apart;
        }
        let load = self.load(&rates);
        Solution { limits: self.limits(), rates, load, rounds, residual }
    }

    /// Forgets which way everything went, so that a round makes as much of a change as at first.
    fn begin(&mut self) {
        self.damping.fill((DAMPING, 0.0));
        self.storing.fill((DAMPING, 0.0));
        self.turning.fill((1.0, 0.0));
        self.emptying.fill(0);
    }

    /// What all flows of a class get together.
    fn rate_of_all(&self, class: usize) -> f64 {
        let rates = &self.rate[self.layout.legs_of[class].clone()];
        rates.iter().copied().fold(self.demand[class], f64::min)
    }

    /// What flows put on each resource; a pool is held while they wait, too.
    fn load(&self, rates: &[f64]) -> Vec<f64> {
        let layout = &self.layout;
        let mut load = vec![0.0; self.resources.len()];
        for &stop in &layout.stops {
            let visits = stop.visits();
            let legs = &layout.legs[visits.clone()];
            for (&leg, cost) in legs.iter().zip(&layout.costs[visits]) {
                let class = layout.class_of[leg as usize] as usize;
                load[stop.resource] += rates[class] * cost * self.counts[class];
            }
        }
        for &(class, resource, cost) in &layout.ahead {
            load[resource as usize] += rates[class as usize] * cost * self.counts[class as usize];
        }
        for &leg in &self.layout.holders {
            let leg = leg as usize;
            if let Some(pool) = self.layout.held[leg] {
                let class = self.layout.class_of[leg] as usize;
                load[pool as usize] += rates[class] * self.counts[class] * self.delayed[leg];
            }
        }
        load
    }

    /// What limits each class, by one more sweep where the last one was not traced.
    fn limits(&mut self) -> Vec<Option<u32>> {
        if self.trace.cut.is_empty() {
            self.trace.begin(self.rate.len());
            self.sweep(0.0);
        }
        let meetings = self.longest_meetings().into_iter().enumerate();
        let limits = meetings.map(|(class, met)| self.limit_of(class).or(met)).collect();
        self.trace.cut = Vec::new();
        limits
    }

    /// The resource that limits a class: the one that cut its slowest leg or, where that is only full
    /// because of what is in front of it, the one in front. A leg that got what it asked for limits nothing, even where
    /// it is slower by the little that legs of one flow differ by.
    fn limit_of(&self, class: usize) -> Option<u32> {
        let is_cut = |&leg: &usize| self.trace.cut[leg].0 <= 1.0 - EDGE;
        let legs = self.layout.legs_of[class].clone().filter(is_cut);
        let slowest = legs.min_by(|&a, &b| self.rate[a].total_cmp(&self.rate[b]))?;
        let mut at = self.trace.cut[slowest].1;
        if self.layout.held[slowest] == Some(at) {
            let waits = self.longest_wait(slowest);
            at = waits.or_else(|| self.cut_after(slowest, class)).unwrap_or(at);
        }
        for _ in 0..self.resources.len() {
            let resource = at as usize;
            let is_open = self.effective[resource] >= self.capacity[resource];
            let next = self.room[resource].by();
            if is_open && self.delay[resource] <= 0.0 || next == NONE {
                break;
            }
            at = next;
        }
        Some(at)
    }

    /// What cuts the slowest leg of the same stage that waits while it keeps what this one holds.
    fn cut_after(&self, holder: usize, class: usize) -> Option<u32> {
        let layout = &self.layout;
        let waits = |&leg: &usize| {
            let is_same = layout.is_second[leg] == layout.is_second[holder];
            let is_cut = self.trace.cut[leg].0 <= 1.0 - EDGE;
            leg != holder && is_same && layout.holder[leg] == NONE && is_cut
        };
        let legs = layout.legs_of[class].clone().filter(waits);
        let slowest = legs.min_by(|&a, &b| self.rate[a].total_cmp(&self.rate[b]))?;
        Some(self.trace.cut[slowest].1)
    }

    /// The queue in which what a leg asked for waits longest, where that counts.
    fn longest_wait(&self, holder: usize) -> Option<u32> {
        let queues = self.layout.queued.iter().filter(|(leg, _)| *leg as usize == holder);
        let queues = queues.map(|&(_, queue)| (self.delay[queue as usize], queue));
        let longest = queues.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (longest.0 > BASE * COUNTS).then_some(longest.1)
    }
}
