//! Parameters of the model: a value, its range, and where it comes from.
//!
//! Leaves out what a figure does with them. The one thing to know: a fitted parameter and one taken from
//! a figure have no number in a file. Their numbers are computed from the rows they name, on every run, so
//! that none can be tuned by hand.

mod draw;
mod read;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use draw::{Draw, fnv1a, percentile};
pub use read::{ParameterShape, Unit};

/// Why parameters cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// Nothing has this name.
    #[error("no parameter is called `{0}`")]
    Unknown(String),
    /// Two files say the same name.
    #[error("parameter `{0}` is said twice")]
    SaidTwice(String),
    /// A number that no quantity can have, or a range that does not hold the value.
    #[error("parameter `{name}`: {problem}")]
    Meaning {
        /// The parameter.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Where a parameter comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// A specification.
    Spec,
    /// What the maker states of the device.
    Datasheet,
    /// A measurement that is none of the figures.
    MeasuredElsewhere,
    /// One of the figures, taken as it is stated.
    Input,
    /// Picked by hand, or computed by hand from others, with figures in view that it names.
    Chosen,
    /// Computed so that figures come out.
    Fitted,
    /// Nobody measured it; the range says how little is known.
    Guess,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Spec => "spec",
            Self::Datasheet => "datasheet",
            Self::MeasuredElsewhere => "measured-elsewhere",
            Self::Input => "input",
            Self::Chosen => "chosen",
            Self::Fitted => "fitted",
            Self::Guess => "guess",
        })
    }
}

/// One number of the model, in bytes, seconds, bytes a second, or without a unit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Parameter {
    /// Unique among all files: `smartssd.read`.
    pub name: String,
    /// The number. Of a fitted parameter, what would be used without the fit.
    pub value: f64,
    /// Lowest value to believe in.
    pub lo: f64,
    /// Highest value to believe in.
    pub hi: f64,
    /// What the maker states, where `value` is something else; used by the plain estimate only.
    pub datasheet: Option<f64>,
    /// Its kind of source.
    pub from: Provenance,
    /// The figures that it is fitted on, taken from or chosen by, as `source/figure`.
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
    /// Adds one.
    ///
    /// # Errors
    /// When the name is taken, or value and range do not fit.
    pub fn add(&mut self, parameter: Parameter) -> Result<(), ParameterError> {
        let fail = |problem| ParameterError::Meaning { name: parameter.name.clone(), problem };
        let numbers = [parameter.value, parameter.lo, parameter.hi];
        if numbers.iter().any(|number| !number.is_finite() || *number <= 0.0) {
            return Err(fail("a value is a finite number above zero"));
        }
        if parameter.lo > parameter.value || parameter.value > parameter.hi {
            return Err(fail("the value lies outside its range"));
        }
        let has_rows = !parameter.rows.is_empty();
        match parameter.from {
            Provenance::Fitted if !has_rows => return Err(fail("say the rows it is fitted on")),
            Provenance::Input if parameter.rows.len() != 1 => {
                return Err(fail("say the one row it is taken from"));
            }
            Provenance::Chosen if !has_rows => {
                return Err(fail("say the rows that were in view when it was chosen"));
            }
            Provenance::Fitted | Provenance::Input | Provenance::Chosen => {}
            _ if has_rows => {
                return Err(fail("only what is fitted, chosen or an input has rows"));
            }
            _ => {}
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

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Its position.
    ///
    /// # Errors
    /// When nothing has this name.
    pub fn position(&self, name: &str) -> Result<usize, ParameterError> {
        self.index.get(name).copied().ok_or_else(|| ParameterError::Unknown(name.to_owned()))
    }

    /// The parameter at a position.
    pub fn at(&self, position: usize) -> Option<&Parameter> {
        self.list.get(position)
    }

    /// The numbers as they stand in the files.
    pub fn values(&self) -> Vec<f64> {
        self.list.iter().map(|parameter| parameter.value).collect()
    }
}

/// Which numbers a model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// All of them.
    Model,
    /// Specifications and datasheets only, no fixed cost and no loss: the estimate on the back of an
    /// envelope that a prediction has to beat.
    Plain,
}

/// Numbers for one evaluation, with an account of which were used.
#[derive(Debug)]
pub struct Values<'a> {
    parameters: &'a Parameters,
    numbers: &'a [f64],
    view: View,
    used: RefCell<BTreeSet<usize>>,
}

impl<'a> Values<'a> {
    /// Numbers in the order of `parameters`.
    pub fn new(parameters: &'a Parameters, numbers: &'a [f64], view: View) -> Self {
        Self { parameters, numbers, view, used: RefCell::default() }
    }

    /// What may be seen.
    pub fn view(&self) -> View {
        self.view
    }

    /// The number of a parameter.
    ///
    /// # Errors
    /// When nothing has this name.
    pub fn get(&self, name: &str) -> Result<f64, ParameterError> {
        let position = self.parameters.position(name)?;
        self.used.borrow_mut().insert(position);
        Ok(self.numbers[position])
    }

    /// A ceiling: infinite where the plain estimate knows none.
    ///
    /// # Errors
    /// When nothing has this name.
    pub fn ceiling(&self, name: &str) -> Result<f64, ParameterError> {
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

    /// What is lost beside ceilings: `without` in the plain estimate.
    ///
    /// # Errors
    /// When nothing has this name.
    pub fn loss(&self, name: &str, without: f64) -> Result<f64, ParameterError> {
        let number = self.get(name)?;
        Ok(if self.view == View::Model { number } else { without })
    }

    /// The positions that were asked for since this was made.
    pub fn used(&self) -> BTreeSet<usize> {
        self.used.borrow().clone()
    }
}

#[cfg(test)]
mod tests;
