//! Student's t distribution.
//!
//! Source of the formulas: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.5 (the
//! incomplete beta function and its continued fraction) and 26.7 (t); logarithm of the gamma function
//! by Lanczos' series ("A precision approximation of the gamma function", 1964).

/// The chance that a t of `freedom` degrees lies further from zero than `t`, on either side.
pub(crate) fn two_sided(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { 1.0 } else { 0.0 };
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The t beyond which, on either side, `share` of the distribution lies: 12.7 for 0.05 and one degree
/// of freedom.
pub(crate) fn quantile(share: f64, freedom: f64) -> f64 {
    let above = |t: f64| two_sided(t, freedom).max(f64::MIN_POSITIVE).ln() - share.ln();
    let (mut low, mut high) = ((0.0, above(0.0)), (1.0, above(1.0)));
    while high.1 > 0.0 && high.0 < 1e9 {
        low = high;
        high = (high.0 * 2.0, above(high.0 * 2.0));
    }
    // The Illinois form of false position: an end that stays counts half the next time.
    let mut was_low = None;
    for _ in 0..60 {
        let t = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
        if !t.is_finite() || high.0 - low.0 <= high.0 * 1e-10 {
            break;
        }
        let found = (t, above(t));
        if found.1.abs() < 1e-11 {
            return t;
        }
        let is_low = found.1 > 0.0;
        let stays = was_low == Some(is_low);
        let (end, other) = if is_low { (&mut low, &mut high) } else { (&mut high, &mut low) };
        *end = found;
        other.1 /= if stays { 2.0 } else { 1.0 };
        was_low = Some(is_low);
    }
    high.0
}

/// The regularised incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = a * x.ln() + b * (1.0 - x).ln() - (ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b));
    front.exp() / a * fraction(x, a, b)
}

/// The continued fraction of the incomplete beta function, by Lentz' method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = denominator;
    for step in 1..300u32 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            denominator = 1.0 / away_from_zero(1.0 + term * denominator);
            numerator = away_from_zero(1.0 + term / numerator);
            change = denominator * numerator;
            result *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let base = x + 5.5;
    let mut sum = 1.000_000_000_190_015;
    for (step, term) in TERMS.iter().enumerate() {
        sum += term / (x + 1.0 + step as f64);
    }
    (x + 0.5) * base.ln() - base + (2.506_628_274_631_000_5 * sum / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Abramowitz and Stegun, 26.10, columns 0.95 and 0.99.
    #[test]
    fn quantiles_are_those_of_the_table() {
        for (freedom, at_95, at_99) in [
            (1.0, 12.706, 63.657),
            (2.0, 4.303, 9.925),
            (4.0, 2.776, 4.604),
            (10.0, 2.228, 3.169),
            (30.0, 2.042, 2.750),
            (120.0, 1.980, 2.617),
        ] {
            assert!((quantile(0.05, freedom) - at_95).abs() < 0.001, "{freedom}");
            assert!((quantile(0.01, freedom) - at_99).abs() < 0.001, "{freedom}");
        }
    }

    #[test]
    fn the_two_functions_undo_each_other() {
        for freedom in [1.0, 3.5, 19.0, 1e5] {
            for share in [0.5, 0.05, 1e-6] {
                let back = two_sided(quantile(share, freedom), freedom);
                assert!((back / share - 1.0).abs() < 1e-6, "{freedom} {share} {back}");
            }
        }
        assert!((two_sided(0.0, 5.0) - 1.0).abs() < 1e-9);
    }
}
