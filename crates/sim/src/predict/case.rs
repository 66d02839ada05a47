//! One case on the model: its network, and the rates and times that an engine finds.

use std::collections::BTreeMap;

use peerlane_fabric::Fabric;
use peerlane_results::CaseSpec;
use peerlane_units::Bytes;

use super::error::{CaseError, FlowError};
use super::flows::{Planned, plan};
use super::names::{Limiter, per_second};
use super::nanos;
use super::setting::ParameterSetting;
use crate::closed::{By, Closed};
use crate::devices::drive::{write_time, written_in};
use crate::flow::build::Built;
use crate::flow::network::FlowNetwork;
use crate::flow::run::{FlowTransfer, RunSettings, TransferSet, run};
use crate::flow::{RatesError, SolverSettings, build};
use crate::media::Mixed;
use crate::model::{FlowSpec, NodeIndex, NodeKind, Op, ResourceOrigin, Topology, as_f64, picos};

/// Tolerance of settled rates, and rounds until then.
const SETTLING: SolverSettings = SolverSettings { tolerance: 1e-3, rounds: 400 };

/// Bounds of a flow within this ratio are equal; depth comes last among them.
const SAME: f64 = 1.001;

/// Settings of the runs whose rates are reported.
pub(super) const CAREFUL: RunSettings<'_> =
    RunSettings { solve: SETTLING, together: 0.0, ended: None };

/// A case with its machine, ready for an engine.
pub(super) struct Model {
    pub(super) topology: Topology,
    pub(super) flows: Vec<Planned>,
    pub(super) built: Built,
    /// Drives whose media several flows use.
    mixed: Mixed,
    /// Duration of each flow in nanoseconds, where the case has one.
    time: Option<f64>,
}

/// Payload, start, end and limit of each flow, by an engine.
#[derive(Debug, Clone)]
pub(super) struct CaseRates {
    pub(super) flows: Vec<FoundFlow>,
    /// Distinct sets of active flows of all parts of the machine, longest first.
    pub(super) phases: Vec<TransferSet>,
    /// Number of such sets, with those that are not kept.
    pub(super) sets: usize,
    /// Relative change of rates that was still to come, on average over time.
    pub(super) unsettled: f64,
}

/// One flow of [`Found`].
#[derive(Debug, Clone)]
pub(super) struct FoundFlow {
    pub(super) bytes: f64,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) limited_by: Limiter,
    /// Blocks in flight that saturate, by the closed form.
    pub(super) knee: Option<f64>,
}

impl CaseRates {
    /// Payload of all flows over the time from the first start to the last end, a nanosecond.
    pub(super) fn rate(&self) -> f64 {
        self.flows.iter().map(|flow| flow.bytes).sum::<f64>() / self.elapsed().max(1.0)
    }

    pub(super) fn elapsed(&self) -> f64 {
        let first = self.flows.iter().map(|flow| flow.start).fold(f64::INFINITY, f64::min);
        self.flows.iter().map(|flow| flow.end).fold(0.0, f64::max) - first
    }

    /// True if the flow engine stopped before rates had settled.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled > SETTLING.tolerance
    }

    /// Gives flows the rates of packets: each is slower by the factor of its windows. A case with a time moves less, any
    /// other ends later.
    pub(super) fn slow(&mut self, slower: &BTreeMap<usize, f64>, has_time: bool) {
        self.unsettled = 0.0;
        for (&index, &slower) in slower {
            let flow = &mut self.flows[index];
            if has_time {
                flow.bytes /= slower;
            } else {
                flow.end = flow.start + (flow.end - flow.start) * slower;
            }
        }
    }
}

impl Model {
    /// The model of a case on a machine.
    ///
    /// # Errors
    /// When a flow cannot be planned, or has no path.
    pub(super) fn new(
        fabric: &Fabric,
        mut topology: Topology,
        setting: &ParameterSetting<'_>,
        case: &CaseSpec,
    ) -> Result<Self, CaseError> {
        super::processor::add_for(case, &mut topology);
        super::flows::add_stages(case, &mut topology);
        let mut flows = plan(fabric, &topology, setting, case)?;
        let time = case.time_ns.map(nanos);
        lower_to_sustained(&mut topology, &flows, setting, time)?;
        let specs: Vec<_> = flows.iter().map(|flow| flow.spec.clone()).collect();
        let built = build(&topology, &specs)?;
        let mixed = Mixed::from_flows(&topology, &specs);
        for flow in &mut flows {
            let depth = as_f64(flow.spec.request) * f64::from(flow.spec.depth);
            let latency = crate::closed::latency(&topology, &flow.spec).unwrap_or(0.0);
            let limiter = if flow.has_own_slots { Limiter::Stages } else { Limiter::Depth };
            flow.bounds.push((limiter, depth / latency.max(1e-3)));
        }
        Ok(Self { topology, flows, built, mixed, time })
    }

    /// True if a flow crosses a network between two machines.
    pub(super) fn has_network(&self) -> bool {
        self.flows.iter().any(|flow| flow.spec.beyond.is_some())
    }

    /// True if a unit works on blocks of a flow.
    pub(super) fn has_stage(&self) -> bool {
        self.flows.iter().any(|flow| flow.spec.stage.is_some())
    }

    /// True if transfers could use up the processors of a memory.
    pub(super) fn shares_processors(&self) -> bool {
        self.built.what.iter().any(|what| matches!(what, ResourceOrigin::Processors(_)))
    }

    /// True if flows run for a time, and not until their bytes are moved.
    pub(super) fn has_time(&self) -> bool {
        self.time.is_some()
    }

    /// Finds each flow as if it were alone.
    pub(super) fn closed(&self) -> Result<CaseRates, CaseError> {
        let mut flows = Vec::with_capacity(self.flows.len());
        for (index, flow) in self.flows.iter().enumerate() {
            let closed = Closed::for_flow(&self.topology, &flow.spec).map_err(|source| {
                let flow = flow.spec.name.clone();
                RatesError::Path { flow, source }
            })?;
            let start = picos(flow.spec.start.0);
            let rate = closed.rate();
            let (bytes, end) = match self.time {
                Some(time) => (time * rate, start + time),
                None => (flow.bytes(), start + flow.bytes() / rate),
            };
            let waits_for = match closed.bounds.first().map(|bound| bound.by) {
                Some(By::Resource(what)) => Some(what),
                _ => None,
            };
            let limited_by = self.limiter(index, waits_for);
            let knee = Some(closed.knee).filter(|knee| knee.is_finite() && !flow.has_own_slots);
            flows.push(FoundFlow { bytes, start, end, limited_by, knee });
        }
        // Flows share nothing here, so there are no sets.
        Ok(CaseRates { flows, phases: Vec::new(), sets: 0, unsettled: 0.0 })
    }

    /// Finds all flows by the flow engine.
    pub(super) fn flow(&self, settings: RunSettings<'_>) -> Result<CaseRates, CaseError> {
        self.flow_on(&self.built.network, settings)
    }

    /// Finds all flows by the flow engine on another network of the same shape.
    pub(super) fn flow_on(
        &self,
        network: &FlowNetwork,
        settings: RunSettings<'_>,
    ) -> Result<CaseRates, CaseError> {
        let transfer = |flow: &Planned| FlowTransfer {
            start: picos(flow.spec.start.0),
            bytes: if self.has_time() { f64::INFINITY } else { flow.bytes() },
            time: self.time.unwrap_or(f64::INFINITY),
        };
        let transfers: Vec<FlowTransfer> = self.flows.iter().map(transfer).collect();
        let run = run(network, &transfers, settings).map_err(RatesError::from)?;
        let flows = run.outcomes.into_iter().enumerate().map(|(index, outcome)| {
            let waits_for = outcome.limit.map(|at| self.built.what[at as usize]);
            FoundFlow {
                bytes: outcome.bytes,
                start: transfers[index].start,
                end: outcome.end,
                limited_by: self.limiter(index, waits_for),
                knee: None,
            }
        });
        let flows = flows.collect();
        let mut phases = run.phases;
        phases.sort_by(|a, b| b.time.total_cmp(&a.time));
        Ok(CaseRates { flows, phases, sets: run.sets, unsettled: run.unsettled })
    }

    /// The limiter of a flow that waits for a resource, or for none. A medium that a flow uses by slow commands is limited
    /// by those.
    pub(super) fn limiter(&self, flow: usize, waits_for: Option<ResourceOrigin>) -> Limiter {
        let flow = &self.flows[flow];
        let Some(what) = waits_for else {
            let least = flow.bounds.iter().map(|bound| bound.1).fold(f64::INFINITY, f64::min);
            let is_least = |bound: &&(Limiter, f64)| bound.1 <= least * SAME;
            return flow.bounds.iter().find(is_least).map_or(Limiter::Depth, |bound| bound.0);
        };
        let ResourceOrigin::Medium(drive, op) = what else { return Limiter::Resource(what) };
        let legs = flow.spec.parts().flat_map(FlowSpec::legs);
        let uses = legs.filter(|leg| leg.is_on_medium(drive, op));
        let uses = uses.filter(|leg| self.mixed.is_share(&self.topology, leg, op));
        let slowest = uses.min_by_key(|leg| leg.medium_rate(&self.topology));
        let is_slow = slowest.is_some_and(|leg| leg.is_by_commands(&self.topology));
        let own = flow.bounds.iter().map(|bound| bound.0);
        let commands = own.filter(|own| own.drive() == Some(drive)).find(|_| is_slow);
        commands.unwrap_or(Limiter::Resource(what))
    }

    pub(super) fn name(&self, limiter: Limiter) -> String {
        limiter.name(&self.topology)
    }

    /// Nanoseconds from the start of a flow to its first completion.
    pub(super) fn first_done(&self, flow: usize) -> f64 {
        crate::closed::latency(&self.topology, &self.flows[flow].spec).unwrap_or(0.0)
    }
}

/// Lowers the write rate of each drive to its mean over a case that writes more than its cache holds.
fn lower_to_sustained(
    topology: &mut Topology,
    flows: &[Planned],
    setting: &ParameterSetting<'_>,
    time: Option<f64>,
) -> Result<(), FlowError> {
    let mut written: BTreeMap<NodeIndex, f64> = BTreeMap::new();
    for flow in flows {
        // The memory of a drive takes no commands.
        let legs = flow.spec.parts().flat_map(FlowSpec::legs);
        let legs = legs.filter(|leg| leg.op == Op::Read && leg.commands.is_some());
        legs.for_each(|leg| *written.entry(leg.initiator).or_default() += flow.bytes());
    }
    for (node, bytes) in written {
        let drive = &topology.node(node).name;
        let cache = setting.of_drive(drive, "write.cache")?;
        let sustained = setting.of_drive(drive, "write.sustained")?;
        let NodeKind::Endpoint(endpoint) = &mut topology.node_mut(node).kind else { continue };
        let Some(fast) = endpoint.fetches else { continue };
        let rate = as_f64(Bytes(fast.0)).max(1.0);
        let slow = rate * sustained;
        let share = match time {
            None => bytes / (rate * write_time(bytes, cache, rate, slow)),
            Some(nanos) => written_in(nanos / 1e9, cache, rate, slow) / (rate * nanos / 1e9),
        };
        if share < 1.0 {
            endpoint.fetches = Some(per_second(rate * share / 1e9));
        }
    }
    Ok(())
}
