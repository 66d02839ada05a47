//! How long the heads of queues wait where several meet.
//!
//! What waits for different outputs stands in one queue, of which only the head can go, so that two outputs
//! are never busy with one queue at the same time (Karol, Hluchyj, Morgan, "Input versus output queueing on
//! a space-division packet switch", 1987). The share of time that heads of a queue wait, over all outputs,
//! is at most one: that bounds what the queue lets go. Leaves out who takes turns, which `fill` has.
//! `docs/model/flow.md` derives the equations. The one thing to know: a head leaves its queue when it begins
//! to be sent, so that its own time on the link keeps only the next one to the same output waiting.

use super::NONE;
use super::fill::{Filling, Input, nearness};
use super::layout::{Arc, Layout, Stop};
use super::room::{Room, Wait};

/// Share of the way to what a sweep finds that a round goes, when nothing is new.
const STEP: f64 = 0.35;

/// Which share of all time the heads of queues wait, and for what.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// By input of a resource.
    waits: Vec<f64>,
    /// Share of the way to what a sweep finds that this round goes.
    step: f64,
    /// By resource, for the queue behind it, over all outputs: above one where it brings more than goes.
    all: Vec<f64>,
    /// By input, in this sweep: what heads wait at inputs of resources that lead only to this one.
    before: Vec<f64>,
    /// By input, how many flows come by it, and turns that it asked for in a nanosecond.
    flows: Vec<f64>,
    turns: Vec<f64>,
    /// By resource, for the queue behind it, turns that all inputs in front of it asked for, and one flow of
    /// those that ask for least.
    all_turns: Vec<f64>,
    least_turns: Vec<f64>,
}

/// An input among those that meet at a resource.
#[derive(Debug, Clone, Copy)]
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
    /// The link that brings it, or [`NONE`], and which share of its packets that spaces out.
    link: u32,
    apart: f64,
}

/// All that meet at a resource.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    inputs: Vec<Present>,
    capacity: f64,
    /// One over that.
    unit: f64,
    /// How much waits count that others make while the resource is not full, and how near to full it is.
    counts: f64,
    near: f64,
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
    /// Takes those who ask, of whom each gets at most `level` for each unit of its weight. `here` says which
    /// share of time the head of an input waits here, given how many turns it asks for in a nanosecond.
    fn gather(
        &mut self,
        filling: &Filling,
        level: f64,
        here: impl Fn(usize, f64) -> (f64, u32, f64),
    ) {
        let Self { inputs, .. } = self;
        inputs.clear();
        let (mut count, mut passing_all) = (0.0, 0.0);
        let mut sums = [0.0; 4];
        let (mut busiest, mut shares_link) = (0.0_f64, false);
        for (index, input) in filling.inputs.iter().enumerate() {
            let passes = input.demand.min(input.weight * level);
            let turns = passes / input.weight;
            let (here, link, apart) =
                if passes > 0.0 { here(index, turns) } else { (0.0, NONE, 0.0) };
            shares_link |= link != NONE && inputs.iter().any(|other| other.link == link);
            let half = passes * input.turn / 2.0;
            let square = here * here;
            let loose = 1.0 - square * square;
            count += if passes > 0.0 { 1.0 } else { 0.0 };
            busiest = busiest.max(turns);
            let waiting = input.weight * here;
            passing_all += passes;
            sums[0] += waiting;
            sums[1] += waiting * loose;
            sums[2] += passes * loose;
            sums[3] += half;
            inputs.push(Present { here, loose, passes, weight: input.weight, half, link, apart });
        }
        self.capacity = filling.capacity();
        self.unit = self.capacity.recip();
        [self.waiting, self.loosely, self.passing, self.under_way] = sums;
        (self.busiest, self.shares_link) = (busiest, shares_link);
        let load = (passing_all * self.unit).min(1.0);
        let rare = load * load * (count - 1.0) / count.max(1.0);
        let near = nearness(load);
        self.near = near * near;
        self.counts = rare + (1.0 - rare) * self.near;
    }

    /// How long the head of an input waits, in nanoseconds, where a packet of its own is still under way with
    /// the chance `own`.
    ///
    /// It finds half a packet of another under way, and the heads of those that wait. While it is always
    /// here itself, all passes that others send meanwhile, at most a turn of each.
    fn wait(&self, index: usize, own: f64, turn: f64, is_windowed: bool) -> f64 {
        let Present { here, loose, passes, weight, half, link, .. } = self.inputs[index];
        let share = (passes * self.unit).min(0.999);
        let mut under_way = self.under_way - half;
        let mut waiting = self.waiting - weight * here;
        let mut loosely = self.loosely - weight * here * loose;
        let mut passing = self.passing - passes * loose;
        if self.shares_link && link != NONE {
            // What one link brings comes one after the other.
            let others = self.inputs.iter().enumerate();
            for (_, beside) in
                others.filter(|&(other, beside)| other != index && beside.link == link)
            {
                let waits = beside.apart * beside.weight * beside.here;
                under_way -= beside.apart * beside.half;
                waiting -= waits;
                loosely -= waits * beside.loose;
                passing -= beside.apart * beside.passes * beside.loose;
            }
        }
        let others = under_way * self.unit / (1.0 - share);
        let first = own * turn + (1.0 - own) * others.clamp(0.0, turn / 2.0);
        let sum = first + waiting - here * loosely;
        let left = self.capacity - here * passing;
        let mut wait = if left > 0.0 { sum / left } else { f64::INFINITY };
        if wait * self.busiest > 1.0 {
            wait = self.wait_in_turn(index, sum, left, wait);
        }
        let mine = own * turn * self.unit;
        let counts = if is_windowed { self.near } else { self.counts };
        mine + (wait - mine).max(0.0) * counts
    }

    /// The same where some would send more than a turn meanwhile.
    fn wait_in_turn(&self, index: usize, sum: f64, left: f64, wait: f64) -> f64 {
        let Present { here, link, .. } = self.inputs[index];
        let (mut wait, mut count) = (wait, usize::MAX);
        loop {
            let (mut sum, mut left, mut more) = (sum, left, 0);
            for (other, present) in self.inputs.iter().enumerate() {
                if other != index && present.passes * wait > present.weight {
                    let is_beside = present.link != NONE && present.link == link;
                    let meets = if is_beside { 1.0 - present.apart } else { 1.0 };
                    sum += meets * here * present.loose * present.weight;
                    left += meets * here * present.loose * present.passes;
                    more += 1;
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
    /// Nothing so far.
    pub(super) fn new(layout: &Layout, resources: usize) -> Self {
        let inputs = layout.arcs.len();
        Self {
            waits: vec![0.0; inputs],
            step: STEP,
            all: vec![0.0; resources],
            before: vec![0.0; inputs],
            flows: vec![0.0; inputs],
            turns: vec![0.0; inputs],
            all_turns: vec![0.0; resources],
            least_turns: vec![0.0; resources],
        }
    }

    /// Says how many flows of each class there are.
    pub(super) fn count(&mut self, layout: &Layout, counts: &[f64]) {
        let flows = |arc: &Arc| -> f64 {
            let legs = layout.legs[arc.visits()].iter();
            legs.map(|&leg| counts[layout.class_of[leg as usize] as usize]).sum()
        };
        self.step = STEP;
        self.all_turns.fill(0.0);
        self.least_turns.fill(1.0);
        for (at, arc) in layout.arcs.iter().enumerate().filter(|(_, arc)| arc.port != NONE) {
            self.flows[at] = flows(arc);
            self.turns[at] = self.flows[at];
            if layout.leads_to[at] == NONE {
                self.all_turns[arc.port as usize] += self.flows[at];
            }
        }
    }

    /// Takes over what the last sweep found.
    pub(super) fn take(&mut self, room: &[Room], most: f64) {
        self.step = STEP.min(most / 2.0);
        for (at, room) in room.iter().enumerate() {
            self.all[at] = room.waits();
            if room.turns() > 0.0 {
                (self.all_turns[at], self.least_turns[at]) = (room.turns(), room.least_turns());
            }
        }
    }

    /// The chance that a head finds the packet of its own queue before it still under way, which takes the
    /// output `sends` for each nanosecond.
    ///
    /// One that follows at once does. Flows come in turn: in each round the one that sends least has one of them, so
    /// that of those for an output all follow each other but one. Otherwise time has passed elsewhere: always
    /// the same where an output has one turn of a round, any where it has many (an exponential time of the same mean).
    fn own(&self, at: usize, port: usize, sends: f64) -> f64 {
        let (turns, least) = (self.turns[at], self.least_turns[port]);
        let others = self.all_turns[port] - least;
        let follows =
            if others > turns * 1e-9 { ((turns - least) / others).clamp(0.0, 1.0) } else { 1.0 };
        if follows >= 1.0 {
            return 1.0;
        }
        let elsewhere = (self.all[port].max(1.0) - self.waits[at]).max(0.0);
        let passed = elsewhere / (sends * (1.0 - follows)).max(1e-12);
        let regular = (1.0 - passed).max(0.0);
        let mixed = left_of_one(passed);
        let irregular = (1.0 - least / turns.max(least)).max(0.0);
        follows + (1.0 - follows) * (regular + (mixed - regular) * irregular)
    }
}

impl Heads {
    /// Looks who is at a resource, before [`Self::wait`].
    pub(super) fn look(
        &self,
        crowd: &mut Crowd,
        layout: &Layout,
        stop: Stop,
        filling: &Filling,
        (level, queue): (f64, impl Fn(usize, usize) -> (f64, f64)),
    ) {
        let first = stop.arcs().start;
        crowd.gather(filling, level, |index, turns| {
            let at = first + index;
            match layout.arcs[at].port {
                NONE => (nearness(turns / level), NONE, 0.0),
                port => {
                    let link = layout.brought_by[port as usize];
                    let (backlog, apart) = queue(port as usize, link as usize);
                    (self.here(at, port as usize, backlog), link, apart)
                }
            }
        });
    }

    /// The share of time that the head of a queue waits at an input. One that is never empty has its head
    /// somewhere all the time.
    fn here(&self, at: usize, port: usize, backlog: f64) -> f64 {
        let all = self.all[port];
        (self.waits[at] / (backlog * all + (1.0 - backlog) * all.max(1.0)).max(1e-9)).min(1.0)
    }

    /// The share of time that the head of a queue waits at an input, as this sweep finds it; `None` where the
    /// same heads wait for another resource at the same time.
    pub(super) fn wait(
        &mut self,
        crowd: &Crowd,
        layout: &Layout,
        at: usize,
        index: usize,
        input: Input,
    ) -> Option<Wait> {
        let port = layout.arcs[at].port as usize;
        let own = self.own(at, port, input.demand * crowd.unit);
        let turns = input.demand / input.turn;
        let share = turns * crowd.wait(index, own, input.turn, layout.is_windowed[port]);
        self.turns[at] = turns;
        self.waits[at] += (share - self.waits[at]) * self.step;
        let before = std::mem::replace(&mut self.before[at], 0.0);
        match layout.leads_to[at] {
            NONE => Some(Wait {
                share: share.max(before),
                turns,
                each: turns / self.flows[at].max(1e-9),
            }),
            next => {
                self.before[next as usize] += share;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(capacity: f64, demands: &[f64], here: f64) -> Crowd {
        let inputs = demands.iter().map(|&demand| Input { demand, weight: 1.0, turn: 1.0 });
        let mut filling = Filling::default();
        filling.inputs = inputs.collect();
        filling.set(capacity);
        let level = filling.level();
        let mut crowd = Crowd::default();
        crowd.gather(&filling, level, |_, _| (here, NONE, 0.0));
        crowd
    }

    #[test]
    fn heads_that_are_always_here_take_turns() {
        // Its own packet, and a turn of each other.
        assert!((crowd(3.0, &[1.0; 3], 1.0).wait(0, 1.0, 1.0, false) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_output_does_not_rest_while_somebody_is_always_here() {
        // The other sends a quarter of what the output can, and its head is hardly ever seen.
        let mut crowd = crowd(4.0, &[3.0, 1.0], 0.0);
        crowd.inputs[0].here = 1.0;
        crowd.inputs[0].loose = 0.0;
        (crowd.waiting, crowd.passing) = (1.0, 1.0);
        // Three of four packets are its own: it waits for 4/3 of a packet of 1/4 ns each time.
        assert!((crowd.wait(0, 1.0, 1.0, false) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn waits_end_whatever_is_asked_for() {
        for seed in 1..2_000_u32 {
            let one = f64::from(seed) / 7.0;
            let demands: Vec<f64> = (0..6).map(|k| one * (1.0 + f64::from(k) * 1e-16)).collect();
            for here in [0.0, 0.3, 0.9, 1.0, f64::NAN] {
                let crowd = crowd(one * 6.0 * (1.0 - 1e-16), &demands, here);
                let wait = crowd.wait(3, 0.5, 1.0, seed % 2 == 0);
                assert!(here.is_nan() || wait >= 0.0, "{one} {here}: {wait}");
            }
        }
    }
}
