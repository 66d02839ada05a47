//! Back-pressure: the effective capacity in front of a full buffer, and the delay of a buffer that pools fill.
//!
//! A buffer moves no faster than the slowest of its outputs accepts, and the link into a full buffer carries only
//! that. A buffer in which all traffic holds tags fills no further than the tags allow: its delay grows until they
//! slow the traffic down by as much (Little's law), and only beyond its credits does it push back.

use super::{EDGE, ROUND_TRIP, SLACK, Solver};

/// Least share of a capacity that priority traffic leaves.
const LEAST: f64 = 0.01;
/// Relative distance below which a pooled buffer counts as full.
const FULL: f64 = 1e-3;

impl Solver {
    /// Takes priority traffic at the rates of this sweep off each capacity. Returns the largest relative change.
    pub(super) fn yield_to_priority(&mut self) -> f64 {
        if self.layout.priority.is_empty() {
            return 0.0;
        }
        self.ahead.fill(0.0);
        let (mut last, mut rate) = (usize::MAX, 0.0);
        for &(class, resource, cost) in &self.layout.priority {
            if class as usize != last {
                last = class as usize;
                rate = self.rate_of_all(last);
            }
            self.ahead[resource as usize] += rate * cost;
        }
        let mut residual: f64 = 0.0;
        for (index, resource) in self.resources.iter().enumerate() {
            let left = (resource.capacity - self.ahead[index]).max(resource.capacity * LEAST);
            let before = std::mem::replace(&mut self.capacity[index], left);
            residual = residual.max((left - before).abs() / left);
            if self.effective[index] >= before || self.effective[index] > left {
                self.effective[index] = left;
            }
        }
        residual
    }

    /// Moves each buffer towards what its outputs accept, those in front first, so that the ones behind follow in the
    /// same round. Returns the largest relative change to come.
    pub(super) fn push_back(&mut self, most: f64) -> f64 {
        let mut residual: f64 = 0.0;
        self.moved.fill(1.0);
        for at in (0..self.layout.buffered.len()).rev() {
            let resource = self.layout.buffered[at];
            if self.passed[resource] <= 0.0 {
                self.effective[resource] = self.capacity[resource];
                self.delay[resource] = 0.0;
                continue;
            }
            let is_delay = self.layout.is_pooled[resource] && !self.fill_up(resource);
            let change = if is_delay {
                self.move_delay(resource, most)
            } else {
                self.move_capacity(resource, most)
            };
            residual = residual.max(change);
        }
        residual
    }

    /// True if a pooled buffer pushes back: once it is full and its outputs accept less than arrives.
    fn fill_up(&mut self, resource: usize) -> bool {
        let full = self.delay_when_full(resource);
        if self.effective[resource] >= self.capacity[resource] {
            if self.acceptance[resource].share >= 1.0 || self.delay[resource] < full * (1.0 - FULL)
            {
                return false;
            }
            self.effective[resource] = self.passed[resource];
        }
        self.delay[resource] = full;
        true
    }

    /// Delay of a full buffer, in nanoseconds.
    fn delay_when_full(&self, resource: usize) -> f64 {
        let at = &self.resources[resource];
        (at.holds / self.passed[resource] - at.passing).max(0.0)
    }

    /// Lets the delay of a pooled buffer grow or shrink: `x = W / (T + d)`.
    fn move_delay(&mut self, resource: usize, most: f64) -> f64 {
        let (delay, share) = (self.delay[resource], self.acceptance[resource].share);
        let change = if share.is_finite() && share > 0.0 { share.ln() } else { 1.0 };
        if change >= 0.0 && delay <= 0.0 {
            return 0.0;
        }
        let part = self.damping[resource].part(change, most);
        let full = self.delay_when_full(resource);
        let stretched = (ROUND_TRIP + delay) * (-change * part).exp() - ROUND_TRIP;
        self.delay[resource] = stretched.clamp(0.0, full);
        if stretched < full { change.abs() - 2.0 * SLACK } else { f64::INFINITY }
    }

    /// Moves an effective capacity towards what the full buffer behind it lets through. The change of the output that
    /// limits it in this round counts at once.
    fn move_capacity(&mut self, resource: usize, most: f64) -> f64 {
        let (now, passed) = (self.effective[resource], self.passed[resource]);
        let capacity = self.capacity[resource];
        let accepted = self.acceptance[resource];
        let front = self.moved.get(accepted.output as usize).copied().unwrap_or(1.0);
        let wanted = (passed * accepted.share * front).min(capacity);
        let wanted = if wanted > 0.0 { wanted } else { capacity };
        if wanted == now {
            return 0.0;
        }
        let change = wanted / now - 1.0;
        let part = self.damping[resource].part(change, most);
        let new = if wanted == capacity && change * (1.0 - part) < EDGE {
            capacity
        } else {
            (now + (wanted - now) * part).min(capacity)
        };
        self.moved[resource] = new / now;
        self.effective[resource] = new;
        if change < 0.0 || passed >= now * (1.0 - EDGE) { change.abs() } else { 0.0 }
    }
}
