//! Effect of the location of two ends.

use super::{Random, median};

/// Number of permutations of the pairs; the smallest probability that can be stated is one of
/// these.
const SHUFFLES: usize = 1_999;

/// Result of a test of location.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effect {
    /// Mean rate of the pairs that are near each other over that of the others.
    pub ratio: f64,
    /// The chance of a difference at least as large where location does not matter.
    pub chance: f64,
}

/// Tests whether pairs of drives that are in the same place (below one switch, on one node) differ from
/// others.
///
/// `pairs` has source, target and rate of each; `place` the place of each drive by its position. A
/// permutation test: the effect of each drive by itself is taken out, and then drives keep their
/// rates while places are dealt to them anew. So a slow drive does not pass for a slow place.
/// `None` if all pairs are near, or none.
///
/// Source: Good, "Permutation, Parametric and Bootstrap Tests of Hypotheses", 2005, chapter 3.
pub(crate) fn effect_of_location(
    pairs: &[(usize, usize, f64)],
    place: &[usize],
    seed: u64,
) -> Option<Effect> {
    let known = |&(source, target, rate): &(usize, usize, f64)| {
        source < place.len() && target < place.len() && rate.is_finite() && rate > 0.0
    };
    let mut pairs: Vec<_> = pairs.iter().copied().filter(known).collect();
    even_out(&mut pairs, place.len());
    let seen = difference(&pairs, place)?;
    let mut random = Random::new(seed);
    let mut dealt = place.to_vec();
    let mut as_large = 0usize;
    for _ in 0..SHUFFLES {
        random.shuffle(&mut dealt);
        // A tolerance, since equal sums in another order differ in the last digit.
        let found = difference(&pairs, &dealt).unwrap_or(0.0);
        as_large += usize::from(found.abs() >= seen.abs() - 1e-12);
    }
    Some(Effect { ratio: seen.exp(), chance: (as_large + 1) as f64 / (SHUFFLES + 1) as f64 })
}

/// Turns rates into logarithms and takes out the effect of each drive by itself, as source and as
/// target.
fn even_out(pairs: &mut [(usize, usize, f64)], drives: usize) {
    for pair in pairs.iter_mut() {
        pair.2 = pair.2.ln();
    }
    for side in [|pair: &(usize, usize, f64)| pair.0, |pair: &(usize, usize, f64)| pair.1] {
        for drive in 0..drives {
            let own: Vec<f64> =
                pairs.iter().filter(|pair| side(pair) == drive).map(|pair| pair.2).collect();
            let Some(middle) = median(&own) else { continue };
            for pair in pairs.iter_mut().filter(|pair| side(pair) == drive) {
                pair.2 -= middle;
            }
        }
    }
}

/// Mean of the near pairs less that of the others.
fn difference(pairs: &[(usize, usize, f64)], place: &[usize]) -> Option<f64> {
    let mean = |is_near: bool| {
        let chosen = pairs.iter().filter(|pair| (place[pair.0] == place[pair.1]) == is_near);
        let (sum, count) = chosen.fold((0.0, 0usize), |(sum, n), pair| (sum + pair.2, n + 1));
        (count > 0).then(|| sum / count as f64)
    };
    Some(mean(true)? - mean(false)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: [usize; 10] = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1];

    /// Every ordered pair of ten drives, below two switches; `far` is the cost of leaving one.
    fn matrix(seed: u64, far: f64, slow: &[usize]) -> Vec<(usize, usize, f64)> {
        let mut random = Random::new(seed);
        let mut pairs = Vec::new();
        for (source, from) in PLACE.iter().enumerate() {
            for (target, to) in PLACE.iter().enumerate().filter(|&(target, _)| target != source) {
                let place = if from == to { 1.0 } else { far };
                let own = if slow.contains(&target) { 0.6 } else { 1.0 };
                pairs.push((source, target, 3e9 * place * own * (1.0 + 0.02 * random.normal())));
            }
        }
        pairs
    }

    #[test]
    fn a_switch_that_costs_five_percent_is_found() {
        let found = effect_of_location(&matrix(1, 0.95, &[]), &PLACE, 7).unwrap();
        assert!(found.chance < 0.02, "{found:?}");
        assert!((1.02..1.08).contains(&found.ratio), "{found:?}");
    }

    #[test]
    fn irrelevant_places_rarely_count_as_effect() {
        let alarms = (0..100)
            .filter(|&seed| {
                effect_of_location(&matrix(seed, 1.0, &[]), &PLACE, seed).unwrap().chance < 0.05
            })
            .count();
        assert!(alarms <= 12, "{alarms} of 100");
    }

    #[test]
    fn slow_drives_are_not_location_effect() {
        let found = effect_of_location(&matrix(5, 1.0, &[0, 1, 2]), &PLACE, 7).unwrap();
        assert!(found.chance > 0.05, "{found:?}");
    }

    #[test]
    fn one_place_alone_cannot_be_compared() {
        assert_eq!(effect_of_location(&matrix(1, 1.0, &[]), &[0; 10], 7), None);
        assert_eq!(effect_of_location(&[(0, 99, 1.0)], &PLACE, 7), None);
        assert_eq!(effect_of_location(&[], &[], 7), None);
    }
}
