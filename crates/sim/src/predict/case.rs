//! One case on the model: rates, times, limits, and what they cost.

use std::collections::BTreeMap;

use peerlane_fabric::Fabric;
use peerlane_results::CaseSpec;
use peerlane_units::Bytes;

use super::flows::{Planned, WriteCache, plan};
use super::more::More;
use super::own::Own;
use super::setting::Setting;
use super::{Engine, PredictError, names};
use crate::closed::{By, Closed};
use crate::devices::drive::{write_time, written_in};
use crate::flow::build::{Built, What};
use crate::flow::rates::build;
use crate::flow::run::{Pace, Phase, Run, RunSettings, Transfer, run};
use crate::flow::solve::Settings;
use crate::media::Mixed;
use crate::model::{NodeIndex, NodeKind, Picos, Topology};
use crate::way::{as_f64, picos};

/// Ends that lie no further apart lead to one solution: a microsecond.
pub(super) const QUANTUM: f64 = 1_000.0;
/// When rates count as settled, and how long they have for it.
pub(super) const SETTLING: Settings = Settings { tolerance: 1e-3, rounds: 400 };

/// How flows are run whose rates are told.
pub(super) const CAREFUL: RunSettings<'_> =
    RunSettings { solve: SETTLING, quantum: QUANTUM, together: 0.0, ended: None };

/// A case with its machine, ready for an engine.
pub(super) struct Model {
    pub(super) topology: Topology,
    pub(super) flows: Vec<Planned>,
    pub(super) built: Built,
    /// What bounds the media of drives that several flows use.
    pub(super) mixed: Mixed,
    /// How long each flow goes on, in nanoseconds, where that ends it.
    pub(super) time: Option<f64>,
    /// How many times as many blocks are in flight as was asked for, of which a plan has a whole number.
    pub(super) deeper: f64,
}

/// What an engine found: for each flow payload, start, end, rate while it ran, and what limited it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) flows: Vec<FoundFlow>,
    /// Distinct sets of active flows of all parts of the machine, longest first.
    pub(super) sets: Vec<Set>,
    /// How many such sets there were, those that are not kept, too.
    pub(super) sets_in_all: usize,
    /// Relative change of rates that was still to come, on average over time.
    pub(super) unsettled: f64,
}

/// Flows that were active together.
#[derive(Debug, Clone)]
pub(super) struct Set {
    /// Positions of the flows, and the payload that each moved meanwhile.
    pub(super) members: Vec<(usize, f64)>,
    /// For how long, in nanoseconds.
    pub(super) time: f64,
    /// Since when, where it was active more than once the first time; in nanoseconds.
    pub(super) first: f64,
}

#[derive(Debug, Clone)]
pub(super) struct FoundFlow {
    pub(super) bytes: f64,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) limited_by: More,
    /// At which rates it moved how much.
    pub(super) paces: Vec<Pace>,
    /// Blocks in flight from which on more bring nothing, where that was computed.
    pub(super) knee: Option<f64>,
}

impl Found {
    /// Payload of all flows over the time from the first start to the last end, a nanosecond.
    pub(super) fn rate(&self) -> f64 {
        self.flows.iter().map(|flow| flow.bytes).sum::<f64>() / self.elapsed().max(1.0)
    }

    pub(super) fn elapsed(&self) -> f64 {
        let first = self.flows.iter().map(|flow| flow.start).fold(f64::INFINITY, f64::min);
        self.flows.iter().map(|flow| flow.end).fold(0.0, f64::max) - first
    }
}

impl Model {
    pub(super) fn new(
        fabric: &Fabric,
        topology: &Topology,
        setting: &Setting<'_>,
        case: &CaseSpec,
    ) -> Result<Self, PredictError> {
        let wrong = |source| PredictError::Flow { case: case.name.clone(), source };
        let mut topology = topology.clone();
        super::processor::add_for(case, &mut topology);
        let flows = plan(fabric, &topology, setting, case).map_err(wrong)?;
        #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
        let nanos = |nanos: u64| nanos as f64;
        let time = case.time_ns.map(|time| nanos(time.0));
        beyond_caches(&mut topology, &flows, time);
        let mut model = Self::of_flows(topology, flows, time, case)?;
        for (flow, asked) in model.flows.iter_mut().zip(&case.flows) {
            flow.spec.start = Picos::nanos(asked.start_ns.0);
        }
        Ok(model)
    }

    /// The same of flows that are planned.
    pub(super) fn of_flows(
        topology: Topology,
        flows: Vec<Planned>,
        time: Option<f64>,
        case: &CaseSpec,
    ) -> Result<Self, PredictError> {
        let specs: Vec<_> = flows.iter().map(|flow| flow.spec.clone()).collect();
        let engine = |source| PredictError::Engine { case: case.name.clone(), source };
        let built = build(&topology, &specs).map_err(engine)?;
        let mixed = Mixed::from_flows(&topology, &specs);
        Ok(Self { topology, flows, built, mixed, time, deeper: 1.0 })
    }

    /// What an engine says.
    pub(super) fn find(
        &self,
        engine: Engine,
        case: &CaseSpec,
        settings: RunSettings<'_>,
    ) -> Result<Found, PredictError> {
        match engine {
            Engine::Closed => self.closed(case),
            Engine::Flow | Engine::Tlp | Engine::Auto => self.flow(case, settings),
        }
    }

    /// Whether flows run for a time, and not until their bytes are moved.
    pub(super) fn has_time(&self) -> bool {
        self.time.is_some()
    }

    /// Each flow as if it were alone.
    fn closed(&self, case: &CaseSpec) -> Result<Found, PredictError> {
        let mut flows = Vec::with_capacity(self.flows.len());
        for (index, flow) in self.flows.iter().enumerate() {
            let deeper = if flow.has_own_slots { 1.0 } else { self.deeper };
            let depth = f64::from(flow.spec.depth) * deeper;
            let closed = Closed::at_depth(&self.topology, &flow.spec, depth).map_err(|source| {
                let source =
                    crate::flow::rates::FlowError::Path { flow: flow.spec.name.clone(), source };
                PredictError::Engine { case: case.name.clone(), source }
            })?;
            let start = picos(flow.spec.start.0);
            let (bytes, end) = self.span(flow.bytes, start, closed.rate());
            let limit = match closed.bounds.first().map(|bound| bound.by) {
                Some(By::Resource(what)) => Some(what),
                _ => None,
            };
            let limited_by = self.limit(index, limit);
            let knee = Some(closed.knee).filter(|knee| knee.is_finite() && !flow.has_own_slots);
            flows.push(FoundFlow { bytes, start, end, limited_by, paces: Vec::new(), knee });
        }
        // Nothing is shared, so that no set of flows is one.
        Ok(Found { sets: Vec::new(), sets_in_all: 0, flows, unsettled: 0.0 })
    }

    /// Payload and end of a flow of constant rate.
    fn span(&self, bytes: f64, start: f64, rate: f64) -> (f64, f64) {
        match self.time {
            Some(time) => (time * rate, start + time),
            None => (bytes, start + bytes / rate),
        }
    }

    fn flow(&self, case: &CaseSpec, settings: RunSettings<'_>) -> Result<Found, PredictError> {
        let mut run = self.run(case, settings)?;
        let paces = std::mem::take(&mut run.paces);
        let outcomes = self.flows.iter().zip(&run.outcomes).zip(paces).enumerate();
        let flows = outcomes.map(|(index, ((flow, outcome), paces))| {
            let limit = outcome.limit.map(|at| self.built.what[at]);
            let (limited_by, start) = (self.limit(index, limit), picos(flow.spec.start.0));
            FoundFlow {
                bytes: outcome.bytes,
                start,
                end: outcome.end,
                limited_by,
                paces,
                knee: None,
            }
        });
        let (flows, sets) = (flows.collect(), sets(&run));
        Ok(Found { flows, sets, sets_in_all: run.sets, unsettled: run.unsettled })
    }

    /// Runs the flows as fluids.
    pub(super) fn run(
        &self,
        case: &CaseSpec,
        settings: RunSettings<'_>,
    ) -> Result<Run, PredictError> {
        let transfers: Vec<Transfer> = self
            .flows
            .iter()
            .enumerate()
            .map(|(class, flow)| Transfer {
                class,
                start: picos(flow.spec.start.0),
                bytes: if self.has_time() { f64::INFINITY } else { flow.bytes },
                time: self.time.unwrap_or(f64::INFINITY),
            })
            .collect();
        run(&self.built.network, &transfers, settings)
            .map_err(|error| PredictError::Engine { case: case.name.clone(), source: error.into() })
    }

    /// What limits a flow that waits for a resource, or for none.
    fn limit(&self, flow: usize, resource: Option<What>) -> More {
        match resource {
            Some(what) => self.cause(flow, what),
            None => More::Own(self.own_limit(&self.flows[flow])),
        }
    }

    /// A resource, or what a flow has of its own, as a person would name it.
    pub(super) fn name(&self, more: More) -> String {
        match more {
            More::Resource(what) => names::of(&self.topology, what),
            More::Own(own) => own.name(&self.topology),
        }
    }

    /// From the start of a flow to its first completion, in nanoseconds.
    pub(super) fn first_done(&self, flow: usize) -> f64 {
        crate::closed::latency(&self.topology, &self.flows[flow].spec).unwrap_or(0.0)
    }

    /// What limits a flow that no resource does.
    pub(super) fn own_limit(&self, flow: &Planned) -> Own {
        let least = flow.bounds.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let demand = crate::closed::demand(&self.topology, &flow.spec).unwrap_or(f64::INFINITY);
        match least {
            Some(&(own, rate)) if rate <= demand * 1.001 => own,
            _ if flow.cpu * demand >= 0.999 => Own::Processor,
            _ if flow.has_own_slots => Own::Stages,
            _ => Own::Depth,
        }
    }
}

/// Lowers what each drive writes to the mean over a case, where a case writes more than fits into its cache.
fn beyond_caches(topology: &mut Topology, flows: &[Planned], time: Option<f64>) {
    let mut written: BTreeMap<NodeIndex, (f64, WriteCache)> = BTreeMap::new();
    for (flow, (node, cache)) in flows.iter().filter_map(|flow| Some((flow, flow.cache?))) {
        written.entry(node).or_insert((0.0, cache)).0 += flow.bytes;
    }
    for (node, (bytes, cache)) in written {
        let NodeKind::Endpoint(endpoint) = &mut topology.node_mut(node).kind else { continue };
        let Some(fast) = endpoint.fetches else { continue };
        let rate = as_f64(Bytes(fast.0)).max(1.0);
        let slow = rate * cache.kept;
        let share = match time {
            None => bytes / (rate * write_time(bytes, cache.bytes, rate, slow)),
            Some(nanos) => written_in(nanos / 1e9, cache.bytes, rate, slow) / (rate * nanos / 1e9),
        };
        if share < 1.0 {
            endpoint.fetches = Some(names::per_second(rate * share / 1e9));
        }
    }
}

/// The sets of flows that were active together, of all parts of the machine, longest first.
fn sets(run: &Run) -> Vec<Set> {
    let set = |phase: &Phase| {
        let moved = phase.members.iter().map(|&(flow, rate)| (flow, rate * phase.time));
        Set { members: moved.collect(), time: phase.time, first: phase.first }
    };
    let mut sets: Vec<Set> = run.phases.iter().flatten().map(set).collect();
    sets.sort_by(|a, b| b.time.total_cmp(&a.time));
    sets
}
