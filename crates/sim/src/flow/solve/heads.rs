//! How long the heads of queues wait where several meet.
//!
//! What waits for different outputs stands in one queue, of which only the head can go (Karol, Hluchyj, Morgan,
//! "Input versus output queueing on a space-division packet switch", 1987). An output that is not full has room for
//! it in its own buffer; one that is full takes a packet of each queue in turn. The share of time that heads of a queue
//! wait, over all outputs, is at most one: that bounds what the queue lets go. Leaves out who takes turns, which
//! `fill` has. `docs/model/flow.md` derives the equations. The one thing to know: a head leaves its queue when the
//! output takes it, so that its own time on the link keeps only the next one to the same output waiting.

use super::NONE;
use super::fill::{Filling, Input, NEAR, greater, lesser, nearness};
use super::layout::{Layout, Stop};
use super::room::{Room, Wait};

/// An output of which so much less is asked for than it sends has room for all in its egress buffer. The narrower this is,
/// the nearer to packets, and the more rounds it takes (`docs/model/flow.md`, step 3 and cost).
const NEARLY_FULL: f64 = 0.15;

/// How much of what waits change by, over what the load of the output does, is taken off the changes of queues that they
/// limit: with all of it, queues of which only one changes are slow, and with nothing they go back and forth together.
const STEEP: f64 = 0.2;

/// How much of the most that a change goes in a round the waits at one output go, and those of a whole queue.
const STEP: f64 = 0.75;
const STEP_OF_ALL: f64 = 0.5;

/// The heads of a queue at one of the outputs in front of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Head {
    /// Share of all time that they wait here.
    waits: f64,
    /// Turns that they asked for in a nanosecond.
    turns: f64,
    /// Share of the turns that one flow has.
    each: f64,
}

impl Default for Head {
    fn default() -> Self {
        Self { waits: 0.0, turns: 0.0, each: 1.0 }
    }
}

/// A queue, over all outputs.
#[derive(Debug, Clone, Copy)]
struct Queue {
    /// Share of all time that its heads wait: above one where it brings more than goes.
    all: f64,
    /// What makes shares of that time of waits: one over it. A queue that is never empty has its head somewhere
    /// all the time.
    of_time: f64,
    /// Turns in a nanosecond of one flow of those that ask for least, and one over those of all others.
    least: f64,
    per_other: f64,
}

/// Which share of all time the heads of queues wait, and for what.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// What heads wait, in this sweep, at inputs of resources that lead only to this one. Nothing where none do.
    before: Vec<f64>,
    /// By resource, for the queue behind it.
    queues: Vec<Queue>,
    /// Share of the way to what a sweep finds that this round goes.
    step: f64,
    /// The same of the sums over all outputs.
    step_of_all: f64,
}

/// An input among those that meet at a resource.
#[derive(Debug, Clone, Copy, Default)]
struct Present {
    /// Share of time that its head waits here.
    here: f64,
    /// The chance that its head finds a packet of its own still under way.
    own: f64,
    /// 0 where its head is always here, near 1 where it is mostly elsewhere.
    loose: f64,
    /// Units that pass for each nanosecond.
    passes: f64,
    /// What it takes in each round.
    weight: f64,
    /// Half a packet, as the share of time that one is under way.
    half: f64,
}

/// All that meet at a resource.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    inputs: Vec<Present>,
    capacity: f64,
    /// Share of their waits that counts: all where the resource is full, nothing where it has room.
    counts: f64,
    /// Sums over all inputs: `weight here`, the same times `loose`, `passes loose`, and what is left of
    /// packets under way.
    waiting: f64,
    loosely: f64,
    passing: f64,
    under_way: f64,
}

/// What is left of one when a time with this mean has passed, if it is exponential: `1 - m (1 - exp(-1/m))`,
/// to 1.5 % of it by a fraction with the same slope at 0 and the same limit, which costs less.
fn left_of_one(mean: f64) -> f64 {
    (1.0 + 2.5 * mean) / (1.0 + 3.5 * mean + 5.0 * mean * mean)
}

impl Crowd {
    /// Takes those who ask, of whom each gets at most `level` rounds. `here` says which share of time the
    /// heads of an input wait here, given how many rounds it gets.
    fn gather(
        &mut self,
        capacity: f64,
        inputs: &[Input],
        level: f64,
        head: impl Fn(&Input, f64) -> (f64, f64),
    ) {
        self.inputs.clear();
        let (mut waiting, mut loosely, mut passing, mut under_way) = (0.0, 0.0, 0.0, 0.0);
        self.inputs.extend(inputs.iter().map(|input| {
            let rounds = lesser(input.asks, level);
            let passes = input.weight * rounds;
            let (here, own) = if passes > 0.0 { head(input, rounds) } else { (0.0, 1.0) };
            let half = passes * input.turn / 2.0;
            let square = here * here;
            let loose = 1.0 - square * square;
            waiting += input.weight * here;
            loosely += input.weight * here * loose;
            passing += passes * loose;
            under_way += half;
            Present { here, own, loose, passes, weight: input.weight, half }
        }));
        self.capacity = capacity;
        (self.waiting, self.loosely, self.passing) = (waiting, loosely, passing);
        self.under_way = under_way;
    }

    /// How long the head of an input waits, in nanoseconds, where a packet of its own is still under way with
    /// the chance `own`.
    ///
    /// It finds half a packet of another under way, and the heads of those that wait. While it is always
    /// here itself, all passes that others send meanwhile.
    fn wait(&self, index: usize, turn: f64) -> f64 {
        let Present { here, own, loose, passes, weight, half } = self.inputs[index];
        let for_others = greater(self.capacity - passes, self.capacity * 1e-3);
        let others = (self.under_way - half) / for_others;
        let first = own * turn + (1.0 - own) * greater(0.0, lesser(others, turn / 2.0));
        let waiting = self.waiting - weight * here;
        let loosely = self.loosely - weight * here * loose;
        let passing = self.passing - passes * loose;
        let left = self.capacity - here * passing;
        (first + waiting - here * loosely) / greater(left, self.capacity * 1e-3) * self.counts
    }
}

impl Heads {
    /// Nothing so far.
    pub(super) fn new(inputs: &[Input], resources: usize) -> Self {
        let leads = inputs.iter().any(|input| input.next != NONE);
        let before = vec![0.0; if leads { inputs.len() } else { 0 }];
        let queue = Queue { all: 0.0, of_time: 1.0, least: 1.0, per_other: 0.0 };
        Self { before, queues: vec![queue; resources], step: STEP, step_of_all: STEP_OF_ALL }
    }

    /// Says how many flows of each class there are.
    pub(super) fn count(&mut self, layout: &Layout, inputs: &mut [Input], counts: &[f64]) {
        let mut all = vec![0.0; self.queues.len()];
        for input in inputs.iter_mut().filter(|input| input.port != NONE) {
            let legs = layout.legs[input.visits()].iter();
            let flows: f64 = legs.map(|&leg| counts[layout.class_of[leg as usize] as usize]).sum();
            (input.head.turns, input.head.each) = (flows, flows.max(1e-9).recip());
            if input.next == NONE {
                all[input.port as usize] += flows;
            }
        }
        for (queue, all) in self.queues.iter_mut().zip(all) {
            queue.ask(all, 1.0);
        }
    }

    /// Says how far changes of this sweep may go.
    pub(super) fn go(&mut self, most: f64) {
        (self.step, self.step_of_all) = (STEP * most, STEP_OF_ALL * most);
    }

    /// Takes over what a sweep found.
    pub(super) fn take(&mut self, layout: &Layout, room: &[Room]) {
        for &resource in &layout.queues {
            let (queue, room) = (&mut self.queues[resource], &room[resource]);
            queue.all += (room.waits() - queue.all) * self.step_of_all;
            if room.turns() > 0.0 {
                queue.ask(room.turns(), room.least_turns());
            }
        }
    }

    /// Takes how near to what it can let go a queue is kept.
    pub(super) fn stand(&mut self, resource: usize, backlog: f64) {
        let queue = &mut self.queues[resource];
        let time = backlog * queue.all + (1.0 - backlog) * queue.all.max(1.0);
        queue.of_time = time.max(1e-9).recip();
    }

    /// Finds which share of time the heads of queues wait at the inputs of a resource, each of which gets at most `level`
    /// rounds, and notes it for those whose heads do not wait for another resource at the same time.
    pub(super) fn wait(
        &mut self,
        crowd: &mut Crowd,
        stop: Stop,
        (filling, inputs): (&Filling, &mut [Input]),
        level: f64,
        room: &mut [Room],
    ) {
        let counts = nearness(filling.demand / filling.capacity, NEARLY_FULL);
        let mut steep = 0.0;
        if counts > 0.0 {
            crowd.counts = counts;
            let (per_level, per_capacity) = (level.recip(), filling.capacity.recip());
            crowd.gather(filling.capacity, inputs, level, |input, rounds| {
                match self.queues.get(input.port as usize) {
                    None => (nearness(rounds * per_level, NEAR), 1.0),
                    Some(queue) => {
                        let here = lesser(input.head.waits * queue.of_time, 1.0);
                        (here, queue.own(&input.head, input.demand * per_capacity))
                    }
                }
            });
            // A load that grows by a share of itself makes `counts` grow by so many times that share of itself.
            if counts < 1.0 {
                steep = STEEP / NEARLY_FULL / greater(counts, NEAR);
            }
        }
        for (index, input) in inputs.iter_mut().enumerate() {
            if input.port == NONE {
                break;
            }
            if input.demand <= 0.0 {
                continue;
            }
            let turns = input.asks;
            let head = &mut input.head;
            let mut share = 0.0;
            if counts > 0.0 {
                share = turns * crowd.wait(index, input.turn);
            }
            head.turns = turns;
            head.waits += (share - head.waits) * self.step;
            if !self.before.is_empty() {
                let first = stop.inputs().start;
                let in_front = std::mem::replace(&mut self.before[first + index], 0.0);
                if input.next != NONE {
                    self.before[input.next as usize] += share;
                    continue;
                }
                share = greater(share, in_front);
            }
            let wait = Wait { share, steep, turns, each: turns * head.each };
            room[input.port as usize].wait(wait, stop.number());
        }
    }
}

impl Queue {
    /// Takes how many turns in a nanosecond its flows asked for, and one of those that ask for least.
    fn ask(&mut self, turns: f64, least: f64) {
        self.least = least;
        self.per_other = (turns - least).max(0.0).recip();
    }

    /// The chance that a head finds the packet of its own queue before it still under way, which takes the
    /// output `sends` for each nanosecond.
    ///
    /// One that follows at once does. Flows come in turn: in each round the one that sends least has one of them, so
    /// that of those for an output all follow each other but one. Otherwise time has passed elsewhere: always
    /// the same where an output has one turn of a round, any where it has many (an exponential time of the same mean).
    fn own(&self, head: &Head, sends: f64) -> f64 {
        let follows = (head.turns - self.least) * self.per_other;
        // With nobody else the difference is nothing, of whatever sign.
        if self.per_other.is_infinite() || follows >= 1.0 - 1e-9 {
            return 1.0;
        }
        let follows = follows.max(0.0);
        let elsewhere = (self.all.max(1.0) - head.waits).max(0.0);
        let passed = elsewhere / (sends * (1.0 - follows)).max(1e-12);
        let regular = (1.0 - passed).max(0.0);
        let mixed = left_of_one(passed);
        let irregular = 1.0 - self.least / greater(head.turns, self.least);
        follows + (1.0 - follows) * (regular + (mixed - regular) * irregular)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All heads share `(here, own)`.
    fn crowd(capacity: f64, demands: &[f64], head: (f64, f64)) -> Crowd {
        let mut filling = Filling::new(capacity);
        let inputs = demands.iter().map(|&demand| {
            let mut input = Input::new(NONE, 0..0, 1.0);
            input.ask(demand);
            filling.add(&input);
            input
        });
        let inputs: Vec<Input> = inputs.collect();
        let level = filling.level(&inputs).level;
        let mut crowd = Crowd { counts: 1.0, ..Crowd::default() };
        crowd.gather(capacity, &inputs, level, |_, _| head);
        crowd
    }

    #[test]
    fn heads_that_are_always_here_take_turns() {
        // Its own packet, and a turn of each other.
        assert!((crowd(3.0, &[1.0; 3], (1.0, 1.0)).wait(0, 1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_output_does_not_rest_while_somebody_is_always_here() {
        // The other sends a quarter of what the output can, and its head is hardly ever seen.
        let mut crowd = crowd(4.0, &[3.0, 1.0], (0.0, 1.0));
        crowd.inputs[0].here = 1.0;
        crowd.inputs[0].loose = 0.0;
        (crowd.waiting, crowd.passing) = (1.0, 1.0);
        // Three of four packets are its own: it waits for 4/3 of a packet of 1/4 ns each time.
        assert!((crowd.wait(0, 1.0) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn waits_end_whatever_is_asked_for() {
        for seed in 1..2_000_u32 {
            let one = f64::from(seed) / 7.0;
            let demands: Vec<f64> = (0..6).map(|k| one * (1.0 + f64::from(k) * 1e-16)).collect();
            for here in [0.0, 0.3, 0.9, 1.0, f64::NAN] {
                let crowd = crowd(one * 6.0 * (1.0 - 1e-16), &demands, (here, 0.5));
                let wait = crowd.wait(3, 1.0);
                assert!(here.is_nan() || wait >= 0.0, "{one} {here}: {wait}");
            }
        }
    }
}
