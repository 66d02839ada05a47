//! Scenarios, evaluated by the flow engine; stages, shares and runs are arithmetic on its rates.
//!
//! Leaves out time within a run: a scenario has one state.

use std::collections::BTreeMap;

use peerlane_fabric::Fabric;
use peerlane_results::Path;
use peerlane_units::Bytes;

use super::StudyError;
use super::shape::{FlowShape, ScenarioShape, SourceShape, StageShape};
use super::topology::{HOST, LimitingResource, ScenarioBuilder};
use crate::devices::host::{Traffic, traffic};
use crate::devices::path::soft_minimum;
use crate::flow::{FlowRates, SolverSettings};
use crate::model::as_f64;
use crate::parameters::Values;

/// Flows of a scenario: all ordered pairs of a dozen devices, twice.
pub(super) const MOST_FLOWS: usize = 264;
/// Closer than the last digit of any figure.
const SETTINGS: SolverSettings = SolverSettings { tolerance: 1e-5, rounds: 2000 };

/// Evaluates scenarios of one source with one set of numbers.
pub(super) struct Evaluator<'a> {
    pub(super) machines: &'a BTreeMap<String, Fabric>,
    pub(super) source: &'a SourceShape,
    pub(super) values: &'a Values<'a>,
}

/// The result of a scenario.
#[derive(Debug, Clone)]
pub(super) struct ScenarioOutcome {
    /// Bytes a second of each flow; of a program, of all of it.
    pub(super) rates: Vec<f64>,
    /// Seconds for a block of the slowest flow.
    pub(super) block_time: f64,
    /// Limiting resource of the slowest flow, or slowest stage.
    pub(super) limit: LimitingResource,
    /// Host-memory bytes for each byte.
    pub(super) traffic: Traffic,
}

impl ScenarioOutcome {
    /// Bytes a second of all flows.
    pub(super) fn rate(&self) -> f64 {
        self.rates.iter().sum()
    }
}

impl<'a> Evaluator<'a> {
    pub(super) fn find(&self, name: &str) -> Result<&'a ScenarioShape, StudyError> {
        let found = self.source.scenario.get(name);
        found.ok_or_else(|| StudyError::new(name, "no such scenario"))
    }

    /// The outcome of a scenario, with other blocks where they are given.
    pub(super) fn outcome(
        &self,
        name: &str,
        block: Option<Bytes>,
    ) -> Result<ScenarioOutcome, StudyError> {
        let scenario = self.find(name)?;
        if !scenario.stages.is_empty() {
            return self.stages(name, scenario);
        }
        let mut flows = scenario.each();
        flows.iter_mut().for_each(|flow| flow.block = block.unwrap_or(flow.block));
        self.flows(name, scenario, &flows)
    }

    /// Flows at the same time.
    pub(super) fn flows(
        &self,
        name: &str,
        scenario: &'a ScenarioShape,
        flows: &[FlowShape],
    ) -> Result<ScenarioOutcome, StudyError> {
        let is_sound = |flow: &FlowShape| flow.block.0 > 0 && flow.depth > 0;
        if flows.is_empty() || flows.len() > MOST_FLOWS || !flows.iter().all(is_sound) {
            return Err(StudyError::new(name, "flows, blocks and depth are above zero, and few"));
        }
        let mut builder = ScenarioBuilder::new(self, scenario)?;
        let specs = flows.iter().map(|flow| builder.flow(flow)).collect::<Result<Vec<_>, _>>()?;
        let solved = FlowRates::new(&builder.topology, &specs, SETTINGS)
            .map_err(|source| StudyError::new(name, source))?;
        let kept = scenario.share.as_ref().map_or(Ok(1.0), |name| self.values.loss(name, 1.0))?;
        let rates: Vec<f64> = solved.rates.iter().map(|rate| rate * 1e9 * kept).collect();
        let slowest = (0..rates.len()).min_by(|&a, &b| rates[a].total_cmp(&rates[b])).unwrap_or(0);
        let (flow, spec) = (&flows[slowest], &specs[slowest]);
        let is_to_host = flow.path == Path::P2p && (flow.source == HOST || flow.target == HOST);
        Ok(ScenarioOutcome {
            block_time: as_f64(spec.request) * f64::from(spec.depth) / rates[slowest],
            rates,
            limit: LimitingResource::new(&builder.topology, solved.limit(slowest)),
            traffic: if is_to_host { traffic(Path::HostSerial, 1) } else { traffic(flow.path, 2) },
        })
    }

    /// Stages of a program, which overlap as its exponent says.
    fn stages(&self, name: &str, scenario: &ScenarioShape) -> Result<ScenarioOutcome, StudyError> {
        let rate = |stage: &StageShape| match (&stage.parameter, &stage.scenario) {
            (Some(rate), None) => Ok(self.values.ceiling(rate)?),
            (None, Some(inner)) if self.find(inner)?.stages.is_empty() => {
                Ok(self.outcome(inner, None)?.rate())
            }
            _ => Err(StudyError::new(name, "a stage is a rate, or a scenario without stages")),
        };
        let rates: Vec<f64> = scenario.stages.iter().map(rate).collect::<Result<_, _>>()?;
        let (full, exponent) = (f64::INFINITY, scenario.exponent.as_ref());
        let exponent = exponent.map_or(Ok(full), |name| self.values.loss(name, full))?;
        let rate = soft_minimum(&rates, exponent);
        let lowest = scenario.stages.iter().zip(&rates).min_by(|a, b| a.1.total_cmp(b.1));
        let lowest = lowest.map(|(stage, _)| stage.name.clone()).unwrap_or_default();
        Ok(ScenarioOutcome {
            rates: vec![rate],
            block_time: 1.0 / rate,
            limit: LimitingResource { kind: lowest.clone(), text: lowest },
            traffic: traffic(Path::HostMapped, 2),
        })
    }

    /// Seconds of the parts of a run, one after the other.
    pub(super) fn run(&self, name: &str) -> Result<f64, StudyError> {
        let mut total = 0.0;
        for part in &self.find(name)?.run {
            let once = match (&part.scenario, &part.parameter) {
                (Some(scenario), None) => self.outcome(scenario, None)?.block_time,
                (None, Some(seconds)) => self.values.get(seconds)?,
                _ => return Err(StudyError::new(name, "a part is a scenario or a time")),
            };
            total += once * f64::from(part.times);
        }
        Ok(total)
    }
}
