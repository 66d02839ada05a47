//! The rates at which flows settle: a fixed point of round-robin arbitration and back-pressure.
//!
//! A forward sweep visits resources by rank. Each takes turns among its inputs; an input that wants more than its turn is
//! cut to it. The buffer behind such an input fills, so that the link into it carries only what the buffer lets go:
//! its *effective* capacity sinks until both agree. `docs/model.md` states the equations.
//!
//! Leaves out latency, bursts and the order of packets. Existence and uniqueness of the fixed point
//! are not proven; [`Solution::residual`] is the distance from it.

mod arbitration;
mod backpressure;
mod coupling;
mod damping;
mod layout;
mod limits;
mod queueing;
mod sweep;
#[cfg(test)]
mod tests;

use arbitration::ArbiterInput;
use coupling::Turning;
use damping::Damping;
use layout::SweepOrder;
use limits::Cuts;
use queueing::Load;

use super::network::{FlowNetwork, NONE, NetworkError, Resource};
use super::parts::{PartView, Parts};

/// Relative difference below which two rates count as equal.
const EDGE: f64 = 1e-6;
/// Relative excess of what a leg asks for over the slowest other leg of its flow.
const SLACK: f64 = 1e-4;
/// Order of magnitude of an idle round trip, in nanoseconds.
const ROUND_TRIP: f64 = 1000.0;
/// Rounds between two updates of priority traffic.
const PRIORITY_EVERY: u32 = 8;
/// Largest part of a change, and the number of rounds after which it shrinks in proportion to the round, so that a cycle
/// settles in its middle (Mann, "Mean value methods in iteration", 1953).
const MOST_PART: f64 = 0.98;
const PATIENCE: f64 = 50.0;

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

/// The steady state of the flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Rate of each flow of each class, in bytes of payload a nanosecond.
    pub rates: Vec<f64>,
    /// The resource that limits each class; `None` where its own demand does.
    pub limits: Vec<Option<u32>>,
    /// Load of all flows on each resource, in its unit.
    pub load: Vec<f64>,
    /// Rounds that it took.
    pub rounds: u32,
    /// Largest relative change that a further round would make.
    pub residual: f64,
}

impl Solution {
    /// True if the last round was within the tolerance.
    pub fn has_converged(&self, settings: SolverSettings) -> bool {
        self.residual <= settings.tolerance
    }
}

/// The share of a buffer's arrivals that its outputs accept.
#[derive(Debug, Clone, Copy)]
struct Acceptance {
    /// The least share over the outputs; above one where they would accept more.
    share: f64,
    /// The output with that share.
    output: u32,
}

impl Default for Acceptance {
    fn default() -> Self {
        Self { share: f64::INFINITY, output: NONE }
    }
}

impl Acceptance {
    fn limit(&mut self, share: f64, output: u32) {
        if share < self.share {
            *self = Self { share, output };
        }
    }
}

/// Solves a network again and again while flows come and go, each time from where it stood.
#[derive(Debug)]
pub struct Solver {
    layout: SweepOrder,
    inputs: Vec<ArbiterInput>,
    resources: Vec<Resource>,
    /// By class: demand of each flow, number of flows, demand of all.
    each: Vec<f64>,
    counts: Vec<f64>,
    demand: Vec<f64>,
    /// By leg, for all flows of its class: what it asks for, its rate so far in this sweep, and whether it was cut.
    asked: Vec<f64>,
    rate: Vec<f64>,
    is_cut: Vec<bool>,
    turning: Vec<Turning>,
    /// By resource: load of priority traffic, the capacity without it, and what full buffers leave of that.
    ahead: Vec<f64>,
    capacity: Vec<f64>,
    effective: Vec<f64>,
    /// By resource: load that passed in this sweep, and what the outputs of the buffer behind it accept.
    passed: Vec<f64>,
    acceptance: Vec<Acceptance>,
    /// By resource: delay of the buffer behind it, in nanoseconds.
    delay: Vec<f64>,
    damping: Vec<Damping>,
    /// By resource: factor of the change of its effective capacity in this round.
    moved: Vec<f64>,
    /// By leg that holds a pool, in nanoseconds: queueing delay in this sweep, in those before, and that with the delay
    /// of buffers.
    contention: Vec<f64>,
    waited: Vec<f64>,
    delayed: Vec<f64>,
    loads: Vec<Load>,
    cuts: Cuts,
}

impl Solver {
    /// A solver of a network, with nothing known of where it settles.
    ///
    /// # Errors
    /// The faults that `FlowNetwork::check` finds.
    pub fn new(network: &FlowNetwork) -> Result<Self, NetworkError> {
        network.check()?;
        let whole = Parts::whole(network);
        Ok(Self::of_part(whole.view(&whole.parts[0])))
    }

    /// A solver of a part of a checked network.
    pub(crate) fn of_part(view: PartView) -> Self {
        let resources: Vec<Resource> = view.resources().collect();
        let (layout, inputs) = SweepOrder::new(view, &resources);
        let (count, legs) = (resources.len(), layout.class_of.len());
        let capacity: Vec<f64> = resources.iter().map(|resource| resource.capacity).collect();
        let each: Vec<f64> = view.classes().map(|class| class.demand).collect();
        let counts: Vec<f64> = view.part.counts.iter().map(|&count| f64::from(count)).collect();
        let demand: Vec<f64> = each.iter().zip(&counts).map(|(each, count)| each * count).collect();
        Self {
            asked: layout.class_of.iter().map(|&class| demand[class as usize]).collect(),
            each,
            counts,
            demand,
            rate: vec![0.0; legs],
            is_cut: vec![false; legs],
            turning: vec![Turning::default(); legs],
            ahead: vec![0.0; count],
            effective: capacity.clone(),
            capacity,
            passed: vec![0.0; count],
            acceptance: vec![Acceptance::default(); count],
            delay: vec![0.0; count],
            damping: vec![Damping::default(); count],
            moved: vec![1.0; count],
            contention: vec![0.0; legs],
            waited: vec![0.0; legs],
            delayed: vec![0.0; legs],
            loads: vec![Load::default(); layout.group_count],
            cuts: Cuts::default(),
            inputs,
            layout,
            resources,
        }
    }

    /// Sets the number of flows of a class.
    pub fn set_count(&mut self, class: usize, count: u32) {
        self.counts[class] = f64::from(count);
        self.demand[class] = self.each[class] * self.counts[class];
        self.asked[self.layout.legs_of[class].clone()].fill(self.demand[class]);
    }

    /// Finds where the flows settle, from where they stood.
    pub fn solve(&mut self, settings: SolverSettings) -> Solution {
        self.begin();
        let (mut rounds, mut residual, mut priority) = (0, f64::INFINITY, f64::INFINITY);
        while rounds < settings.rounds && residual > settings.tolerance {
            rounds += 1;
            let most = (PATIENCE / f64::from(rounds)).min(MOST_PART);
            self.sweep();
            residual = self.couple_legs().max(self.push_back(most));
            residual = residual.max(self.settle_contention(most));
            if rounds % PRIORITY_EVERY == 1 || residual <= settings.tolerance {
                priority = self.yield_to_priority();
            }
            residual = residual.max(priority);
        }
        let counts = self.counts.iter().enumerate();
        let rates: Vec<f64> =
            counts.map(|(class, count)| self.rate_of_all(class) / count.max(1.0)).collect();
        let load = self.load(&rates);
        Solution { limits: self.limits(), rates, load, rounds, residual }
    }

    /// Takes over the number of flows, and forgets which way the iteration went.
    fn begin(&mut self) {
        let Self { layout, inputs, counts, .. } = self;
        for input in inputs.iter_mut() {
            input.set_quantum(input.quantum, layout.flows_at_once(input, counts));
        }
        self.damping.fill(Damping::default());
        self.turning.fill(Turning::default());
    }

    /// Rate of all flows of a class together: that of the slowest leg.
    fn rate_of_all(&self, class: usize) -> f64 {
        let rates = &self.rate[self.layout.legs_of[class].clone()];
        rates.iter().copied().fold(self.demand[class], f64::min)
    }

    /// Load on each resource; a pool is held during delays, too.
    fn load(&self, rates: &[f64]) -> Vec<f64> {
        let layout = &self.layout;
        let of_all = |class: u32| rates[class as usize] * self.counts[class as usize];
        let mut load = vec![0.0; self.resources.len()];
        for &station in &layout.stations {
            for at in station.visits() {
                let class = layout.class_of[layout.legs[at] as usize];
                load[station.resource] += of_all(class) * layout.costs[at];
            }
        }
        for &(class, resource, cost) in &layout.priority {
            load[resource as usize] += of_all(class) * cost;
        }
        for leg in layout.holders.iter().map(|&leg| leg as usize) {
            if let Some(pool) = layout.pool[leg] {
                load[pool as usize] += of_all(layout.class_of[leg]) * self.delayed[leg];
            }
        }
        load
    }
}
