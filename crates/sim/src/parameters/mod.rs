//! Parameters of the model: values, ranges and sources.
//!
//! A parameter that was fitted to a figure or taken from one names it, so the figure counts as no prediction.

mod draw;
mod read;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use draw::mix;
pub use draw::percentile;
pub(crate) use draw::{Draw, fnv1a};
pub(crate) use read::{ParameterShape, Unit};

/// Reasons why parameters cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// No parameter of this name.
    #[error("no parameter is called `{0}`")]
    Unknown(String),
    /// Two parameters of one name.
    #[error("parameter `{0}` is said twice")]
    SaidTwice(String),
    /// An impossible number, or a range without the value.
    #[error("parameter `{name}`: {problem}")]
    Meaning {
        /// The parameter.
        name: String,
        /// The fault.
        problem: &'static str,
    },
}

/// Source of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// A specification.
    Spec,
    /// A statement of the maker.
    Datasheet,
    /// A measurement other than the figures.
    MeasuredElsewhere,
    /// One of the figures, as stated.
    Input,
    /// Chosen by hand, with figures in view that it names.
    Chosen,
    /// Fitted to a figure.
    Fitted,
    /// A guess, with a range as wide as the ignorance.
    Guess,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One number of the model, in bytes, seconds, bytes a second, or without a unit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Parameter {
    /// Name, unique among all files, such as `smartssd.read`.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Lowest plausible value.
    pub lo: f64,
    /// Highest plausible value.
    pub hi: f64,
    /// Value stated by the maker, where `value` differs; for the plain estimate only.
    pub datasheet: Option<f64>,
    /// Kind of source.
    pub from: Provenance,
    /// Figures that it is fitted on, taken from or chosen by, as `source/figure`.
    pub rows: Vec<String>,
    /// The source, in words.
    pub source: String,
}

/// All parameters of a run, by name.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    list: Vec<Parameter>,
    index: BTreeMap<String, usize>,
}

impl Parameters {
    /// Adds a parameter.
    ///
    /// # Errors
    /// When the name is taken, or a number is impossible.
    pub fn add(&mut self, parameter: Parameter) -> Result<(), ParameterError> {
        let fail = |problem| ParameterError::Meaning { name: parameter.name.clone(), problem };
        let numbers = [parameter.value, parameter.lo, parameter.hi];
        if numbers.iter().any(|number| !number.is_finite() || *number <= 0.0) {
            return Err(fail("a value is a finite number above zero"));
        }
        if parameter.lo > parameter.value || parameter.value > parameter.hi {
            return Err(fail("the value lies outside its range"));
        }
        let problem = match (parameter.from, parameter.rows.len()) {
            (Provenance::Fitted, 0) => Some("say the rows it is fitted on"),
            (Provenance::Chosen, 0) => Some("say the rows that were in view when it was chosen"),
            (Provenance::Fitted | Provenance::Chosen, _) | (Provenance::Input, 1) => None,
            (Provenance::Input, _) => Some("say the one row it is taken from"),
            (_, 0) => None,
            _ => Some("only what is fitted, chosen or an input has rows"),
        };
        if let Some(problem) = problem {
            return Err(fail(problem));
        }
        if parameter.source.trim().is_empty() {
            return Err(fail("say the source"));
        }
        if self.index.insert(parameter.name.clone(), self.list.len()).is_some() {
            return Err(ParameterError::SaidTwice(parameter.name));
        }
        self.list.push(parameter);
        Ok(())
    }

    /// All parameters, in the order of addition.
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.list.iter()
    }

    /// Position of a parameter.
    ///
    /// # Errors
    /// When no parameter has this name.
    pub fn position(&self, name: &str) -> Result<usize, ParameterError> {
        self.index.get(name).copied().ok_or_else(|| ParameterError::Unknown(name.to_owned()))
    }

    /// The parameter at a position.
    pub fn at(&self, position: usize) -> Option<&Parameter> {
        self.list.get(position)
    }

    /// The values of all parameters.
    pub fn values(&self) -> Vec<f64> {
        self.list.iter().map(|parameter| parameter.value).collect()
    }
}

/// Parameters that a model may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// All parameters.
    Model,
    /// Specifications and datasheets, without fixed costs and losses: the simple estimate that a prediction must beat.
    Plain,
}

/// Numbers of one evaluation, and which of them it used.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    parameters: &'a Parameters,
    numbers: &'a [f64],
    view: View,
    used: RefCell<BTreeSet<usize>>,
}

impl<'a> Values<'a> {
    /// Numbers in the order of `parameters`.
    pub(crate) fn new(parameters: &'a Parameters, numbers: &'a [f64], view: View) -> Self {
        Self { parameters, numbers, view, used: RefCell::default() }
    }

    /// The parameters in use.
    pub(crate) fn view(&self) -> View {
        self.view
    }

    /// The number of a parameter.
    ///
    /// # Errors
    /// When no parameter has this name.
    pub(crate) fn get(&self, name: &str) -> Result<f64, ParameterError> {
        let position = self.parameters.position(name)?;
        self.used.borrow_mut().insert(position);
        Ok(self.numbers[position])
    }

    /// A ceiling; infinite where the plain estimate has none.
    ///
    /// # Errors
    /// When no parameter has this name.
    pub(crate) fn ceiling(&self, name: &str) -> Result<f64, ParameterError> {
        let number = self.get(name)?;
        if self.view == View::Model {
            return Ok(number);
        }
        let parameter = &self.parameters.list[self.parameters.position(name)?];
        Ok(match (parameter.datasheet, parameter.from) {
            (Some(stated), _) => stated,
            (None, Provenance::Spec | Provenance::Datasheet) => number,
            (None, _) => f64::INFINITY,
        })
    }

    /// A loss besides ceilings; `without` in the plain estimate.
    ///
    /// # Errors
    /// When no parameter has this name.
    pub(crate) fn loss(&self, name: &str, without: f64) -> Result<f64, ParameterError> {
        let number = self.get(name)?;
        Ok(if self.view == View::Model { number } else { without })
    }

    /// Positions of the parameters used so far.
    pub(crate) fn used(&self) -> BTreeSet<usize> {
        self.used.borrow().clone()
    }
}

#[cfg(test)]
mod tests;
