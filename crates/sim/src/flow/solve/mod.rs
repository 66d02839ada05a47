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

mod fill;
mod layout;
mod maxmin;
mod room;
#[cfg(test)]
mod tests;

use std::ops::Range;

use fill::{Filling, Input, NEAR};
use layout::Layout;
use room::Room;

use super::network::{NONE, Network, NetworkError};

pub use maxmin::max_min;

/// Where two rates count as equal when it is asked who is cut.
const EDGE: f64 = 1e-6;
/// How much more a leg asks for than the slowest other leg of its flow gets.
const SLACK: f64 = 1e-4;
/// Share of a capacity that is left whatever goes ahead.
const LEAST: f64 = 0.01;
/// Share of a change that a round makes, in logarithms, before anything is known of the resource.
const DAMPING: f64 = 0.5;
/// Least and most share of a change; see [`Solver::damped`].
const DAMPING_RANGE: (f64, f64) = (0.02, 0.9);
/// Rounds after which shares shrink in proportion to the round, so that what goes round in circles
/// settles in the middle of them (Mann, "Mean value methods in iteration", 1953).
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
    /// Largest relative change that a further round would make.
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
    network: Network,
    layout: Layout,
    /// How many flows of each class there are now.
    counts: Vec<f64>,
    /// What each leg asks for, all flows of its class together: less than their demand when another
    /// leg is slower.
    asked: Vec<f64>,
    /// Rate of each leg so far in this sweep, all flows of its class together.
    rate: Vec<f64>,
    /// The factor of the strongest cut of each leg, and the resource that made it, or [`NONE`].
    cut: Vec<(f64, u32)>,
    /// What is left of each capacity by what goes ahead.
    capacity: Vec<f64>,
    /// What goes ahead on each resource.
    ahead: Vec<f64>,
    /// Which legs got less than they asked for.
    is_slow: Vec<bool>,
    /// Effective capacities.
    effective: Vec<f64>,
    /// What passed each resource in this sweep.
    passed: Vec<f64>,
    /// For each resource, what those in front of it take of what it brings.
    room: Vec<Room>,
    /// Share of a change that a round makes, and the direction of the last one.
    damping: Vec<(f64, f64)>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    inputs: Vec<Input>,
    filling: Filling,
}

impl Solver {
    /// Takes a network, with nothing known of where it settles.
    ///
    /// # Errors
    /// What [`Network::check`] finds.
    pub fn new(network: Network) -> Result<Self, NetworkError> {
        network.check()?;
        let layout = Layout::of(&network);
        let resources = network.resources.len();
        let legs = layout.class_of.len();
        Ok(Self {
            counts: network.classes.iter().map(|class| f64::from(class.count)).collect(),
            asked: layout.class_of.iter().map(|&class| demand(&network, class as usize)).collect(),
            rate: vec![0.0; legs],
            cut: vec![(1.0, NONE); legs],
            is_slow: vec![false; legs],
            capacity: network.resources.iter().map(|resource| resource.capacity).collect(),
            ahead: vec![0.0; resources],
            effective: network.resources.iter().map(|resource| resource.capacity).collect(),
            passed: vec![0.0; resources],
            room: vec![Room::default(); resources],
            damping: vec![(DAMPING, 0.0); resources],
            scratch: Scratch::default(),
            layout,
            network,
        })
    }

    /// The network, with the counts as they are now.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Says how many flows of a class there are from now on.
    pub fn set_count(&mut self, class: usize, count: u32) {
        self.network.classes[class].count = count;
        self.counts[class] = f64::from(count);
        self.ask(class);
    }

    /// Says what each flow of a class asks for from now on.
    pub fn set_demand(&mut self, class: usize, demand: f64) {
        self.network.classes[class].demand = demand;
        self.ask(class);
    }

    fn ask(&mut self, class: usize) {
        self.asked[self.layout.legs_of[class].clone()].fill(demand(&self.network, class));
    }

    /// Finds where the flows settle, from where they stood.
    pub fn solve(&mut self, settings: Settings) -> Solution {
        self.damping.fill((DAMPING, 0.0));
        let mut rounds = 0;
        let mut residual = f64::INFINITY;
        while rounds < settings.rounds && residual > settings.tolerance {
            self.sweep();
            rounds += 1;
            let most = (PATIENCE / f64::from(rounds)).min(DAMPING_RANGE.1);
            let changed = self.give_way();
            residual = changed.max(self.balance_legs()).max(self.balance_buffers(most));
        }
        let rates: Vec<f64> = (0..self.counts.len()).map(|class| self.rate_of(class)).collect();
        let load = self.network.load(&rates);
        let limits = (0..self.counts.len()).map(|class| self.limit_of(class)).collect();
        Solution { rates, limits, load, rounds, residual }
    }

    /// Lets every leg ask and every resource answer, once, by rank.
    fn sweep(&mut self) {
        self.rate.copy_from_slice(&self.asked);
        self.cut.fill((1.0, NONE));
        self.room.fill(Room::default());
        for stop in 0..self.layout.stops.len() {
            self.visit(stop);
        }
    }

    fn visit(&mut self, stop: usize) {
        let stop = &self.layout.stops[stop];
        let capacity = self.effective[stop.resource];
        let inputs = &mut self.scratch.inputs;
        inputs.clear();
        let mut total = 0.0;
        let mut has_room = false;
        for arc in &self.layout.arcs[stop.arcs.clone()] {
            let (mut demand, mut turns) = (0.0, 0.0);
            for visit in &self.layout.visits[arc.visits.clone()] {
                let asked = self.rate[visit.leg as usize] * visit.cost;
                demand += asked;
                turns += asked * visit.turns;
            }
            // An input that asks for nothing gets it, whatever its turns are.
            let turn = if demand > 0.0 { demand / turns } else { 1.0 };
            let mut weight = turn;
            if arc.port == NONE {
                let leg = self.layout.visits[arc.visits.start].leg as usize;
                weight *= self.counts[self.layout.class_of[leg] as usize].max(1.0);
            } else {
                has_room |= self.effective[arc.port as usize] < self.capacity[arc.port as usize];
            }
            let input = Input { demand, weight, turn };
            total += input.demand;
            inputs.push(input);
        }
        self.passed[stop.resource] = total.min(capacity);
        if total > capacity * (1.0 - NEAR) || has_room {
            self.take_turns(&stop.clone(), total > capacity * (1.0 - EDGE));
        }
    }

    /// Cuts the inputs of a resource to their turns, and notes what that leaves for what is behind.
    fn take_turns(&mut self, stop: &layout::Stop, is_full: bool) {
        let filling = &mut self.scratch.filling;
        filling.set(&self.scratch.inputs, self.effective[stop.resource]);
        let resource = u32::try_from(stop.resource).unwrap_or(NONE);
        let level = filling.level();
        let backlog = filling.backlog(level);
        for (index, arc) in self.layout.arcs[stop.arcs.clone()].iter().enumerate() {
            let input = self.scratch.inputs[index];
            if input.demand <= 0.0 {
                continue;
            }
            let turn = level * input.weight;
            let is_cut = is_full && input.demand >= turn * (1.0 - EDGE);
            if is_cut {
                let factor = (turn / input.demand).min(1.0);
                for visit in &self.layout.visits[arc.visits.clone()] {
                    self.rate[visit.leg as usize] *= factor;
                    let strongest = &mut self.cut[visit.leg as usize];
                    if factor < strongest.0 {
                        *strongest = (factor, resource);
                    }
                }
            }
            if arc.port != NONE {
                let share = if is_cut { turn } else { filling.share_if_greedy(index) };
                let room = &mut self.room[arc.port as usize];
                room.limit(share / input.demand, resource);
                room.wait(input, backlog.without(input, level));
            }
        }
    }

    /// Takes off every capacity what goes ahead on it at the rates of this sweep. Returns the largest
    /// relative change.
    fn give_way(&mut self) -> f64 {
        if self.network.classes.iter().all(|class| class.ahead.is_empty()) {
            return 0.0;
        }
        let mut residual: f64 = 0.0;
        self.ahead.fill(0.0);
        for (index, class) in self.network.classes.iter().enumerate() {
            let rate = self.rate_of(index) * self.counts[index];
            for &(resource, cost) in &class.ahead {
                self.ahead[resource as usize] += rate * cost;
            }
        }
        for (index, resource) in self.network.resources.iter().enumerate() {
            let is_whole = self.effective[index] >= self.capacity[index];
            let least = resource.capacity * LEAST;
            let left = (resource.capacity - self.ahead[index]).max(least);
            residual = residual.max((left - self.capacity[index]).abs() / left);
            self.capacity[index] = left;
            if is_whole || self.effective[index] > self.capacity[index] {
                self.effective[index] = self.capacity[index];
            }
        }
        residual
    }

    /// Lets a leg ask for little more than the other legs of its flow get: enough to show whether it
    /// could have it. Returns the largest relative difference between legs of one flow.
    fn balance_legs(&mut self) -> f64 {
        let mut residual: f64 = 0.0;
        for class in 0..self.counts.len() {
            let legs = self.layout.legs_of[class].clone();
            if legs.len() < 2 || self.counts[class] == 0.0 {
                continue;
            }
            // The slowest two of those that were cut, since a leg does not wait for itself.
            let demand = demand(&self.network, class);
            let (mut slowest, mut second, mut which) = (f64::INFINITY, f64::INFINITY, usize::MAX);
            for leg in legs.clone() {
                self.is_slow[leg] = self.is_cut(leg);
                let rate = self.rate[leg];
                if self.is_slow[leg] && rate < slowest {
                    (slowest, second, which) = (rate, slowest, leg);
                } else if self.is_slow[leg] {
                    second = second.min(rate);
                }
            }
            for leg in legs.clone() {
                let mut others = if leg == which { second } else { slowest };
                if let Some(pool) = self.layout.held[leg] {
                    others = self.hold(leg, legs.clone(), pool);
                } else {
                    let excess = self.rate[leg] / slowest.min(demand) - 1.0;
                    residual = residual.max(excess - 2.0 * SLACK);
                }
                self.asked[leg] = demand.min(others * (1.0 + SLACK));
            }
        }
        residual
    }

    /// What waits in another leg of the same stage keeps what it holds: the pool is the queue in front
    /// of it. Returns the rate of the slowest leg of the other stage.
    fn hold(&mut self, leg: usize, legs: Range<usize>, pool: u32) -> f64 {
        let (mut same, mut other) = (f64::INFINITY, f64::INFINITY);
        for later in legs.filter(|&later| later != leg && self.is_slow[later]) {
            let is_same = self.layout.is_second[later] == self.layout.is_second[leg];
            let slowest = if is_same { &mut same } else { &mut other };
            *slowest = slowest.min(self.rate[later]);
        }
        self.room[pool as usize].limit(same / self.rate[leg], NONE);
        other
    }

    fn is_cut(&self, leg: usize) -> bool {
        self.rate[leg] < self.asked[leg] * (1.0 - SLACK / 2.0)
    }

    /// Brings effective capacities nearer to what full buffers let through. Returns the largest
    /// relative change that is still to come.
    fn balance_buffers(&mut self, most: f64) -> f64 {
        let mut residual: f64 = 0.0;
        for stop in &self.layout.stops {
            let resource = stop.resource;
            let now = self.effective[resource];
            let capacity = self.capacity[resource];
            let wanted = (self.passed[resource] * self.room[resource].ratio()).min(capacity);
            let wanted = if wanted > 0.0 { wanted } else { capacity };
            if wanted == now {
                continue;
            }
            let change = (wanted / now).ln();
            if change < 0.0 || self.passed[resource] >= now * (1.0 - EDGE) {
                residual = residual.max(change.abs());
            }
            let share = Self::damped(&mut self.damping[resource], change, most);
            self.effective[resource] = if wanted == capacity && change * (1.0 - share) < EDGE {
                capacity
            } else {
                now * (change * share).exp()
            };
        }
        residual
    }

    /// The share of a change to make: less after every turn of direction, more while it goes on.
    fn damped(state: &mut (f64, f64), change: f64, most: f64) -> f64 {
        let (share, last) = *state;
        let share = if change * last < 0.0 { share * 0.6 } else { share * 1.1 };
        *state = (share.max(DAMPING_RANGE.0).min(most), change);
        state.0
    }

    fn rate_of(&self, class: usize) -> f64 {
        let rates = self.rate[self.layout.legs_of[class].clone()].iter().copied();
        rates.fold(demand(&self.network, class), f64::min) / self.counts[class].max(1.0)
    }

    /// The resource that limits a class: the one that cut its slowest leg or, where that is only full
    /// because of what is in front of it, the one in front.
    fn limit_of(&self, class: usize) -> Option<u32> {
        let legs = self.layout.legs_of[class].clone();
        let slowest = legs.min_by(|&a, &b| self.rate[a].total_cmp(&self.rate[b]))?;
        let (factor, mut at) = self.cut[slowest];
        if factor > 1.0 - EDGE {
            return None;
        }
        for _ in 0..self.network.resources.len() {
            let resource = at as usize;
            let is_own = self.effective[resource] >= self.capacity[resource];
            let next = self.room[resource].by;
            if is_own || next == NONE {
                break;
            }
            at = next;
        }
        Some(at)
    }
}

/// What all flows of a class ask for together.
fn demand(network: &Network, class: usize) -> f64 {
    let class = &network.classes[class];
    class.demand * f64::from(class.count)
}
