//! The figures of five published documents beside the model.
//!
//! Leaves out the figures of pictures, which the texts do not hold. The one thing to know: the role
//! of a figure is declared in `sources/*.toml` before the model runs, and computed from the
//! parameters that it depends on, so that a figure that decided a parameter is no prediction.

mod curve;
mod fit;
mod metric;
mod page;
mod predictions;
mod report;
mod roles;
mod scenario;
mod shape;
mod summary;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use peerlane_fabric::Fabric;

use crate::parameters::{ParameterError, Parameters, Provenance, Values, View};

pub use curve::{CurveReport, Held};
pub use page::page;
pub use predictions::Prediction;
pub use report::{Baseline, Report, Row, SCHEMA, SourceReport};
pub use shape::Role;

use shape::{FigureShape, SharedShape, SourceShape};

/// A mistake in a file, not a wrong prediction.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A file or scenario that cannot be used.
    #[error("cannot use {name}")]
    Unusable {
        /// Its name.
        name: String,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A parameter that cannot be used.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A name of nothing.
    #[error("no {kind} is called `{name}`")]
    Unknown {
        /// Kind of the thing.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A part of a file without meaning.
    #[error("`{name}`: {problem}")]
    Invalid {
        /// The part.
        name: String,
        /// The mistake in it.
        problem: &'static str,
    },
}

impl StudyError {
    fn unusable(name: &str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unusable { name: name.to_owned(), source: Box::new(source) }
    }

    fn unknown(kind: &'static str, name: &str) -> Self {
        Self::Unknown { kind, name: name.to_owned() }
    }

    fn invalid(name: &str, problem: &'static str) -> Self {
        Self::Invalid { name: name.to_owned(), problem }
    }
}

/// Texts of the repository, built in: name and content.
const SOURCES: &[(&str, &str)] = &[
    ("000", include_str!("../../../../sources/000.toml")),
    ("001", include_str!("../../../../sources/001.toml")),
    ("002", include_str!("../../../../sources/002.toml")),
    ("003", include_str!("../../../../sources/003.toml")),
    ("004", include_str!("../../../../sources/004.toml")),
    ("donard-log", include_str!("../../../../sources/donard-log.toml")),
    ("fabrics", include_str!("../../../../sources/holdout-fabrics.toml")),
    ("aisio", include_str!("../../../../sources/holdout-aisio.toml")),
];
const PARAMETERS: &str = include_str!("../../../../sources/parameters.toml");
const CURVES: &str = include_str!("../../../../sources/holdout-curves.toml");
const PREDICTIONS: &str = include_str!("../../../../sources/predictions.toml");
const MACHINES: &[(&str, &str)] = &[
    ("r7515-10-smartssd", include_str!("../../../../machines/r7515-10-smartssd.toml")),
    ("direct-connect", include_str!("../../../../machines/direct-connect.toml")),
    ("noload-4", include_str!("../../../../machines/noload-4.toml")),
    ("optiplex-smartssd", include_str!("../../../../machines/optiplex-smartssd.toml")),
    ("donard", include_str!("../../../../machines/donard.toml")),
    ("broadwell-3-p4600", include_str!("../../../../machines/broadwell-3-p4600.toml")),
    ("gen5-pair", include_str!("../../../../machines/gen5-pair.toml")),
    ("nfp-e5", include_str!("../../../../machines/nfp-e5.toml")),
    ("victim", include_str!("../../../../machines/victim.toml")),
    ("donard-gen5", include_str!("../../../../machines/donard-gen5.toml")),
];

/// Figures, parameters and machines, read and checked.
#[derive(Debug)]
pub struct Study {
    machines: BTreeMap<String, Fabric>,
    sources: Vec<SourceShape>,
    /// Position of its source, and the figure, in the order of the files.
    figures: Vec<(usize, FigureShape)>,
    /// Positions of figures by `source/id`.
    positions: BTreeMap<String, usize>,
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
        let machines = machines.iter().map(|&(name, text)| {
            let machine = Fabric::from_toml(text);
            Ok((name.to_owned(), machine.map_err(|error| StudyError::unusable(name, error))?))
        });
        let sources = sources.iter().map(|(name, text)| parse(name, text));
        let mut study = Self {
            machines: machines.collect::<Result<_, StudyError>>()?,
            sources: sources.collect::<Result<_, _>>()?,
            figures: Vec::new(),
            positions: BTreeMap::new(),
            uses: Vec::new(),
            parameters: Parameters::default(),
            curves: parse("curves", curves)?,
            predictions: parse("predictions", predictions)?,
        };
        study.add_figures()?;
        study.add_parameters(parse("parameters", parameters)?)?;
        study.add_uses()?;
        Ok(study)
    }

    fn add_figures(&mut self) -> Result<(), StudyError> {
        for (index, source) in self.sources.iter().enumerate() {
            for figure in &source.figure {
                let name = format!("{}/{}", source.source, figure.id);
                if let Some(problem) = figure.problem() {
                    return Err(StudyError::invalid(&name, problem));
                }
                if self.positions.insert(name.clone(), self.figures.len()).is_some() {
                    return Err(StudyError::invalid(&name, "two figures have this name"));
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
                return Err(StudyError::unknown("figure", row));
            }
            if parameter.from == Provenance::Fitted && parameter.rows.len() != 1 {
                return Err(StudyError::invalid(&name, "a parameter is fitted on one row"));
            }
            self.parameters.add(parameter)?;
        }
        Ok(())
    }

    /// Evaluates every figure once, so that a wrong name shows before anything is printed.
    fn add_uses(&mut self) -> Result<(), StudyError> {
        let numbers = self.parameters.values();
        for index in 0..self.figures.len() {
            let values = Values::new(&self.parameters, &numbers, View::Model);
            self.answer(index, &values)?;
            let used = values.used();
            self.uses.push(used);
        }
        Ok(())
    }

    /// The names of the documents and of the sets held out.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.source.as_str())
    }

    /// Position of a figure by `source/id`.
    fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    fn name(&self, index: usize) -> String {
        let (source, figure) = &self.figures[index];
        format!("{}/{}", self.sources[*source].source, figure.id)
    }
}

impl FigureShape {
    fn problem(&self) -> Option<&'static str> {
        let (is_number, is_word) = (self.stated.is_some(), self.stated_text.is_some());
        let problems = [
            (is_number == is_word, "state either a number or a word"),
            (
                is_number && (self.unit.is_none() || self.precision.is_none()),
                "a number has a unit and a printed precision",
            ),
            (is_word != self.means.is_some(), "`means` explains a word, and every word"),
            (
                self.bound.is_some() != (self.role == Role::Bound),
                "a bound has a side, and nothing else does",
            ),
            (self.metric.is_none() && self.role != Role::Excluded, "give a metric"),
            (self.reason.trim().is_empty(), "give a reason for its role"),
        ];
        problems.into_iter().find(|(is_problem, _)| *is_problem).map(|(_, problem)| problem)
    }
}

fn parse<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, StudyError> {
    toml::from_str(text).map_err(|error| StudyError::unusable(file, error))
}

#[cfg(test)]
mod tests;
