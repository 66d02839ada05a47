//! Answers of the model to figures, and numbers drawn from the ranges of parameters.

use serde_json::Value;

use super::scenario::Evaluator;
use super::{Study, StudyError};
use crate::parameters::{Draw, Unit, Values, View};

/// Draws for an interval.
pub(super) const DRAWS: u64 = 100;
/// Seed of all draws.
const SEED: u64 = 20_261_121;

impl Study {
    /// The model's answer to a figure with these numbers; null without a metric.
    pub(super) fn answer(&self, index: usize, values: &Values<'_>) -> Result<Value, StudyError> {
        let (source, figure) = &self.figures[index];
        let evaluator =
            Evaluator { machines: &self.machines, source: &self.sources[*source], values };
        figure.metric.as_ref().map_or(Ok(Value::Null), |metric| evaluator.answer(metric))
    }

    /// The same, where it is a finite number.
    pub(super) fn number(&self, index: usize, numbers: &[f64], view: View) -> Option<f64> {
        self.answer(index, &Values::new(&self.parameters, numbers, view)).ok()?.as_f64()
    }

    /// Numbers drawn from the ranges of parameters.
    pub(super) fn draws(&self) -> Vec<Vec<f64>> {
        (0..DRAWS).map(|draw| Draw::new(SEED).numbers(&self.parameters, draw)).collect()
    }

    /// Lowest, stated and highest value of a figure in base units, by its printed digits; zero
    /// for a word.
    pub(super) fn stated(&self, row: usize) -> (f64, f64, f64) {
        let (_, figure) = &self.figures[row];
        let scale = figure.unit.map_or(1.0, Unit::scale);
        let (stated, noise) = (figure.stated.unwrap_or(0.0), figure.noise());
        ((stated - noise) * scale, stated * scale, (stated + noise) * scale)
    }
}
