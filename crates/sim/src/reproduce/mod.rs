//! The five documents, reproduced: every figure that they state beside what the model says, with its role.
//!
//! Leaves out the figures of pictures, which the texts do not hold. The one thing to know: the role of a
//! figure is decided in `sources/*.toml` before the model runs, and what it is shown as is computed from
//! what its parameters depend on, so that a figure that decided a parameter cannot pass for a prediction.

mod curve;
mod depends;
mod fit;
mod metric;
mod numbers;
mod page;
mod predict;
mod quoted;
mod report;
mod route;
mod scenario;
mod shape;

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, MachineFileError};

use crate::parameters::{ParameterError, Parameters};

pub use curve::{CurveReport, Held};
pub use page::page;
pub use predict::Prediction;
pub use report::{Baseline, FitReport, Report, Row, SCHEMA, SourceReport};
pub use shape::Role;

use predict::PredictionsShape;
use shape::{CurveShape, CurvesShape, FigureShape, ParametersShape, SourceShape};

/// Why the documents cannot be reproduced: a mistake in a file, not a wrong prediction.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A file is not TOML of its shape.
    #[error("cannot understand {file}: {}", .message.trim_end())]
    Syntax {
        /// The file.
        file: String,
        /// What the parser says.
        message: String,
    },
    /// A machine file is no machine.
    #[error("cannot use machine {name}")]
    Machine {
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: MachineFileError,
    },
    /// A parameter cannot be used.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Two figures have one name, or two files one source.
    #[error("`{0}` is said twice")]
    SaidTwice(String),
    /// Nothing has this name.
    #[error("no machine is called `{0}`")]
    NoSuchMachine(String),
    /// Nothing has this name.
    #[error("no scenario of {source_name} is called `{name}`")]
    NoSuchScenario {
        /// The file's source.
        source_name: String,
        /// The name.
        name: String,
    },
    /// Nothing has this name.
    #[error("machine {machine} has no function `{name}`")]
    NoSuchFunction {
        /// The machine.
        machine: String,
        /// The name.
        name: String,
    },
    /// Nothing has this name.
    #[error("no figure is called `{0}`")]
    NoSuchFigure(String),
    /// No document has this name.
    #[error("no source is called `{asked}`; there are {known}")]
    NoSuchSource {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// A text that is no link speed.
    #[error("`{0}` is not a link speed such as `16GT/s x4`")]
    Link(String),
    /// A pattern of more ends than anything has.
    #[error("{0} ends: at most {1} are looked at pair by pair")]
    TooMany(u32, u32),
    /// Scenarios whose stages lead back to themselves.
    #[error("the stages of scenario `{0}` go through more scenarios than there are")]
    Circle(String),
    /// A scenario without a flow.
    #[error("a scenario needs a flow, a stage or a part")]
    Empty,
    /// A stage or part that says both or neither.
    #[error("`{0}`: say either a rate or a scenario, either a scenario or a time")]
    Stage(String),
    /// A figure that says neither a number nor a word, or both.
    #[error("figure `{name}`: {problem}")]
    Figure {
        /// The figure.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A text that quotes what nothing computes.
    #[error("`{0}` is no figure that can be quoted")]
    Quoted(String),
    /// The flow engine cannot carry out a prediction.
    #[error("cannot predict: {0}")]
    Engine(String),
    /// A fit that has no start.
    #[error("cannot fit {0}: the model gives no number to begin with")]
    Fit(String),
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
    parameters: Parameters,
    curves: Vec<CurveShape>,
    predictions: PredictionsShape,
}

impl Study {
    /// What is built into the program.
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
        let mut fabrics = BTreeMap::new();
        for &(name, text) in machines {
            let fabric = Fabric::from_toml(text)
                .map_err(|source| StudyError::Machine { name: name.to_owned(), source })?;
            fabrics.insert(name.to_owned(), fabric);
        }
        let shared: ParametersShape = parse("parameters.toml", parameters)?;
        let curves: CurvesShape = parse("holdout-curves.toml", curves)?;
        let mut read: Vec<SourceShape> = Vec::new();
        for &(name, text) in sources {
            let source: SourceShape = parse(name, text)?;
            if read.iter().any(|other| other.source == source.source) {
                return Err(StudyError::SaidTwice(source.source));
            }
            read.push(source);
        }
        let mut study = Self {
            machines: fabrics,
            figures: figures(&read)?,
            sources: read,
            parameters: Parameters::default(),
            curves: curves.curve,
            predictions: parse("predictions.toml", predictions)?,
        };
        study.collect(shared)?;
        study.check()?;
        Ok(study)
    }

    fn collect(&mut self, shared: ParametersShape) -> Result<(), StudyError> {
        let mut all: Vec<_> = shared.parameter.into_iter().collect();
        all.extend(self.sources.iter().flat_map(|source| source.parameter.clone()));
        all.extend(self.predictions.parameter.clone());
        for (name, shape) in all {
            let stated = |row: &str| self.stated_range(row);
            let parameter = shape.parameter(&name, stated)?;
            self.parameters.add(parameter)?;
        }
        Ok(())
    }

    /// Every figure once, so that a wrong name shows before anything is printed.
    fn check(&self) -> Result<(), StudyError> {
        for parameter in self.parameters.iter() {
            for row in &parameter.rows {
                if self.position(row).is_none() {
                    return Err(StudyError::NoSuchFigure(row.clone()));
                }
            }
        }
        let numbers = self.parameters.values();
        for index in 0..self.figures.len() {
            self.answer(index, &numbers, crate::parameters::View::Model)?;
        }
        Ok(())
    }

    /// The names of the documents and of the sets held out.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.source.as_str())
    }

    /// All parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Position of a figure by `source/id`.
    fn position(&self, name: &str) -> Option<usize> {
        (0..self.figures.len()).find(|&index| self.name(index) == name)
    }

    fn name(&self, index: usize) -> String {
        let (source, figure) = &self.figures[index];
        format!("{}/{}", self.sources[*source].source, figure.id)
    }

    /// Lowest, stated and highest value of a figure in base units, by what is printed of it.
    fn stated_range(&self, name: &str) -> Option<(f64, f64, f64)> {
        self.stated_range_at(self.position(name)?)
    }

    fn stated_range_at(&self, index: usize) -> Option<(f64, f64, f64)> {
        let (_, figure) = &self.figures[index];
        let scale = figure.unit?.scale();
        let stated = figure.stated?;
        let give = figure.noise();
        Some(((stated - give) * scale, stated * scale, (stated + give) * scale))
    }
}

impl FigureShape {
    /// By how much the stated number may be off, in its own unit: its last digit, or the spread of repeats.
    fn noise(&self) -> f64 {
        let spread = self.spread.unwrap_or(0.0) * self.stated.unwrap_or(0.0).abs();
        self.precision.unwrap_or(0.0).max(spread)
    }

    fn problem(&self) -> Option<&'static str> {
        let is_number = self.stated.is_some();
        let is_word = self.stated_text.is_some();
        if is_number == is_word {
            return Some("state either a number or a word");
        }
        if is_number && (self.unit.is_none() || self.precision.is_none()) {
            return Some("a number has a unit and a printed precision");
        }
        if is_word != self.means.is_some() {
            return Some("say what the word means to the model, and of a word only");
        }
        if self.bound.is_some() != (self.role == Role::Bound) {
            return Some("a bound says on which side it is, and nothing else does");
        }
        if self.metric.is_none() && self.role != Role::Excluded {
            return Some("say what is compared");
        }
        let has_reason = !self.reason.trim().is_empty();
        (!has_reason).then_some("say the reason of its role")
    }
}

fn figures(sources: &[SourceShape]) -> Result<Vec<(usize, FigureShape)>, StudyError> {
    let mut found: Vec<(usize, FigureShape)> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        for figure in &source.figure {
            let name = format!("{}/{}", source.source, figure.id);
            if let Some(problem) = figure.problem() {
                return Err(StudyError::Figure { name, problem });
            }
            if found.iter().any(|(other, shape)| *other == index && shape.id == figure.id) {
                return Err(StudyError::SaidTwice(name));
            }
            found.push((index, figure.clone()));
        }
    }
    Ok(found)
}

fn parse<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, StudyError> {
    let fail = |error: toml::de::Error| StudyError::Syntax {
        file: file.to_owned(),
        message: error.to_string(),
    };
    toml::from_str(text).map_err(fail)
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;
