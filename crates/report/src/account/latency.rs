//! Latency of blocks: percentiles of some cases side by side.

use peerlane_results::{Percentiles, WorkloadKind};

use super::case::{RanCase, groups, path_colour};
use super::headline;
use crate::chart::{LineChart, LineStyle, Point, ScaleKind, Series, ValueKind};
use crate::document::{Art, Figure};

/// Most lines of one chart.
const LINES_MAX: usize = 6;

/// Percentiles of the cases that say most: of a sweep those at one block size, of a crowd the smallest
/// and the largest, of a matrix the slowest and the fastest, else the first.
pub(super) fn figure(kind: WorkloadKind, cases: &[RanCase<'_>]) -> Option<Figure> {
    let counted: Vec<RanCase<'_>> =
        cases.iter().filter(|case| case.summary.block.count > 0).cloned().collect();
    let chosen: Vec<RanCase<'_>> = match kind {
        WorkloadKind::Sweep => {
            let block = headline::reference(&counted)?;
            counted.into_iter().filter(|case| case.block() == Some(block)).collect()
        }
        WorkloadKind::Crowd => groups(&counted, false)
            .into_iter()
            .flat_map(|group| {
                let by = |case: &&RanCase<'_>| case.spec.flows.len();
                let least = group.cases.iter().min_by_key(by).cloned();
                let most = group.cases.iter().max_by_key(by).cloned();
                least.into_iter().chain(most)
            })
            .collect(),
        WorkloadKind::Matrix => groups(&counted, false)
            .into_iter()
            .flat_map(|group| {
                let by = |a: &&RanCase<'_>, b: &&RanCase<'_>| {
                    a.summary.rate.mean.total_cmp(&b.summary.rate.mean)
                };
                let slowest = group.cases.iter().min_by(by).cloned();
                slowest.into_iter().chain(group.cases.iter().max_by(by).cloned())
            })
            .collect(),
        _ => counted,
    };
    // A model that says one latency for all blocks says no distribution.
    let is_flat = |case: &RanCase<'_>| {
        let is_predicted = case.runs.iter().all(|run| run.prediction.is_some());
        is_predicted && case.summary.block.p50_ns == case.summary.block.max_ns
    };
    if chosen.iter().all(is_flat) {
        return None;
    }
    // Up to two lines of a path have its colour in every figure, and the second is broken.
    let earlier = |index: usize| {
        let path = chosen[index].path();
        chosen[..index].iter().filter(|other| other.path() == path).count()
    };
    let is_by_path = (0..chosen.len()).all(|index| earlier(index) < 2);
    let series: Vec<Series> = chosen
        .iter()
        .take(LINES_MAX)
        .enumerate()
        .map(|(index, case)| Series {
            name: case.name(),
            colour: if is_by_path { path_colour(case.path()) } else { index },
            look: if is_by_path && earlier(index) == 1 {
                LineStyle::Dashed
            } else {
                LineStyle::Line
            },
            points: points(&case.summary.block),
        })
        .collect();
    let has_several = chosen.iter().any(|case| case.runs.len() > 1);
    let names: Vec<_> = series.iter().map(|series| series.name.as_str()).collect();
    let rest = cases.len().saturating_sub(series.len());
    let more =
        if rest == 0 { String::new() } else { format!(" {rest} more cases are in the table.") };
    let about = format!("Percentiles of the latency of a block for {}.", names.join(", "));
    let lines = LineChart {
        about,
        x: ("share of blocks that took no longer", ScaleKind::Linear, ValueKind::Count),
        y: ("latency of a block", ScaleKind::Log10, ValueKind::Time),
        names: ["50 %", "90 %", "99 %", "99.9 %", "all"].map(str::to_owned).to_vec(),
        series,
        limits: Vec::new(),
    };
    Some(Figure {
        title: "Distribution of latency".to_owned(),
        caption: format!(
            "{} left axis is logarithmic.{more}",
            if has_several { "All counted runs of a case together; the" } else { "The" }
        ),
        art: Art::Chart(lines.picture()),
    })
}

fn points(block: &Percentiles) -> Vec<Point> {
    [block.p50_ns, block.p90_ns, block.p99_ns, block.p999_ns, block.max_ns]
        .into_iter()
        .enumerate()
        .map(|(index, nanos)| Point {
            x: index as f64,
            y: nanos.0 as f64,
            band: None,
            note: nanos.to_string(),
        })
        .collect()
}
