//! Random numbers from the ranges of parameters, by seed and counter: the same on any number of threads.

use super::{Parameter, Parameters};

/// Random numbers of one seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw {
    seed: u64,
}

impl Draw {
    /// Random numbers that depend on `seed` alone.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A number in `[0, 1)`, for a draw and a position in it.
    pub(crate) fn unit(self, draw: u64, place: u64) -> f64 {
        let bits = mix(mix(self.seed ^ mix(draw)).wrapping_add(place));
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds")]
        let numerator = (bits >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }

    /// A number for every parameter. Its value is the median, and equal ratios on either side are equally likely. A number
    /// depends on the name of its parameter, not on the others.
    pub(crate) fn numbers(self, parameters: &Parameters, draw: u64) -> Vec<f64> {
        let between = |parameter: &Parameter, unit: f64| {
            let end = if unit < 0.5 { parameter.lo } else { parameter.hi };
            parameter.value * (end / parameter.value).powf((2.0 * unit - 1.0).abs())
        };
        let unit = |parameter: &Parameter| self.unit(draw, fnv1a(&parameter.name));
        parameters.iter().map(|parameter| between(parameter, unit(parameter))).collect()
    }
}

/// FNV-1a, 64 bits (draft-eastlake-fnv).
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finaliser of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// OOPSLA 2014).
pub(crate) fn mix(counter: u64) -> u64 {
    let mut bits = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Percentile of sorted numbers, interpolated; `None` for no numbers.
pub fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(clippy::cast_precision_loss, reason = "some thousand draws")]
    let place = share.clamp(0.0, 1.0) * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * place.fract())
}
