//! The rates at which flows settle: a fixed point of round-robin arbitration and back-pressure.
//!
//! A forward sweep visits resources by rank. Each takes turns among its inputs; an input that wants more than its turn is
//! cut to it. The buffer behind such an input fills, and the link into it carries only what the buffer lets go: its
//! *effective* capacity sinks until both agree. `docs/model.md` states the equations.
//!
//! Leaves out latency, bursts and the order of packets. Existence and uniqueness of the fixed point are not proven;
//! [`Solver::residual`] is the distance from it.

use std::collections::BTreeSet;
use std::ops::Range;

use super::network::{FlowNetwork, NONE, ResourceVisit};

/// Relative difference below which two rates count as equal.
const EDGE: f64 = 1e-6;
/// Relative excess of what a leg asks for over the slowest other leg of its flow.
const SLACK: f64 = 1e-4;
/// Exponent of a change in a round, and the number of rounds after which it shrinks in proportion to the round: a cycle
/// then settles in its middle (Mann, "Mean value methods in iteration", 1953).
const DAMPING: f64 = 0.5;
const PATIENCE: f64 = 50.0;
/// Least share of a capacity that priority traffic leaves.
const LEAST_LEFT: f64 = 0.01;

/// Conditions for the solver to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolverSettings {
    /// Largest relative change that a further round would make.
    pub tolerance: f64,
    /// Most rounds.
    pub rounds: u32,
}

impl Default for SolverSettings {
    fn default() -> Self {
        Self { tolerance: 1e-4, rounds: 400 }
    }
}

/// An input of a resource: the buffer behind another one, or a leg with a buffer of its own.
#[derive(Debug, Clone)]
struct Input {
    port: u32,
    visits: Range<usize>,
    /// Load that it offers in this sweep, in units of the resource and in turns.
    demand: f64,
    turns: f64,
}

/// A visited resource, with its inputs.
#[derive(Debug, Clone)]
struct Station {
    resource: usize,
    inputs: Range<usize>,
}

/// A visit, with its flow and leg.
#[derive(Debug)]
struct OrderedVisit<'a> {
    flow: usize,
    leg: usize,
    visit: &'a ResourceVisit,
}

/// The share of a buffer's arrivals that its outputs accept: the least over the outputs, and the output that has it.
#[derive(Debug, Clone, Copy)]
struct Acceptance {
    share: f64,
    output: u32,
}

/// Solves a network again and again while flows come and go, each time from where it stood.
#[derive(Debug)]
pub(crate) struct Solver<'a> {
    network: &'a FlowNetwork,
    /// The active flows, and their visits in the order of a sweep.
    flows: Vec<usize>,
    ordered: Vec<OrderedVisit<'a>>,
    /// Resources by rank, their inputs, and the visits of each input: the leg, units and turns for each byte.
    stations: Vec<Station>,
    inputs: Vec<Input>,
    visits: Vec<(usize, f64, f64)>,
    /// The legs of each flow, by position.
    legs: Vec<Range<usize>>,
    /// By leg: the rate that it asks for, its rate so far in this sweep, and the strongest cut with its resource.
    asked: Vec<f64>,
    rate: Vec<f64>,
    cut: Vec<(f64, u32)>,
    /// The resources that priority traffic of any flow loads.
    yielding: Vec<usize>,
    /// By resource: capacity without priority traffic, what full buffers leave of it, load that passed in this sweep.
    capacity: Vec<f64>,
    effective: Vec<f64>,
    passed: Vec<f64>,
    /// By yielding resource: capacity that priority traffic leaves at the rates of this sweep.
    left: Vec<f64>,
    acceptance: Vec<Acceptance>,
    /// Largest relative change that a further round would make.
    pub(crate) residual: f64,
}

impl<'a> Solver<'a> {
    /// A solver of a checked network, with nothing known of where it settles.
    pub(crate) fn new(network: &'a FlowNetwork) -> Self {
        let mut count = 0;
        let legs = network.flows.iter().map(|flow| {
            count += flow.legs.len();
            count - flow.legs.len()..count
        });
        let legs: Vec<Range<usize>> = legs.collect();
        let resources = network.resources.len();
        let capacity: Vec<f64> = network.resources.iter().map(|at| at.capacity).collect();
        let priority = network.flows.iter().flat_map(|flow| &flow.priority);
        let yielding: BTreeSet<usize> = priority.map(|&(at, _)| at as usize).collect();
        Self {
            network,
            flows: Vec::new(),
            ordered: Vec::new(),
            stations: Vec::new(),
            inputs: Vec::new(),
            visits: Vec::new(),
            legs,
            asked: vec![0.0; count],
            rate: vec![0.0; count],
            cut: vec![(1.0, NONE); count],
            yielding: yielding.into_iter().collect(),
            effective: capacity.clone(),
            capacity,
            passed: vec![0.0; resources],
            left: vec![0.0; resources],
            acceptance: vec![Acceptance { share: f64::INFINITY, output: NONE }; resources],
            residual: 0.0,
        }
    }

    /// Finds where these flows settle while no others are active.
    pub(crate) fn solve(&mut self, active: &[usize], settings: SolverSettings) {
        self.lay_out(active);
        for round in 1..=settings.rounds {
            let part = DAMPING * (PATIENCE / f64::from(round)).min(1.0);
            self.sweep();
            let changes =
                [self.couple_legs(part), self.push_back(part), self.yield_to_priority(part)];
            self.residual = changes.into_iter().fold(0.0, f64::max);
            if self.residual <= settings.tolerance {
                break;
            }
        }
        self.sweep();
    }

    /// Finds where all flows settle together.
    pub(crate) fn solve_all(&mut self, settings: SolverSettings) {
        let all: Vec<usize> = (0..self.legs.len()).collect();
        self.solve(&all, settings);
    }

    /// Rate of a flow in bytes of payload a nanosecond: that of the slowest leg.
    pub(crate) fn rate(&self, flow: usize) -> f64 {
        let rates = self.rate[self.legs[flow].clone()].iter().copied();
        rates.fold(self.network.flows[flow].demand, f64::min)
    }

    /// The resource that limits a flow; `None` where its own demand does. Where a resource is only full because of a buffer
    /// in front of it, the one in front counts.
    pub(crate) fn limit(&self, flow: usize) -> Option<u32> {
        let cut = self.legs[flow].clone().filter(|&leg| self.cut[leg].0 <= 1.0 - EDGE);
        let slowest = cut.min_by(|&a, &b| self.rate[a].total_cmp(&self.rate[b]))?;
        let mut at = self.cut[slowest].1;
        for _ in 0..self.effective.len() {
            let next = self.acceptance[at as usize].output;
            if self.effective[at as usize] >= self.capacity[at as usize] || next == NONE {
                break;
            }
            at = next;
        }
        Some(at)
    }

    /// Puts the visits of these flows in the order of a sweep: resources by rank, their inputs, the legs of each.
    fn lay_out(&mut self, active: &[usize]) {
        let network = self.network;
        for (flow, legs) in network.flows.iter().zip(&self.legs) {
            // Asked for again by those that go on, and by those that begin.
            let is_new = self.asked[legs.clone()].contains(&0.0);
            if is_new {
                self.asked[legs.clone()].fill(flow.demand);
            }
        }
        if self.flows == active {
            return;
        }
        self.order(active);
        let is_one_input = |a: &OrderedVisit<'_>, b: &OrderedVisit<'_>| {
            a.visit.port == b.visit.port && (a.visit.port != NONE || a.leg == b.leg)
        };
        let quantities = |&OrderedVisit { leg, visit, .. }: &OrderedVisit<'_>| {
            (leg, visit.cost, visit.cost / visit.quantum)
        };
        self.visits = self.ordered.iter().map(quantities).collect();
        (self.stations, self.inputs) = (Vec::new(), Vec::new());
        let mut begin = 0;
        for visits in self.ordered.chunk_by(|a, b| a.visit.resource == b.visit.resource) {
            let first = self.inputs.len();
            for visits in visits.chunk_by(is_one_input) {
                let end = begin + visits.len();
                let port = visits[0].visit.port;
                self.inputs.push(Input { port, visits: begin..end, demand: 0.0, turns: 0.0 });
                begin = end;
            }
            let resource = visits[0].visit.resource as usize;
            self.stations.push(Station { resource, inputs: first..self.inputs.len() });
        }
        self.passed.fill(0.0);
    }

    /// Orders the visits of these flows: resources by rank, their inputs, the legs of each. Flows that only leave are taken out
    /// of the order.
    fn order(&mut self, active: &[usize]) {
        let network = self.network;
        let mut stays = vec![false; network.flows.len()];
        let mut before = self.flows.iter();
        let is_subsequence = active.iter().all(|flow| {
            stays[*flow] = true;
            before.any(|known| known == flow)
        });
        active.clone_into(&mut self.flows);
        if is_subsequence {
            self.ordered.retain(|visit| stays[visit.flow]);
            return;
        }
        self.ordered.clear();
        for &flow in active {
            for (leg, visits) in self.legs[flow].clone().zip(&network.flows[flow].legs) {
                self.ordered.extend(visits.iter().map(|visit| OrderedVisit { flow, leg, visit }));
            }
        }
        self.ordered.sort_by_key(|&OrderedVisit { leg, visit, .. }| {
            let rank = network.resources[visit.resource as usize].rank;
            (rank, visit.resource, visit.port, if visit.port == NONE { leg } else { 0 })
        });
    }

    /// Lets each leg ask and each resource answer, once, by rank. All legs of an input are cut by the same factor, since
    /// they stand in one buffer.
    fn sweep(&mut self) {
        let Self { stations, inputs, visits, rate, cut, effective, capacity, acceptance, .. } =
            self;
        rate.copy_from_slice(&self.asked);
        cut.fill((1.0, NONE));
        acceptance.fill(Acceptance { share: f64::INFINITY, output: NONE });
        for &Station { resource, inputs: ref range } in &*stations {
            let inputs = &mut inputs[range.clone()];
            for input in &mut *inputs {
                (input.demand, input.turns) = (0.0, 0.0);
                for &(leg, cost, turns) in &visits[input.visits.clone()] {
                    input.demand += rate[leg] * cost;
                    input.turns += rate[leg] * turns;
                }
            }
            let demand: f64 = inputs.iter().map(|input| input.demand).sum();
            let most = effective[resource];
            self.passed[resource] = demand.min(most);
            let is_full = demand > most * (1.0 - EDGE);
            let level = if is_full { level(inputs, usize::MAX, most) } else { f64::INFINITY };
            let output = u32::try_from(resource).unwrap_or(NONE);
            for (index, input) in inputs.iter().enumerate() {
                let mut share = (level / input.turns).min(1.0);
                let is_cut = is_full && input.turns >= level * (1.0 - EDGE);
                if is_cut {
                    for &(leg, ..) in &visits[input.visits.clone()] {
                        rate[leg] *= share;
                        if share < cut[leg].0 {
                            cut[leg] = (share, output);
                        }
                    }
                }
                let port = input.port as usize;
                if input.port == NONE || !is_full && effective[port] >= capacity[port] {
                    continue;
                }
                if !is_cut {
                    share = self::level(inputs, index, most) / input.turns;
                }
                if share < acceptance[port].share {
                    acceptance[port] = Acceptance { share, output };
                }
            }
        }
    }

    /// Lets each leg ask for little more than the slowest other leg of its flow gets: enough to show whether it could have
    /// it. A leg does not wait for itself, and tags do not wait for what is under way: they are the buffer in front of it.
    fn couple_legs(&mut self, part: f64) -> f64 {
        let mut residual: f64 = 0.0;
        for &index in &self.flows {
            let (flow, legs) = (&self.network.flows[index], self.legs[index].clone());
            if legs.len() == 1 {
                continue;
            }
            let is_cut = |leg: usize| self.rate[leg] < self.asked[leg] * (1.0 - SLACK / 2.0);
            let cut: Vec<(usize, f64)> =
                legs.clone().filter(|&leg| is_cut(leg)).map(|leg| (leg, self.rate[leg])).collect();
            for leg in legs.clone() {
                let tags = flow.tags.iter().find(|(tags, _)| legs.start + tags == leg);
                let under_way =
                    tags.map_or(0..0, |(_, held)| legs.start + held.start..legs.start + held.end);
                let (mut others, mut held) = (f64::INFINITY, f64::INFINITY);
                for &(other, rate) in cut.iter().filter(|(other, _)| *other != leg) {
                    let least = if under_way.contains(&other) { &mut held } else { &mut others };
                    *least = least.min(rate);
                }
                if tags.is_some() {
                    let pool = flow.legs[leg - legs.start][0].resource as usize;
                    let share = held / self.rate[leg];
                    if share < self.acceptance[pool].share {
                        self.acceptance[pool] = Acceptance { share, output: NONE };
                    }
                }
                let wanted = flow.demand.min(others * (1.0 + SLACK));
                let (asked, change) = approach(self.asked[leg], wanted, part);
                self.asked[leg] = asked;
                if cut.iter().all(|&(other, _)| other != leg) {
                    residual = residual.max(change.abs() - 2.0 * SLACK);
                }
            }
        }
        residual
    }

    /// Moves the effective capacity in front of each buffer towards what its outputs accept.
    fn push_back(&mut self, part: f64) -> f64 {
        let mut residual: f64 = 0.0;
        for resource in self.stations.iter().map(|station| station.resource) {
            let (now, capacity) = (self.effective[resource], self.capacity[resource]);
            let (passed, share) = (self.passed[resource], self.acceptance[resource].share);
            let wanted = if passed > 0.0 { (passed * share).min(capacity) } else { capacity };
            let (new, change) = approach(now, wanted, part);
            let is_recovered = wanted == capacity && change < EDGE;
            self.effective[resource] = if is_recovered { capacity } else { new };
            if change < 0.0 || passed >= now * (1.0 - EDGE) {
                residual = residual.max(change.abs());
            }
        }
        residual
    }

    /// Takes priority traffic at the rates of this sweep off each capacity.
    fn yield_to_priority(&mut self, part: f64) -> f64 {
        let resources = &self.network.resources;
        for &at in &self.yielding {
            self.left[at] = resources[at].capacity;
        }
        for &flow in &self.flows {
            let rate = self.rate(flow);
            for &(resource, cost) in &self.network.flows[flow].priority {
                self.left[resource as usize] -= rate * cost;
            }
        }
        let mut residual: f64 = 0.0;
        for &at in &self.yielding {
            let now = self.capacity[at];
            let wanted = self.left[at].max(resources[at].capacity * LEAST_LEFT);
            let (new, change) = approach(now, wanted, part);
            if self.effective[at] >= now || self.effective[at] > new {
                self.effective[at] = new;
            }
            self.capacity[at] = new;
            residual = residual.max(change.abs());
        }
        residual
    }
}

/// Moves a value by a part of its logarithmic distance to another. Returns the new value and the whole distance.
fn approach(now: f64, wanted: f64, part: f64) -> (f64, f64) {
    let ratio = wanted / now;
    // A settled value needs no logarithm.
    if ratio == 1.0 {
        return (now, 0.0);
    }
    let change = ratio.ln();
    (now * (change * part).exp(), change)
}

/// Turns of each input that asks for more, at a full resource: water filling (max-min fairness over the inputs of one
/// arbiter; Demers, Keshav, Shenker, "Analysis and simulation of a fair queueing algorithm", 1989). The input `greedy` takes
/// all that it can get.
fn level(inputs: &[Input], greedy: usize, capacity: f64) -> f64 {
    let (mut level, mut satisfied) = (0.0, 0);
    loop {
        let (mut left, mut weight, mut count) = (capacity, 0.0, 0);
        for (index, input) in inputs.iter().enumerate().filter(|(_, input)| input.turns > 0.0) {
            if index != greedy && input.turns < level {
                left -= input.demand;
                count += 1;
            } else {
                weight += input.demand / input.turns;
            }
        }
        // Rounding must neither satisfy all nor go back and forth: the satisfied only become more.
        if level > 0.0 && count <= satisfied || weight <= 0.0 {
            return level;
        }
        (level, satisfied) = ((left / weight).max(0.0), count);
    }
}
