//! Numbers by seed.

/// A stream of numbers that a seed decides (SplitMix64: Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        // Seeds that follow each other must not give streams that do.
        let mut draws = Self(seed);
        Self(draws.next().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        let drawn = (u128::from(self.next()) * u128::from(end)) >> 64;
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
