//! Round-robin arbitration: the share of each input of a full resource.
//!
//! Inputs take equal turns. One that asks for less than its turns keeps what it asks for, and the others share
//! the rest: max-min fairness over the inputs of one arbiter (Demers, Keshav, Shenker, "Analysis and simulation
//! of a fair queueing algorithm", 1989), not over flows.

use std::ops::Range;

use super::layout::compact;

/// Relative distance below a full resource from which the share of a greedy input is computed exactly.
const NEARLY_FULL: f64 = 0.1;

/// An input of an arbiter: the buffer behind another resource, or the flows of one class with a buffer each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArbiterInput {
    /// The resource in front of the buffer, or [`NONE`](crate::flow::network::NONE).
    pub port: u32,
    /// First visit of a leg by it, and one after the last.
    visits: (u32, u32),
    /// Load that it offers, in units of the resource.
    pub demand: f64,
    /// Turns that it asks for.
    turns: f64,
    /// Units that it takes in each round, and the inverse.
    pub weight: f64,
    inverse: f64,
    /// Units of one turn: below the weight where the input stands for several flows.
    pub quantum: f64,
}

impl ArbiterInput {
    /// The input of the legs at these visits, with a turn of so many units.
    pub(super) fn new(port: u32, visits: Range<usize>, quantum: f64) -> Self {
        let (visits, inverse) = (compact(visits), quantum.recip());
        Self { port, visits, demand: 0.0, turns: 0.0, weight: quantum, inverse, quantum }
    }

    /// Positions of the visits of its legs.
    pub(super) fn visits(&self) -> Range<usize> {
        self.visits.0 as usize..self.visits.1 as usize
    }

    /// Sets the units of a turn, and how many flows take one in each round.
    pub(super) fn set_quantum(&mut self, quantum: f64, flows: f64) {
        (self.quantum, self.weight) = (quantum, quantum * flows);
        self.inverse = self.weight.recip();
    }

    /// Sets the offered load.
    pub(super) fn offer(&mut self, demand: f64) {
        self.demand = demand;
        self.turns = demand * self.inverse;
    }
}

/// The load that the inputs of one resource offer together.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfferedLoad {
    pub capacity: f64,
    /// Sum over the inputs, in units of the resource.
    pub demand: f64,
    weight: f64,
    fewest_turns: f64,
    most_turns: f64,
}

/// The number of turns at which a resource is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Turns of each input that asks for more.
    pub turns: f64,
    /// Capacity and weight left to those inputs.
    left: f64,
    weight: f64,
    /// Most turns of an input that asks for less.
    below: f64,
}

impl OfferedLoad {
    pub(super) fn new(capacity: f64) -> Self {
        Self { capacity, demand: 0.0, weight: 0.0, fewest_turns: f64::INFINITY, most_turns: 0.0 }
    }

    pub(super) fn add(&mut self, input: &ArbiterInput) {
        self.demand += input.demand;
        self.weight += input.weight;
        self.fewest_turns = self.fewest_turns.min(input.turns);
        self.most_turns = self.most_turns.max(input.turns);
    }

    /// The level of a full resource; below that, the turns of the largest input.
    pub(super) fn level(&self, inputs: &[ArbiterInput]) -> Level {
        if self.demand <= self.capacity {
            let left = self.capacity - self.demand;
            Level { turns: self.most_turns, left, weight: 0.0, below: self.most_turns }
        } else {
            self.rise(inputs, usize::MAX, self.capacity / self.weight)
        }
    }

    /// The capacity that an input would get if it asked for everything and the others for what they ask for now.
    pub(super) fn greedy_share(&self, inputs: &[ArbiterInput], index: usize, level: Level) -> f64 {
        let own = &inputs[index];
        if self.demand <= self.capacity * (1.0 - NEARLY_FULL) {
            return self.capacity - self.demand + own.demand;
        }
        if level.weight > 0.0 && own.turns >= level.turns {
            return own.weight * level.turns;
        }
        // With the others where they are: no more than it gets, since fewer ask for less.
        let turns = (level.left + own.demand) / (level.weight + own.weight);
        if level.below <= turns {
            own.weight * turns
        } else {
            own.weight * self.rise(inputs, index, turns.max(self.capacity / self.weight)).turns
        }
    }

    /// Water filling from a level that is not too high, with one input that takes all it can get.
    fn rise(&self, inputs: &[ArbiterInput], greedy: usize, mut turns: f64) -> Level {
        let mut count = 0;
        loop {
            let (mut left, mut weight, mut below) = (self.capacity, self.weight, 0.0_f64);
            let mut satisfied = 0;
            if turns > self.fewest_turns {
                for (index, input) in inputs.iter().enumerate() {
                    if input.turns < turns && index != greedy {
                        left -= input.demand;
                        weight -= input.weight;
                        below = below.max(input.turns);
                        satisfied += 1;
                    }
                }
            }
            // Rounding must neither satisfy all nor go back and forth: the satisfied only become more.
            if satisfied <= count || satisfied == inputs.len() {
                return Level { turns: turns.max(0.0), left, weight, below };
            }
            count = satisfied;
            turns = left / weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::network::NONE;

    fn arbiter(capacity: f64, offered: &[(f64, f64)]) -> (Vec<ArbiterInput>, OfferedLoad) {
        let mut arbiter = OfferedLoad::new(capacity);
        let inputs = offered.iter().map(|&(quantum, demand)| {
            let mut input = ArbiterInput::new(NONE, 0..0, quantum);
            input.offer(demand);
            arbiter.add(&input);
            input
        });
        (inputs.collect(), arbiter)
    }

    fn even(demands: &[f64], capacity: f64) -> (Vec<ArbiterInput>, OfferedLoad) {
        let offered: Vec<(f64, f64)> = demands.iter().map(|&demand| (1.0, demand)).collect();
        arbiter(capacity, &offered)
    }

    fn level(demands: &[f64], capacity: f64) -> f64 {
        let (inputs, arbiter) = even(demands, capacity);
        arbiter.level(&inputs).turns
    }

    fn greedy(demands: &[f64], capacity: f64, index: usize) -> f64 {
        let (inputs, arbiter) = even(demands, capacity);
        arbiter.greedy_share(&inputs, index, arbiter.level(&inputs))
    }

    #[test]
    fn modest_inputs_leave_their_rest() {
        assert!((level(&[1.0, 5.0, 5.0], 7.0) - 3.0).abs() < 1e-12);
        assert!((level(&[1.0, 2.0], 4.0) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn demands_at_the_level_round_safely() {
        for seed in 1..2_000_u32 {
            let one = f64::from(seed) / 3.0;
            let demands: Vec<f64> = (0..9).map(|k| one * (1.0 + f64::from(k) * 1e-16)).collect();
            let capacity = one * 9.0 * (1.0 - 1e-16);
            assert!((level(&demands, capacity) / one - 1.0).abs() < 1e-9);
            assert!((greedy(&demands, capacity, 4) / one - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn greedy_input_gets_turn_and_rest() {
        assert!((greedy(&[1.0, 5.0, 5.0], 7.0, 0) - 7.0 / 3.0).abs() < 1e-12);
        assert!((greedy(&[1.0, 5.0, 5.0], 7.0, 1) - 3.0).abs() < 1e-12);
        assert!((greedy(&[1.0, 2.0], 10.0, 0) - 8.0).abs() < 1e-12);
        assert!((greedy(&[1.0, 2.0], 10.0, 1) - 9.0).abs() < 1e-12);
    }
}
