//! Randomness by counter: the same draw for the same seed, flow and number, in whatever order and on
//! whatever thread it is asked for.

/// A number for `seed`, `stream` and `counter`: two rounds of the finaliser of SplitMix64 (Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(super) fn draw(seed: u64, stream: u64, counter: u64) -> u64 {
    let keyed = mix(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mix(keyed ^ counter.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// An exponentially distributed time with this mean, in picoseconds.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "53 bits of a draw decide"
)]
pub(super) fn exponential(draw: u64, mean: u64) -> u64 {
    let uniform = ((draw >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (-uniform.ln() * mean as f64) as u64
}

/// A time that is evenly spread around a mean, up to so much away from it, in picoseconds.
pub(super) fn within(draw: u64, mean: u64, away: u64) -> u64 {
    let span = u128::from(away) * 2 + 1;
    let place = (u128::from(draw) * span) >> 64;
    (mean - away).saturating_add(u64::try_from(place).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_spread_evenly_and_differ_between_streams() {
        let mut bins = [0u32; 16];
        for counter in 0..16_000 {
            bins[usize::try_from(draw(1, 2, counter) >> 60).unwrap()] += 1;
        }
        assert!(bins.iter().all(|&count| count.abs_diff(1000) < 150), "{bins:?}");
        assert_ne!(draw(1, 2, 3), draw(1, 3, 3));
        assert_ne!(draw(1, 2, 3), draw(2, 2, 3));
    }

    #[test]
    fn exponential_times_have_their_mean() {
        let sum: u64 = (0..100_000).map(|n| exponential(draw(7, 0, n), 1_000)).sum();
        assert!((sum / 100_000).abs_diff(1_000) < 15, "{sum}");
    }

    #[test]
    fn times_around_a_mean_are_no_further_from_it_than_they_may_be() {
        let times: Vec<u64> = (0..10_000).map(|n| within(draw(7, 0, n), 100_000, 10_000)).collect();
        assert!((times.iter().sum::<u64>() / 10_000).abs_diff(100_000) < 200);
        assert!(times.iter().all(|&time| (90_000..=110_000).contains(&time)));
        assert!(
            times.iter().any(|&time| time < 90_500) && times.iter().any(|&time| time > 109_500)
        );
    }
}
