//! How much of what a link brings is taken off it.

use super::fill::{greater, lesser};
use crate::flow::network::NONE;

/// How heads wait at one output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// Share of all time.
    pub share: f64,
    /// How much of a change of the queue that takes off.
    pub steep: f64,
    /// Turns in a nanosecond, of all flows and of each.
    pub turns: f64,
    pub each: f64,
}

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
    /// The same, each times how much of a change it takes off.
    steep: f64,
    /// Turns in a nanosecond, and of one flow of those that ask for least.
    turns: f64,
    least_turns: f64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            least: f64::INFINITY,
            by: NONE,
            waits: 0.0,
            longest: 0.0,
            at: NONE,
            steep: 0.0,
            turns: 0.0,
            least_turns: f64::INFINITY,
        }
    }
}

impl Room {
    /// An output takes so much of what comes for it.
    pub(super) fn limit(&mut self, share: f64, output: u32) {
        self.by = if share < self.least { output } else { self.by };
        self.least = lesser(share, self.least);
    }

    /// Heads wait so for an output.
    pub(super) fn wait(&mut self, Wait { share, steep, turns, each }: Wait, output: u32) {
        self.waits += share;
        self.steep += share * steep;
        self.turns += turns;
        self.least_turns = lesser(each, self.least_turns);
        self.at = if share > self.longest { output } else { self.at };
        self.longest = greater(share, self.longest);
    }

    /// Share of all time that heads wait.
    pub(super) fn waits(&self) -> f64 {
        self.waits
    }

    /// Turns in a nanosecond.
    pub(super) fn turns(&self) -> f64 {
        self.turns
    }

    /// The same of one flow of those that ask for least.
    pub(super) fn least_turns(&self) -> f64 {
        self.least_turns
    }

    /// The share of what comes that is taken; above one where more would be.
    pub(super) fn ratio(&self) -> f64 {
        self.least.min(self.waits.recip())
    }

    /// The share of a change that the queue makes in a round, where waits limit it: they change by more than it does.
    pub(super) fn calm(&self) -> f64 {
        if self.least * self.waits <= 1.0 { 1.0 } else { self.waits / (self.waits + self.steep) }
    }

    /// The output that takes least.
    pub(super) fn by(&self) -> u32 {
        if self.least * self.waits <= 1.0 { self.by } else { self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_limits_is_the_output_that_heads_wait_longest_for() {
        let mut room = Room::default();
        for (output, share) in [(1, 0.4), (2, 0.7)] {
            room.limit(2.0, output);
            room.wait(Wait { share, steep: 0.0, turns: 1.0, each: 1.0 }, output);
        }
        assert!((room.ratio() - 1.0 / 1.1).abs() < 1e-12);
        assert_eq!(room.by(), 2);
    }
}
