//! A scenario, evaluated in closed form.
//!
//! Leaves out time within a run: a scenario has one state. The one thing to know: a rate is the lowest of
//! what each flow can do for itself, put together as its path says, and of what flows share.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_results::Path;

use super::StudyError;
use super::route::Router;
use super::shape::{DeviceShape, FlowShape, ScenarioShape, SourceShape, StageShape};
use crate::devices::host::{self, Traffic};
use crate::devices::path;
use crate::devices::share::{Demand, fill};
use crate::parameters::{Values, View};

/// Scenarios of stages within each other; documents have two.
const DEEPEST: usize = 4;

/// A scenario on its machine.
pub(super) struct Place<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) source: &'a SourceShape,
    pub(super) scenario: &'a ScenarioShape,
}

impl Place<'_> {
    /// What a function is: the scenario's own word before the file's.
    pub(super) fn device(&self, name: &str) -> Option<&DeviceShape> {
        let all = self.scenario.device.iter().chain(&self.source.device);
        all.into_iter().find(|device| name.starts_with(&device.functions))
    }

    /// Whether a transfer between two functions passes the root complex; host memory is no peer.
    pub(super) fn crosses_root(&self, from: Option<FunctionId>, to: Option<FunctionId>) -> bool {
        let (Some(from), Some(to)) = (from, to) else { return false };
        let top = |id| self.fabric.upward(id).last();
        top(from) != top(to)
    }
}

/// What a scenario does.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Bytes a second of all flows.
    pub(super) rate: f64,
    /// Seconds for a block of the first flow.
    pub(super) block_time: f64,
    /// What holds the first flow.
    pub(super) limited_by: String,
    /// Host-memory bytes for each byte.
    pub(super) traffic: Traffic,
}

/// Evaluates scenarios of one file.
pub(super) struct Evaluator<'a> {
    pub(super) machines: &'a BTreeMap<String, Fabric>,
    pub(super) source: &'a SourceShape,
    pub(super) values: &'a Values<'a>,
}

impl Evaluator<'_> {
    pub(super) fn outcome(&self, name: &str) -> Result<Outcome, StudyError> {
        self.changed(name, |_| {})
    }

    /// The outcome with every flow changed by `change`.
    pub(super) fn changed(
        &self,
        name: &str,
        change: impl Fn(&mut FlowShape),
    ) -> Result<Outcome, StudyError> {
        let scenario = self.find(name)?;
        if !scenario.stages.is_empty() {
            return self.stages(name, scenario, 0);
        }
        let mut flows = scenario.flows.clone();
        flows.iter_mut().for_each(change);
        self.flows(scenario, &flows)
    }

    fn find(&self, name: &str) -> Result<&ScenarioShape, StudyError> {
        let missing = || StudyError::NoSuchScenario {
            source_name: self.source.source.clone(),
            name: name.to_owned(),
        };
        self.source.scenario.get(name).ok_or_else(missing)
    }

    pub(super) fn flows(
        &self,
        scenario: &ScenarioShape,
        flows: &[FlowShape],
    ) -> Result<Outcome, StudyError> {
        let machine = scenario.machine.as_ref().unwrap_or(&self.source.machine);
        let fabric =
            self.machines.get(machine).ok_or_else(|| StudyError::NoSuchMachine(machine.clone()))?;
        let place = Place { fabric, source: self.source, scenario };
        let mut router = Router::new(&place, self.values)?;
        let mut starts = 0.0;
        for name in &scenario.starts {
            starts += self.values.loss(name, 0.0)?;
        }
        let kept = scenario.share.as_ref().map_or(Ok(1.0), |name| self.values.loss(name, 1.0))?;
        let mut demands = Vec::new();
        let mut limits = Vec::new();
        for flow in flows {
            let legs = router.legs(flow)?;
            let alone: Vec<_> = legs.iter().map(|leg| router.alone(leg)).collect();
            let (most, limit) = self.alone(flow, &alone, starts);
            let takes = legs.into_iter().flat_map(|leg| leg.takes).collect();
            demands.push(Demand { most: most * kept, takes });
            limits.push(limit);
        }
        router.share_media(&mut demands)?;
        let capacities: Vec<f64> = router.resources.iter().map(|r| r.capacity).collect();
        let shares = fill(&capacities, &demands);
        let kind = |position: usize| router.resources[position].kind.to_owned();
        let (first, flow) = (shares.first(), flows.first());
        let (Some(first), Some(flow)) = (first, flow) else {
            return Err(StudyError::Empty);
        };
        let stopped = first.stopped_by.or(limits[0]);
        #[expect(clippy::cast_precision_loss, reason = "a block size")]
        let block = flow.block.0 as f64;
        Ok(Outcome {
            rate: shares.iter().map(|share| share.rate).sum(),
            block_time: block * f64::from(flow.depth) / first.rate,
            limited_by: stopped.map_or_else(|| "fixed cost".to_owned(), kind),
            traffic: traffic(flow),
        })
    }

    /// What a flow does with the machine to itself, and the resource that decides it.
    fn alone(
        &self,
        flow: &FlowShape,
        legs: &[(path::Leg, Option<usize>)],
        starts: f64,
    ) -> (f64, Option<usize>) {
        #[expect(clippy::cast_precision_loss, reason = "a block size")]
        let size = flow.block.0 as f64;
        let depth = f64::from(flow.depth);
        let mut lines: Vec<path::Leg> = legs.iter().map(|&(leg, _)| leg).collect();
        if let Some(first) = lines.first_mut() {
            first.start += starts;
        }
        let slowest = legs
            .iter()
            .min_by(|a, b| a.0.rate.total_cmp(&b.0.rate))
            .copied()
            .unwrap_or((path::Leg { start: 0.0, rate: f64::INFINITY }, None));
        let in_series =
            matches!(flow.path, Path::HostSerial | Path::HostPageCache | Path::HostMapped);
        let rate = if in_series && self.values.view() == View::Model {
            path::serial(&lines, size)
        } else {
            // With blocks in flight, fixed times overlap until a rate is reached.
            let latency = lines.iter().map(|leg| leg.time(size)).fold(0.0, f64::max);
            (depth * size / latency).min(slowest.0.rate)
        };
        let fixed: f64 = lines.iter().map(|leg| leg.start).sum();
        let moving: f64 = lines.iter().map(|leg| size / leg.rate).sum();
        let by_fixed = fixed > moving && rate < slowest.0.rate;
        (rate, if by_fixed { None } else { slowest.1 })
    }

    /// Stages of a scenario, some of which may be scenarios of stages: `depth` of them lead here.
    fn stages(
        &self,
        name: &str,
        scenario: &ScenarioShape,
        depth: usize,
    ) -> Result<Outcome, StudyError> {
        if depth > DEEPEST {
            return Err(StudyError::Circle(name.to_owned()));
        }
        let mut rates = Vec::new();
        for stage in &scenario.stages {
            rates.push(self.stage(stage, depth)?);
        }
        let exponent = scenario
            .exponent
            .as_ref()
            .map_or(Ok(f64::INFINITY), |name| self.values.loss(name, f64::INFINITY))?;
        let rate = path::soft_minimum(&rates, exponent);
        let lowest = scenario.stages.iter().zip(&rates).min_by(|a, b| a.1.total_cmp(b.1));
        Ok(Outcome {
            rate,
            block_time: 1.0 / rate,
            limited_by: lowest.map(|(stage, _)| stage.name.clone()).unwrap_or_default(),
            traffic: host::traffic(Path::HostMapped),
        })
    }

    fn stage(&self, stage: &StageShape, depth: usize) -> Result<f64, StudyError> {
        match (&stage.rate, &stage.scenario) {
            (Some(name), None) => Ok(self.values.ceiling(name)?),
            (None, Some(name)) => {
                let inner = self.find(name)?;
                if inner.stages.is_empty() {
                    return Ok(self.outcome(name)?.rate);
                }
                Ok(self.stages(name, inner, depth + 1)?.rate)
            }
            _ => Err(StudyError::Stage(stage.name.clone())),
        }
    }

    /// Seconds of the parts of a run, one after the other.
    pub(super) fn run(&self, name: &str) -> Result<f64, StudyError> {
        let mut total = 0.0;
        for part in &self.find(name)?.run {
            let once = match (&part.scenario, &part.seconds) {
                (Some(scenario), None) => self.outcome(scenario)?.block_time,
                (None, Some(seconds)) => self.values.get(seconds)?,
                _ => return Err(StudyError::Stage(name.to_owned())),
            };
            total += once * f64::from(part.times);
        }
        Ok(total)
    }
}

/// A peer-to-peer flow with the host at an end touches host memory once.
fn traffic(flow: &FlowShape) -> Traffic {
    let ends_at_host = flow.source == "host" || flow.target == "host";
    match flow.path {
        Path::P2p if ends_at_host => Traffic { least: 0.0, most: 1.0 },
        path => host::traffic(path),
    }
}
