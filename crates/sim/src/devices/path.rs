//! Stages of a transfer that overlap.

/// Bytes a second of stages that overlap in part: `(sum of X^-p)^(-1/p)`.
///
/// An infinite exponent is the slowest stage alone; with a low one, stages wait for one another. The form is empirical,
/// so that its exponent is always fitted.
pub(crate) fn soft_minimum(rates: &[f64], exponent: f64) -> f64 {
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    if !exponent.is_finite() || !lowest.is_finite() {
        return lowest;
    }
    // Ratios to the lowest rate keep powers in range.
    let sum: f64 = rates.iter().map(|rate| (lowest / rate).powf(exponent)).sum();
    lowest * sum.powf(-1.0 / exponent)
}
