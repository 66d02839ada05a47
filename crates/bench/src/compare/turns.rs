//! The test of one case where both sides were measured in turns: before, after, before, after.
//!
//! Drift between two records also happens within a turn, but much less, so the turns' ratios show
//! the effect of the change alone. Between equal cases each is as likely above one as below, with
//! any spread.
//!
//! Sources: Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945; Hodges and
//! Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34, 1963; the
//! statistic as a count of averages by pairs: Tukey, after Hollander and Wolfe, "Nonparametric Statistical
//! Methods", 3.2 and 3.3.

/// Logarithms differ in their last digits where rates are equal.
const EQUAL: f64 = 1e-9;

/// Turns below which no ratio is certain for `cases` cases at `share` of all being wrong: even if
/// all of them lie on one side, that has a chance of `2^(1 - turns)`.
pub(super) fn needed(cases: usize, share: f64) -> u32 {
    let mut turns = 1;
    while 0.5f64.powi(turns - 1) * cases as f64 >= share {
        turns += 1;
    }
    turns.unsigned_abs()
}

/// Result of the turns for one case, before correction for the others.
#[derive(Debug, Clone)]
pub(super) struct SignedRank {
    /// Of every two differences, and of each with itself, in rising order (Walsh).
    averages: Vec<f64>,
    /// The chance that, between equal cases, as many averages or fewer lie above zero.
    at_most: Vec<f64>,
    threshold: f64,
}

impl SignedRank {
    /// Of the differences of logarithms, after less before, one a turn.
    pub(super) fn new(differences: &[f64], threshold: f64) -> Self {
        let mut averages: Vec<f64> = Vec::new();
        for (position, one) in differences.iter().enumerate() {
            averages
                .extend(differences[..=position].iter().map(|other| f64::midpoint(*one, *other)));
        }
        averages.sort_by(f64::total_cmp);
        Self { averages, at_most: at_most(differences.len()), threshold }
    }

    /// The median of all averages as a ratio.
    pub(super) fn ratio(&self) -> f64 {
        crate::statistics::median(&self.averages).unwrap_or(0.0).exp()
    }

    /// The chance of a difference at least as large between equal cases.
    pub(super) fn chance(&self) -> f64 {
        let above = self.averages.iter().filter(|one| **one > -EQUAL).count();
        let below = self.averages.iter().filter(|one| **one < EQUAL).count();
        (2.0 * self.at_most[above.min(below)]).min(1.0)
    }

    /// The chance of a ratio at most as large where it is one less the threshold.
    pub(super) fn chance_of_less(&self) -> f64 {
        let least = (1.0 - self.threshold).ln() - EQUAL;
        self.at_most[self.averages.iter().filter(|one| **one > least).count()]
    }

    /// The interval that misses the true ratio with chance `share`, or somewhat less.
    pub(super) fn interval(&self, share: f64) -> (f64, f64) {
        let left_out = self.at_most.iter().take_while(|chance| **chance <= share / 2.0).count();
        let end = left_out.saturating_sub(1);
        (self.averages[end].exp(), self.averages[self.averages.len() - 1 - end].exp())
    }
}

/// Chances that the ranks of `turns` coins that fall heads come to each sum or less.
fn at_most(turns: usize) -> Vec<f64> {
    let most = turns * (turns + 1) / 2;
    let mut chances = vec![0.0; most + 1];
    chances[0] = 1.0;
    for rank in 1..=turns {
        for sum in (0..=most).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    let mut sum = 0.0;
    chances.iter_mut().for_each(|chance| {
        sum += *chance;
        *chance = f64::min(sum, 1.0);
    });
    chances
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Wilcoxon's test: of 10 pairs a sum of 8 or less has 2.44 %, of 9 or less 3.22 %; of 20
    /// a sum of 52 has 2.42 %.
    #[test]
    fn chances_are_those_of_the_table() {
        assert!((at_most(10)[8] - 0.0244).abs() < 5e-5);
        assert!((at_most(10)[9] - 0.0322).abs() < 5e-5);
        assert!((at_most(20)[52] - 0.0242).abs() < 5e-5);
        assert!((at_most(3).last().unwrap() - 1.0).abs() < 1e-12);
    }

    /// By hand: 1, 2, 3, 4, 5, -6 hundredths have ranks 15 above and 6 below; the median of their 21
    /// averages is the eleventh, 2.5.
    #[test]
    fn the_test_is_the_one_worked_by_hand() {
        let differences = [0.01, 0.02, 0.03, 0.04, 0.05, -0.06];
        let found = SignedRank::new(&differences, 0.0);
        // Sums of at most 6: 1, 1, 1, 2, 2, 3, 4 ways of 64; the average of 6 and -6 is no tie here.
        assert!((found.chance() - 2.0 * 14.0 / 64.0).abs() < 1e-12, "{}", found.chance());
        assert!((found.ratio().ln() - 0.025).abs() < 1e-12, "{}", found.ratio().ln());
        // Of six nothing narrower than all of them has 95 %.
        let (low, high) = found.interval(0.05);
        assert!((low.ln() + 0.06).abs() < 1e-12 && (high.ln() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn turns_without_spread_differ_or_do_not() {
        let same = SignedRank::new(&[0.0; 8], 0.05);
        assert_eq!((same.chance(), same.ratio()), (1.0, 1.0));
        let slower = SignedRank::new(&[-0.1; 8], 0.05);
        assert!((slower.chance() - 2.0 / 256.0).abs() < 1e-12);
        assert!((slower.chance_of_less() - 1.0 / 256.0).abs() < 1e-12);
        let at_the_threshold = SignedRank::new(&[0.95f64.ln(); 8], 0.05);
        assert!((at_the_threshold.chance_of_less() - 1.0).abs() < 1e-12, "not past it");
    }

    #[test]
    fn as_many_turns_are_needed_as_can_be_certain() {
        assert_eq!(needed(1, 0.05), 6);
        assert_eq!(needed(8, 0.05), 9);
        for cases in [1, 2, 3, 50, 1000] {
            let turns = i32::try_from(needed(cases, 0.05)).unwrap();
            assert!(0.5f64.powi(turns - 1) * (cases as f64) < 0.05);
            assert!(0.5f64.powi(turns - 2) * (cases as f64) >= 0.05);
        }
    }
}
