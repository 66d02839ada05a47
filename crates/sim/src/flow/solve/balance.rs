//! What a sweep changes for the next one: what goes ahead, what legs ask for, how full queues are.

use std::ops::Range;

use super::fill::lesser;
use super::{
    BASE, DAMPING_RANGE, EDGE, EMPTY_AFTER, FOLLOW, LEAST, LESS, MORE, MOST_GROWTH, NEARLY, NONE,
    ROOM, SLACK, Solver,
};

impl Solver {
    /// Takes off every capacity what goes ahead on it at the rates of this sweep. Returns the largest
    /// relative change.
    pub(super) fn give_way(&mut self) -> f64 {
        if self.layout.ahead.is_empty() {
            return 0.0;
        }
        self.ahead.fill(0.0);
        let (mut last, mut rate) = (usize::MAX, 0.0);
        for &(class, resource, cost) in &self.layout.ahead {
            if class as usize != last {
                last = class as usize;
                rate = self.rate_of_all(last);
            }
            self.ahead[resource as usize] += rate * cost;
        }
        let mut residual: f64 = 0.0;
        for (index, &most) in self.most.iter().enumerate() {
            let left = (most - self.ahead[index]).max(most * LEAST);
            let before = std::mem::replace(&mut self.capacity[index], left);
            residual = residual.max((left - before).abs() / left);
            if self.effective[index] >= before || self.effective[index] > left {
                self.effective[index] = left;
            }
        }
        residual
    }

    /// Lets a leg ask for little more than the other legs of its flow get: enough to show whether it
    /// could have it. Returns the largest relative difference between legs of one flow.
    pub(super) fn balance_legs(&mut self) -> f64 {
        let mut residual: f64 = 0.0;
        for at in 0..self.layout.joined.len() {
            let class = self.layout.joined[at];
            let legs = self.layout.legs_of[class].clone();
            if self.counts[class] == 0.0 {
                continue;
            }
            // The slowest two of those that were cut, since a leg does not wait for itself.
            let demand = self.demand[class];
            let (mut slowest, mut second, mut which) = (f64::INFINITY, f64::INFINITY, usize::MAX);
            for leg in legs.clone() {
                self.is_slow[leg] = self.is_cut(leg);
                let rate = self.rate[leg];
                if self.is_slow[leg] && rate < slowest {
                    (slowest, second, which) = (rate, slowest, leg);
                } else if self.is_slow[leg] {
                    second = second.min(rate);
                }
            }
            for leg in legs.clone() {
                let mut others = if leg == which { second } else { slowest };
                if let Some(pool) = self.layout.held[leg] {
                    others = self.hold(leg, legs.clone(), pool);
                } else {
                    let excess = self.rate[leg] / slowest.min(demand) - 1.0;
                    residual = residual.max(excess - 2.0 * SLACK);
                }
                let wanted = demand.min(others * (1.0 + SLACK));
                residual = residual.max(self.ask_for(leg, wanted));
            }
        }
        residual
    }

    /// Lets a leg ask for so much from now on, or for less of a change where it went back and forth: two legs of
    /// a flow that meet at one resource take from each other what they ask for. Returns the relative change
    /// that is still to come of what it gets.
    fn ask_for(&mut self, leg: usize, wanted: f64) -> f64 {
        let (share, last) = self.turning[leg];
        let change = (wanted / self.asked[leg]).ln();
        if change.abs() <= 2.0 * SLACK {
            self.asked[leg] = wanted;
            return 0.0;
        }
        let share = if change * last < 0.0 { share * 0.5 } else { (share * 1.1).min(1.0) };
        self.turning[leg] = (share, change);
        let before = self.asked[leg];
        self.asked[leg] =
            if share < 1.0 { before * (change.min(MOST_GROWTH) * share).exp() } else { wanted };
        if self.is_slow[leg] { 0.0 } else { change.abs() - 2.0 * SLACK }
    }

    /// What waits in another leg of the same stage keeps what it holds: the pool is the queue in front
    /// of it. Returns the rate of the slowest leg of the other stage.
    fn hold(&mut self, leg: usize, legs: Range<usize>, pool: u32) -> f64 {
        let (mut same, mut other) = (f64::INFINITY, f64::INFINITY);
        for later in legs.filter(|&later| later != leg && self.is_slow[later]) {
            let is_same = self.layout.is_second[later] == self.layout.is_second[leg];
            if is_same && self.layout.holder[later] != NONE {
                continue;
            }
            let slowest = if is_same { &mut same } else { &mut other };
            *slowest = slowest.min(self.rate[later]);
        }
        self.room[pool as usize].limit(same / self.rate[leg], NONE);
        other
    }

    pub(super) fn is_cut(&self, leg: usize) -> bool {
        self.rate[leg] < self.asked[leg] * (1.0 - SLACK / 2.0)
    }

    /// Brings queues nearer to what full ones let through, those in front first, so that one behind
    /// follows in the same round. Returns the largest relative change that is still to come.
    pub(super) fn balance_queues(&mut self, most: f64) -> f64 {
        let mut residual: f64 = 0.0;
        self.moved.fill(1.0);
        for at in (0..self.layout.queues.len()).rev() {
            let resource = self.layout.queues[at];
            if self.passed[resource] <= 0.0 {
                // All whose packets were here are gone.
                self.effective[resource] = self.capacity[resource];
                self.delay[resource] = 0.0;
                continue;
            }
            let ratio = self.room[resource].ratio();
            let front = self.moved.get(self.room[resource].by() as usize).copied().unwrap_or(1.0);
            let change = if self.layout.is_windowed[resource] && !self.fill_up(resource, ratio) {
                self.balance_delay(resource, ratio, most)
            } else {
                self.balance_flow(resource, ratio, front, most)
            };
            residual = residual.max(change);
        }
        residual
    }

    /// Lets go of what pools filled: those that are left may have less under way than such queues hold, and would wait
    /// in them for each other.
    pub(super) fn open_queues(&mut self) {
        for &resource in self.layout.queues.iter().filter(|&&at| self.layout.is_windowed[at]) {
            self.effective[resource] = self.capacity[resource];
        }
    }

    /// Says whether the queue behind a resource holds up what comes next. One that only pools fill does once
    /// there is no room for more of them, until less has come for some rounds than it lets go.
    fn fill_up(&mut self, resource: usize, ratio: f64) -> bool {
        let full = self.longest(resource);
        if self.effective[resource] >= self.capacity[resource] {
            if ratio >= 1.0 || self.delay[resource] < full * (1.0 - NEARLY) {
                return false;
            }
            self.effective[resource] = self.passed[resource];
        } else if self.has_emptied(resource, ratio) {
            self.effective[resource] = self.capacity[resource];
            return false;
        }
        self.delay[resource] = full;
        true
    }

    /// Notes whether less comes to a full queue than it lets go. Says whether that has been so for long enough, since
    /// pools follow what they wait for in some rounds; once in a span, or it would fill and empty by turns.
    fn has_emptied(&mut self, resource: usize, ratio: f64) -> bool {
        let is_less = self.passed[resource] < self.effective[resource] * (1.0 - ROOM);
        let rounds = &mut self.emptying[resource];
        if *rounds == EMPTY_AFTER {
            return false;
        }
        *rounds = if is_less && ratio > 1.0 + ROOM { *rounds + 1 } else { 0 };
        *rounds == EMPTY_AFTER
    }

    /// How long what passes a resource waits behind it when the queue there is full, in nanoseconds.
    fn longest(&self, resource: usize) -> f64 {
        let at = &self.resources[resource];
        (at.holds / self.passed[resource] - at.passing).max(0.0)
    }

    /// Lets a queue grow or shrink whose pools slow down as it does: `x = W / (T + d)`.
    fn balance_delay(&mut self, resource: usize, ratio: f64, most: f64) -> f64 {
        let delay = self.delay[resource];
        let change = if ratio.is_finite() && ratio > 0.0 { ratio.ln() } else { 1.0 };
        if change >= 0.0 && delay <= 0.0 {
            return 0.0;
        }
        let share = Self::damped(&mut self.damping[resource], change, most);
        let full = self.longest(resource);
        let new = stretched(delay, -change * share, full);
        self.delay[resource] = new;
        if new < full { change.abs() - 2.0 * SLACK } else { f64::INFINITY }
    }

    /// Brings an effective capacity nearer to what the full queue behind it lets through, where what is in
    /// front of that changed by a factor in this round.
    fn balance_flow(&mut self, resource: usize, ratio: f64, front: f64, most: f64) -> f64 {
        let now = self.effective[resource];
        let (passed, capacity) = (self.passed[resource], self.capacity[resource]);
        let wanted = (passed * ratio * front).min(capacity);
        let wanted = if wanted > 0.0 { wanted } else { capacity };
        if wanted == now {
            return 0.0;
        }
        let factor = wanted / now;
        let change = factor - 1.0;
        let calm = if self.goes_round { 1.0 } else { self.room[resource].calm() };
        let share = Self::damped(&mut self.damping[resource], change, most) * calm;
        let (new, moved) = if wanted == capacity && change * (1.0 - share) < EDGE {
            (capacity, capacity / now)
        } else {
            let moved = parts_of((factor, share), (front, (1.0 - share) * FOLLOW));
            (lesser(now * moved, capacity), moved)
        };
        self.effective[resource] = new;
        self.moved[resource] = moved;
        if change < 0.0 || passed >= now * (1.0 - EDGE) { change.abs() } else { 0.0 }
    }

    /// Lets egress buffers fill while more comes than is sent, and empty while less does: what holds a pool slows down as
    /// they fill.
    pub(super) fn balance_egress(&mut self, most: f64) -> f64 {
        let mut residual: f64 = 0.0;
        for &resource in &self.layout.storing {
            let (now, pressing) = (self.stored[resource], self.pressing[resource]);
            let change = pressing.max(LEAST).ln();
            if change <= 0.0 && now <= 0.0 {
                continue;
            }
            let share = Self::damped(&mut self.storing[resource], change, most);
            let full = self.resources[resource].egress / self.capacity[resource];
            let new = stretched(now, change * share, full);
            self.stored[resource] = new;
            let to_come = if new > 0.0 && new < full { change.abs() - 2.0 * SLACK } else { 0.0 };
            residual = residual.max((new - now).abs() / BASE).max(to_come);
        }
        residual
    }

    /// Takes over how long legs that hold a pool waited in this sweep.
    pub(super) fn balance_waits(&mut self, most: f64) -> f64 {
        let mut residual: f64 = 0.0;
        for &leg in &self.layout.holders {
            let leg = leg as usize;
            let change = self.waiting[leg] - self.waited[leg];
            residual = residual.max(change.abs() / (BASE + self.waited[leg]));
            self.waited[leg] += change * most.min(0.5);
        }
        residual
    }

    /// The share of a change to make: less after every turn of direction, more while it goes on.
    fn damped(state: &mut (f64, f64), change: f64, most: f64) -> f64 {
        let (share, last) = *state;
        let share = if change * last < 0.0 { share * LESS } else { share * MORE };
        *state = (share.max(DAMPING_RANGE.0).min(most), change);
        state.0
    }
}

/// A delay under which `x = W / (T + d)` slows down by the exponential of `change`, up to that of a full buffer.
fn stretched(delay: f64, change: f64, full: f64) -> f64 {
    ((BASE + delay) * change.exp() - BASE).clamp(0.0, full)
}

/// About the product of two factors, each to a power below one: of each the fraction with the same first two derivatives
/// at 1.
fn parts_of(one: (f64, f64), other: (f64, f64)) -> f64 {
    let fraction = |(factor, share): (f64, f64)| {
        let half = (factor - 1.0) / 2.0;
        (1.0 + (1.0 + share) * half, 1.0 + (1.0 - share) * half)
    };
    let (one, other) = (fraction(one), fraction(other));
    (one.0 * other.0) / (one.1 * other.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_change_is_between_none_and_all_of_it() {
        for factor in [1e-6, 0.5, 0.9, 1.1, 3.0, 1e6] {
            assert!((parts_of((factor, 0.0), (1.0, 0.5)) - 1.0).abs() < 1e-9);
            for share in [0.1, 0.5, 0.9] {
                let (least, most) = (f64::min(1.0, factor), f64::max(1.0, factor));
                let part = parts_of((factor, share), (1.0, 0.5));
                assert!((least..=most).contains(&part), "{factor} {share}: {part}");
            }
        }
        assert!((parts_of((1.1, 0.5), (1.0, 0.5)) - 1.1_f64.sqrt()).abs() < 1e-4);
    }
}
