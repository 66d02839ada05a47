//! The test of one case, and the correction for many.

use crate::statistics::{quantile, two_sided};

/// Measured runs below which the spread is unknown.
pub(super) const NEEDED: u32 = 3;

/// Logarithms of rates, summed up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    count: f64,
    /// Effective sample size: independent runs that would tell as much of the mean.
    effective: f64,
    /// Of the logarithms.
    pub(super) mean: f64,
    variance: f64,
}

impl Sample {
    /// `None` for no rates, and if one is not above zero. The rates are in the order of their runs.
    ///
    /// A run that is slow because something is slow for a while has slow neighbours: such runs tell less
    /// of the mean than their number says. Their number is reduced by the correlation of neighbours, as
    /// for an autoregressive process of first order (Zieba, "Effective number of observations and
    /// unbiased estimators of variance for autocorrelated data", Metrology and Measurement Systems 17,
    /// 2010), if it is above one standard error: chance does not reduce it.
    pub(super) fn new(rates: &[f64]) -> Option<Self> {
        if rates.is_empty() || rates.iter().any(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return None;
        }
        let count = rates.len() as f64;
        let logarithms: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / count;
        let squares: f64 = logarithms.iter().map(|one| (one - mean).powi(2)).sum();
        let neighbours: f64 =
            logarithms.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        let correlation = if squares > 0.0 { neighbours / squares } else { 0.0 };
        let is_chance = correlation < 1.0 / count.sqrt();
        // Of few runs it comes out too small (Kendall, "Note on bias in the estimation of
        // autocorrelation", Biometrika 41, 1954).
        let correlation = ((correlation + 1.0 / count) / (1.0 - 4.0 / count).max(0.2)).min(0.9);
        let share = if is_chance { 1.0 } else { (1.0 - correlation) / (1.0 + correlation) };
        let effective = (count * share).max(count.min(2.0));
        Some(Self { count, effective, mean, variance: squares / (count - 1.0).max(1.0) })
    }

    /// The geometric mean of the rates.
    pub(super) fn geometric_mean(&self) -> f64 {
        self.mean.exp()
    }
}

/// Result of the test of two means, before it is corrected for the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeansTest {
    /// Geometric mean after over that before.
    pub(super) ratio: f64,
    /// The chance of a difference at least as large between equal cases.
    pub(super) chance: f64,
    /// The chance of a ratio at most as large where it is one less the threshold.
    pub(super) chance_of_less: f64,
    error: f64,
    freedom: f64,
}

impl MeansTest {
    /// The interval that misses the true ratio with chance `share`.
    pub(super) fn interval(&self, share: f64) -> (f64, f64) {
        let half = quantile(share, self.freedom) * self.error;
        (self.ratio * (-half).exp(), self.ratio * half.exp())
    }
}

/// Tests whether two samples are of the same rate; `None` for samples of fewer than [`NEEDED`] rates.
///
/// Samples without spread differ certainly or not at all.
pub(super) fn test(before: &Sample, after: &Sample, threshold: f64) -> Option<MeansTest> {
    if before.count.min(after.count) < f64::from(NEEDED) {
        return None;
    }
    let parts = [before, after].map(|sample| sample.variance / sample.effective);
    let error = (parts[0] + parts[1]).sqrt();
    let weights =
        parts[0].powi(2) / (before.effective - 1.0) + parts[1].powi(2) / (after.effective - 1.0);
    let freedom = if weights > 0.0 { (parts[0] + parts[1]).powi(2) / weights } else { 1.0 };
    let difference = after.mean - before.mean;
    // Logarithms of equal rates differ in their last digits.
    let t = |beyond: f64| if beyond.abs() < 1e-9 { 0.0 } else { beyond / error };
    let beyond = t(difference - (1.0 - threshold).ln());
    let half = two_sided(beyond, freedom) / 2.0;
    Some(MeansTest {
        ratio: difference.exp(),
        chance: two_sided(t(difference), freedom),
        chance_of_less: if beyond < 0.0 { half } else { 1.0 - half },
        error,
        freedom,
    })
}

/// Chances corrected for their number, in their order.
pub(super) fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&left, &right| chances[left].total_cmp(&chances[right]));
    let mut corrected = vec![1.0; chances.len()];
    let mut least = 0.0f64;
    for (rank, &position) in order.iter().enumerate() {
        let remaining = (chances.len() - rank) as f64;
        least = least.max((chances[position] * remaining).min(1.0));
        corrected[position] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(before: &[f64], after: &[f64], threshold: f64) -> Option<MeansTest> {
        test(&Sample::new(before)?, &Sample::new(after)?, threshold)
    }

    /// Welch's t by hand: means ln 100 and ln 90, deviations of about a hundredth each.
    #[test]
    fn the_test_is_the_one_worked_by_hand() {
        let found = new(&[99.0, 100.0, 101.0], &[89.1, 90.0, 90.9], 0.05).unwrap();
        assert!((found.ratio - 0.9).abs() < 1e-9);
        // Deviation 0.0100003, error of the difference 0.0081652, t 12.904, four degrees of freedom.
        assert!((found.error - 0.008_165_2).abs() < 1e-6, "{found:?}");
        assert!((found.freedom - 4.0).abs() < 1e-6);
        assert!((found.chance - 0.000_208_5).abs() < 1e-5, "{found:?}");
        let (low, high) = found.interval(0.05);
        assert!(low < 0.9 && 0.9 < high && high < 0.93, "{low} {high}");
    }

    #[test]
    fn rates_without_spread_differ_or_do_not() {
        let same = new(&[5.0; 3], &[5.0; 4], 0.0).unwrap();
        assert_eq!((same.chance, same.ratio), (1.0, 1.0));
        let other = new(&[5.0; 3], &[4.0; 3], 0.05).unwrap();
        assert_eq!((other.chance, other.chance_of_less), (0.0, 0.0));
        let faster = new(&[4.0; 3], &[5.0; 3], 0.05).unwrap();
        assert_eq!((faster.chance, faster.chance_of_less), (0.0, 1.0));
    }

    #[test]
    fn too_few_or_invalid_rates_stay_untested() {
        assert!(new(&[5.0; 2], &[5.0; 9], 0.0).is_none());
        assert!(new(&[5.0; 3], &[5.0, 5.0, 0.0], 0.0).is_none());
        assert!(new(&[5.0; 3], &[5.0, 5.0, f64::INFINITY], 0.0).is_none());
    }

    /// The example of Holm's paper in his order: the least chance counts for all, the next for one less.
    #[test]
    fn chances_are_corrected_by_their_rank() {
        let found = holm(&[0.04, 0.01, 0.03]);
        for (found, expected) in found.iter().zip([0.06, 0.03, 0.06]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }
}
