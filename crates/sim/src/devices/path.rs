//! Legs of a transfer in series, or overlapping.
//!
//! With one buffer the times of the legs add up. With two, the slower leg decides.

/// A leg: a fixed time for each block, and a rate (Hockney, The communication challenge for MPP, Parallel Computing 20,
/// 1994).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leg {
    /// Seconds for each block of any size.
    pub start: f64,
    /// Bytes a second.
    pub rate: f64,
}

impl Leg {
    /// Seconds for a block.
    pub fn time(self, size: f64) -> f64 {
        self.start + size / self.rate
    }
}

/// Bytes a second with one buffer: `n / sum of (t0 + n / X)`, because each leg waits for the other.
pub fn serial(legs: &[Leg], size: f64) -> f64 {
    size / legs.iter().map(|leg| leg.time(size)).sum::<f64>()
}

/// Bytes a second of stages that overlap in part: `(sum of X^-p)^(-1/p)`.
///
/// An infinite exponent is the slowest stage alone; with a low one, stages wait for one another. The form is empirical,
/// so that its exponent is always fitted.
pub fn soft_minimum(rates: &[f64], exponent: f64) -> f64 {
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    if !exponent.is_finite() || !lowest.is_finite() {
        return lowest;
    }
    // Ratios to the lowest rate keep powers in range.
    let sum: f64 = rates.iter().map(|rate| (lowest / rate).powf(exponent)).sum();
    lowest * sum.powf(-1.0 / exponent)
}
