//! Legs of one flow, which wait for each other without blocking anybody: requests and completions of a read, both
//! stages of a relay, the medium of the initiator.

use std::ops::Range;

use super::{NONE, SLACK, Solver};

/// Largest relative growth in a round of a leg that went back and forth.
const MOST_GROWTH: f64 = 1.0;

/// Part of a change that a leg makes in a round, and the last relative change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turning {
    part: f64,
    last: f64,
}

impl Default for Turning {
    fn default() -> Self {
        Self { part: 1.0, last: 0.0 }
    }
}

impl Solver {
    /// Lets each leg ask for little more than the other legs of its flow get: enough to show whether it could have it.
    /// Returns the largest relative difference between legs of one flow.
    pub(super) fn couple_legs(&mut self) -> f64 {
        let mut residual: f64 = 0.0;
        for at in 0..self.layout.coupled.len() {
            let class = self.layout.coupled[at];
            let legs = self.layout.legs_of[class].clone();
            if self.counts[class] == 0.0 {
                continue;
            }
            // The slowest two of those that were cut: a leg does not wait for itself.
            let demand = self.demand[class];
            let (mut slowest, mut second, mut which) = (f64::INFINITY, f64::INFINITY, usize::MAX);
            for leg in legs.clone() {
                let rate = self.rate[leg];
                self.is_cut[leg] = rate < self.asked[leg] * (1.0 - SLACK / 2.0);
                if self.is_cut[leg] && rate < slowest {
                    (slowest, second, which) = (rate, slowest, leg);
                } else if self.is_cut[leg] {
                    second = second.min(rate);
                }
            }
            for leg in legs.clone() {
                let mut others = if leg == which { second } else { slowest };
                if let Some(pool) = self.layout.pool[leg] {
                    others = self.hold_while_waiting(leg, legs.clone(), pool);
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

    /// Moves what a leg asks for; by a part of the change where it went back and forth, since two legs of a flow that
    /// meet at one resource take from each other what they ask for. Returns the relative change to come.
    fn ask_for(&mut self, leg: usize, wanted: f64) -> f64 {
        let change = wanted / self.asked[leg] - 1.0;
        if change.abs() <= 2.0 * SLACK {
            self.asked[leg] = wanted;
            return 0.0;
        }
        let Turning { part, last } = self.turning[leg];
        let part = if change * last < 0.0 { part * 0.5 } else { (part * 1.1).min(1.0) };
        self.turning[leg] = Turning { part, last: change };
        if part < 1.0 {
            self.asked[leg] *= 1.0 + change.min(MOST_GROWTH) * part;
        } else {
            self.asked[leg] = wanted;
        }
        if self.is_cut[leg] { 0.0 } else { change.abs() - 2.0 * SLACK }
    }

    /// Holds a pool while another leg of the same stage waits: the pool is the buffer in front of that. Returns the
    /// rate of the slowest leg of the other stage.
    fn hold_while_waiting(&mut self, leg: usize, legs: Range<usize>, pool: u32) -> f64 {
        let (mut same, mut other) = (f64::INFINITY, f64::INFINITY);
        for later in legs.filter(|&later| later != leg && self.is_cut[later]) {
            let is_same = self.layout.stage[later] == self.layout.stage[leg];
            if is_same && self.layout.holder[later] != NONE {
                continue;
            }
            let slowest = if is_same { &mut same } else { &mut other };
            *slowest = slowest.min(self.rate[later]);
        }
        self.acceptance[pool as usize].limit(same / self.rate[leg], NONE);
        other
    }
}
