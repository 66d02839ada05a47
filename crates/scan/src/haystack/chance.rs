//! Numbers that depend on a seed and a stream and nothing else.

/// `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): the state
/// is a counter, so streams begin wherever they are asked to.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The numbers of one stream of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut whole = Self(seed);
        let begin = whole.bits() ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self(Self(begin).bits())
    }

    /// 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; zero where `end` is.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.bits()) * end as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f32 {
        // 24 bits: as many as the number holds exactly.
        (self.bits() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// A number from `low` to below `high`.
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + self.unit() * (high - low)
    }

    /// Nearly normal with mean zero and deviation one: the sum of four uniform numbers, of 16 bits each.
    pub(crate) fn normal(&mut self) -> f32 {
        let bits = self.bits();
        let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
        // Four uniform numbers have variance 4/12.
        (sum as f32 / 65536.0 - 2.0) * 3.0_f32.sqrt()
    }
}
