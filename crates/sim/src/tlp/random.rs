//! Random numbers by counter: equal for equal seed, flow and number, in any order and on any thread.

use crate::parameters::mix;

/// Returns a random number for `seed`, `stream` and `counter`: two rounds of the finaliser of SplitMix64 (Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(super) fn draw(seed: u64, stream: u64, counter: u64) -> u64 {
    let keyed = mix(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mix(keyed ^ counter.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

/// Returns a time evenly distributed within `away` around `mean`, in picoseconds.
pub(super) fn within(draw: u64, mean: u64, away: u64) -> u64 {
    let span = u128::from(away) * 2 + 1;
    let place = (u128::from(draw) * span) >> 64;
    (mean - away).saturating_add(u64::try_from(place).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_streams_differ() {
        let mut bins = [0u32; 16];
        let times: Vec<u64> = (0..16_000).map(|n| within(draw(1, 2, n), 100_000, 8_000)).collect();
        for &time in &times {
            bins[usize::try_from((time - 92_000) / 1_001).unwrap()] += 1;
        }
        assert!(bins.iter().all(|&count| count.abs_diff(1000) < 150), "{bins:?}");
        assert_ne!(draw(1, 2, 3), draw(1, 3, 3));
        assert_ne!(draw(1, 2, 3), draw(2, 2, 3));
    }
}
