//! The report: rows, fits, the honest count.

use schemars::JsonSchema;
use serde::Serialize;

use super::curve::{CurveReport, curve_report};
use super::metric::Answer;
use super::shape::{Bound, FigureShape};
use super::{Role, Study, StudyError};
use crate::parameters::{Draw, Parameter, Provenance, Unit, View, percentile};

/// Schema of [`Report`].
pub const SCHEMA: &str = "peerlane.reproduce/1";

/// Draws for an interval.
const DRAWS: u64 = 200;
/// Seed of all draws.
const SEED: u64 = 20_261_121;
/// A prediction this close counts as near.
const NEAR: f64 = 0.07;

/// Figures beside the model.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The honest count, in a sentence or two.
    pub count: String,
    /// What was read.
    pub sources: Vec<SourceReport>,
    /// One for each figure.
    pub rows: Vec<Row>,
    /// Every parameter that a row asks for, with its provenance; of a fitted one the number that was found,
    /// beside the range before the fit.
    pub parameters: Vec<Parameter>,
    /// One for each fit that a row asks for.
    pub fits: Vec<FitReport>,
    /// Rates by block size that were held out.
    pub curves: Vec<CurveReport>,
}

/// A document, or a set of figures held out from fitting.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SourceReport {
    /// Its short name.
    pub source: String,
    /// Its title.
    pub title: String,
    /// Whether it is none of the five documents.
    pub held_out: bool,
    /// Under what conditions its figures were taken.
    pub settings: Vec<String>,
}

/// A figure beside the model.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Row {
    /// The document, or the set held out.
    pub source: String,
    /// Unique in its source.
    pub figure: String,
    /// What the document says.
    pub says: String,
    /// As stated, in its unit; a word where a word is stated.
    pub stated: serde_json::Value,
    /// What the model says, in the same unit; null where it says nothing.
    pub predicted: serde_json::Value,
    /// Unit of both.
    pub unit: &'static str,
    /// Predicted over stated, less one; for a range and a bound by how much it is missed. Null for a word.
    pub error: Option<f64>,
    /// Why an error counts as none: `printed precision`, `repeat spread`, `range`, `bound`, `same word`.
    pub within: Option<&'static str>,
    /// What it is shown as.
    pub role: Role,
    /// What its file says; different only by mistake.
    pub declared: Role,
    /// Why it has this role, or what stands in the way of a better one.
    pub reason: String,
    /// What the model says before any fit; for what is shown as fitted.
    pub unfitted: Option<f64>,
    /// 80 % of draws from the ranges of the parameters lie between.
    pub interval: Option<(f64, f64)>,
    /// Whether the stated number lies in the interval.
    pub inside: Option<bool>,
    /// What links and datasheets alone say.
    pub plain: Option<Baseline>,
    /// The nearest measurement.
    pub nearest: Option<Baseline>,
    /// Whether the prediction is closer than both; of predictions only.
    pub beats_both: Option<bool>,
    /// Parameters that it asks for.
    pub parameters: Vec<String>,
}

/// Another way to come to a figure, without this model.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Baseline {
    /// What it says, in the figure's unit.
    pub value: f64,
    /// Over stated, less one.
    pub error: f64,
    /// Where it comes from.
    pub source: String,
}

/// A fit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FitReport {
    /// Parameters, each with its value in base units.
    pub parameters: Vec<(String, f64)>,
    /// Figures it was made on.
    pub rows: Vec<String>,
    /// Logarithm of predicted over stated of each.
    pub residuals: Vec<f64>,
    /// Standard errors of the parameters, as a share; `None` without a degree of freedom.
    pub standard_errors: Option<Vec<f64>>,
    /// `no degrees of freedom`, or how many.
    pub freedom: String,
}

impl Study {
    /// Compares the figures of the named sources with the model; of all of them when none is named.
    ///
    /// # Errors
    /// When a name is unknown, or a file is at fault.
    pub fn report(&self, only: &[String]) -> Result<Report, StudyError> {
        let known: Vec<&str> = self.names().collect();
        if let Some(asked) = only.iter().find(|asked| !known.contains(&asked.as_str())) {
            let (asked, known) = (asked.clone(), known.join(", "));
            return Err(StudyError::NoSuchSource { asked, known });
        }
        let is_asked = |source: &str| only.is_empty() || only.iter().any(|asked| asked == source);
        let numbers = self.fitted()?;
        let drawn: Vec<Vec<f64>> = (0..DRAWS)
            .map(|draw| self.drawn(&numbers, Draw::new(SEED), draw))
            .collect::<Result<_, _>>()?;
        let mut rows = Vec::new();
        for (index, (source, _)) in self.figures.iter().enumerate() {
            if is_asked(&self.sources[*source].source) {
                rows.push(self.row(index, &numbers, &drawn)?);
            }
        }
        let fits = self.fits(&numbers, &rows);
        let parameters = self.found(&numbers, &rows);
        let curves = if only.is_empty() {
            self.curves.iter().map(curve_report).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        };
        let held_out = |row: &&Row| {
            self.sources.iter().any(|source| source.held_out && source.source == row.source)
        };
        let (held, stated): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(held_out);
        let count = [count(&stated), count_held(&held)].into_iter().flatten();
        let count = count.collect::<Vec<_>>().join(" ");
        let sources = self.sources.iter().filter(|source| is_asked(&source.source));
        let sources = sources.map(|source| SourceReport {
            source: source.source.clone(),
            title: source.title.clone(),
            held_out: source.held_out,
            settings: source.settings.clone(),
        });
        Ok(Report {
            schema: SCHEMA,
            count,
            sources: sources.collect(),
            rows,
            parameters,
            fits,
            curves,
        })
    }

    fn row(&self, index: usize, numbers: &[f64], drawn: &[Vec<f64>]) -> Result<Row, StudyError> {
        let (source, figure) = &self.figures[index];
        let (answer, used) = self.answer(index, numbers, View::Model)?;
        let role = self.shown_role(index, numbers)?;
        let scale = figure.unit.map_or(1.0, Unit::scale);
        let number = match &answer {
            Some(Answer::Number(number)) => Some(number / scale),
            _ => None,
        };
        let error = number.and_then(|number| figure.error(number));
        let has_interval = number.is_some() && !matches!(role, Role::Bound | Role::Structural);
        let interval = has_interval.then(|| self.interval(index, drawn, scale)).flatten();
        let plain = self.number(index, numbers, View::Plain).map(|plain| plain / scale);
        let plain = plain.and_then(|value| {
            let source = "lowest of links and datasheets".to_owned();
            Some(Baseline { value, error: figure.error(value)?, source })
        });
        let nearest = figure.nearest.as_ref().and_then(|nearest| {
            let (value, source) = (nearest.value, nearest.source.clone());
            Some(Baseline { value, error: figure.error(value)?, source })
        });
        let is_fitted = role == Role::Fitted;
        let before = || self.number(index, &self.parameters.values(), View::Model);
        let counted = error.map(|error| figure.counted(error));
        Ok(Row {
            source: self.sources[*source].source.clone(),
            figure: figure.id.clone(),
            says: figure.says.clone(),
            stated: figure.stated_value(),
            predicted: match answer {
                Some(Answer::Word(word)) => word.into(),
                _ => number.map_or(serde_json::Value::Null, Into::into),
            },
            unit: figure.unit.map_or("", Unit::name),
            error,
            within: figure.within(error, self.word(index, numbers)?.as_deref()),
            role,
            declared: figure.role,
            reason: figure.reason.clone(),
            unfitted: is_fitted
                .then(before)
                .flatten()
                .map(|before| before / scale)
                // What was chosen by hand has no number before it.
                .filter(|&before| number != Some(before)),
            inside: interval.and_then(|interval| figure.inside(interval)),
            interval,
            beats_both: (role == Role::Predicted && counted.is_some()).then(|| {
                let than = |other: &Option<Baseline>| {
                    let other = other.as_ref().map(|other| figure.counted(other.error));
                    // By more than rounding: a prediction that is the nearest measurement is no better than it.
                    other.is_none_or(|other| counted.is_some_and(|own| own + 1e-4 < other))
                };
                than(&plain) && than(&nearest)
            }),
            plain,
            nearest,
            parameters: used
                .iter()
                .filter_map(|&at| self.parameters.at(at))
                .map(|parameter| parameter.name.clone())
                .collect(),
        })
    }

    fn word(&self, index: usize, numbers: &[f64]) -> Result<Option<String>, StudyError> {
        Ok(match self.answer(index, numbers, View::Model)?.0 {
            Some(Answer::Word(word)) => Some(word),
            _ => None,
        })
    }

    fn interval(&self, index: usize, drawn: &[Vec<f64>], scale: f64) -> Option<(f64, f64)> {
        let mut found: Vec<f64> = drawn
            .iter()
            .filter_map(|numbers| self.number(index, numbers, View::Model))
            .map(|number| number / scale)
            .collect();
        found.sort_by(f64::total_cmp);
        Some((percentile(&found, 0.1)?, percentile(&found, 0.9)?))
    }

    /// The parameters of some rows with the numbers that were used.
    fn found(&self, numbers: &[f64], rows: &[Row]) -> Vec<Parameter> {
        let is_used = |name: &String| rows.iter().any(|row| row.parameters.contains(name));
        let all = self.parameters.iter().zip(numbers);
        all.filter(|(parameter, _)| is_used(&parameter.name))
            .map(|(parameter, &value)| Parameter { value, ..parameter.clone() })
            .collect()
    }

    /// The fits behind the parameters of some rows.
    fn fits(&self, numbers: &[f64], rows: &[Row]) -> Vec<FitReport> {
        let is_used = |name: &str| {
            rows.iter().any(|row| row.parameters.iter().any(|parameter| parameter == name))
        };
        let name = |at: usize| self.parameters.at(at).map(|p| p.name.clone()).unwrap_or_default();
        let mut reports = Vec::new();
        for group in self.groups() {
            if !group.parameters.iter().any(|&at| is_used(&name(at))) {
                continue;
            }
            let (residuals, standard_errors) = self.quality(&group, numbers);
            let freedom = match group.rows.len().checked_sub(group.parameters.len()) {
                None | Some(0) => "no degrees of freedom".to_owned(),
                Some(1) => "1 degree of freedom".to_owned(),
                Some(more) => format!("{more} degrees of freedom"),
            };
            reports.push(FitReport {
                parameters: group.parameters.iter().map(|&at| (name(at), numbers[at])).collect(),
                rows: group.rows.iter().map(|&row| self.name(row)).collect(),
                residuals,
                standard_errors,
                freedom,
            });
        }
        reports
    }

    /// How many parameters of each provenance the named figures ask for.
    pub fn provenance(&self, report: &Report) -> Vec<(Provenance, usize)> {
        use Provenance::{Chosen, Datasheet, Fitted, Guess, Input, MeasuredElsewhere, Spec};
        let is_used = |name: &String| report.rows.iter().any(|row| row.parameters.contains(name));
        [Spec, Datasheet, MeasuredElsewhere, Input, Chosen, Fitted, Guess]
            .into_iter()
            .map(|kind| {
                let of_kind =
                    |p: &&crate::parameters::Parameter| p.from == kind && is_used(&p.name);
                (kind, self.parameters.iter().filter(of_kind).count())
            })
            .collect()
    }
}

impl FigureShape {
    /// Relative error in the figure's own unit; absolute where zero is stated.
    fn error(&self, predicted: f64) -> Option<f64> {
        let stated = self.stated?;
        let over = |end: f64| if end == 0.0 { predicted } else { predicted / end - 1.0 };
        Some(match (self.range, self.bound) {
            (Some((low, _)), _) if predicted < low => over(low),
            (Some((_, high)), _) if predicted > high => over(high),
            (Some(_), _) => 0.0,
            (_, Some(Bound::AtMost)) => over(stated).max(0.0),
            (_, Some(Bound::AtLeast)) => over(stated).min(0.0),
            _ => over(stated),
        })
    }

    /// An error as it counts: zero below what is printed or repeated.
    fn counted(&self, error: f64) -> f64 {
        if self.give(error).is_some() { 0.0 } else { error.abs() }
    }

    fn give(&self, error: f64) -> Option<&'static str> {
        let stated = self.stated?.abs();
        let share = |amount: f64| if stated == 0.0 { amount } else { amount / stated };
        // Stated figures are given in the decimal digits of a document.
        let rounding = 1e-9;
        if self.range.is_some() {
            return (error == 0.0).then_some("range");
        }
        if self.bound.is_some() {
            return (error == 0.0).then_some("bound");
        }
        if error.abs() <= share(self.precision.unwrap_or(0.0)) + rounding {
            return Some("printed precision");
        }
        (error.abs() <= self.spread.unwrap_or(0.0)).then_some("repeat spread")
    }

    fn within(&self, error: Option<f64>, word: Option<&str>) -> Option<&'static str> {
        match (error, word) {
            (Some(error), _) => self.give(error),
            (None, Some(word)) => (self.means.as_deref() == Some(word)).then_some("same word"),
            (None, None) => None,
        }
    }

    fn inside(&self, (low, high): (f64, f64)) -> Option<bool> {
        let give = self.noise();
        let (from, to) = match (self.range, self.bound) {
            (_, Some(_)) => return None,
            (Some(range), None) => range,
            (None, None) => (self.stated? - give, self.stated? + give),
        };
        Some(low <= to && from <= high)
    }

    fn stated_value(&self) -> serde_json::Value {
        match (&self.stated_text, self.range, self.stated) {
            (Some(text), ..) => text.clone().into(),
            (None, Some((low, high)), _) => vec![low, high].into(),
            (None, None, stated) => stated.map_or(serde_json::Value::Null, Into::into),
        }
    }
}

/// Whether a prediction counts as near.
fn is_near(row: &Row) -> bool {
    row.within.is_some() || row.error.is_some_and(|error| error.abs() <= NEAR)
}

/// What is said of figures that are none of the documents'; `None` without one.
fn count_held(rows: &[&Row]) -> Option<String> {
    let predicted: Vec<&&Row> = rows.iter().filter(|row| row.role == Role::Predicted).collect();
    let near = predicted.iter().filter(|row| is_near(row)).count();
    let better = predicted.iter().filter(|row| row.beats_both == Some(true)).count();
    (!rows.is_empty()).then(|| {
        format!(
            "Of figures held out from elsewhere {} are predicted: {near} within 7 % or within what is \
             printed, {better} closer than both others.",
            predicted.len()
        )
    })
}

/// The sentence at the top, from what the rows show; `None` without a row.
fn count(rows: &[&Row]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let of = |role: Role| rows.iter().filter(|row| row.role == role).count();
    let predicted: Vec<&&Row> = rows.iter().filter(|row| row.role == Role::Predicted).collect();
    let holds =
        |role: Role| rows.iter().filter(|row| row.role == role && row.within.is_some()).count();
    let near = predicted.iter().filter(|row| is_near(row)).count();
    let better = predicted.iter().filter(|row| row.beats_both == Some(true)).count();
    let inside = predicted.iter().filter(|row| row.inside == Some(true)).count();
    let mut text = match predicted.len() {
        0 => format!("Of {} stated figures none is predicted.", rows.len()),
        count => format!(
            "Of {} stated figures {count} are predicted: {near} of these within 7 % or within what is printed, \
             {inside} inside their 80 % interval, {better} closer than both the datasheets and the nearest \
             measurement.",
            rows.len(),
        ),
    };
    let held = |role: Role, word: &str| match of(role) {
        0 => None,
        all => Some(format!("{} of {all} {word} hold", holds(role))),
    };
    let (fitted, inputs) = (of(Role::Fitted), of(Role::Input));
    let clauses = [
        (fitted + inputs > 0)
            .then(|| format!("{fitted} are fitted and {inputs} are inputs, which proves nothing")),
        held(Role::Bound, "bounds"),
        held(Role::Structural, "structural statements"),
        Some(of(Role::Excluded))
            .filter(|&excluded| excluded > 0)
            .map(|excluded| format!("{excluded} are excluded, with reasons")),
    ];
    let clauses: Vec<String> = clauses.into_iter().flatten().collect();
    if !clauses.is_empty() {
        text.push(' ');
        text.push_str(&clauses.join("; "));
        text.push('.');
    }
    Some(text)
}
