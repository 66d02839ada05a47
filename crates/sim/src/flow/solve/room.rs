//! How much of what a link brings is taken off it.

use crate::flow::network::NONE;

/// What the outputs in front of a queue take of it, as far as a sweep has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// The least share of what comes that some output takes, and which one.
    least: f64,
    by: u32,
    /// Share of all time that heads wait, over all outputs; the longest at one, and which.
    waits: f64,
    longest: f64,
    at: u32,
}

impl Default for Room {
    fn default() -> Self {
        Self { least: f64::INFINITY, by: NONE, waits: 0.0, longest: 0.0, at: NONE }
    }
}

impl Room {
    /// An output takes so much of what comes for it.
    pub(super) fn limit(&mut self, share: f64, output: u32) {
        if share < self.least {
            (self.least, self.by) = (share, output);
        }
    }

    /// Heads for an output wait there for this share of all time.
    pub(super) fn wait(&mut self, share: f64, output: u32) {
        self.waits += share;
        if share > self.longest {
            (self.longest, self.at) = (share, output);
        }
    }

    /// Share of all time that heads wait.
    pub(super) fn waits(&self) -> f64 {
        self.waits
    }

    /// The share of what comes that is taken; above one where more would be.
    pub(super) fn ratio(&self) -> f64 {
        self.least.min(self.waits.recip())
    }

    /// The output that takes least.
    pub(super) fn by(&self) -> u32 {
        if self.least * self.waits <= 1.0 { self.by } else { self.at }
    }
}
