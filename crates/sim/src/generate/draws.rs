//! Random numbers by seed.

use crate::parameters::mix;

/// A stream of random numbers (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The stream of a seed; mixed: consecutive seeds give unrelated streams.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed).wrapping_mul(Self::STEP))
    }

    fn next(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(Self::STEP);
        drawn
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let drawn = (u128::from(self.next()) * end as u128) >> 64;
        usize::try_from(drawn).unwrap_or(0)
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// A number from 0 to 1, without 1.
    pub fn share(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let drawn = (self.next() >> 11) as f64;
        drawn / (1_u64 << 53) as f64
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
