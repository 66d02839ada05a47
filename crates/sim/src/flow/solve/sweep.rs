//! One sweep: each leg asks and each resource answers, by rank.
//!
//! Leaves out the state that a sweep changes for the next one: see `backpressure`, `coupling` and `queueing`.

use super::arbitration::OfferedLoad;
use super::layout::Station;
use super::{Acceptance, EDGE, SLACK, Solver};

impl Solver {
    /// Lets each leg ask and each resource answer, once, by rank.
    pub(super) fn sweep(&mut self) {
        self.rate.copy_from_slice(&self.asked);
        self.acceptance.fill(Acceptance::default());
        self.contention.fill(0.0);
        self.delayed.copy_from_slice(&self.waited);
        for &(leg, buffer) in &self.layout.queued {
            self.delayed[leg as usize] += self.delay[buffer as usize];
        }
        for position in 0..self.layout.stations.len() {
            let station = self.layout.stations[position];
            let arbiter = self.gather(station);
            self.passed[station.resource] = arbiter.demand.min(arbiter.capacity);
            if station.delays_pools {
                self.contend(station, arbiter.demand);
            }
            self.arbitrate(station, &arbiter);
            if station.is_pool {
                self.hold(station);
            }
        }
    }

    /// Sums the load that each input of a resource offers.
    fn gather(&mut self, station: Station) -> OfferedLoad {
        let Self { layout, inputs, rate, delayed, effective, counts, .. } = self;
        let mut arbiter = OfferedLoad::new(effective[station.resource]);
        for input in &mut inputs[station.inputs()] {
            let visits = layout.legs[input.visits()].iter().zip(&layout.costs[input.visits()]);
            let mut demand = 0.0;
            if station.is_mixed {
                let mut turns = 0.0;
                for ((&leg, cost), per_unit) in visits.zip(&layout.turns[input.visits()]) {
                    let rate = rate[leg as usize];
                    if station.is_pool {
                        // Little's law: tags are held for the round trip and for all waits.
                        demand += rate * (cost + delayed[leg as usize]);
                        turns += rate;
                    } else {
                        demand += rate * cost;
                        turns += rate * cost * per_unit;
                    }
                }
                let quantum = if demand > 0.0 { demand / turns } else { 1.0 };
                input.set_quantum(quantum, layout.flows_at_once(input, counts));
            } else {
                for (&leg, cost) in visits {
                    demand += rate[leg as usize] * cost;
                }
            }
            input.offer(demand);
            arbiter.add(input);
        }
        arbiter
    }

    /// Cuts the inputs of a full resource to their turns, all legs of an input by the same factor, since they stand in
    /// one buffer; and notes the share of each buffer's arrivals that the resource accepts.
    fn arbitrate(&mut self, station: Station, arbiter: &OfferedLoad) {
        let is_full = arbiter.demand > arbiter.capacity * (1.0 - EDGE);
        if !is_full && !station.has_buffers {
            return;
        }
        let Self { layout, inputs, rate, acceptance, cuts, .. } = self;
        let inputs = &inputs[station.inputs()];
        let level = arbiter.level(inputs);
        for (index, input) in inputs.iter().enumerate().filter(|(_, input)| input.demand > 0.0) {
            let turn = level.turns * input.weight;
            let is_cut = is_full && input.demand >= turn * (1.0 - EDGE);
            if is_cut {
                let factor = (turn / input.demand).min(1.0);
                for &leg in &layout.legs[input.visits()] {
                    rate[leg as usize] *= factor;
                    cuts.note(leg, factor, station.number());
                }
            }
            if let Some(buffer) = acceptance.get_mut(input.port as usize) {
                let most = if is_cut { turn } else { arbiter.greedy_share(inputs, index, level) };
                buffer.limit(most / input.demand, station.number());
            }
        }
    }

    /// Limits the legs that are under way while a pool is held to the rate of the pool.
    fn hold(&mut self, station: Station) {
        for &leg in &self.layout.legs[station.visits()] {
            let most = self.rate[leg as usize] * (1.0 + SLACK);
            let class = self.layout.class_of[leg as usize] as usize;
            for under_way in self.layout.legs_of[class].clone() {
                if self.layout.holder[under_way] == leg {
                    self.rate[under_way] = self.rate[under_way].min(most);
                }
            }
        }
    }
}
