//! Under-relaxation of the fixed-point iteration.

/// Part of a change at first, its growth after each change in the same direction, and its shrinkage after each
/// reversal. Chosen by the number of rounds over random machines.
const FIRST: f64 = 0.63;
const GROWTH: f64 = 1.08;
const SHRINKAGE: f64 = 0.88;
const LEAST: f64 = 0.02;

/// The part of a change that one variable makes in a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Damping {
    part: f64,
    last: f64,
}

impl Default for Damping {
    fn default() -> Self {
        Self { part: FIRST, last: 0.0 }
    }
}

impl Damping {
    /// The part of this change to make, at most `most`.
    pub(super) fn part(&mut self, change: f64, most: f64) -> f64 {
        let factor = if change * self.last < 0.0 { SHRINKAGE } else { GROWTH };
        (self.part, self.last) = ((self.part * factor).max(LEAST).min(most), change);
        self.part
    }
}
