//! Numbers drawn from a seed.

/// SplitMix64 (S. Vigna, <https://prng.di.unimi.it/splitmix64.c>).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from `start` to below `end`.
    pub(crate) fn within(&mut self, start: u64, end: u64) -> u64 {
        start + self.next() % (end - start)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.within(0, all.len() as u64)).expect("an index")]
    }
}
