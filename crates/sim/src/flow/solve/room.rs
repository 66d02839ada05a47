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
    /// half of one on average. Only a share of that counts where they wait for something else meanwhile.
    pub(super) fn wait(&mut self, input: Input, others: Backlog, counts: f64) {
        if others.weight <= 0.0 || others.left <= 0.0 || counts <= 0.0 {
            return;
        }
        let per_turn = counts * input.demand / (input.turn * others.left);
        let saved = per_turn * (input.turn - others.square / others.weight / 2.0);
        self.wait += per_turn * (others.weight + input.turn * others.share);
        self.saved += saved * others.share;
        self.saved_squared += saved * others.share * input.demand;
        self.sum += input.demand;
        self.smallest = self.smallest.min(input.demand);
    }

    /// The share of what comes that is taken; above one where more would be.
    pub(super) fn ratio(&self) -> f64 {
        let smallest = self.smallest / self.sum;
        if self.wait <= 0.0 || smallest >= 1.0 {
            return self.least;
        }
        // Turns of one round follow each other; an output with one of them never follows itself.
        let saved = (self.saved - self.saved_squared / self.sum) / (1.0 - smallest);
        self.least.min(1.0 / (self.wait - saved.max(0.0)).max(1e-9))
    }
}
