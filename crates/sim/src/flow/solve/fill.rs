//! Water filling: how a resource whose inputs take equal turns shares its capacity.
//!
//! Leaves out where demands come from. An input that asks for less than its turn gets what it asks
//! for, and the others share what that leaves: max-min fairness over the *inputs* of one arbiter
//! (Demers, Keshav, Shenker, "Analysis and simulation of a fair queueing algorithm", 1989), not over
//! flows.

/// How far below full a queue or an output begins to count as full.
pub(super) const NEAR: f64 = 0.1;

/// An input of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Input {
    /// What it asks for.
    pub demand: f64,
    /// What it takes in each round.
    pub weight: f64,
    /// What it takes in one turn: less than its weight where it stands for several alike.
    pub turn: f64,
}

/// 0 up to a little below one, 1 from one on.
pub(super) fn nearness(share: f64) -> f64 {
    ((share - 1.0) / NEAR + 1.0).clamp(0.0, 1.0)
}

/// The inputs of one resource.
#[derive(Debug, Default)]
pub(super) struct Filling {
    capacity: f64,
    /// Who asks.
    pub inputs: Vec<Input>,
    /// What each asks for in a turn.
    per_turn: Vec<f64>,
    /// The least and the most of that.
    least: f64,
    most: f64,
    /// Sum over all inputs.
    sum: Input,
}

impl Filling {
    /// What the inputs share.
    pub(super) fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Takes the capacity that the inputs share.
    pub(super) fn set(&mut self, capacity: f64) {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        let (mut demand, mut weight) = (0.0, 0.0);
        self.per_turn.clear();
        self.per_turn.extend(self.inputs.iter().map(|input| {
            let per_turn = input.demand / input.weight;
            // Comparisons in place of `min` and `max`, which look for what is no number.
            least = if per_turn < least { per_turn } else { least };
            most = if per_turn > most { per_turn } else { most };
            demand += input.demand;
            weight += input.weight;
            per_turn
        }));
        (self.capacity, self.least, self.most) = (capacity, least, most);
        self.sum = Input { demand, weight, turn: 0.0 };
    }

    /// The most that any input gets in a turn when the resource is full: a turn in which it is used up.
    /// Where all get what they ask for to the last byte, that is what the largest asks for.
    pub(super) fn level(&self) -> f64 {
        if self.sum.demand <= self.capacity { self.most } else { self.rise(usize::MAX) }
    }

    /// What an input would get if it asked for everything and the others for what they ask for now; of a
    /// resource with room, what they leave of it, which is more than it asks for.
    pub(super) fn share_if_greedy(&self, index: usize) -> f64 {
        let own = self.inputs[index];
        let left = self.capacity - (self.sum.demand - own.demand);
        let is_open = self.sum.demand <= self.capacity * (1.0 - NEAR);
        if is_open || left >= self.most * own.weight { left } else { own.weight * self.rise(index) }
    }

    /// The level at which the resource is used up, with one input that takes all it can get: what those
    /// leave that ask for less goes to the others, again and again.
    fn rise(&self, greedy: usize) -> f64 {
        let mut level = self.capacity / self.sum.weight;
        let mut count = 0;
        loop {
            let (mut left, mut weight, mut satisfied) = (self.capacity, self.sum.weight, 0);
            if level > self.least {
                for (index, (input, &per_turn)) in
                    self.inputs.iter().zip(&self.per_turn).enumerate()
                {
                    if per_turn < level && index != greedy {
                        left -= input.demand;
                        weight -= input.weight;
                        satisfied += 1;
                    }
                }
            }
            // Rounding must not leave nobody, nor go back and forth: they only become more.
            if satisfied <= count || satisfied == self.inputs.len() {
                return level.max(0.0);
            }
            count = satisfied;
            level = left / weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filling(demands: &[f64], capacity: f64) -> Filling {
        let inputs = demands.iter().map(|&demand| Input { demand, weight: 1.0, turn: 1.0 });
        let mut filling = Filling { inputs: inputs.collect(), ..Filling::default() };
        filling.set(capacity);
        filling
    }

    #[test]
    fn what_modest_inputs_leave_goes_to_the_others() {
        assert!((filling(&[1.0, 5.0, 5.0], 7.0).level() - 3.0).abs() < 1e-12);
        assert!((filling(&[2.0, 2.0, 2.0], 3.0).level() - 1.0).abs() < 1e-12);
        assert!((filling(&[1.0, 2.0], 4.0).level() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn rounding_does_not_let_the_level_go_back_and_forth() {
        // Demands that lie at the level to the last bit, in all orders of magnitude.
        for seed in 1..2_000_u32 {
            let one = f64::from(seed) / 3.0;
            let demands: Vec<f64> = (0..9).map(|k| one * (1.0 + f64::from(k) * 1e-16)).collect();
            let filling = filling(&demands, one * 9.0 * (1.0 - 1e-16));
            assert!((filling.level() / one - 1.0).abs() < 1e-9);
            assert!((filling.share_if_greedy(4) / one - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn an_input_of_two_turns_gets_twice_as_much() {
        let mut filling = Filling::default();
        let input = |weight| Input { demand: 9.0, weight, turn: weight };
        let (one, two) = (input(1.0), input(2.0));
        filling.inputs = vec![one, two];
        filling.set(6.0);
        assert!((filling.level() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_greedy_input_gets_at_least_its_turn_and_what_others_leave() {
        let filling = filling(&[1.0, 5.0, 5.0], 7.0);
        assert!((filling.share_if_greedy(0) - 7.0 / 3.0).abs() < 1e-12);
        assert!((filling.share_if_greedy(1) - 3.0).abs() < 1e-12);
        let idle = super::tests::filling(&[1.0, 2.0], 10.0);
        assert!((idle.share_if_greedy(0) - 8.0).abs() < 1e-12);
        assert!((idle.share_if_greedy(1) - 9.0).abs() < 1e-12);
    }
}
