//! Predicted rates next to measured ones, for cases of one name.

use std::collections::{HashMap, HashSet};

use peerlane_results::{Basis, BenchRecord, WorkloadKind};

use super::case::{RanCase, cases, groups, path_colour};
use super::rate;
use crate::chart::{
    Bars, ChartBar, LineChart, LineStyle, Point, ROWS_MAX, ScaleKind, Series, ValueKind,
};
use crate::document::{Art, Block, Cell, Figure, Section, Table};
use crate::plain::{count, plain};

/// A section for each prediction and measurement of the same workload.
pub(super) fn sections(benches: &[(&str, &BenchRecord)]) -> Vec<Section> {
    let of = |basis| benches.iter().filter(move |(_, bench)| bench.basis == basis);
    let mut sections = Vec::new();
    for (name, predicted) in of(Basis::Predicted) {
        for (other, measured) in of(Basis::Measured) {
            if predicted.asked.kind == measured.asked.kind {
                let title =
                    format!("Predicted against measured: {} and {}", plain(name), plain(other));
                sections.extend(section(title, predicted, measured));
            }
        }
    }
    sections
}

/// A measured case with its prediction.
struct PredictedCase<'a> {
    measured: RanCase<'a>,
    predicted: f64,
    interval: Option<(f64, f64)>,
}

impl PredictedCase<'_> {
    /// Error of the prediction, in percent of the measured rate.
    fn error(&self) -> Option<f64> {
        let mean = self.measured.summary.rate.mean;
        (mean > 0.0).then(|| (self.predicted / mean - 1.0) * 100.0)
    }

    fn is_within(&self) -> Option<bool> {
        let (low, high) = self.interval?;
        Some((low..=high).contains(&self.measured.summary.rate.mean))
    }
}

fn section(heading: String, predicted: &BenchRecord, measured: &BenchRecord) -> Option<Section> {
    let foretold: HashMap<&str, RanCase<'_>> =
        cases(predicted).into_iter().map(|case| (case.summary.case.as_str(), case)).collect();
    let both: Vec<PredictedCase<'_>> = cases(measured)
        .into_iter()
        .filter_map(|measured| {
            let case = foretold.get(measured.summary.case.as_str())?;
            // A name may stand for something else in another workload.
            if case.spec.flows.len() != measured.spec.flows.len()
                || case.block() != measured.block()
                || case.path() != measured.path()
            {
                return None;
            }
            let prediction = case.runs.iter().find_map(|run| run.prediction.as_ref());
            let interval = prediction.and_then(|prediction| prediction.interval);
            Some(PredictedCase {
                measured,
                predicted: case.summary.rate.mean,
                interval: interval.map(|(low, high)| (low.0 as f64, high.0 as f64)),
            })
        })
        .collect();
    if both.is_empty() {
        return None;
    }
    let figure =
        if measured.asked.kind == WorkloadKind::Sweep { lines(&both) } else { bars(&both) };
    let mut blocks = vec![Block::Text(words(&both))];
    if predicted.machine.fabric != measured.machine.fabric {
        let text =
            "The two records name different fabric digests: the model may be of another machine.";
        blocks.push(Block::Text(text.to_owned()));
    }
    blocks.extend([Block::Figure(figure), Block::Table(table(&both))]);
    Some(Section { heading, blocks })
}

fn words(both: &[PredictedCase<'_>]) -> String {
    let mut errors: Vec<f64> = both.iter().filter_map(|one| one.error().map(f64::abs)).collect();
    errors.sort_by(f64::total_cmp);
    let mut text =
        format!("{} of the same name were predicted and measured.", count(both.len(), "case"));
    if let (Some(median), Some(worst)) = (errors.get(errors.len() / 2), errors.last()) {
        text += &format!(
            " The prediction is off by {median:.1} % in the median case and by {worst:.1} % in the worst."
        );
    }
    let judged: Vec<bool> = both.iter().filter_map(PredictedCase::is_within).collect();
    if !judged.is_empty() {
        let within = judged.iter().filter(|is_within| **is_within).count();
        text += &format!(
            " The measured mean lies within the predicted interval, which holds 80 % of draws, in {within} of {}.",
            count(judged.len(), "case")
        );
    }
    text
}

fn lines(both: &[PredictedCase<'_>]) -> Figure {
    let measured: Vec<RanCase<'_>> = both.iter().map(|one| one.measured.clone()).collect();
    let mut series = Vec::new();
    for group in groups(&measured, true) {
        let names: HashSet<&str> = group.cases.iter().map(|case| case.spec.name.as_str()).collect();
        let of = |what: &dyn Fn(&PredictedCase<'_>) -> Point| -> Vec<Point> {
            let is_in = |one: &&PredictedCase<'_>| names.contains(one.measured.spec.name.as_str());
            let mut points: Vec<Point> = both.iter().filter(is_in).map(what).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            points
        };
        let x = |one: &PredictedCase<'_>| one.measured.block().map_or(0.0, |block| block.0 as f64);
        series.push(Series {
            name: group.name.clone(),
            colour: group.colour,
            look: LineStyle::Line,
            points: of(&|one| Point {
                x: x(one),
                y: one.measured.summary.rate.mean,
                band: None,
                note: one.measured.note(),
            }),
        });
        series.push(Series {
            name: format!("{} predicted", group.name),
            colour: group.colour,
            look: LineStyle::Dashed,
            points: of(&|one| Point {
                x: x(one),
                y: one.predicted,
                band: one.interval,
                note: format!("{}: predicted {}", one.measured.name(), rate(one.predicted)),
            }),
        });
    }
    let lines = LineChart {
        about: "Predicted and measured bandwidth against block size.".to_owned(),
        x: ("block size", ScaleKind::Log2, ValueKind::Size),
        y: ("bandwidth", ScaleKind::Linear, ValueKind::Rate),
        names: Vec::new(),
        series,
        limits: Vec::new(),
    };
    Figure {
        title: "Predicted and measured bandwidth".to_owned(),
        caption: "Full: measured means. Broken: predicted, with the interval that holds 80 % of draws of the model's \
                  parameters as its shade."
            .to_owned(),
        art: Art::Chart(lines.picture()),
    }
}

fn bars(both: &[PredictedCase<'_>]) -> Figure {
    let rows = both
        .iter()
        .map(|one| ChartBar {
            name: one.measured.name(),
            value: one.measured.summary.rate.mean,
            colour: path_colour(one.measured.path()),
            band: one.measured.summary.rate.confidence,
            limit: None,
            predicted: Some((one.predicted, one.interval)),
        })
        .collect();
    let bars = Bars {
        about: "Measured bandwidth of each case with its prediction.".to_owned(),
        name: "bandwidth",
        values: ValueKind::Rate,
        rows,
    };
    let more = both.len().saturating_sub(ROWS_MAX);
    let rest =
        if more == 0 { String::new() } else { format!(" {more} more cases are in the table.") };
    Figure {
        title: "Predicted and measured bandwidth".to_owned(),
        caption: format!("Bars: measured means with their 95 % intervals.{rest}"),
        art: Art::Chart(bars.picture()),
    }
}

fn table(both: &[PredictedCase<'_>]) -> Table {
    let rows = both
        .iter()
        .map(|one| {
            let mean = one.measured.summary.rate.mean;
            vec![
                Cell::text(&one.measured.spec.name),
                Cell::number(mean, rate(mean)),
                Cell::number(one.predicted, rate(one.predicted)),
                one.interval.map_or_else(Cell::none, |(low, high)| {
                    Cell::number(low, format!("{} to {}", rate(low), rate(high)))
                }),
                one.error()
                    .map_or_else(Cell::none, |error| Cell::number(error, format!("{error:+.1} %"))),
                one.is_within().map_or_else(Cell::none, |is_within| {
                    Cell::text(if is_within { "yes" } else { "no" })
                }),
            ]
        })
        .collect();
    let columns = vec!["case", "measured", "predicted", "80 % of draws", "off by", "within"];
    Table::new("Predicted and measured", columns, rows)
}
