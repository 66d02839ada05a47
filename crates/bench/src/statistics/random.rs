//! Numbers that depend on nothing but a seed.

/// A generator of numbers for orders and resampling; not for secrets.
///
/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014): the
/// n-th number is a mix of seed and n, so any part of a sequence can be had without the rest.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator; neighbouring seeds give sequences that have nothing in common.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5851_f42d_4c95_7f2d))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, or zero; the bias is below `end` in 2^64.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.number()) * end as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Shuffles `things`; each order is equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last + 1));
        }
    }
}

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
impl Random {
    /// A number of the open interval from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.number() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// A number of the standard normal distribution (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_three_things_is_as_likely() {
        let mut random = Random::new(7);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut things = [0, 1, 2];
            random.shuffle(&mut things);
            *counts.entry(things).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    }

    #[test]
    fn equal_seeds_give_equal_numbers_and_others_do_not() {
        let first = |seed| Random::new(seed).number();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        assert_eq!(Random::new(1).below(0), 0);
    }
}
