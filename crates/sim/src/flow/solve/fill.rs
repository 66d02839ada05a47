//! Water filling: how a resource whose inputs take equal turns shares its capacity.
//!
//! Leaves out where demands come from. An input that asks for less than its turn gets what it asks
//! for, and the others share what that leaves: max-min fairness over the *inputs* of one arbiter
//! (Demers, Keshav, Shenker, "Analysis and simulation of a fair queueing algorithm", 1989), not over
//! flows.

use std::ops::Range;

use super::NONE;
use super::heads::Head;
use super::layout::numbers;

/// How far below full a queue or an output begins to count as full.
pub(super) const NEAR: f64 = 0.1;

/// The smaller of two. `f64::min` also looks for what is no number, which costs twice as much.
pub(super) fn lesser(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The larger of two, in the same way.
pub(super) fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// An input of a resource: a queue, or flows of one class with a buffer each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Input {
    /// The resource behind which the queue stands, or [`NONE`].
    pub port: u32,
    /// The input of another resource that the same heads wait for at the same time, or [`NONE`].
    pub next: u32,
    /// First visit of a leg by it, and one after the last.
    visits: (u32, u32),
    /// What it asks for.
    pub demand: f64,
    /// Rounds that it asks for.
    pub asks: f64,
    /// What it takes in each round, and one over that.
    pub weight: f64,
    unit: f64,
    /// What it takes in one turn: less than its weight where it stands for several alike.
    pub turn: f64,
    /// What its heads do, where it is a queue.
    pub head: Head,
}

impl Input {
    /// One by which legs come on these visits, to each of whom a turn is worth so much.
    pub(super) fn new(port: u32, visits: Range<usize>, turn: f64) -> Self {
        Self {
            port,
            next: NONE,
            visits: numbers(visits),
            demand: 0.0,
            asks: 0.0,
            weight: turn,
            unit: turn.recip(),
            turn,
            head: Head::default(),
        }
    }

    /// Positions of the visits of legs that come by it.
    pub(super) fn visits(&self) -> Range<usize> {
        self.visits.0 as usize..self.visits.1 as usize
    }

    /// Takes so much in a turn from now on, and stands for so many.
    pub(super) fn take_turns(&mut self, turn: f64, count: f64) {
        (self.turn, self.weight) = (turn, turn * count);
        self.unit = self.weight.recip();
    }

    /// Takes what it asks for.
    pub(super) fn ask(&mut self, demand: f64) {
        self.demand = demand;
        self.asks = demand * self.unit;
    }
}

/// 0 up to so much below one, 1 from one on, in proportion between.
#[inline(always)]
pub(super) fn nearness(share: f64, within: f64) -> f64 {
    ((share - 1.0) * within.recip() + 1.0).clamp(0.0, 1.0)
}

/// What the inputs of one resource ask for together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling {
    /// What they share.
    pub capacity: f64,
    /// Sums over all inputs.
    pub demand: f64,
    weight: f64,
    /// The least and the most rounds that any asks for.
    least: f64,
    most: f64,
}

/// Where all who ask for less have what they ask for, and the others share the rest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Rounds that the others get.
    pub level: f64,
    /// What they share, and their weight.
    left: f64,
    weight: f64,
    /// The most that any of those asks for that ask for less.
    below: f64,
}

impl Filling {
    /// Nobody yet at a resource.
    pub(super) fn new(capacity: f64) -> Self {
        Self { capacity, demand: 0.0, weight: 0.0, least: f64::INFINITY, most: 0.0 }
    }

    /// One more input.
    pub(super) fn add(&mut self, input: &Input) {
        self.demand += input.demand;
        self.weight += input.weight;
        self.least = lesser(input.asks, self.least);
        self.most = greater(input.asks, self.most);
    }

    /// The most rounds that any input gets when the resource is full: those in which it is used up.
    /// Where all get what they ask for to the last byte, what the largest asks for.
    pub(super) fn level(&self, inputs: &[Input]) -> Level {
        if self.demand <= self.capacity {
            let (level, left) = (self.most, self.capacity - self.demand);
            Level { level, left, weight: 0.0, below: self.most }
        } else {
            self.rise(inputs, usize::MAX, self.capacity / self.weight)
        }
    }

    /// What all leave of a resource with room, where more than they ask for counts the same for everybody.
    pub(super) fn spare(&self) -> Option<f64> {
        let has_room = self.demand <= self.capacity * (1.0 - NEAR);
        has_room.then_some(self.capacity - self.demand)
    }

    /// What an input of a resource without room would get if it asked for everything and the others for what they
    /// ask for now.
    pub(super) fn share_if_greedy(&self, inputs: &[Input], index: usize, all: Level) -> f64 {
        let own = &inputs[index];
        if all.weight > 0.0 && own.asks >= all.level {
            return own.weight * all.level;
        }
        // With all others where they are, which is no more than it gets, since fewer ask for less.
        let level = (all.left + own.demand) / (all.weight + own.weight);
        if all.below <= level {
            own.weight * level
        } else {
            own.weight * self.rise(inputs, index, level.max(self.capacity / self.weight)).level
        }
    }

    /// The level at which the resource is used up, with one input that takes all it can get: what those
    /// leave that ask for less goes to the others, again and again. Begins at a level that is not too high.
    fn rise(&self, inputs: &[Input], greedy: usize, mut level: f64) -> Level {
        let mut count = 0;
        loop {
            let (mut left, mut weight, mut below) = (self.capacity, self.weight, 0.0);
            let mut satisfied = 0;
            if level > self.least {
                for (index, input) in (0..).zip(inputs) {
                    if input.asks < level && index != greedy {
                        left -= input.demand;
                        weight -= input.weight;
                        below = greater(input.asks, below);
                        satisfied += 1;
                    }
                }
            }
            // Rounding must not leave nobody, nor go back and forth: they only become more.
            if satisfied <= count || satisfied == inputs.len() {
                return Level { level: level.max(0.0), left, weight, below };
            }
            count = satisfied;
            level = left / weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(capacity: f64, asked: &[(f64, f64)]) -> (Vec<Input>, Filling) {
        let mut filling = Filling::new(capacity);
        let inputs = asked.iter().map(|&(weight, demand)| {
            let mut input = Input::new(NONE, 0..0, weight);
            input.ask(demand);
            filling.add(&input);
            input
        });
        (inputs.collect(), filling)
    }

    fn even(demands: &[f64], capacity: f64) -> (Vec<Input>, Filling) {
        let asked: Vec<(f64, f64)> = demands.iter().map(|&demand| (1.0, demand)).collect();
        filled(capacity, &asked)
    }

    fn level(demands: &[f64], capacity: f64) -> f64 {
        let (inputs, filling) = even(demands, capacity);
        filling.level(&inputs).level
    }

    fn greedy(demands: &[f64], capacity: f64, index: usize) -> f64 {
        let (inputs, filling) = even(demands, capacity);
        filling.share_if_greedy(&inputs, index, filling.level(&inputs))
    }

    #[test]
    fn what_modest_inputs_leave_goes_to_the_others() {
        assert!((level(&[1.0, 5.0, 5.0], 7.0) - 3.0).abs() < 1e-12);
        assert!((level(&[2.0, 2.0, 2.0], 3.0) - 1.0).abs() < 1e-12);
        assert!((level(&[1.0, 2.0], 4.0) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn rounding_does_not_let_the_level_go_back_and_forth() {
        // Demands that lie at the level to the last bit, in all orders of magnitude.
        for seed in 1..2_000_u32 {
            let one = f64::from(seed) / 3.0;
            let demands: Vec<f64> = (0..9).map(|k| one * (1.0 + f64::from(k) * 1e-16)).collect();
            let capacity = one * 9.0 * (1.0 - 1e-16);
            assert!((level(&demands, capacity) / one - 1.0).abs() < 1e-9);
            assert!((greedy(&demands, capacity, 4) / one - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn an_input_of_two_turns_gets_twice_as_much() {
        let (inputs, filling) = filled(6.0, &[(1.0, 9.0), (2.0, 9.0)]);
        assert!((filling.level(&inputs).level - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_greedy_input_gets_at_least_its_turn_and_what_others_leave() {
        assert!((greedy(&[1.0, 5.0, 5.0], 7.0, 0) - 7.0 / 3.0).abs() < 1e-12);
        assert!((greedy(&[1.0, 5.0, 5.0], 7.0, 1) - 3.0).abs() < 1e-12);
        assert!((greedy(&[1.0, 2.0], 10.0, 0) - 8.0).abs() < 1e-12);
        assert!((greedy(&[1.0, 2.0], 10.0, 1) - 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_greedy_input_gets_the_same_from_whatever_level_the_search_begins() {
        for seed in 1..500_u32 {
            let draw = |k: u32| f64::from((seed * 7919 + k * 104_729) % 1_000) / 100.0;
            let demands: Vec<f64> = (0..7).map(draw).collect();
            let capacity = demands.iter().sum::<f64>() * (0.4 + draw(9) / 14.0);
            let (inputs, filling) = even(&demands, capacity);
            let all = filling.level(&inputs);
            for index in 0..7 {
                let is_open = filling.demand <= capacity * (1.0 - NEAR);
                if is_open || inputs[index].asks >= all.level {
                    continue;
                }
                let found = filling.share_if_greedy(&inputs, index, all);
                let from_below = filling.rise(&inputs, index, capacity / filling.weight).level;
                assert!((found - from_below).abs() <= 1e-9 * found, "{demands:?} {index}");
            }
        }
    }
}
