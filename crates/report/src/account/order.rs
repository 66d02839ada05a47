//! The runs in the order of time, to show changes of the machine meanwhile.

use std::collections::HashMap;

use peerlane_results::{BenchRecord, Path};

use super::case::{RanCase, path_colour, path_words};
use crate::chart::{LimitLine, LineChart, LineStyle, Point, ScaleKind, Series, ValueKind};
use crate::document::{Art, Figure};
use crate::plain::plain;

/// Fewer runs show no drift.
const RUNS_MIN: usize = 6;
/// More points than this are thinned out.
const POINTS_MAX: usize = 3000;

/// Each run against the mean of its case, in order.
pub(super) fn figure(bench: &BenchRecord, cases: &[RanCase<'_>]) -> Option<Figure> {
    let means: HashMap<&str, (f64, Option<Path>)> = cases
        .iter()
        .filter(|case| case.summary.rate.mean > 0.0 && case.summary.rate.count > 1)
        .map(|case| (case.spec.name.as_str(), (case.summary.rate.mean, case.path())))
        .collect();
    let mut runs: Vec<(usize, f64, Option<Path>, String)> = Vec::new();
    for (index, run) in bench.cases.iter().enumerate() {
        let Some(((mean, path), rate)) = means.get(run.asked.name.as_str()).zip(run.rate()) else {
            continue;
        };
        let percent = (rate.0 as f64 / mean - 1.0) * 100.0;
        let note = format!("run {}: {} {rate}, {percent:+.1} %", index + 1, plain(&run.asked.name));
        runs.push((index + 1, percent, *path, note));
    }
    if runs.len() < RUNS_MIN {
        return None;
    }
    let (first, second) = runs.split_at(runs.len() / 2);
    let (before, after) = (median(first), median(second));
    let step = runs.len().div_ceil(POINTS_MAX);
    let mut paths: Vec<Option<Path>> = runs.iter().map(|run| run.2).collect();
    paths.sort();
    paths.dedup();
    let series = paths
        .into_iter()
        .map(|path| Series {
            name: path_words(path).to_owned(),
            colour: path_colour(path),
            look: LineStyle::Dots,
            points: runs
                .iter()
                .step_by(step)
                .filter(|run| run.2 == path)
                .map(|(x, y, _, note)| Point {
                    x: *x as f64,
                    y: *y,
                    band: None,
                    note: note.clone(),
                })
                .collect(),
        })
        .collect();
    let lines = LineChart {
        about: "Rate of each run against the mean of its case, in the order in which they ran."
            .to_owned(),
        x: ("run, in the order in which they ran", ScaleKind::Span, ValueKind::Count),
        y: ("against the mean of its case", ScaleKind::Free, ValueKind::Percent),
        names: Vec::new(),
        series,
        limits: vec![LimitLine { name: String::new(), y: 0.0 }],
    };
    let thinned = if step == 1 { String::new() } else { format!(" One run in {step} is drawn.") };
    Some(Figure {
        title: "Runs in their order".to_owned(),
        caption: format!(
            "Median of the first half of the runs {before:+.1} %, of the second {after:+.1} %.{thinned}"
        ),
        art: Art::Chart(lines.picture()),
    })
}

fn median(runs: &[(usize, f64, Option<Path>, String)]) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|run| run.1).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values[..] {
        [] => 0.0,
        _ if values.len() % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}
