//! Spread of a figure that was measured several times.

use peerlane_results::Spread;

use super::quantile;

/// The factor that makes a median absolute deviation comparable to a standard deviation (1 over the
/// 0.75 quantile of the normal distribution), and the distance beyond which a figure is called an
/// outlier (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993).
const TO_DEVIATION: f64 = 1.4826;
const OUTLIER: f64 = 3.5;

/// Sums up figures; `None` for no figures, and where one is not finite.
///
/// The confidence interval is Student's, so it assumes that means of this many runs are about normal.
pub fn spread(figures: &[f64]) -> Option<Spread> {
    if figures.is_empty() || figures.iter().any(|figure| !figure.is_finite()) {
        return None;
    }
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    let deviation = if figures.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let half = || quantile(0.05, count - 1.0) * deviation / count.sqrt();
    Some(Spread {
        count: u32::try_from(figures.len()).unwrap_or(u32::MAX),
        mean,
        median: median(figures)?,
        min: figures.iter().copied().fold(f64::INFINITY, f64::min),
        max: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        deviation,
        confidence: (figures.len() > 1).then(|| (mean - half(), mean + half())),
    })
}

/// The median: the mean of the middle two of an even number; `None` for no figures.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Returns true when the first of at least five runs is further from the median of the others than
/// chance makes
/// likely, and by more than 5 % of it.
///
/// A first run that differs tells of a warm-up that is too short: caches, clocks, a drive that was
/// asleep. The rule is the modified z-score above 3.5; the 5 % keep runs that hardly differ quiet.
pub(crate) fn is_first_an_outlier(figures: &[f64]) -> bool {
    let Some((&first, others)) = figures.split_first().filter(|(_, others)| others.len() >= 4)
    else {
        return false;
    };
    let Some(middle) = median(others) else { return false };
    let distances: Vec<f64> = others.iter().map(|figure| (figure - middle).abs()).collect();
    let wide = median(&distances).unwrap_or(0.0) * TO_DEVIATION;
    let distance = (first - middle).abs();
    distance > OUTLIER * wide && distance > middle.abs() * 0.05
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    #[test]
    fn the_summary_is_the_one_worked_by_hand() {
        let found = spread(&[2.0, 4.0, 4.0, 6.0]).unwrap();
        assert_eq!((found.count, found.mean, found.median), (4, 4.0, 4.0));
        assert_eq!((found.min, found.max), (2.0, 6.0));
        assert!((found.deviation - 1.63299).abs() < 1e-5);
        let (low, high) = found.confidence.unwrap();
        // 3.18245 is the 0.975 quantile of t with three degrees of freedom.
        assert!((high - 4.0 - 3.18245 * 1.63299 / 2.0).abs() < 1e-3, "{high}");
        assert!((low + high - 8.0).abs() < 1e-9);
    }

    #[test]
    fn single_run_has_no_interval() {
        assert_eq!(spread(&[5.0]).unwrap().confidence, None);
        assert_eq!(spread(&[5.0]).unwrap().deviation, 0.0);
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn interval_covers_truth_as_stated() {
        let mut random = Random::new(3);
        let mut holds = 0;
        for _ in 0..2000 {
            let figures: Vec<f64> = (0..6).map(|_| 100.0 + 5.0 * random.normal()).collect();
            let (low, high) = spread(&figures).unwrap().confidence.unwrap();
            holds += i32::from(low < 100.0 && 100.0 < high);
        }
        // 95 % of 2000, and four standard errors of that.
        assert!((1861..=1939).contains(&holds), "{holds} of 2000");
    }

    #[test]
    fn only_slow_first_run_is_outlier() {
        assert!(is_first_an_outlier(&[70.0, 100.0, 101.0, 99.0, 100.5]));
        assert!(!is_first_an_outlier(&[98.0, 100.0, 101.0, 99.0, 100.5]));
        assert!(!is_first_an_outlier(&[70.0, 100.0, 101.0]), "too few to tell");
        assert!(!is_first_an_outlier(&[101.0, 100.0, 100.0, 100.0, 100.0]), "one percent");
        assert!(is_first_an_outlier(&[50.0, 100.0, 100.0, 100.0, 100.0]));
    }
}
