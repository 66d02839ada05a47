//! Fits and draws: the numbers of a run.
//!
//! The one thing to know: each fitted parameter has one row and is solved for it on every run, so
//! that a fit always succeeds and proves nothing.

use rayon::prelude::*;
use serde_json::Value;

use super::scenario::Evaluator;
use super::{Study, StudyError};
use crate::parameters::{Draw, Parameter, Provenance, Unit, Values, View, fnv1a};
use crate::threads;

/// Draws for an interval.
pub(super) const DRAWS: u64 = 100;
/// Seed of all draws.
const SEED: u64 = 20_261_121;
/// Seed of the stated figures, which differs from that of parameters in every draw.
const SEED_OF_ROWS: u64 = 0x5eed_0f20_75a7_ed00;
/// A fit may depend on one that comes later.
const PASSES: usize = 2;
/// A logarithm of predicted over stated that counts as zero: rates are whole bytes a second.
const CLOSE: f64 = 1e-8;
/// First and last distance from the start at which a fit looks for a change of sign, in logarithms.
const NEAREST: f64 = 0.01;
const FARTHEST: f64 = 11.0;
const ROUNDS: usize = 60;

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

    /// The numbers of the files, with all fits.
    pub(super) fn fitted(&self) -> Result<Vec<f64>, StudyError> {
        let stated: Vec<f64> = (0..self.figures.len()).map(|row| self.stated(row).1).collect();
        self.fit(self.parameters.values(), &stated)
    }

    /// Numbers drawn from the ranges of parameters, with all fits made on stated figures that are
    /// drawn within their last digit.
    pub(super) fn draws(&self, fitted: &[f64]) -> Result<Vec<Vec<f64>>, StudyError> {
        threads::prepare();
        (0..DRAWS).into_par_iter().map(|draw| self.draw(fitted, draw)).collect()
    }

    fn draw(&self, fitted: &[f64], draw: u64) -> Result<Vec<f64>, StudyError> {
        let mut numbers = Draw::new(SEED).numbers(&self.parameters, draw);
        for (at, parameter) in self.parameters.iter().enumerate() {
            if parameter.from == Provenance::Fitted {
                numbers[at] = fitted[at];
            }
        }
        let rows = Draw::new(draw ^ SEED_OF_ROWS);
        let stated = |row| {
            let (low, _, high) = self.stated(row);
            low + (high - low) * rows.unit(draw, fnv1a(&self.name(row)))
        };
        let stated: Vec<f64> = (0..self.figures.len()).map(stated).collect();
        self.fit(numbers, &stated)
    }

    /// Lowest, stated and highest value of a figure in base units, by its printed digits; zero
    /// for a word.
    pub(super) fn stated(&self, row: usize) -> (f64, f64, f64) {
        let (_, figure) = &self.figures[row];
        let scale = figure.unit.map_or(1.0, Unit::scale);
        let (stated, noise) = (figure.stated.unwrap_or(0.0), figure.noise());
        ((stated - noise) * scale, stated * scale, (stated + noise) * scale)
    }

    fn fit(&self, mut numbers: Vec<f64>, stated: &[f64]) -> Result<Vec<f64>, StudyError> {
        let fit = |(at, parameter): (usize, &Parameter)| {
            let row = parameter.rows.first().filter(|_| parameter.from == Provenance::Fitted)?;
            Some((at, self.position(row)?))
        };
        let fits: Vec<_> = self.parameters.iter().enumerate().filter_map(fit).collect();
        for &(at, row) in std::iter::repeat_n(&fits, PASSES).flatten() {
            let residual = |value: f64| {
                let mut numbers = numbers.clone();
                numbers[at] = value;
                let predicted = self.number(row, &numbers, View::Model)?;
                Some((predicted / stated[row]).ln()).filter(|log| log.is_finite())
            };
            let fail = || StudyError::new(&self.name(row), "the model gives no number to fit");
            numbers[at] = root(numbers[at], residual).ok_or_else(fail)?;
        }
        Ok(numbers)
    }
}

/// A value above zero at which a residual is zero; the nearest to it where none is, and `None`
/// where there is no residual at the start.
fn root(start: f64, residual: impl Fn(f64) -> Option<f64>) -> Option<f64> {
    let at = |log: f64| Some((log, residual(start * log.exp())?));
    let middle = at(0.0)?;
    let mut ends = [middle; 2];
    let mut distance = NEAREST;
    while middle.1.abs() > CLOSE && distance < FARTHEST {
        for (end, side) in ends.iter_mut().zip([-distance, distance]) {
            let Some(found) = at(side) else { continue };
            if found.1 * middle.1 <= 0.0 {
                return Some(start * between([*end, found], at).exp());
            }
            *end = found;
        }
        distance *= 2.0;
    }
    let closer = |a: (f64, f64), b: (f64, f64)| if b.1.abs() < a.1.abs() { b } else { a };
    Some(start * ends.into_iter().fold(middle, closer).0.exp())
}

/// A zero between two points of different sign, by the Illinois method (Dowell and Jarratt, "A
/// modified regula falsi method", BIT 11, 1971).
fn between([mut kept, mut last]: [(f64, f64); 2], at: impl Fn(f64) -> Option<(f64, f64)>) -> f64 {
    for _ in 0..ROUNDS {
        let next = (kept.0 * last.1 - last.0 * kept.1) / (last.1 - kept.1);
        let next = (last.1.abs() > CLOSE).then(|| at(next)).flatten();
        let Some(next) = next else { break };
        if next.1 * last.1 < 0.0 {
            kept = last;
        } else {
            kept.1 /= 2.0;
        }
        last = next;
    }
    last.0
}
