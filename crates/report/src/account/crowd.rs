//! Many transfers at once: how the total grows with their number, and how they share it.

use peerlane_results::CaseRecord;
use peerlane_units::ByteRate;

use super::case::{CaseGroup, RanCase, groups, short, spread_words};
use crate::chart::{Bars, ChartBar, LineChart, LineStyle, Point, ScaleKind, Series, ValueKind};
use crate::document::{Art, Figure};

/// The figures of a crowd.
pub(super) fn figures(cases: &[RanCase<'_>]) -> Vec<Figure> {
    let mut figures = vec![total(cases)];
    for group in groups(cases, false) {
        let most = group.cases.iter().max_by_key(|case| case.spec.flows.len());
        figures.extend(most.and_then(|case| shares(&group.name, group.colour, case)));
    }
    figures
}

fn total(cases: &[RanCase<'_>]) -> Figure {
    let groups = groups(cases, false);
    let mut series = Vec::new();
    for group in &groups {
        let mut points: Vec<Point> = group
            .cases
            .iter()
            .map(|case| Point {
                x: case.spec.flows.len() as f64,
                y: case.summary.rate.mean,
                band: case.range(),
                note: case.note(),
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        series.push(Series {
            name: group.name.clone(),
            colour: group.colour,
            look: LineStyle::Line,
            points,
        });
    }
    series.extend(limits(&groups));
    let lines = LineChart {
        about: "Total bandwidth against the number of transfers at once, with the lowest limit of each case.".to_owned(),
        x: ("transfers at once", ScaleKind::Span, ValueKind::Count),
        y: ("total bandwidth", ScaleKind::Linear, ValueKind::Rate),
        names: Vec::new(),
        series,
        limits: Vec::new(),
    };
    Figure {
        title: "Total against the number of transfers".to_owned(),
        caption: format!(
            "{} Broken: the lowest limit that the record names for the case.",
            spread_words(cases)
        ),
        art: Art::Chart(lines.picture()),
    }
}

/// The lowest limit of each case; one line where all groups have the same.
fn limits(groups: &[CaseGroup<'_>]) -> Vec<Series> {
    let of = |group: &CaseGroup<'_>| -> Vec<Point> {
        let mut points: Vec<Point> = group
            .cases
            .iter()
            .filter_map(|case| {
                let limit = case.limit()?;
                Some(Point {
                    x: case.spec.flows.len() as f64,
                    y: limit.bytes_per_second.0 as f64,
                    band: None,
                    note: super::limit_words(limit),
                })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    };
    let places =
        |points: &[Point]| points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>();
    let all: Vec<_> = groups
        .iter()
        .map(|group| (group, of(group)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let line =
        |name: String, colour, points| Series { name, colour, look: LineStyle::Dashed, points };
    match all.as_slice() {
        [] => Vec::new(),
        [(_, first), others @ ..]
            if others.iter().all(|(_, points)| places(points) == places(first)) =>
        {
            vec![line("lowest limit".to_owned(), 5, first.clone())]
        }
        _ => all
            .into_iter()
            .map(|(group, points)| line(format!("{} limit", group.name), group.colour, points))
            .collect(),
    }
}

/// The rate of each flow, of the run whose total is the median.
fn shares(name: &str, colour: usize, case: &RanCase<'_>) -> Option<Figure> {
    let run = middle(case)?;
    if run.flows.len() < 2 {
        return None;
    }
    let rates = flow_rates(run);
    let rows = run
        .asked
        .flows
        .iter()
        .zip(&rates)
        .map(|(flow, &value)| ChartBar {
            name: format!("{} \u{2192} {}", short(&flow.source), short(&flow.target)),
            value,
            colour,
            ..ChartBar::default()
        })
        .collect();
    let fairness = jain(&rates).map_or(String::new(), |index| {
        format!(" Jain's fairness index is {index:.3}: 1 when all are equal, {:.3} when one has it all.", 1.0 / rates.len() as f64)
    });
    let bars = Bars {
        about: format!("The rate of each of {} transfers at once, {name}.", rates.len()),
        name: "rate of each transfer",
        values: ValueKind::Rate,
        rows,
    };
    Some(Figure {
        title: format!("Shares of {} transfers, {name}", rates.len()),
        caption: format!(
            "Each transfer's bytes over its own time, in {}{}.{fairness}",
            if case.runs.len() == 1 { "" } else { "the run with the median total of " },
            case.name()
        ),
        art: Art::Chart(bars.picture()),
    })
}

/// The run whose total is the median, or the upper of two.
pub(super) fn middle<'a>(case: &RanCase<'a>) -> Option<&'a CaseRecord> {
    let mut runs = case.runs.clone();
    runs.sort_by_key(|run| run.rate());
    runs.get(runs.len() / 2).copied()
}

/// The rate of each flow of a run.
pub(super) fn flow_rates(run: &CaseRecord) -> Vec<f64> {
    let rate = |flow: &peerlane_results::FlowRecord| ByteRate::mean(flow.bytes, flow.elapsed_ns);
    run.flows.iter().map(|flow| rate(flow).map_or(0.0, |rate| rate.0 as f64)).collect()
}

/// Jain's fairness index (Jain, Chiu, Hawe, DEC-TR-301, 1984).
pub(super) fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) =
        rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_spans_one_to_a_share() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[4.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[0.0]), None);
    }
}
