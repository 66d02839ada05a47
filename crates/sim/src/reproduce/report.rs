//! The report: every figure next to the model.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::curve::{CurveReport, curve_report};
use super::roles::summary;
use super::shape::{FigureShape, SourceShape};
use super::{BoundSide, FigureRole, Study, StudyError};
use crate::parameters::{Parameter, Unit, Values, View, percentile};

/// Schema of [`Report`].
pub const SCHEMA: &str = "peerlane.reproduce/1";

/// Figures next to the model.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The count of figures by role, in a paragraph.
    pub count: String,
    /// Documents and sets held out.
    pub sources: Vec<SourceReport>,
    /// One for each figure.
    pub rows: Vec<FigureRow>,
    /// Every parameter behind a row, with its provenance; a fitted one has the number found and
    /// the range before the fit.
    pub parameters: Vec<Parameter>,
    /// Rates by block size, held out.
    pub curves: Vec<CurveReport>,
}

/// A document, or a set of figures held out from fitting.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SourceReport {
    /// Its short name.
    pub source: String,
    /// Its title.
    pub title: String,
    /// Not one of the five documents.
    pub held_out: bool,
    /// Conditions under which its figures were taken.
    pub settings: Vec<String>,
}

/// A figure next to the model.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FigureRow {
    /// The document, or the set held out.
    pub source: String,
    /// Its name, unique in its source.
    pub figure: String,
    /// The statement of the document.
    pub says: String,
    /// The stated value in its unit; a word where a word is stated.
    pub stated: Value,
    /// The model's value in the same unit; null where it has none.
    pub predicted: Value,
    /// Unit of both.
    pub unit: &'static str,
    /// Side of the stated value on which the model's has to be, of a bound.
    pub bound: Option<BoundSide>,
    /// Predicted over stated, less one; the miss of a range or bound, zero if met. Null for a word.
    pub error: Option<f64>,
    /// Reason why an error counts as none: `printed precision`, `repeat spread`, `range`, `bound`,
    /// `same word`.
    pub within: Option<&'static str>,
    /// Its role, computed from the parameters behind it.
    pub role: FigureRole,
    /// The role in its file; different only by mistake.
    pub declared: FigureRole,
    /// Reason for this role, or the obstacle to a better one.
    pub reason: String,
    /// The model's value before any fit, of a fitted figure.
    pub unfitted: Option<f64>,
    /// Interval that holds 80 % of draws from the ranges of the parameters, of a prediction.
    pub interval: Option<(f64, f64)>,
    /// The stated number lies in the interval.
    pub inside: Option<bool>,
    /// The estimate by links and datasheets alone.
    pub plain: Option<Baseline>,
    /// The nearest measurement.
    pub nearest: Option<Baseline>,
    /// A prediction is closer than both.
    pub beats_both: Option<bool>,
    /// Parameters that it depends on.
    pub parameters: Vec<String>,
}

/// An estimate of a figure without this model.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Baseline {
    /// Its value, in the figure's unit.
    pub value: f64,
    /// Over stated, less one.
    pub error: f64,
    /// Its origin.
    pub source: String,
}

impl Study {
    /// Compares the figures of the named sources with the model; of all of them when none is named.
    ///
    /// # Errors
    /// When a name is unknown, or a file is at fault.
    pub fn report(&self, only: &[String]) -> Result<Report, StudyError> {
        let known: Vec<&str> = self.names().collect();
        if let Some(asked) = only.iter().find(|asked| !known.contains(&asked.as_str())) {
            let problem = format!("no such source; there are `{}`", known.join("`, `"));
            return Err(StudyError::new(asked, problem));
        }
        let is_asked = |source: &SourceShape| only.is_empty() || only.contains(&source.source);
        let numbers = self.fitted()?;
        let draws = self.draws(&numbers)?;
        let rows = (0..self.figures.len())
            .into_par_iter()
            .filter(|&index| is_asked(&self.sources[self.figures[index].0]))
            .map(|index| self.row(index, &numbers, &draws))
            .collect::<Result<Vec<FigureRow>, StudyError>>()?;
        let source = |shape: &SourceShape| SourceReport {
            source: shape.source.clone(),
            title: shape.title.clone(),
            held_out: shape.held_out,
            settings: shape.settings.clone(),
        };
        let sources = self.sources.iter().filter(|source| is_asked(source));
        let sources: Vec<SourceReport> = sources.map(source).collect();
        let curves = self.curves.curve.iter().filter(|_| only.is_empty());
        let is_used = |name: &String| rows.iter().any(|row| row.parameters.contains(name));
        let used = self.parameters.iter().zip(&numbers);
        let used = used.filter(|(parameter, _)| is_used(&parameter.name));
        let found = used.map(|(parameter, &value)| Parameter { value, ..parameter.clone() });
        Ok(Report {
            schema: SCHEMA,
            count: summary(&sources, &rows),
            sources,
            parameters: found.collect(),
            curves: curves.map(curve_report).collect::<Result<_, _>>()?,
            rows,
        })
    }

    fn row(
        &self,
        index: usize,
        numbers: &[f64],
        draws: &[Vec<f64>],
    ) -> Result<FigureRow, StudyError> {
        let (source, figure) = &self.figures[index];
        let answer = self.answer(index, &Values::new(&self.parameters, numbers, View::Model))?;
        let role = self.shown_role(index);
        let scale = figure.unit.map_or(1.0, Unit::scale);
        let by = |numbers: &[f64], view| Some(self.number(index, numbers, view)? / scale);
        let number = answer.as_f64().map(|number| number / scale);
        let same_word = answer.is_string() && answer.as_str() == figure.means.as_deref();
        let error = number.and_then(|number| figure.error(number));
        let is_prediction = role == FigureRole::Predicted && number.is_some();
        let drawn = || draws.iter().filter_map(|numbers| by(numbers, View::Model)).collect();
        let interval = is_prediction.then(drawn).and_then(interval);
        let baseline = |value: f64, source: &str| {
            Some(Baseline { value, error: figure.error(value)?, source: source.to_owned() })
        };
        let plain = by(numbers, View::Plain)
            .and_then(|value| baseline(value, "lowest of links and datasheets"));
        let nearest = figure.nearest.as_ref();
        let nearest = nearest.and_then(|(value, source)| baseline(*value, source));
        let is_closer = |error: f64| {
            let mut others = [&plain, &nearest].into_iter().flatten();
            // By more than rounding: a prediction equal to a baseline is no better than it.
            others.all(|other| figure.counted(error) + 1e-4 < figure.counted(other.error))
        };
        let beats_both = error.filter(|_| is_prediction).map(is_closer);
        // A number chosen by hand has none before it.
        let before =
            (role == FigureRole::Fitted).then(|| by(&self.parameters.values(), View::Model));
        let unfitted = before.flatten().filter(|&before| number != Some(before));
        let used = self.uses[index].iter().filter_map(|&at| self.parameters.at(at));
        Ok(FigureRow {
            source: self.sources[*source].source.clone(),
            figure: figure.id.clone(),
            says: figure.says.clone(),
            stated: figure.stated_value(),
            predicted: number.map_or(answer, Value::from),
            unit: figure.unit.map_or("", Unit::name),
            bound: figure.bound,
            error,
            within: error.map_or(same_word.then_some("same word"), |error| figure.within(error)),
            role,
            declared: figure.role,
            reason: figure.reason.clone(),
            unfitted,
            interval,
            inside: interval.and_then(|interval| figure.inside(interval)),
            beats_both,
            plain,
            nearest,
            parameters: used.map(|parameter| parameter.name.clone()).collect(),
        })
    }
}

/// The interval that holds 80 % of some draws.
pub(super) fn interval(mut draws: Vec<f64>) -> Option<(f64, f64)> {
    draws.sort_by(f64::total_cmp);
    Some((percentile(&draws, 0.1)?, percentile(&draws, 0.9)?))
}

impl FigureShape {
    /// Half-width of the stated number in its own unit: its last digit, or the spread of repeats.
    pub(super) fn noise(&self) -> f64 {
        let spread = self.spread.unwrap_or(0.0) * self.stated.unwrap_or(0.0).abs();
        self.precision.unwrap_or(0.0).max(spread)
    }

    /// Lowest and highest value that is met without an error.
    fn ends(&self) -> Option<(f64, f64)> {
        let stated = self.stated?;
        Some(match (self.range, self.bound) {
            (Some(range), _) => range,
            (None, Some(BoundSide::AtMost)) => (f64::NEG_INFINITY, stated),
            (None, Some(BoundSide::AtLeast)) => (stated, f64::INFINITY),
            (None, None) => (stated, stated),
        })
    }

    /// Relative error in the figure's own unit; absolute where zero is stated.
    fn error(&self, predicted: f64) -> Option<f64> {
        let (low, high) = self.ends()?;
        let end = predicted.max(low).min(high);
        Some(if end == 0.0 { predicted } else { predicted / end - 1.0 })
    }

    /// The error as it counts: zero within printed digits or repeats.
    fn counted(&self, error: f64) -> f64 {
        if self.within(error).is_some() { 0.0 } else { error.abs() }
    }

    fn within(&self, error: f64) -> Option<&'static str> {
        let stated = self.stated?.abs();
        if self.range.is_some() || self.bound.is_some() {
            let kind = if self.range.is_some() { "range" } else { "bound" };
            return (error == 0.0).then_some(kind);
        }
        let precision = self.precision.unwrap_or(0.0);
        let printed = if stated == 0.0 { precision } else { precision / stated };
        // Stated figures are given in the decimal digits of a document.
        if error.abs() <= printed + 1e-9 {
            return Some("printed precision");
        }
        (error.abs() <= self.spread.unwrap_or(0.0)).then_some("repeat spread")
    }

    fn inside(&self, (low, high): (f64, f64)) -> Option<bool> {
        let (stated, noise) = (self.stated?, self.noise());
        let (from, to) = self.range.unwrap_or((stated - noise, stated + noise));
        Some(low <= to && from <= high)
    }

    fn stated_value(&self) -> Value {
        match (&self.stated_text, self.range, self.stated) {
            (Some(text), ..) => text.clone().into(),
            (None, Some((low, high)), _) => vec![low, high].into(),
            (None, None, stated) => stated.map_or(Value::Null, Into::into),
        }
    }
}
