//! How much of what a link brings is taken off it.
//!
//! What waits for different outputs stands in one queue, of which only the head can go. Each output
//! that is full makes the head wait for the turns of the others there, so that two full outputs are
//! never busy with one queue at the same time (Karol, Hluchyj, Morgan, "Input versus output queueing on
//! a space-division packet switch", 1987).

use super::fill::{Backlog, Input};
use crate::flow::network::NONE;

/// What the outputs in front of a queue take of it, as far as a sweep has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// The least share of what comes that some output takes, and which one.
    least: f64,
    /// The output that takes least.
    pub(super) by: u32,
    /// Time that heads wait for full outputs, as a share of all time, when each follows one for the same
    /// output; with what is saved where it follows one for another, by what goes to each output.
    wait: f64,
    saved: f64,
    saved_squared: f64,
    /// What goes to full outputs: sum and least.
    sum: f64,
    smallest: f64,
    /// Whether heads wait for others at some output.
    pub(super) is_contended: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            least: f64::INFINITY,
            by: NONE,
            wait: 0.0,
            saved: 0.0,
            saved_squared: 0.0,
            sum: 0.0,
            smallest: f64::INFINITY,
            is_contended: false,
        }
    }
}

impl Room {
    /// An output takes so much of what comes for it.
    pub(super) fn limit(&mut self, share: f64, output: u32) {
        if share < self.least {
            self.least = share;
            self.by = output;
        }
    }

    /// Heads for an output wait there for the turns of these others.
    ///
    /// After a packet to the same output, its successor waits for that and a turn of each other; after
    /// one to another output, for a turn of each other and what is left of the turn under way, which is
    /// half of one on average. In a queue that pools fill it waits for its predecessor where nobody else waits,
    /// too: `follows` is the rate at which the output sends such packets one after the other.
    pub(super) fn wait(&mut self, input: Input, others: Backlog, follows: Option<f64>) {
        let is_contended = others.weight > 0.0;
        let rate = others.left.min(follows.unwrap_or(f64::INFINITY));
        if rate <= 0.0 || !is_contended && follows.is_none() {
            return;
        }
        let per_turn = input.demand / (input.turn * rate);
        let own = if follows.is_some() { input.turn } else { input.turn * others.share };
        let half = if is_contended { others.square / others.weight / 2.0 } else { 0.0 };
        let saved = per_turn * (own - half * others.share);
        self.is_contended |= is_contended;
        self.wait += per_turn * (others.weight + own);
        self.saved += saved;
        self.saved_squared += saved * input.demand;
        self.sum += input.demand;
        self.smallest = self.smallest.min(input.demand);
    }

    /// The share of what comes that is taken; above one where more would be.
    pub(super) fn ratio(&self) -> f64 {
        let smallest = self.smallest / self.sum;
        if !self.is_contended || smallest >= 1.0 {
            return self.least;
        }
        // Turns of one round follow each other; an output with one of them never follows itself.
        let saved = (self.saved - self.saved_squared / self.sum) / (1.0 - smallest);
        self.least.min(1.0 / (self.wait - saved.max(0.0)).max(1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of which 0.4 goes to an output where another waits, and 3.6 to one where nobody does.
    fn ratio(follows: Option<f64>) -> f64 {
        let input = |demand| Input { demand, weight: 1.0, turn: 1.0 };
        let contended = Backlog { weight: 1.0, square: 1.0, left: 2.0, share: 1.0 };
        let mut room = Room::default();
        room.wait(input(0.4), contended, follows);
        room.wait(input(3.6), Backlog { left: 4.0, ..Backlog::default() }, follows);
        room.limit(1.5, 0);
        room.ratio()
    }

    #[test]
    fn heads_wait_for_their_predecessors_where_nobody_else_does() {
        // Of ten heads nine go to the free output, and eight of these follow one that does.
        let contended = 0.4 * (1.0 + 0.5) / 2.0;
        let expected = 1.0 / (contended + 3.6 / 4.0 * 8.0 / 9.0);
        assert!((ratio(Some(f64::INFINITY)) - expected).abs() < 1e-12);
        // An output that sends them at half of that.
        let expected = 1.0 / (contended + 3.6 / 2.0 * 8.0 / 9.0);
        assert!((ratio(Some(2.0)) - expected).abs() < 1e-12);
    }

    #[test]
    fn what_no_pool_fills_waits_for_others_only() {
        assert!((ratio(None) - 1.5).abs() < 1e-12);
    }
}
