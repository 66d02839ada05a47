//! Warnings from all runs of a case together.

use peerlane_results::Warning;

use crate::statistics::{is_first_an_outlier, median, spread};

/// Deviation over mean above which a mean says little; single runs then differ by a tenth and more.
const MUCH: f64 = 0.1;

/// Judges the rates of all runs of a case, in the order of the runs.
pub fn judge_runs(case: &str, rates: &[f64]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let per_mille = |share: f64| thousandths(share);
    if is_first_an_outlier(rates) {
        let others = median(&rates[1..]).unwrap_or(f64::NAN);
        let per_mille = per_mille(rates[0] / others);
        warnings.push(Warning::FirstRunOutlier { case: case.to_owned(), per_mille });
    }
    if let Some(found) = spread(rates).filter(|found| found.deviation > found.mean * MUCH) {
        let per_mille = per_mille(found.deviation / found.mean);
        warnings.push(Warning::Variance { case: case.to_owned(), per_mille });
    }
    warnings
}

/// A share in thousandths; a value that is not a number, or out of range, becomes the nearest
/// bound.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats end at the bounds of the integer"
)]
fn thousandths(share: f64) -> u32 {
    (share * 1000.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_run_that_was_cold_is_named() {
        let found = judge_runs("64K p2p", &[50.0, 100.0, 101.0, 99.0, 100.0]);
        let outlier = Warning::FirstRunOutlier { case: "64K p2p".to_owned(), per_mille: 500 };
        assert!(found.contains(&outlier), "{found:?}");
    }

    #[test]
    fn only_varying_runs_are_named() {
        let found = judge_runs("a", &[50.0, 150.0, 60.0, 140.0, 100.0]);
        assert!(matches!(found[..], [Warning::Variance { .. }]), "{found:?}");
        assert_eq!(judge_runs("a", &[100.0, 101.0, 99.0, 100.0, 100.0]), []);
        assert_eq!(judge_runs("a", &[]), []);
    }
}
