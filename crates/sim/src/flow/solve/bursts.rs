//! How much longer commands take where flows have few of them under way and so meet by chance.
//!
//! Leaves out classes with many: a command of those waits at the slowest stage whatever others do. The one thing to know: a
//! flow of one command puts much load on a link for a part of the time and none for the rest, so that it waits for others
//! at loads at which fluids pass each other.

use super::fill::Input;
use super::layout::{Layout, Stop};
use super::{NONE, SLACK, Solver};
use crate::flow::network::Bursts;
use crate::flow::parts::View;

/// Others that are counted one by one; more are taken as so many, each larger.
const MOST: f64 = 64.0;
/// Share of a change that is taken over at once.
const SHARE: f64 = 0.8;
/// No chance is higher than that, and no weight.
const MOST_OFTEN: f64 = 1.0 - 1e-6;
const LARGE: f64 = 1e100;
/// What asks for so much less than a full resource lets go, as a share, is held up there.
const NEARLY: f64 = 1e-3;

/// What the commands of classes with few of them wait.
#[derive(Debug)]
pub(super) struct Gaps {
    /// How the commands of each class come; `None` where gaps do not count.
    of: Vec<Option<Bursts>>,
    /// For each leg, how long a command streams in its stage, in nanoseconds; 0 where gaps do not count.
    stream: Vec<f64>,
    /// For each visit, how much longer a command takes there.
    wait: Vec<f64>,
    /// What of that it does beside what is always there, and so at every resource.
    sure: Vec<f64>,
    /// The same for each leg, and for each class.
    of_leg: Vec<f64>,
    of_class: Vec<f64>,
    /// For each leg, the last link that it passed, and payload a nanosecond that fits through that.
    link: Vec<(u32, f64)>,
    /// Who comes to the resource that is looked at: by visit, and all that do so by an input.
    here: Vec<Comer>,
    by_input: Vec<Crowd>,
    /// Pairs of visits of a class to one resource, each from both sides, by the first.
    siblings: Vec<(usize, usize)>,
}

/// Flows that come to a resource, so many that take so much of it in a turn each.
#[derive(Debug, Clone, Copy)]
struct Comer {
    count: f64,
    turn: f64,
    how: How,
}

impl Comer {
    /// One of them.
    fn one(self) -> Crowd {
        Crowd::of(&[Self { count: 1.0, ..self }])
    }

    /// What all of them take of the resource at most.
    fn most(self) -> f64 {
        let each = match self.how {
            How::Bursts { share, .. } | How::Even { share } => share,
            How::Always => 1.0,
        };
        self.count * each
    }
}

/// How flows come.
#[derive(Debug, Clone, Copy)]
enum How {
    /// Each takes a share of the resource while it streams, and did so for a part of all time if nobody else came here.
    Bursts { share: f64, on: f64 },
    /// Each takes a share of it all the time.
    Even { share: f64 },
    /// They are held up here, and so always here.
    Always,
}

/// All that come to a resource.
#[derive(Debug, Clone, Copy, Default)]
struct Crowd {
    /// Over bursts: the sum of their loads, of loads times shares, of loads times turns, and of squares of loads.
    load: f64,
    of_shares: f64,
    of_turns: f64,
    squares: f64,
    /// What comes evenly, how many flows that is, and what they take in a turn of each; the same of those that are always here.
    even: f64,
    evens: Turns,
    always: Turns,
}

/// Turns of flows.
#[derive(Debug, Clone, Copy, Default)]
struct Turns {
    flows: f64,
    /// What they take of the resource in a turn of each.
    all: f64,
}

impl Turns {
    fn add(&mut self, flows: f64, turn: f64) {
        self.flows += flows;
        self.all += flows * turn;
    }

    /// The same of flows that have one turn together.
    fn together(self) -> Self {
        Self { flows: self.flows.min(1.0), all: self.all / self.flows.max(1.0) }
    }
}

impl Crowd {
    fn of(comers: &[Comer]) -> Self {
        let mut crowd = Self::default();
        comers.iter().for_each(|&comer| crowd.add(comer));
        crowd
    }

    fn add(&mut self, Comer { count, turn, how }: Comer) {
        match how {
            How::Bursts { share, on } => {
                self.load += count * on * share;
                self.of_shares += count * on * share * share;
                self.of_turns += count * on * share * turn;
                self.squares += count * (on * share).powi(2);
            }
            How::Even { share } => {
                self.even += count * share;
                self.evens.add(count, turn);
            }
            How::Always => self.always.add(count, turn),
        }
    }

    /// The same with a part of some more, or less of them.
    fn with(&self, others: &Self, part: f64) -> Self {
        let sum = |all: f64, some: f64| (all + part * some).max(0.0);
        let turns = |all: Turns, some: Turns| Turns {
            flows: sum(all.flows, some.flows),
            all: sum(all.all, some.all),
        };
        Self {
            load: sum(self.load, others.load),
            of_shares: sum(self.of_shares, others.of_shares),
            of_turns: sum(self.of_turns, others.of_turns),
            squares: sum(self.squares, others.squares),
            even: sum(self.even, others.even),
            evens: turns(self.evens, others.evens),
            always: turns(self.always, others.always),
        }
    }

    /// The same where all come by one queue, which has a turn for those that are always in it, or come evenly.
    fn in_one_queue(self) -> Self {
        Self { evens: self.evens.together(), always: self.always.together(), ..self }
    }

    /// The same where what is left of bursts is nothing but rounding beside one of them.
    fn unless_nothing(self, share: f64, on: f64) -> Self {
        let is_left = self.squares > 1e-9 * (on * share).powi(2);
        if is_left { self } else { Self { load: 0.0, ..self } }
    }

    /// By what part of itself a burst takes longer which takes a share of the resource alone, and so much of it in a turn.
    /// The others are taken as so many alike as have the same mean and variance.
    fn delay(&self, share: f64, turn: f64) -> f64 {
        let turns = if self.load > 0.0 { self.of_turns / self.load / turn } else { 1.0 };
        let alike = |count: f64, each: f64| {
            let chance = (self.load / (each * count)).min(MOST_OFTEN);
            let (evens, always) = (self.evens.all / turn, self.always.all / turn);
            Alike { count, each, chance, turns, even: self.even, evens, always }
        };
        if self.load <= 0.0 {
            return alike(1.0, 1.0).delay(share);
        }
        let count = (self.load * self.load / self.squares).clamp(1.0, MOST);
        let each = self.load * self.of_shares / (count * self.squares);
        let (low, high) = (alike(count.floor(), each), alike(count.ceil(), each));
        let part = count - count.floor();
        if part > 0.0 {
            low.delay(share) * (1.0 - part) + high.delay(share) * part
        } else {
            low.delay(share)
        }
    }
}

/// Others that are alike, beside what comes evenly or is always here.
struct Alike {
    count: f64,
    /// What each takes of the resource while it streams, and how often each does where nobody waits.
    each: f64,
    chance: f64,
    /// What each takes in a turn, as a multiple of what the burst does that comes; the same of those that come evenly or are
    /// always here, all together.
    turns: f64,
    even: f64,
    evens: f64,
    always: f64,
}

impl Alike {
    /// The mean of what a burst takes longer over how many of the others stream. With `j` of them it has what they leave, or
    /// an equal part. So many stream with a weight that grows by `(n - j + 1) odds / served(j)`: customers of a closed network
    /// of a delay and a server that all share, whatever their times are spread like (Baskett, Chandy, Muntz, Palacios,
    /// 1975), as one more of them finds the others (the arrival theorem: Reiser and Lavenberg, 1980).
    fn delay(&self, share: f64) -> f64 {
        // What comes evenly takes no more than its turns from who comes in bursts.
        let free =
            |stay: f64| (1.0 - self.even).max(stay / (stay + self.evens).max(f64::MIN_POSITIVE));
        let longer = |others: f64| {
            let stay = 1.0 + others * self.turns + self.always;
            let free = free(stay);
            let left = (free - others * self.each) / (1.0 + self.always);
            (share / left.max(free / stay) - 1.0).max(0.0)
        };
        let served = |others: f64| {
            let turns = others * self.turns;
            let stay = turns + self.always;
            (free(stay) / self.each / stay * turns).min(others)
        };
        let odds = self.chance / (1.0 - self.chance);
        let (mut weight, mut all, mut sum, mut others) = (1.0, 1.0, longer(0.0), 0.0);
        while others < self.count {
            weight *= (self.count - others) * odds;
            others += 1.0;
            weight /= served(others);
            all += weight;
            sum += weight * longer(others);
            if weight > LARGE {
                (all, sum, weight) = (all / weight, sum / weight, 1.0);
            }
        }
        sum / all
    }
}

impl Gaps {
    /// Those of a part of a network, where any class has few commands under way.
    pub(super) fn of(view: View, layout: &Layout) -> Option<Box<Self>> {
        if view.classes().all(|class| class.bursts.is_none()) {
            return None;
        }
        let of: Vec<_> = view.classes().map(|class| class.bursts.as_deref().cloned()).collect();
        let mut stream = vec![0.0; layout.class_of.len()];
        for (bursts, legs) in of.iter().zip(&layout.legs_of) {
            if let Some(bursts) = bursts {
                stream[legs.clone()].copy_from_slice(&bursts.streams);
            }
        }
        let (wait, of_leg) = (vec![0.0; layout.legs.len()], vec![0.0; stream.len()]);
        let of_class = vec![0.0; of.len()];
        let link = vec![(NONE, 0.0); stream.len()];
        let (here, by_input, siblings) = (Vec::new(), Vec::new(), siblings(layout));
        let sure = wait.clone();
        Some(Box::new(Self {
            of,
            stream,
            wait,
            sure,
            of_leg,
            of_class,
            link,
            here,
            by_input,
            siblings,
        }))
    }

    /// The other visits of the class of a visit to the same resource.
    fn siblings(&self, visit: usize) -> impl Iterator<Item = usize> {
        let first = self.siblings.partition_point(|&(one, _)| one < visit);
        let of = self.siblings[first..].iter().take_while(move |&&(one, _)| one == visit);
        of.map(|&(_, other)| other)
    }

    /// Commands of a flow that are under way.
    fn slots(&self, class: usize, each: f64) -> f64 {
        self.of[class].as_ref().map_or(1.0, |one| one.reach * each * one.alone / one.block)
    }

    /// How far apart from those beside it a leg comes by a link, at a resource that lets its packets go at this rate: 1 where
    /// the link is no faster, so that they have waited for each other there; with a link `x` times as fast, of two senders
    /// one after the other `1 - 1/x^2` of the wait is left (Friedman, 1965, as in `meet`).
    fn apart(&self, leg: usize, rate: f64, link: Option<&u32>) -> f64 {
        let (last, of_link) = self.link[leg];
        if link == Some(&last) { (rate / of_link).min(1.0).powi(2) } else { 0.0 }
    }

    /// How long a command of a class takes, with all that it waits.
    fn time(&self, class: usize) -> f64 {
        self.of[class].as_ref().map_or(0.0, |bursts| bursts.alone) + self.of_class[class]
    }

    /// Says for each class what its commands wait: where they do so longest. They stream through all of a stage at once, and
    /// what waited in one stage comes apart from others to the next; but for what is always there, which they wait for in each.
    fn sum(&mut self, layout: &Layout) {
        self.of_leg.fill(0.0);
        self.of_class.fill(0.0);
        for (&leg, (wait, sure)) in layout.legs.iter().zip(self.wait.iter().zip(&self.sure)) {
            self.of_leg[leg as usize] += wait;
            self.of_class[layout.class_of[leg as usize] as usize] += sure;
        }
        for (legs, all) in layout.legs_of.iter().zip(&mut self.of_class) {
            *all = self.of_leg[legs.clone()].iter().copied().fold(*all, f64::max);
        }
    }
}

/// Who comes by an input, as those see them that come by another one.
fn seen(by: Crowd, input: &Input) -> Crowd {
    if input.port == NONE { by } else { by.in_one_queue() }
}

/// Pairs of visits of a class to one resource, by the first.
fn siblings(layout: &Layout) -> Vec<(usize, usize)> {
    let class = |visit: usize| layout.class_of[layout.legs[visit] as usize];
    let mut pairs = Vec::new();
    for stop in &layout.stops {
        let mut visits: Vec<usize> = stop.visits().collect();
        visits.sort_by_key(|&visit| class(visit));
        for same in visits.chunk_by(|&one, &other| class(one) == class(other)) {
            for (&one, &other) in
                same.iter().flat_map(|one| same.iter().map(move |other| (one, other)))
            {
                if one != other {
                    pairs.push((one, other));
                }
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

impl Solver {
    /// Takes over how much longer commands took in this sweep, and what their classes ask for then: `q n / (T + W)`. Returns
    /// the largest relative change that is still to come.
    pub(super) fn balance_bursts(&mut self, most: f64) -> f64 {
        let Some(mut gaps) = self.gaps.take() else { return 0.0 };
        let mut residual: f64 = 0.0;
        for position in 0..self.layout.stops.len() {
            let stop = self.layout.stops[position];
            if !stop.is_held {
                residual = residual.max(self.meet_bursts(&mut gaps, stop, SHARE.min(most)));
            }
        }
        gaps.sum(&self.layout);
        for (class, bursts) in gaps.of.iter().enumerate() {
            let Some(bursts) = bursts.as_ref().filter(|_| self.counts[class] > 0.0) else {
                continue;
            };
            let reach = bursts.reach * bursts.alone / gaps.time(class);
            let demand = self.each[class] * self.counts[class] * reach.min(1.0);
            let before = std::mem::replace(&mut self.demand[class], demand);
            residual = residual.max((demand / before - 1.0).abs() - 2.0 * SLACK);
            let legs = self.layout.legs_of[class].clone();
            if legs.len() == 1 {
                self.asked[legs.start] = demand;
            }
        }
        self.gaps = Some(gaps);
        residual
    }

    /// Brings what commands wait at a resource nearer to what those that come there now make them wait.
    fn meet_bursts(&self, gaps: &mut Gaps, stop: Stop, part: f64) -> f64 {
        let (all, most) = self.gather_bursts(gaps, stop);
        let mut residual: f64 = 0.0;
        for (index, input) in self.inputs[stop.inputs()].iter().enumerate() {
            let beside = gaps.by_input[index];
            // Others in the same queue have their turns one by one.
            let all = all.with(&seen(beside, input), -1.0).with(&beside, 1.0);
            for at in input.visits() {
                let leg = self.layout.legs[at] as usize;
                let rate = self.capacity[stop.resource] / self.layout.costs[at];
                let apart = gaps.apart(leg, rate, self.layout.brought_by.get(input.port as usize));
                if self.resources[stop.resource].is_sender {
                    gaps.link[leg] = (stop.number(), rate);
                }
                let comer = gaps.here[at - stop.visits().start];
                let How::Bursts { share, on } = comer.how else { continue };
                let (delay, sure) = if most > 1.0 {
                    let others = all.with(&beside, -apart).with(&comer.one(), apart - 1.0);
                    let others = self.without_siblings(gaps, (stop, input), at, others, apart);
                    let others = others.unless_nothing(share, on);
                    let always = Crowd { always: others.always, ..Crowd::default() };
                    (others.delay(share, comer.turn), always.delay(share, comer.turn))
                } else {
                    (0.0, 0.0)
                };
                let change = gaps.stream[leg] * delay - gaps.wait[at];
                gaps.wait[at] += change * part;
                gaps.sure[at] += (gaps.stream[leg] * sure - gaps.sure[at]) * part;
                residual = residual.max(change.abs() / gaps.time(self.class_at(at)) - 2.0 * SLACK);
            }
        }
        residual
    }

    /// Notes who comes to a resource, by visit and by input. Returns all of them as one that comes by another input sees
    /// them, and what they take of the resource at most.
    fn gather_bursts(&self, gaps: &mut Gaps, stop: Stop) -> (Crowd, f64) {
        let (mut here, mut by_input) =
            (std::mem::take(&mut gaps.here), std::mem::take(&mut gaps.by_input));
        let visits = stop.visits();
        here.clear();
        here.extend(visits.clone().map(|at| self.comer(gaps, stop, at)));
        by_input.clear();
        let mut all = Crowd::default();
        for input in &self.inputs[stop.inputs()] {
            let range = input.visits().start - visits.start..input.visits().end - visits.start;
            let by = Crowd::of(&here[range]);
            all = all.with(&seen(by, input), 1.0);
            by_input.push(by);
        }
        let most = here.iter().map(|comer| comer.most()).sum();
        (gaps.here, gaps.by_input) = (here, by_input);
        (all, most)
    }

    /// Those that a visit meets, without the same flow's: a command is in one of its stages at a time.
    fn without_siblings(
        &self,
        gaps: &Gaps,
        (stop, input): (Stop, &Input),
        visit: usize,
        mut others: Crowd,
        apart: f64,
    ) -> Crowd {
        let class = self.class_at(visit);
        let slots = gaps.slots(class, self.each[class]).max(1.0);
        for sibling in gaps.siblings(visit) {
            let left = if input.visits().contains(&sibling) { 1.0 - apart } else { 1.0 };
            let comer = gaps.here[sibling - stop.visits().start];
            others = others.with(&comer.one(), -left / slots);
        }
        others
    }

    fn class_at(&self, visit: usize) -> usize {
        self.layout.class_of[self.layout.legs[visit] as usize] as usize
    }

    /// What comes by a visit.
    fn comer(&self, gaps: &Gaps, stop: Stop, visit: usize) -> Comer {
        let class = self.class_at(visit);
        let (count, cost) = (self.counts[class], self.layout.costs[visit]);
        let cost = cost / self.capacity[stop.resource];
        let rate = self.rate_of_all(class) / count.max(1.0);
        let is_full = self.passed[stop.resource] >= self.effective[stop.resource] * (1.0 - NEARLY);
        let is_held_up = is_full && rate * count < self.demand[class] * (1.0 - NEARLY);
        let stream = gaps.stream[self.layout.legs[visit] as usize];
        let how = match gaps.of[class].as_ref().filter(|_| stream > 0.0) {
            Some(bursts) => {
                // From the end of a burst to the next one: one after the other come from all slots.
                let wait = gaps.wait[visit];
                let slots = gaps.slots(class, self.each[class]);
                let mut off = (gaps.time(class) - wait) / slots - stream;
                if !is_held_up {
                    off = off.max(bursts.block / rate - stream - wait);
                }
                let on = stream / (stream + off.max(0.0));
                How::Bursts { share: (bursts.block / stream * cost).min(1.0), on }
            }
            None if is_held_up => How::Always,
            None => How::Even { share: (rate * cost).min(1.0) },
        };
        Comer { count, turn: self.layout.turns[visit].recip(), how }
    }

    /// For each class the resource for which its commands wait longest, where they do so for longer than all else takes.
    pub(super) fn longest_meetings(&self) -> Vec<Option<u32>> {
        let Some(gaps) = &self.gaps else { return vec![None; self.counts.len()] };
        let alone = gaps.of.iter().map(|bursts| bursts.as_ref().map_or(f64::MAX, |one| one.alone));
        let mut longest: Vec<(f64, Option<u32>)> = alone.map(|alone| (alone, None)).collect();
        for &stop in &self.layout.stops {
            for at in stop.visits() {
                let longest = &mut longest[self.class_at(at)];
                if gaps.wait[at] > longest.0 {
                    *longest = (gaps.wait[at], Some(stop.number()));
                }
            }
        }
        longest.into_iter().map(|(_, at)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::network::{Class, Hop, Network, Resource};
    use crate::flow::solve::{Settings, Solution};

    /// A flow of one command of a byte, which streams for so long alone and does something else for as long as `off`.
    fn one(stream: f64, off: f64, count: u32) -> Class {
        let alone = stream + off;
        let bursts = Bursts { block: 1.0, alone, reach: 1.0, streams: vec![stream] };
        let hop = Hop { resource: 0, port: NONE, turn: 1.0, cost: 1.0 };
        let (demand, bursts) = (1.0 / alone, Some(Box::new(bursts)));
        Class { count, demand, legs: vec![vec![hop]], bursts, ..Class::default() }
    }

    fn solved(classes: Vec<Class>) -> Solution {
        let network = Network { resources: vec![Resource::default()], classes };
        let settings = Settings::default();
        let solution = Solver::new(&network).expect("in order").solve(settings);
        assert!(solution.has_converged(settings), "{solution:?}");
        solution
    }

    /// What each of so many gets of a link that one streams through in a nanosecond, by exact mean-value analysis (Reiser and
    /// Lavenberg, 1980).
    fn analysed(count: u32, off: f64) -> f64 {
        let (mut waiting, mut each) = (0.0, 0.0);
        for customers in 1..=count {
            let here = 1.0 + waiting;
            each = 1.0 / (off + here);
            waiting = f64::from(customers) * each * here;
        }
        each
    }

    #[test]
    fn flows_of_one_command_wait_as_customers_of_a_closed_network() {
        for (count, off) in
            [(2, 1.0), (2, 0.3), (3, 1.0), (4, 3.0), (8, 4.0), (30, 40.0), (60, 50.0)]
        {
            let expected = analysed(count, off);
            let found = solved(vec![one(1.0, off, count)]).rates[0];
            assert!((found / expected - 1.0).abs() < 2e-3, "{count} {off}: {found} {expected}");
        }
    }

    #[test]
    fn bursts_that_fit_beside_each_other_do_not_wait() {
        // Each takes a third of the link while it streams.
        let found = solved(vec![one(3.0, 2.0, 3)]);
        assert!((found.rates[0] - 0.2).abs() < 1e-4, "{found:?}");
        // With a fourth it waits for some of the time.
        let more = solved(vec![one(3.0, 2.0, 4)]).rates[0];
        assert!(more < 0.199 && more > 0.17, "{more}");
    }

    #[test]
    fn a_command_has_half_of_a_link_that_another_flow_fills() {
        let hop = Hop { resource: 0, port: NONE, turn: 1.0, cost: 1.0 };
        let deep = Class { count: 1, demand: 5.0, legs: vec![vec![hop]], ..Class::default() };
        let found = solved(vec![one(1.0, 1.0, 1), deep]);
        assert!((found.rates[0] - 1.0 / 3.0).abs() < 2e-3, "{found:?}");
        assert!((found.rates[1] - 2.0 / 3.0).abs() < 2e-3, "{found:?}");
    }

    #[test]
    fn who_waited_at_a_link_does_not_wait_again_at_the_next_that_is_as_fast() {
        let after = |first: f64| {
            let link = |capacity, rank| Resource {
                capacity,
                rank,
                is_sender: true,
                ..Resource::default()
            };
            let hop = |resource, port| Hop { resource, port, turn: 1.0, cost: 1.0 };
            let both = vec![vec![hop(0, NONE), hop(1, 0)]];
            let class = Class { legs: both, ..one(1.0, 1.0, 3) };
            let network =
                Network { resources: vec![link(first, 0), link(1.0, 1)], classes: vec![class] };
            let solver = Solver::new(&network);
            solver.expect("in order").solve(Settings::default()).rates[0]
        };
        let expected = analysed(3, 1.0);
        for first in [1.0, 10.0] {
            let found = after(first);
            assert!((found / expected - 1.0).abs() < 5e-3, "{first}: {found} {expected}");
        }
    }

    #[test]
    fn what_comes_evenly_and_fills_a_link_starves_nobody() {
        let hop = Hop { resource: 0, port: NONE, turn: 1.0, cost: 1.0 };
        let even = Class { count: 2, demand: 0.5, legs: vec![vec![hop]], ..Class::default() };
        let found = solved(vec![one(1.0, 1.0, 1), even]).rates;
        // A third of the link while it streams, and the others give way.
        assert!(found[0] > 0.24 && found[0] < 0.34, "{found:?}");
        assert!((found[0] + 2.0 * found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_waits_for_longer_than_all_else_is_limited_by_the_resource() {
        let limit = |count| solved(vec![one(1.0, 1.0, count)]).limits[0];
        assert_eq!([limit(2), limit(3), limit(6)], [None, None, Some(0)]);
    }

    #[test]
    fn chances_from_never_to_always_have_a_mean() {
        for (on, count) in [(1e-9, 1.0), (0.5, 2.5), (1.0 - 1e-12, 63.0), (1.0, 1e4), (0.3, 1e6)] {
            let mut crowd = Crowd::default();
            for (count, how) in [
                (count, How::Bursts { share: 0.7, on }),
                (3.0, How::Even { share: 1.0 / 3.0 }),
                (2.0, How::Always),
            ] {
                crowd.add(Comer { count, turn: 1.0, how });
            }
            let delay = crowd.delay(1.0, 0.1);
            assert!(delay.is_finite() && delay >= 0.0, "{on} {count}: {delay}");
        }
    }
}
