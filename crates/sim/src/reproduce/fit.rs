//! Fits and draws: the numbers of a run.
//!
//! The one thing to know: each fitted parameter has one row and is solved for it on every run, so
//! that a fit always succeeds and proves nothing.

use rayon::prelude::*;

use super::metric::Answer;
use super::scenario::Evaluator;
use super::{Study, StudyError};
use crate::parameters::{Draw, Provenance, Unit, Values, View, fnv1a};
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
    /// The model's answer to a figure with these numbers.
    pub(super) fn answer(
        &self,
        index: usize,
        values: &Values<'_>,
    ) -> Result<Option<Answer>, StudyError> {
        let (source, figure) = &self.figures[index];
        let source = &self.sources[*source];
        let evaluator = Evaluator { machines: &self.machines, source, values };
        figure.metric.as_ref().map(|metric| evaluator.answer(metric)).transpose()
    }

    /// The same, where it is a finite number.
    pub(super) fn number(&self, index: usize, numbers: &[f64], view: View) -> Option<f64> {
        let values = Values::new(&self.parameters, numbers, view);
        match self.answer(index, &values).ok()? {
            Some(Answer::Number(number)) if number.is_finite() => Some(number),
            _ => None,
        }
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
        for ((number, parameter), &fitted) in
            numbers.iter_mut().zip(self.parameters.iter()).zip(fitted)
        {
            if parameter.from == Provenance::Fitted {
                *number = fitted;
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
        let fits = self.parameters.iter().enumerate().filter_map(|(at, parameter)| {
            let row = parameter.rows.first().filter(|_| parameter.from == Provenance::Fitted)?;
            Some((at, self.position(row)?))
        });
        let fits: Vec<(usize, usize)> = fits.collect();
        for &(at, row) in std::iter::repeat_n(&fits, PASSES).flatten() {
            let residual = |value: f64| {
                let mut numbers = numbers.clone();
                numbers[at] = value;
                let predicted = self.number(row, &numbers, View::Model)?;
                Some((predicted / stated[row]).ln()).filter(|log| log.is_finite())
            };
            let found = root(numbers[at], residual);
            numbers[at] = found.ok_or_else(|| {
                StudyError::invalid(&self.name(row), "the model gives no number to fit")
            })?;
        }
        Ok(numbers)
    }
}

/// A value above zero at which a residual is zero; the nearest to it where none is, and `None`
/// where there is no residual at the start.
fn root(start: f64, residual: impl Fn(f64) -> Option<f64>) -> Option<f64> {
    let at = |log: f64| Some((log, residual(start * log.exp())?));
    let middle = at(0.0)?;
    let (mut low, mut high) = (middle, middle);
    let mut distance = NEAREST;
    while middle.1.abs() > CLOSE && distance < FARTHEST {
        for side in [-distance, distance] {
            let Some(found) = at(side) else { continue };
            let end = if side < 0.0 { &mut low } else { &mut high };
            if found.1 * middle.1 <= 0.0 {
                return Some(start * between(*end, found, at).exp());
            }
            *end = found;
        }
        distance *= 2.0;
    }
    let ends = [middle, low, high].into_iter();
    let nearest = ends.min_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    nearest.map(|(log, _)| start * log.exp())
}

/// A zero between two points of different sign, by the Illinois method (Dowell and Jarratt, "A
/// modified regula falsi method", BIT 11, 1971).
fn between(
    mut kept: (f64, f64),
    mut last: (f64, f64),
    at: impl Fn(f64) -> Option<(f64, f64)>,
) -> f64 {
    for _ in 0..ROUNDS {
        let next = (kept.0 * last.1 - last.0 * kept.1) / (last.1 - kept.1);
        let Some(next) = at(next).filter(|_| last.1.abs() > CLOSE) else { break };
        if next.1 * last.1 < 0.0 {
            kept = last;
        } else {
            kept.1 /= 2.0;
        }
        last = next;
    }
    last.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_root(start: f64, law: impl Fn(f64) -> f64, expected: f64) {
        let found = root(start, |value| Some(law(value).ln())).expect("a number");
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn power_law_is_solved() {
        assert_root(1.0, |value| 3.0 * value.sqrt() / 12.0, 16.0);
    }

    #[test]
    fn unreached_ceiling_is_lowered() {
        assert_root(51.2, |value| value.min(26.0) / 16.3, 16.3);
    }

    #[test]
    fn parameter_without_effect_stays() {
        assert_root(5.0, |_| 2.0, 5.0);
    }
}
