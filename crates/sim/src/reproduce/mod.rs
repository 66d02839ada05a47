//! The figures of five published documents next to the model.
//!
//! Leaves out the figures of pictures, which the texts do not hold. The role of a figure is
//! declared in `sources/*.toml` before the model runs, and computed from the parameters that it
//! depends on, so that a figure that decided a parameter is no prediction.

mod curve;
mod draws;
mod metric;
mod predictions;
mod report;
mod roles;
mod scenario;
mod shape;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use peerlane_fabric::Fabric;

use crate::parameters::{ParameterError, Parameters, Provenance, Values, View};

pub use curve::{CurveReport, Held};
pub use predictions::{SourcePrediction, page};
pub use report::{Baseline, FigureRow, Report, SCHEMA, SourceReport};
pub use shape::{BoundSide, FigureRole};

use shape::{FigureShape, SharedShape, SourceShape};

/// A mistake in a file, not a wrong prediction.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `{name}`")]
pub struct StudyError {
    /// A file, a part of it, or a name in it.
    name: String,
    source: Box<dyn Error + Send + Sync>,
}

impl StudyError {
    fn new(name: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { name: name.to_owned(), source: source.into() }
    }
}

impl From<ParameterError> for StudyError {
    fn from(source: ParameterError) -> Self {
        Self::new("parameters", source)
    }
}

/// Names and texts of files in a folder of the repository, built in.
macro_rules! texts {
    ($folder:literal, $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../", $folder, "/", $name, ".toml")))),*]
    };
}

const SOURCES: &[(&str, &str)] = texts!("sources",
    "000" "001" "002" "003" "004" "donard-log" "holdout-fabrics" "holdout-aisio");
const PARAMETERS: &str = include_str!("../../../../sources/parameters.toml");
const CURVES: &str = include_str!("../../../../sources/holdout-curves.toml");
const PREDICTIONS: &str = include_str!("../../../../sources/predictions.toml");
const MACHINES: &[(&str, &str)] = texts!("machines",
    "r7515-10-smartssd" "direct-connect" "noload-4" "optiplex-smartssd" "donard"
    "broadwell-3-p4600" "gen5-pair" "nfp-e5" "victim" "donard-gen5");

/// Figures, parameters and machines, read and checked.
#[derive(Debug)]
pub struct Study {
    machines: BTreeMap<String, Fabric>,
    sources: Vec<SourceShape>,
    /// Position of its source, and the figure, in the order of the files.
    figures: Vec<(usize, FigureShape)>,
    /// Positions of the parameters that each figure reads.
    uses: Vec<BTreeSet<usize>>,
    parameters: Parameters,
    curves: SharedShape,
    predictions: SharedShape,
}

impl Study {
    /// The study of the files in the repository.
    ///
    /// # Errors
    /// When a file is at fault, which a test rules out.
    pub fn built_in() -> Result<Self, StudyError> {
        Self::read(MACHINES, PARAMETERS, SOURCES, CURVES, PREDICTIONS)
    }

    /// A study of other texts: machines, shared parameters, sources, curves, predictions.
    ///
    /// # Errors
    /// When a text is at fault.
    pub fn read(
        machines: &[(&str, &str)],
        parameters: &str,
        sources: &[(&str, &str)],
        curves: &str,
        predictions: &str,
    ) -> Result<Self, StudyError> {
        let machine = |&(name, text): &(&str, &str)| match Fabric::from_toml(text) {
            Ok(machine) => Ok((name.to_owned(), machine)),
            Err(error) => Err(StudyError::new(name, error)),
        };
        let sources = sources.iter().map(|(name, text)| parse(name, text));
        let mut study = Self {
            machines: machines.iter().map(machine).collect::<Result<_, _>>()?,
            sources: sources.collect::<Result<_, _>>()?,
            figures: Vec::new(),
            uses: Vec::new(),
            parameters: Parameters::default(),
            curves: parse("curves", curves)?,
            predictions: parse("predictions", predictions)?,
        };
        study.add_figures()?;
        study.add_parameters(parse("parameters", parameters)?)?;
        let numbers = study.parameters.values();
        for index in 0..study.figures.len() {
            // A wrong name shows before anything is printed.
            let values = Values::new(&study.parameters, &numbers, View::Model);
            study.answer(index, &values)?;
            let used = values.used();
            study.uses.push(used);
        }
        Ok(study)
    }

    fn add_figures(&mut self) -> Result<(), StudyError> {
        for (index, source) in self.sources.iter().enumerate() {
            for figure in &source.figure {
                let name = format!("{}/{}", source.source, figure.id);
                let is_twice = self.position(&name).is_some().then_some("two figures of this name");
                if let Some(problem) = figure.problem().or(is_twice) {
                    return Err(StudyError::new(&name, problem));
                }
                self.figures.push((index, figure.clone()));
            }
        }
        Ok(())
    }

    fn add_parameters(&mut self, shared: SharedShape) -> Result<(), StudyError> {
        let mut all: Vec<_> = shared.parameter.into_iter().collect();
        all.extend(self.sources.iter().flat_map(|source| source.parameter.clone()));
        all.extend(self.predictions.parameter.clone());
        for (name, shape) in all {
            let stated = |row: &str| {
                let row = self.position(row)?;
                self.figures[row].1.stated.map(|_| self.stated(row))
            };
            let parameter = shape.parameter(&name, stated)?;
            if let Some(row) = parameter.rows.iter().find(|row| self.position(row).is_none()) {
                return Err(StudyError::new(row, "no such figure"));
            }
            if parameter.from == Provenance::Fitted && parameter.rows.len() != 1 {
                return Err(StudyError::new(&name, "a parameter is fitted on one row"));
            }
            self.parameters.add(parameter)?;
        }
        Ok(())
    }

    /// The names of the documents and of the sets held out.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.source.as_str())
    }

    /// Position of a figure by `source/id`.
    fn position(&self, name: &str) -> Option<usize> {
        let (name, id) = name.split_once('/')?;
        let is_it = |(source, figure): &(usize, FigureShape)| {
            self.sources[*source].source == name && figure.id == id
        };
        self.figures.iter().position(is_it)
    }
}

impl FigureShape {
    fn problem(&self) -> Option<&'static str> {
        let is_number = self.stated.is_some();
        let is_exact = self.unit.is_some() && self.precision.is_some();
        let is_bound = self.role == FigureRole::Bound;
        let is_compared = self.metric.is_some() || self.role == FigureRole::Excluded;
        let rules = [
            (is_number != self.stated_text.is_some(), "state either a number or a word"),
            (is_exact || !is_number, "a number has a unit and a printed precision"),
            (is_number != self.means.is_some(), "`means` explains a word, and every word"),
            (is_bound == self.bound.is_some(), "a bound has a side, and nothing else does"),
            (is_compared, "give a metric"),
            (!self.reason.trim().is_empty(), "give a reason for its role"),
        ];
        rules.into_iter().find(|(is_kept, _)| !is_kept).map(|(_, rule)| rule)
    }
}

fn parse<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, StudyError> {
    toml::from_str(text).map_err(|error| StudyError::new(file, error))
}

#[cfg(test)]
mod tests;
