//! A small generator of numbers that depend on a seed alone.
//!
//! Not for secrets: patterns that tell one block from another, positions to sample, simulated faults.

/// Marsaglia's xorshift64* ("An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", Vigna 2016): period 2^64 - 1.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator; seeds that differ give sequences that differ from the first number on.
    pub(crate) fn new(seed: u64) -> Self {
        // The state must not be zero, and neighbouring seeds must not start alike.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((mixed ^ (mixed >> 29)).max(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, or zero; the bias is below `end` in 2^64.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}
