//! Percentiles over several flows or runs.

use hdrhistogram::Histogram;
use peerlane_results::Percentiles;
use peerlane_units::Nanos;

/// The percentiles of all histograms together, in nanoseconds; all zero where nothing was counted.
///
/// Percentiles of parts cannot be averaged: the histograms are added first.
pub fn percentiles<'a>(histograms: impl IntoIterator<Item = &'a Histogram<u64>>) -> Percentiles {
    let mut all: Option<Histogram<u64>> = None;
    for histogram in histograms {
        match &mut all {
            None => all = Some(histogram.clone()),
            // Bounds that differ are widened; a histogram that cannot grow counts at its highest.
            Some(all) => {
                all.auto(true);
                if all.add(histogram).is_err() {
                    for value in histogram.iter_recorded() {
                        all.saturating_record_n(value.value_iterated_to(), value.count_at_value());
                    }
                }
            }
        }
    }
    let Some(all) = all.filter(|all| !all.is_empty()) else { return Percentiles::default() };
    let at = |share: f64| Nanos(all.value_at_quantile(share).min(all.max()));
    Percentiles {
        count: all.len(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: Nanos(all.max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for value in values {
            histogram.record(value).unwrap();
        }
        histogram
    }

    #[test]
    fn parts_are_added_before_they_are_divided() {
        let (fast, slow) = (histogram(1..=99), histogram([1_000_000]));
        let found = percentiles([&fast, &slow]);
        assert_eq!((found.count, found.p50_ns, found.p90_ns), (100, Nanos(50), Nanos(90)));
        assert!(found.p999_ns >= Nanos(999_000) && found.p999_ns <= found.max_ns);
        assert!(percentiles([&slow, &fast]) == found, "the order does not matter");
    }

    #[test]
    fn nothing_counted_is_all_zero() {
        assert_eq!(percentiles([]), Percentiles::default());
        assert_eq!(percentiles([&histogram([])]), Percentiles::default());
    }
}
