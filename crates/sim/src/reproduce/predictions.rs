//! Predictions for cases that have not been measured, with intervals, and their page.
//!
//! They use the parameters of the figures, fits included, so that a change of either shows on the
//! page.

use std::fmt::Write as _;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::interval;
use super::scenario::{Evaluator, ScenarioOutcome};
use super::shape::PredictionShape;
use super::{Study, StudyError};
use crate::parameters::{Values, View};

/// The page; in braces both tables, and `all` of a prediction or its `fastest` transfer, in GB/s.
const PAGE: &str = include_str!("page.md");

/// A case that has not been measured, and its prediction.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
// A record of a benchmark has another `Prediction`.
#[schemars(rename = "Unmeasured")]
pub struct SourcePrediction {
    /// Its name.
    pub prediction: String,
    /// The case, in words.
    pub says: String,
    /// Day of the prediction.
    pub date: String,
    /// Transfers at the same time.
    pub flows: usize,
    /// Bytes a second of all of them.
    pub rate: f64,
    /// Interval that holds 80 % of draws from the ranges of the parameters, and the rate.
    pub interval: (f64, f64),
    /// Bytes a second of the slowest and of the fastest.
    pub each: (f64, f64),
    /// Limiting resource of the slowest.
    pub limited_by: String,
    /// Mean time of a block of the slowest in seconds, by Little's law.
    pub block_time: f64,
    /// Host-memory bytes a second, lowest and highest.
    pub host_memory: (f64, f64),
}

impl Study {
    /// The predictions of `sources/predictions.toml`.
    ///
    /// # Errors
    /// When a file is at fault.
    pub fn predictions(&self) -> Result<Vec<SourcePrediction>, StudyError> {
        let (numbers, draws) = (self.parameters.values(), self.draws());
        let shapes = self.predictions.prediction.iter();
        shapes.map(|shape| self.prediction(shape, &numbers, &draws)).collect()
    }

    fn prediction(
        &self,
        shape: &PredictionShape,
        numbers: &[f64],
        draws: &[Vec<f64>],
    ) -> Result<SourcePrediction, StudyError> {
        let solved = self.solve(shape, numbers)?;
        let draws = draws.par_iter().map(|numbers| Ok(self.solve(shape, numbers)?.rate()));
        let rate = solved.rate();
        let (low, high) =
            interval(draws.collect::<Result<_, StudyError>>()?).unwrap_or((rate, rate));
        let rates = solved.rates.iter().copied();
        Ok(SourcePrediction {
            prediction: shape.id.clone(),
            says: shape.says.clone(),
            date: shape.date.as_ref().unwrap_or(&self.predictions.date).clone(),
            flows: solved.rates.len(),
            rate,
            // Where queues fill in draws alone, the rate itself may be beyond them.
            interval: (low.min(rate), high.max(rate)),
            each: (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)),
            limited_by: solved.limit.text,
            block_time: solved.block_time,
            host_memory: (rate * solved.traffic.least, rate * solved.traffic.most),
        })
    }

    fn solve(
        &self,
        shape: &PredictionShape,
        numbers: &[f64],
    ) -> Result<ScenarioOutcome, StudyError> {
        let source = self.sources.iter().find(|source| source.source == shape.like);
        let source = source.ok_or_else(|| StudyError::new(&shape.like, "no such source"))?;
        let values = &Values::new(&self.parameters, numbers, View::Model);
        let evaluator = Evaluator { machines: &self.machines, source, values };
        evaluator.flows(&shape.id, &shape.scenario, &shape.scenario.each())
    }
}

/// `docs/predictions.md`.
pub fn page(study: &Study, predictions: &[SourcePrediction]) -> String {
    let (mut cases, mut changes) = (String::new(), String::new());
    let mut text = PAGE.to_owned();
    for (shape, found) in study.predictions.prediction.iter().zip(predictions) {
        let SourcePrediction { prediction, says, limited_by, each, host_memory, .. } = found;
        let (rate, interval) = (giga(found.rate), range(found.interval));
        // Writing to a String cannot fail.
        let _ = writeln!(
            cases,
            "| {says} | {} | {rate} | {interval} | {} | {limited_by} | {} | {} |",
            found.flows,
            range(*each),
            range(*host_memory),
            found.date,
        );
        if let Some((before, why)) = &shape.changed {
            let now = format!("{rate} ({interval}), {limited_by}");
            let _ = writeln!(changes, "| {says} | {before} | {now} | {why} |");
        }
        text = text.replace(&format!("{{all {prediction}}}"), &rate);
        text = text.replace(&format!("{{fastest {prediction}}}"), &giga(each.1));
    }
    text.replace("{cases}\n", &cases).replace("{changes}\n", &changes)
}

/// Both ends of a range; one number where they print alike.
fn range((least, most): (f64, f64)) -> String {
    let (least, most) = (giga(least), giga(most));
    if least == most { least } else { format!("{least} to {most}") }
}

fn giga(rate: f64) -> String {
    match rate / 1e9 {
        0.0 => "0".to_owned(),
        small if small < 1.0 => format!("{small:.3}"),
        other => format!("{other:.2}"),
    }
}
