//! The closed form: what bounds one flow when it is alone, and by how much the next bound is further.
//!
//! Leaves out other flows: bounds of several hold for each, and their sum may be beyond a link, a memory, or the rate and
//! the commands of a drive that they share. The one thing to know: a bound is a limit that no engine may exceed; what
//! several flows do to each other only lowers it.

use crate::flow::build::{Built, What, per_nano};
use crate::model::{Arrival, FlowSpec, Leg, NodeKind, Op, PathError, Picos, Topology, Work};
use crate::way::{Way, as_f64, picos, rate_of, ways};
use crate::work::memory_time;

#[cfg(test)]
mod tests;

/// Something that no flow can be faster than.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// What it is.
    pub by: By,
    /// Payload a nanosecond.
    pub rate: f64,
}

/// What bounds a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// A resource of the machine, used up.
    Resource(What),
    /// Its depth: so many commands under way, each with its latency (Little's law).
    Depth,
    /// A bound of one of its legs, from 0.
    Leg(usize),
    /// What arrives, or may begin.
    Arrival,
    /// The processor that its thread runs on, where that copies.
    Thread,
}

/// What the closed form says of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Every bound, lowest first.
    pub bounds: Vec<Bound>,
    /// Time of one command on an idle machine, in nanoseconds.
    pub latency: f64,
    /// Commands under way from which on more of them bring nothing: `q* = L B / n`, with `B` the lowest bound
    /// but that of depth (Little's law).
    pub knee: f64,
    /// Bytes of a command, and how many are under way.
    command: (f64, f64),
}

impl Closed {
    /// The bounds of a flow: of each resource its capacity over what a byte takes of it (`R p / (p + 24)` of
    /// a link, `tags MRRS / round trip`, and so on: `docs/model/tlp.md`), and its own.
    ///
    /// # Errors
    /// When it has no path.
    pub fn of(topology: &Topology, flow: &FlowSpec) -> Result<Self, PathError> {
        Self::at(topology, flow, f64::from(flow.depth))
    }

    /// The same with as many commands under way, which need not be a whole number.
    ///
    /// # Errors
    /// When it has no path.
    pub fn at(topology: &Topology, flow: &FlowSpec, depth: f64) -> Result<Self, PathError> {
        let built = Built::of(topology, std::slice::from_ref(flow), &[1.0.into()])
            .map_err(|(_, error)| error)?;
        let class = &built.network.classes[0];
        let mut cost = vec![0.0; built.what.len()];
        for hop in class.legs.iter().flatten() {
            cost[hop.resource as usize] += hop.cost;
        }
        for &(resource, back) in &class.priority {
            cost[resource as usize] += back;
        }
        let resources = built.network.resources.iter().zip(cost).zip(&built.what);
        let mut bounds: Vec<Bound> = resources
            .filter(|((resource, cost), _)| *cost > 0.0 && resource.capacity < 1e9)
            .map(|((resource, cost), &what)| Bound {
                by: By::Resource(what),
                rate: resource.capacity / cost,
            })
            .collect();
        let latency = latency(topology, flow)?;
        let command = (as_f64(flow.request), depth);
        bounds.extend(own_bounds(flow, depth, latency));
        let others = bounds.iter().filter(|bound| bound.by != By::Depth);
        let most = others.map(|bound| bound.rate).fold(f64::INFINITY, f64::min);
        bounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        Ok(Self { bounds, latency, knee: latency * most / command.0, command })
    }

    /// The lowest bound.
    pub fn rate(&self) -> f64 {
        self.bounds.first().map_or(f64::INFINITY, |bound| bound.rate)
    }

    /// Mean latency of a command with the depth full all the time (Little's law), in nanoseconds.
    pub fn loaded_latency(&self) -> f64 {
        self.command.0 * self.command.1 / self.rate()
    }
}

/// The most that a flow takes of a machine without limits: what its depth (`q n / L`, Little's law), its legs
/// and what arrives allow, in payload a nanosecond.
///
/// # Errors
/// When the flow has no path.
pub fn demand(topology: &Topology, flow: &FlowSpec) -> Result<f64, PathError> {
    Ok(Demand::of(topology, flow)?.rate)
}

/// The most that a flow takes of a machine without limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Payload a nanosecond: what [`demand`] says.
    pub rate: f64,
    /// Time of one command on an idle machine, in nanoseconds, which [`latency`] says; `None` where nobody asks for it.
    pub alone: Option<f64>,
}

impl Demand {
    /// That of a flow.
    ///
    /// # Errors
    /// When the flow has no path.
    pub fn of(topology: &Topology, flow: &FlowSpec) -> Result<Self, PathError> {
        Self::at(topology, flow, f64::from(flow.depth))
    }

    /// The same with as many commands under way, which need not be a whole number.
    ///
    /// # Errors
    /// When the flow has no path.
    pub fn at(topology: &Topology, flow: &FlowSpec, depth: f64) -> Result<Self, PathError> {
        let alone = latency(topology, flow)?;
        let bounds = own_bounds(flow, depth, alone).into_iter().map(|bound| bound.rate);
        Ok(Self { rate: bounds.fold(f64::INFINITY, f64::min), alone: Some(alone) })
    }
}

impl From<f64> for Demand {
    fn from(rate: f64) -> Self {
        Self { rate, alone: None }
    }
}

fn own_bounds(flow: &FlowSpec, depth: f64, latency: f64) -> Vec<Bound> {
    let mut bounds = vec![Bound {
        by: By::Depth,
        rate: depth.max(1.0) * as_f64(flow.request) / latency.max(1e-3),
    }];
    for (leg, bound) in flow.legs().enumerate().filter_map(|(at, leg)| Some((at, leg.bound?))) {
        bounds.push(Bound { by: By::Leg(leg), rate: per_nano(bound.0) });
    }
    if let Arrival::Open { rate } | Arrival::Paced { rate } = flow.arrival {
        bounds.push(Bound { by: By::Arrival, rate: per_nano(rate.0) });
    }
    if let Some(work) = flow.work.as_ref().filter(|work| work.copy > Picos::ZERO) {
        bounds.push(Bound { by: By::Thread, rate: 1.0 / work.per_byte(flow.request) });
    }
    bounds
}

/// Time of one command on an idle machine, both legs of a relay one after the other and copies between them, in nanoseconds.
///
/// # Errors
/// When the flow has no path.
pub fn latency(topology: &Topology, flow: &FlowSpec) -> Result<f64, PathError> {
    let mut latency = flow.work.as_ref().map_or(0.0, |work| copy_time(topology, work));
    for leg in flow.legs() {
        latency += leg_latency(topology, flow, leg, &ways(topology, flow, leg)?);
    }
    Ok(latency)
}

/// Nanoseconds in which a block is copied: by the processor, or by the memory where that is slower.
pub(crate) fn copy_time(topology: &Topology, work: &Work) -> f64 {
    let memory = memory_time(topology, work).unwrap_or(0.0) * as_f64(work.traffic);
    picos(work.copy.0).max(memory)
}

/// Nanoseconds: what is fixed, the first packet on its way (`way::Way::latency`), and the rest behind it.
fn leg_latency(topology: &Topology, flow: &FlowSpec, leg: &Leg, ways: &[Way]) -> f64 {
    let memory = topology.node(flow.memory).kind.memory();
    let of_memory = memory.filter(|_| !ways.is_empty()).map_or(0.0, |memory| match leg.op {
        Op::Write => picos(memory.write_latency.0),
        Op::Read => picos(memory.read_latency.0),
    });
    let first: f64 = ways.iter().map(|way| way.latency(topology)).sum();
    picos(leg.latency.0) + of_memory + first + stream_time(topology, flow, leg, ways)
}

/// Nanoseconds from the first packet of a command to the last, at the rate of the slowest: `(n - p) / B`. Reads whose tags
/// cover a window `w` below `n` take `(n - w) / w` round trips at least (Little's law on tags).
pub(crate) fn stream_time(topology: &Topology, flow: &FlowSpec, leg: &Leg, ways: &[Way]) -> f64 {
    let size = as_f64(flow.request);
    let endpoint = match &topology.node(leg.initiator).kind {
        NodeKind::Endpoint(endpoint) => Some(endpoint),
        _ => None,
    };
    let store = endpoint.and_then(|endpoint| endpoint.rate_of_store(leg.store, leg.op));
    let mut slowest = [store, leg.bound].into_iter().flatten().min();
    let Some(data) = ways.last() else {
        return slowest.map_or(0.0, |rate| size / per_nano(rate.0));
    };
    let memory = topology.node(flow.memory).kind.memory();
    let memory = memory.and_then(|memory| memory.rate(leg.op));
    slowest = slowest.into_iter().chain(memory).min();
    let steps = data.steps.iter().map(|step| step.cost / rate_of(topology, step.link));
    let per_byte = steps.chain(slowest.map(|rate| 1.0 / per_nano(rate.0))).fold(0.0, f64::max);
    let rest = (size - data.payload).max(0.0) * per_byte;
    match endpoint.filter(|_| leg.op == Op::Read) {
        // With few tags the answers come in round trips, each of a window.
        Some(endpoint) => {
            let window = f64::from(endpoint.tags) * as_f64(endpoint.mrrs.min(flow.request));
            let round = crate::flow::build::round_trip(topology, flow.memory, ways);
            rest.max((size - window).max(0.0) / window * round)
        }
        None => rest,
    }
}
