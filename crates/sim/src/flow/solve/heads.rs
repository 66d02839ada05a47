//! How long the heads of queues wait where several meet.
//!
//! What waits for different outputs stands in one queue, of which only the head can go, so that two outputs
//! are never busy with one queue at the same time (Karol, Hluchyj, Morgan, "Input versus output queueing on
//! a space-division packet switch", 1987). The share of time that heads of a queue wait, over all outputs,
//! is at most one: that bounds what the queue lets go. Leaves out who takes turns, which `fill` has.
//! `docs/model/flow.md` derives the equations. The one thing to know: a head leaves its queue when it begins
//! to be sent, so that its own time on the link keeps only the next one to the same output waiting.

use std::collections::BTreeMap;

use super::NONE;
use super::fill::{Filling, Input, greater, lesser, nearness};
use super::layout::{Arc, Layout, Stop};
use super::room::{Room, Wait};

/// How much of what is late a full buffer makes good: fitted, between nothing and all of it (`docs/model/flow.md`, step 3).
const CATCHES_UP: f64 = 0.5;

/// How much of the most that a change goes in a round the waits at one output go, and those of a whole queue.
const STEP: f64 = 0.75;
const STEP_OF_ALL: f64 = 0.5;

/// The heads of a queue at one of the outputs in front of it, or of flows with a buffer each.
#[derive(Debug, Clone, Copy)]
struct Head {
    /// Share of all time that they wait here.
    waits: f64,
    /// Turns that they asked for in a nanosecond.
    turns: f64,
    /// Its part of what its queue waits over all outputs.
    counted: f64,
    /// Share of the turns that one flow has.
    each: f64,
    /// The queue, or [`NONE`].
    port: u32,
    /// The input that the same heads wait for at the same time, or [`NONE`].
    next: u32,
}

/// What brings those who wait at an input.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// Which resource, or [`NONE`].
    number: u32,
    /// Which share of its packets it spaces out.
    apart: f64,
}

impl Link {
    /// What brings the queue `port` to a resource.
    fn of(layout: &Layout, capacities: &[f64], port: u32, resource: usize) -> Self {
        let number = layout.brought_by.get(port as usize).copied().unwrap_or(NONE);
        let speed = capacities.get(number as usize).copied().unwrap_or(f64::INFINITY);
        Self { number, apart: (capacities[resource] / speed).min(1.0) }
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
    /// Whether all that waits in it holds a pool meanwhile.
    is_windowed: bool,
}

/// Which share of all time the heads of queues wait, and for what.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// By input of a resource.
    heads: Vec<Head>,
    /// By resource, where one link brings several of its inputs: what brings each.
    links: BTreeMap<usize, Vec<Link>>,
    /// What heads wait, in this sweep, at inputs of resources that lead only to this one.
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
    /// How many inputs ask for anything.
    asking: f64,
    capacity: f64,
    /// One over that.
    unit: f64,
    /// How much waits count that others make while the resource is not full, and how near to full it is.
    counts: f64,
    near: f64,
    /// Share of the capacity of the output that a full buffer behind it leaves.
    open: f64,
    /// Most turns that any asks for in a nanosecond.
    busiest: f64,
    /// Whether one link brings several inputs.
    shares_link: bool,
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
    fn gather<T>(
        &mut self,
        (filling, inputs): (&Filling, &[Input]),
        level: f64,
        heads: impl IntoIterator<Item = T>,
        here: impl Fn(T, f64) -> f64,
    ) {
        self.inputs.resize(inputs.len(), Present::default());
        let (mut count, mut all, mut busiest) = (0.0, 0.0, 0.0);
        let (mut waiting, mut loosely, mut passing, mut under_way) = (0.0, 0.0, 0.0, 0.0);
        for ((input, head), present) in inputs.iter().zip(heads).zip(&mut self.inputs) {
            let rounds = lesser(input.asks, level);
            let passes = input.weight * rounds;
            let here = if passes > 0.0 { here(head, rounds) } else { 0.0 };
            let half = passes * input.turn / 2.0;
            let square = here * here;
            let loose = 1.0 - square * square;
            count += if passes > 0.0 { 1.0 } else { 0.0 };
            busiest = greater(rounds, busiest);
            all += passes;
            waiting += input.weight * here;
            loosely += input.weight * here * loose;
            passing += passes * loose;
            under_way += half;
            *present = Present { here, loose, passes, weight: input.weight, half };
        }
        (self.capacity, self.asking) = (filling.capacity, count);
        self.unit = self.capacity.recip();
        (self.waiting, self.loosely, self.passing) = (waiting, loosely, passing);
        (self.under_way, self.busiest) = (under_way, busiest);
        let load = (all * self.unit).min(1.0);
        let rare = load * load * (count - 1.0) / f64::max(count, 1.0);
        self.near = nearness(load);
        self.counts = rare + (1.0 - rare) * self.near;
    }

    /// Takes one who asks, whose heads wait for nobody.
    fn be_one(&mut self, capacity: f64, one: &Input) {
        self.inputs.clear();
        self.inputs.push(Present { weight: one.weight, ..Present::default() });
        (self.capacity, self.unit, self.asking) = (capacity, capacity.recip(), 1.0);
        (self.waiting, self.loosely, self.passing) = (0.0, 0.0, 0.0);
        (self.under_way, self.busiest, self.counts, self.near) = (0.0, 0.0, 0.0, 0.0);
    }

    /// How long the head of an input waits, in nanoseconds, where a packet of its own is still under way with
    /// the chance `own`. `links` bring all inputs.
    ///
    /// It finds half a packet of another under way, and the heads of those that wait. While it is always
    /// here itself, all passes that others send meanwhile, at most a turn of each.
    fn wait(&self, index: usize, own: f64, turn: f64, is_windowed: bool, links: &[Link]) -> f64 {
        let Present { here, loose, passes, weight, half } = self.inputs[index];
        let share = (passes * self.unit).min(0.999);
        let mut under_way = self.under_way - half;
        let mut waiting = self.waiting - weight * here;
        let mut loosely = self.loosely - weight * here * loose;
        let mut passing = self.passing - passes * loose;
        if self.shares_link {
            // What one link brings comes one after the other.
            for (beside, link) in self.beside(index, links) {
                let waits = link.apart * beside.weight * beside.here;
                under_way -= link.apart * beside.half;
                waiting -= waits;
                loosely -= waits * beside.loose;
                passing -= link.apart * beside.passes * beside.loose;
            }
        }
        let others = under_way * self.unit / (1.0 - share);
        let first = own * turn + (1.0 - own) * greater(0.0, lesser(others, turn / 2.0));
        let sum = first + waiting - here * loosely;
        let left = self.capacity - here * passing;
        let mut wait = if left > 0.0 { sum / left } else { f64::INFINITY };
        if wait * self.busiest > 1.0 {
            wait = self.wait_in_turn(index, (sum, left), wait, links);
        }
        let mine = own * turn * self.unit;
        let counts = if is_windowed { self.near } else { self.counts };
        mine + (wait - mine).max(0.0) * counts
    }

    /// The other inputs that the link of one brings.
    fn beside<'a>(
        &'a self,
        index: usize,
        links: &'a [Link],
    ) -> impl Iterator<Item = (&'a Present, &'a Link)> {
        let own = links[index].number;
        let others = self.inputs.iter().zip(links).enumerate();
        let others = others
            .filter(move |&(other, (_, link))| other != index && own != NONE && link.number == own);
        others.map(|(_, beside)| beside)
    }

    /// The share of time that heads of an input wait, and the least that they do, where they would wait for so
    /// much of it and have so much left of waiting elsewhere.
    ///
    /// A full buffer behind an output empties while nobody sends, and takes what comes late as fast as the output
    /// can. So the only queue in front of that could wait as long as it waits nowhere else, and no longer.
    fn make_good(&self, share: f64, left: f64) -> (f64, f64) {
        if self.open >= 1.0 || self.asking > 1.0 {
            return (share, share);
        }
        let least = share * self.open;
        let late = (share - left.max(least)).max(0.0);
        (share - late * CATCHES_UP, least)
    }

    /// The same where some would send more than a turn meanwhile.
    fn wait_in_turn(
        &self,
        index: usize,
        (sum, left): (f64, f64),
        mut wait: f64,
        links: &[Link],
    ) -> f64 {
        let here = self.inputs[index].here;
        let mut count = usize::MAX;
        loop {
            let (mut sum, mut left, mut more) = (sum, left, 0);
            for (other, present) in (0..).zip(&self.inputs) {
                if present.passes * wait > present.weight && other != index {
                    let here = here * present.loose;
                    sum += here * present.weight;
                    left += here * present.passes;
                    more += 1;
                }
            }
            if self.shares_link {
                for (present, link) in self.beside(index, links) {
                    if present.passes * wait > present.weight {
                        let here = here * present.loose * link.apart;
                        sum -= here * present.weight;
                        left -= here * present.passes;
                    }
                }
            }
            // Waits become shorter, and those who send a turn fewer; rounding must not go back and forth.
            if more >= count || left <= 0.0 {
                return sum / left.max(self.capacity * 1e-3);
            }
            (count, wait) = (more, sum / left);
        }
    }
}

impl Heads {
    /// Nothing so far, of resources with these capacities.
    pub(super) fn new(layout: &Layout, capacities: &[f64]) -> Self {
        let heads = layout.arcs.iter().zip(&layout.leads_to).map(|(arc, &next)| {
            let (waits, turns, counted, each) = (0.0, 0.0, 0.0, 1.0);
            Head { waits, turns, counted, each, port: arc.port, next }
        });
        let heads: Vec<Head> = heads.collect();
        let links = layout.stops.iter().filter(|stop| stop.shares_link).map(|stop| {
            let link = |arc: &Arc| Link::of(layout, capacities, arc.port, stop.resource);
            (stop.resource, layout.arcs[stop.arcs()].iter().map(link).collect())
        });
        let queues = layout.is_windowed.iter().map(|&is_windowed| Queue {
            all: 0.0,
            of_time: 1.0,
            least: 1.0,
            per_other: 0.0,
            is_windowed,
        });
        let before = vec![0.0; heads.len()];
        let (queues, step, step_of_all) = (queues.collect(), STEP, STEP_OF_ALL);
        Self { heads, links: links.collect(), before, queues, step, step_of_all }
    }

    /// Says how many flows of each class there are.
    pub(super) fn count(&mut self, layout: &Layout, counts: &[f64]) {
        let mut all = vec![0.0; self.queues.len()];
        for (arc, head) in layout.arcs.iter().zip(&mut self.heads) {
            if arc.port == NONE {
                continue;
            }
            let legs = layout.legs[arc.visits()].iter();
            let flows: f64 = legs.map(|&leg| counts[layout.class_of[leg as usize] as usize]).sum();
            (head.turns, head.each) = (flows, flows.max(1e-9).recip());
            if head.next == NONE {
                all[arc.port as usize] += flows;
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

    /// Looks who is at a resource, before [`Self::wait`].
    pub(super) fn look(
        &self,
        crowd: &mut Crowd,
        stop: Stop,
        asking: (&Filling, &[Input]),
        (level, open): (f64, f64),
    ) {
        crowd.open = open;
        crowd.shares_link = stop.shares_link;
        if let [one] = asking.1 {
            return crowd.be_one(asking.0.capacity, one);
        }
        let per_level = level.recip();
        crowd.gather(asking, level, &self.heads[stop.arcs()], |head, rounds| {
            match self.queues.get(head.port as usize) {
                None => nearness(rounds * per_level),
                Some(queue) => (head.waits * queue.of_time).min(1.0),
            }
        });
    }

    /// Finds which share of time the heads of queues wait at the inputs of a resource, and notes it for those whose
    /// heads do not wait for another resource at the same time.
    pub(super) fn wait(&mut self, crowd: &Crowd, stop: Stop, inputs: &[Input], room: &mut [Room]) {
        let Self { heads, links, before, queues, step, step_of_all } = self;
        let links = if stop.shares_link { &links[&stop.resource][..] } else { &[] };
        let first = stop.arcs().start;
        for (index, (head, input)) in (0..).zip(heads[stop.arcs()].iter_mut().zip(inputs)) {
            let Some(queue) = queues.get(head.port as usize).filter(|_| input.demand > 0.0) else {
                continue;
            };
            let own = queue.own(head, input.demand * crowd.unit);
            let turns = input.asks;
            let share = turns * crowd.wait(index, own, input.turn, queue.is_windowed, links);
            head.turns = turns;
            head.waits += (share - head.waits) * *step;
            let in_front = std::mem::replace(&mut before[first + index], 0.0);
            if head.next != NONE {
                before[head.next as usize] += share;
                continue;
            }
            let elsewhere = queue.all - head.counted;
            let (share, least) = crowd.make_good(greater(share, in_front), 1.0 - elsewhere);
            head.counted += (share - head.counted) * *step_of_all;
            let wait = Wait { share, least, turns, each: turns * head.each };
            room[head.port as usize].wait(wait, stop.number());
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

    fn crowd(capacity: f64, demands: &[f64], here: f64) -> Crowd {
        let mut filling = Filling::new(capacity);
        let inputs = demands.iter().map(|&demand| {
            let mut input = Input::new(1.0, 1.0);
            input.ask(demand);
            filling.add(&input);
            input
        });
        let inputs: Vec<Input> = inputs.collect();
        let level = filling.level(&inputs).level;
        let mut crowd = Crowd::default();
        crowd.gather((&filling, &inputs), level, demands, |_, _| here);
        crowd
    }

    #[test]
    fn heads_that_are_always_here_take_turns() {
        // Its own packet, and a turn of each other.
        assert!((crowd(3.0, &[1.0; 3], 1.0).wait(0, 1.0, 1.0, false, &[]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_output_does_not_rest_while_somebody_is_always_here() {
        // The other sends a quarter of what the output can, and its head is hardly ever seen.
        let mut crowd = crowd(4.0, &[3.0, 1.0], 0.0);
        crowd.inputs[0].here = 1.0;
        crowd.inputs[0].loose = 0.0;
        (crowd.waiting, crowd.passing) = (1.0, 1.0);
        // Three of four packets are its own: it waits for 4/3 of a packet of 1/4 ns each time.
        assert!((crowd.wait(0, 1.0, 1.0, false, &[]) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_only_queue_in_front_of_a_full_buffer_makes_good_half_of_what_is_late() {
        let mut alone = crowd(2.0, &[1.0], 1.0);
        alone.open = 0.5;
        assert_eq!(alone.make_good(0.8, 0.5), (0.65, 0.4));
        // What the output takes at its own pace it takes.
        assert!((alone.make_good(0.8, 0.1).0 - 0.6).abs() < 1e-12);
        alone.open = 1.0;
        assert_eq!(alone.make_good(0.8, 0.1), (0.8, 0.8));
        // Others take the room that it is late for.
        let mut both = crowd(2.0, &[1.0; 2], 1.0);
        both.open = 0.5;
        assert_eq!(both.make_good(0.8, 0.1), (0.8, 0.8));
        // One that asks for nothing is no company.
        let mut gone = crowd(2.0, &[1.0, 0.0], 1.0);
        gone.open = 0.5;
        assert_eq!(gone.make_good(0.8, 0.5), (0.65, 0.4));
    }

    #[test]
    fn waits_end_whatever_is_asked_for() {
        for seed in 1..2_000_u32 {
            let one = f64::from(seed) / 7.0;
            let demands: Vec<f64> = (0..6).map(|k| one * (1.0 + f64::from(k) * 1e-16)).collect();
            for here in [0.0, 0.3, 0.9, 1.0, f64::NAN] {
                let crowd = crowd(one * 6.0 * (1.0 - 1e-16), &demands, here);
                let wait = crowd.wait(3, 0.5, 1.0, seed % 2 == 0, &[]);
                assert!(here.is_nan() || wait >= 0.0, "{one} {here}: {wait}");
            }
        }
    }
}
