//! Effect of the drive at one end.

use super::{Effect, Random, median};

/// Number of permutations; the smallest probability that can be stated is one of these.
const SHUFFLES: usize = 1_999;

/// Tests whether the drives at one end of pairs differ from each other.
///
/// `pairs` has that end, the other end, and the rate of each. A permutation test: the rates of the
/// other end stay with it, and are dealt anew to the drives that it has pairs with. The ratio is
/// that of the fastest drive to the slowest. `None` if no end has pairs with two.
///
/// Source: Good, "Permutation, Parametric and Bootstrap Tests of Hypotheses", 2005, chapter 3.
pub(crate) fn effect_of_end(pairs: &[(usize, usize, f64)], seed: u64) -> Option<Effect> {
    let known = pairs.iter().filter(|pair| pair.2.is_finite() && pair.2 > 0.0);
    let mut pairs: Vec<_> = known.map(|&(one, other, rate)| (one, other, rate.ln())).collect();
    pairs.sort_by_key(|pair| (pair.1, pair.0));
    let groups: Vec<std::ops::Range<usize>> = groups(&pairs);
    if !groups.iter().any(|group| group.len() > 1) {
        return None;
    }
    for group in &groups {
        let own: Vec<f64> = pairs[group.clone()].iter().map(|pair| pair.2).collect();
        let middle = median(&own)?;
        pairs[group.clone()].iter_mut().for_each(|pair| pair.2 -= middle);
    }
    let ends: Vec<usize> = pairs.iter().map(|pair| pair.0).collect();
    let mut rates: Vec<f64> = pairs.iter().map(|pair| pair.2).collect();
    let (seen, ratio) = differences(&ends, &rates);
    let mut random = Random::new(seed);
    let mut as_large = 0usize;
    for _ in 0..SHUFFLES {
        groups.iter().for_each(|group| random.shuffle(&mut rates[group.clone()]));
        // A tolerance, since equal sums in another order differ in the last digit.
        as_large += usize::from(differences(&ends, &rates).0 >= seen - 1e-12);
    }
    Some(Effect { ratio, chance: (as_large + 1) as f64 / (SHUFFLES + 1) as f64 })
}

/// Pairs with one other end, side by side.
fn groups(pairs: &[(usize, usize, f64)]) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    let lengths = pairs.chunk_by(|one, next| one.1 == next.1).map(<[_]>::len);
    lengths
        .map(|length| {
            start += length;
            start - length..start
        })
        .collect()
}

/// Sum of squares of the means of all ends, and the highest of these means over the lowest.
fn differences(ends: &[usize], rates: &[f64]) -> (f64, f64) {
    let mut sums: Vec<(f64, usize)> = Vec::new();
    for (&end, rate) in ends.iter().zip(rates) {
        if sums.len() <= end {
            sums.resize(end + 1, (0.0, 0));
        }
        sums[end].0 += rate;
        sums[end].1 += 1;
    }
    let means = || sums.iter().filter(|one| one.1 > 0).map(|(sum, count)| sum / *count as f64);
    let squares =
        sums.iter().filter(|one| one.1 > 0).map(|(sum, count)| sum * sum / *count as f64).sum();
    let (low, high) =
        means().fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(one), high.max(one)));
    (squares, (high - low).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every ordered pair of ten drives; those of `slow` have lower rates as a source, and those of
    /// `late` as a target.
    fn matrix(seed: u64, slow: &[usize], late: &[usize]) -> Vec<(usize, usize, f64)> {
        let mut random = Random::new(seed);
        let mut pairs = Vec::new();
        for source in 0..10 {
            for target in (0..10).filter(|&target| target != source) {
                let from = if slow.contains(&source) { 0.9 } else { 1.0 };
                let to = if late.contains(&target) { 0.5 } else { 1.0 };
                pairs.push((source, target, 3e9 * from * to * (1.0 + 0.02 * random.normal())));
            }
        }
        pairs
    }

    fn turned(pairs: &[(usize, usize, f64)]) -> Vec<(usize, usize, f64)> {
        pairs.iter().map(|&(source, target, rate)| (target, source, rate)).collect()
    }

    #[test]
    fn slow_source_is_not_target_effect() {
        let pairs = matrix(1, &[3], &[]);
        let found = effect_of_end(&pairs, 7).unwrap();
        assert!(found.chance < 0.01 && (1.05..1.2).contains(&found.ratio), "{found:?}");
        let found = alarms(|seed| turned(&matrix(seed, &[3], &[])));
        assert!(found <= 12, "{found} of 100");
    }

    #[test]
    fn a_slow_target_is_no_effect_of_the_source() {
        let slow = [0, 1];
        assert!(effect_of_end(&turned(&matrix(2, &[], &slow)), 7).unwrap().chance < 0.01);
        let found = alarms(|seed| matrix(seed, &[], &slow));
        assert!(found <= 12, "{found} of 100");
    }

    /// Number of a hundred matrices without a difference that are said to differ; five are allowed.
    fn alarms(pairs: impl Fn(u64) -> Vec<(usize, usize, f64)>) -> usize {
        let is_alarm = |&seed: &u64| effect_of_end(&pairs(seed), seed).unwrap().chance < 0.05;
        (0..100).filter(is_alarm).count()
    }

    #[test]
    fn equal_drives_rarely_count_as_different() {
        let found = alarms(|seed| matrix(seed, &[], &[]));
        assert!(found <= 12, "{found} of 100");
    }

    #[test]
    fn two_drives_alone_cannot_be_compared() {
        assert_eq!(effect_of_end(&[(0, 1, 1.0), (1, 0, 2.0)], 7), None);
        assert_eq!(effect_of_end(&[], 7), None);
    }
}
