//! Water filling: how a resource whose inputs take equal turns shares its capacity.
//!
//! Leaves out where demands come from. An input that asks for less than its turn gets what it asks
//! for, and the others share what that leaves: max-min fairness over the *inputs* of one arbiter
//! (Demers, Keshav, Shenker, "Analysis and simulation of a fair queueing algorithm", 1989), not over
//! flows.

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

/// Inputs of a full resource that always have something waiting.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Backlog {
    /// What they take in each round.
    pub weight: f64,
    /// The same, each part weighted with its turn.
    pub square: f64,
    /// What the others leave of the resource.
    pub left: f64,
    /// How full the resource is: 0 where nobody waits, 1 where it is full.
    pub share: f64,
}

impl Backlog {
    /// Without this input, whose rate counts in neither way.
    pub(super) fn without(self, input: Input, level: f64) -> Self {
        let waiting = nearness(input.per_turn() / level) * self.share;
        let weight = waiting * input.weight;
        Self {
            weight: self.weight - weight,
            square: self.square - weight * input.turn,
            left: self.left + (1.0 - waiting) * input.demand,
            share: self.share,
        }
    }
}

/// 1 from one on, 0 up to a little below it: what is only nearly full must not matter all at once.
fn nearness(share: f64) -> f64 {
    ((share - 1.0 + NEAR) / NEAR).clamp(0.0, 1.0)
}

/// How far below full a resource begins to make others wait.
pub(super) const NEAR: f64 = 0.05;

impl Input {
    fn per_turn(self) -> f64 {
        self.demand / self.weight
    }
}

/// The inputs of one resource by what they ask for in a turn, lowest first.
#[derive(Debug, Default)]
pub(super) struct Filling {
    capacity: f64,
    inputs: Vec<Input>,
    /// Which input is at each position.
    order: Vec<usize>,
    /// At which position each input is.
    position: Vec<usize>,
    /// Sum of the inputs before each position, and at the end of all.
    before: Vec<Input>,
}

impl Filling {
    /// Takes the inputs of a resource.
    pub(super) fn set(&mut self, inputs: &[Input], capacity: f64) {
        self.capacity = capacity;
        self.inputs.clear();
        self.inputs.extend_from_slice(inputs);
        self.order.clear();
        self.order.extend(0..inputs.len());
        self.order.sort_unstable_by(|&a, &b| {
            inputs[a].per_turn().total_cmp(&inputs[b].per_turn()).then(a.cmp(&b))
        });
        self.position.resize(inputs.len(), 0);
        self.before.clear();
        let mut sum = Input::default();
        for (position, &index) in self.order.iter().enumerate() {
            self.position[index] = position;
            self.before.push(sum);
            let input = inputs[index];
            sum.demand += input.demand;
            sum.weight += input.weight;
        }
        self.before.push(sum);
    }

    /// The most that any input gets in a turn when the resource is full: a turn in which it is used up.
    /// Where all get what they ask for to the last byte, that is what the largest asks for.
    pub(super) fn level(&self) -> f64 {
        let last = self.order.len().saturating_sub(1);
        let total = self.before[self.order.len()];
        let used = self.capacity.min(total.demand);
        // Somebody is not satisfied; rounding must not say otherwise.
        self.search(|position| {
            let satisfied = self.before[position.min(last)];
            (used - satisfied.demand) / (total.weight - satisfied.weight)
        })
    }

    /// The inputs that take their turns at this level.
    pub(super) fn backlog(&self, level: f64) -> Backlog {
        let total = self.before[self.order.len()].demand;
        let share = nearness(total / self.capacity);
        let mut backlog = Backlog { left: self.capacity, share, ..Backlog::default() };
        for input in &self.inputs {
            let waiting = nearness(input.per_turn() / level) * share;
            backlog.weight += waiting * input.weight;
            backlog.square += waiting * input.weight * input.turn;
            backlog.left -= (1.0 - waiting) * input.demand;
        }
        backlog
    }

    /// What an input would get if it asked for everything and the others for what they ask for now.
    pub(super) fn share_if_greedy(&self, index: usize) -> f64 {
        let own = self.inputs[index];
        let at = self.position[index];
        let weight = self.before[self.order.len()].weight;
        let level = self.search(|position| {
            let mut satisfied = self.before[position];
            if position > at {
                satisfied.demand -= own.demand;
                satisfied.weight -= own.weight;
            }
            (self.capacity - satisfied.demand) / (weight - satisfied.weight)
        });
        own.weight * level.max(0.0)
    }

    /// The level, given what it is if the inputs before a position, and no others, are satisfied.
    fn search(&self, level: impl Fn(usize) -> f64) -> f64 {
        let (mut low, mut high) = (0, self.order.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if level(middle) <= self.inputs[self.order[middle]].per_turn() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        level(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filling(demands: &[f64], capacity: f64) -> Filling {
        let inputs: Vec<Input> =
            demands.iter().map(|&demand| Input { demand, weight: 1.0, turn: 1.0 }).collect();
        let mut filling = Filling::default();
        filling.set(&inputs, capacity);
        filling
    }

    #[test]
    fn what_modest_inputs_leave_goes_to_the_others() {
        assert!((filling(&[1.0, 5.0, 5.0], 7.0).level() - 3.0).abs() < 1e-12);
        assert!((filling(&[2.0, 2.0, 2.0], 3.0).level() - 1.0).abs() < 1e-12);
        assert!((filling(&[1.0, 2.0], 4.0).level() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn an_input_of_two_turns_gets_twice_as_much() {
        let mut filling = Filling::default();
        let input = |weight| Input { demand: 9.0, weight, turn: weight };
        let (one, two) = (input(1.0), input(2.0));
        filling.set(&[one, two], 6.0);
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
