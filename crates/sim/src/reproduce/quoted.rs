//! The figures that the text of the page of predictions quotes, in braces: none of them stands in it as a number that a
//! change of the model would leave behind.
//!
//! Leaves out what documents state and what was said before, which no model changes. The one thing to know: what is
//! quoted is `rate of` or `most of` a prediction, `sim` of a machine, or a parameter `in` a unit.

use peerlane_fabric::Fabric;
use peerlane_results::{CaseSpec, Flow, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind};
use peerlane_units::Bytes;
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use super::predict::{Prediction, chain};
use super::{Study, StudyError};
use crate::parameters::{Parameters, Unit};
use crate::predict::{self, Engine};

/// Where quoted figures come from.
pub(super) struct Quoted<'a> {
    study: &'a Study,
    /// The parameters of the documents with their fits, and those of `sim`.
    numbers: Vec<f64>,
    usual: Parameters,
    found: &'a [Prediction],
}

impl<'a> Quoted<'a> {
    pub(super) fn of(study: &'a Study, found: &'a [Prediction]) -> Result<Self, StudyError> {
        let usual = predict::parameters(None).map_err(|error| engine(&error))?;
        Ok(Self { study, numbers: study.fitted()?, usual, found })
    }

    /// A text with every figure that it quotes.
    pub(super) fn fill(&self, text: &str) -> Result<String, StudyError> {
        let mut pieces = text.split('{');
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (quoted, rest) =
                piece.split_once('}').ok_or_else(|| StudyError::Quoted(piece.to_owned()))?;
            filled += &self.figure(quoted)?;
            filled += rest;
        }
        Ok(filled)
    }

    fn figure(&self, quoted: &str) -> Result<String, StudyError> {
        let unknown = || StudyError::Quoted(quoted.to_owned());
        if let Some(machine) = quoted.strip_prefix("sim ") {
            return self.by_sim(machine);
        }
        if let Some((name, unit)) = quoted.split_once(" in ") {
            let unit: StrDeserializer<'_, Error> = unit.into_deserializer();
            let unit = Unit::deserialize(unit).map_err(|_| unknown())?;
            let number = self.parameter(name).ok_or_else(unknown)?;
            return Ok(in_unit(number, unit));
        }
        let (what, name) = quoted.split_once(" of ").ok_or_else(unknown)?;
        let found = self.found.iter().find(|found| found.prediction == name);
        let found = found.ok_or_else(unknown)?;
        let rate = match what {
            "rate" => found.rate,
            "most" => found.each.1,
            _ => return Err(unknown()),
        };
        Ok(in_unit(rate, Unit::GigabytePerSecond))
    }

    fn parameter(&self, name: &str) -> Option<f64> {
        let own = self.study.parameters.position(name).ok();
        own.map(|at| self.numbers[at]).or_else(|| {
            let usual = self.usual.position(name).ok()?;
            Some(self.usual.at(usual)?.value)
        })
    }

    /// What `sim` says, told nothing, of a case of the page on one of its machines.
    fn by_sim(&self, machine: &str) -> Result<String, StudyError> {
        let fabric = self.study.machines.get(machine);
        let fabric = fabric.ok_or_else(|| StudyError::NoSuchMachine(machine.to_owned()))?;
        let mib = |depth, flow| Flow { block: Bytes::mib(1), depth, ..flow };
        let (flows, unit) = match machine {
            "direct-connect" => {
                let copy = mib(16, Flow::new("drive0", "drive1", Path::HostPipelined));
                (vec![copy], Unit::MegabytePerSecond)
            }
            _ => {
                let read = |at| mib(32, Flow::new(format!("drive{at}"), "gpu", Path::P2p));
                ((0..4).map(read).collect(), Unit::GigabytePerSecond)
            }
        };
        Ok(in_unit(rate(fabric, &self.usual, flows)?, unit))
    }
}

/// A workload of flows at the same time.
pub(super) fn together(flows: Vec<Flow>) -> Workload {
    Workload {
        schema: WORKLOAD_SCHEMA.to_owned(),
        name: "quoted".to_owned(),
        kind: WorkloadKind::Crowd,
        cases: vec![CaseSpec { name: "one".to_owned(), flows, time_ns: None }],
        repeats: Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None },
        seed: 0,
    }
}

/// Bytes a second of flows at the same time, by `sim`.
fn rate(fabric: &Fabric, parameters: &Parameters, flows: Vec<Flow>) -> Result<f64, StudyError> {
    let workload = together(flows);
    let one = |_| (workload.clone(), parameters.values());
    let rates = predict::variants(fabric, parameters, 1, one, Engine::Flow);
    let rates = rates.map_err(|error| engine(&error))?;
    rates.into_iter().flatten().next().ok_or(StudyError::Empty)
}

fn engine(error: &dyn std::error::Error) -> StudyError {
    StudyError::Engine(chain(error))
}

/// A number with as many digits as people compare of its unit.
fn in_unit(number: f64, unit: Unit) -> String {
    let digits = match unit {
        Unit::GigabytePerSecond => 2,
        Unit::MebibytePerSecond => 1,
        _ => 0,
    };
    let number = format!("{:.digits$}", number / unit.scale());
    let number = match number.split_once('.') {
        Some(_) => number.trim_end_matches('0').trim_end_matches('.'),
        None => &number,
    };
    format!("{number} {}", unit.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_computes_is_refused() {
        let study = Study::built_in().expect("a study");
        let quoted = Quoted::of(&study, &[]).expect("parameters");
        assert_eq!(quoted.fill("a {gen5.write in GB/s} b").expect("it"), "a 7 GB/s b");
        for wrong in
            ["{gen5.writes in GB/s}", "{gen5.write in furlongs}", "{rate of x}", "{x", "{}"]
        {
            assert!(quoted.fill(wrong).is_err(), "{wrong}");
        }
    }
}
