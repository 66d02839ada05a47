//! Cases that stand beside each other: streams and round trips.

use super::case::{RanCase, path_colour};
use crate::chart::{Bars, ChartBar, ROWS_MAX, ValueKind};
use crate::document::{Art, Figure};

/// A bar for each case.
pub(super) fn figures(cases: &[RanCase<'_>]) -> Vec<Figure> {
    if cases.is_empty() {
        return Vec::new();
    }
    let rows: Vec<ChartBar> = cases
        .iter()
        .map(|case| ChartBar {
            name: case.name(),
            value: case.summary.rate.mean,
            colour: path_colour(case.path()),
            band: case.summary.rate.confidence,
            limit: case.limit().map(|limit| limit.bytes_per_second.0 as f64),
            predicted: None,
        })
        .collect();
    let has_several = cases.iter().any(|case| case.range().is_some());
    let more = rows.len().saturating_sub(ROWS_MAX);
    let rest =
        if more == 0 { String::new() } else { format!(" {more} more cases are in the table.") };
    let bars = Bars {
        about: format!("Bandwidth of each of {} cases, with its lowest limit.", rows.len()),
        name: "bandwidth",
        values: ValueKind::Rate,
        rows,
    };
    vec![Figure {
        title: "Bandwidth of each case".to_owned(),
        caption: format!(
            "{}; the broken mark is the lowest limit that the record names.{rest}",
            if has_several {
                "Mean of the runs with its 95 % confidence interval"
            } else {
                "One value for each case"
            }
        ),
        art: Art::Chart(bars.picture()),
    }]
}
