//! The rule for the number of runs of a case.

use peerlane_results::Repeats;

use peerlane_units::Nanos;

use super::spread;

/// Need of another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enough {
    /// Another run is needed.
    NotYet,
    /// The confidence interval is as narrow as asked.
    Narrow,
    /// It ran as often or as long as it may, with any width of the interval.
    Most,
}

/// Judges the number of runs of a case with these rates, in the order of the runs, when all cases
/// together have taken `elapsed`.
///
/// Looking after each run makes the interval hold the truth a little less often than 95 %; at least
/// five runs keep that small, whatever [`Repeats::least`] says.
pub fn enough(repeats: &Repeats, rates: &[f64], elapsed: Nanos) -> Enough {
    let count = u32::try_from(rates.len()).unwrap_or(u32::MAX);
    if count >= repeats.most.max(1) {
        return Enough::Most;
    }
    if count >= repeats.least && repeats.time_ns.is_some_and(|most| elapsed >= most) {
        return Enough::Most;
    }
    let Some(per_mille) = repeats.until_per_mille else { return Enough::NotYet };
    if count < repeats.least.max(5) {
        return Enough::NotYet;
    }
    let is_narrow = spread(rates).is_some_and(|found| {
        found.confidence.is_some_and(|(low, high)| {
            (high - low) / 2.0 <= found.mean * f64::from(per_mille) / 1000.0
        })
    });
    if is_narrow { Enough::Narrow } else { Enough::NotYet }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Repeats =
        Repeats { warm_up: 1, least: 3, most: 20, until_per_mille: Some(10), time_ns: None };

    fn enough(repeats: &Repeats, rates: &[f64]) -> Enough {
        super::enough(repeats, rates, Nanos::seconds(60))
    }

    #[test]
    fn time_limit_needs_the_least_runs() {
        let limited = Repeats { time_ns: Some(Nanos::seconds(60)), ..UNTIL };
        assert_eq!(enough(&limited, &[1.0, 2.0]), Enough::NotYet);
        assert_eq!(enough(&limited, &[1.0, 2.0, 3.0]), Enough::Most);
        let early = super::enough(&limited, &[1.0, 2.0, 3.0], Nanos::seconds(59));
        assert_eq!(early, Enough::NotYet);
    }

    #[test]
    fn narrow_case_stops_before_wide_one() {
        assert_eq!(enough(&UNTIL, &[100.0; 4]), Enough::NotYet, "too few to know");
        assert_eq!(enough(&UNTIL, &[100.0, 100.1, 99.9, 100.0, 100.1]), Enough::Narrow);
        let wide: Vec<f64> = (0..19).map(|run| f64::from(run % 2) * 50.0 + 50.0).collect();
        assert_eq!(enough(&UNTIL, &wide), Enough::NotYet);
        assert_eq!(enough(&UNTIL, &[wide, vec![1.0]].concat()), Enough::Most);
    }

    #[test]
    fn missing_width_runs_the_maximum() {
        let repeats = Repeats { until_per_mille: None, most: 3, ..UNTIL };
        assert_eq!(enough(&repeats, &[1.0, 1.0]), Enough::NotYet);
        assert_eq!(enough(&repeats, &[1.0, 1.0, 1.0]), Enough::Most);
        assert_eq!(enough(&Repeats { most: 0, ..repeats }, &[]), Enough::NotYet, "once at least");
    }

    #[test]
    fn rates_that_are_none_never_count_as_narrow() {
        assert_eq!(enough(&UNTIL, &[f64::NAN; 6]), Enough::NotYet);
        assert_eq!(enough(&UNTIL, &[0.0, 0.0, 0.0, 0.0, -1.0]), Enough::NotYet);
    }
}
