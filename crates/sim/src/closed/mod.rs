//! Closed form: the bounds of one flow alone.
//!
//! No engine exceeds a bound. Other flows are left out: they only lower the rate. The bounds of several flows may add up to
//! more than a link, a memory or a drive that they share.

use crate::model::{
    Arrival, FlowSpec, Leg, NodeKind, Op, PathError, Picos, ProcessorWork, ResourceOrigin,
    Topology, as_f64, per_nano, picos,
};
use crate::way::{PacketRoute, rate_of, round_trip, ways};

#[cfg(test)]
mod tests;

/// An upper bound of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// Its cause.
    pub by: By,
    /// Bytes of payload a nanosecond.
    pub rate: f64,
}

/// Cause of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum By {
    /// A saturated resource of the machine.
    Resource(ResourceOrigin),
    /// Queue depth over latency (Little's law).
    Depth,
    /// The limit of a leg, by position.
    Leg(usize),
    /// The arrival process.
    Arrival,
    /// The processor of its thread, for copies.
    Thread,
}

/// Bounds and latency of one flow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Closed {
    /// Bounds, lowest first.
    pub bounds: Vec<Bound>,
    /// Nanoseconds of a command on an idle machine.
    pub latency: f64,
    /// Queue depth of saturation: `q* = L B / n`, with `B` the lowest bound except that of depth (Little's law).
    pub knee: f64,
}

impl Closed {
    /// The lowest bound.
    pub(crate) fn rate(&self) -> f64 {
        self.bounds.first().map_or(f64::INFINITY, |bound| bound.rate)
    }
}

/// Offered rate of a flow on a machine without limits, in bytes of payload a nanosecond: the least by depth (`q n / L`,
/// Little's law), legs, arrivals and thread.
///
/// # Errors
/// When the flow has no path.
pub(crate) fn demand(topology: &Topology, flow: &FlowSpec) -> Result<f64, PathError> {
    let bounds = own_bounds(flow, latency(topology, flow)?).into_iter().map(|bound| bound.rate);
    Ok(bounds.fold(f64::INFINITY, f64::min))
}

/// Bounds that the machine does not set.
pub(crate) fn own_bounds(flow: &FlowSpec, latency: f64) -> Vec<Bound> {
    let by_depth = f64::from(flow.depth.max(1)) * as_f64(flow.request) / latency.max(1e-3);
    let mut bounds = vec![Bound { by: By::Depth, rate: by_depth }];
    let legs = flow.parts().flat_map(FlowSpec::legs).enumerate();
    for (leg, bound) in legs.filter_map(|(at, leg)| Some((at, leg.bound?))) {
        bounds.push(Bound { by: By::Leg(leg), rate: per_nano(bound.0) });
    }
    if let Arrival::Paced { rate } = flow.arrival {
        bounds.push(Bound { by: By::Arrival, rate: per_nano(rate.0) });
    }
    let works = flow.parts().filter_map(|part| part.work.as_ref());
    for work in works.filter(|work| work.copy > Picos::ZERO) {
        bounds.push(Bound { by: By::Thread, rate: 1.0 / work.per_byte(flow.request) });
    }
    bounds
}

/// Nanoseconds of a command on an idle machine: all legs in series, and the copies between them.
///
/// # Errors
/// When the flow has no path.
pub(crate) fn latency(topology: &Topology, flow: &FlowSpec) -> Result<f64, PathError> {
    let mut latency = 0.0;
    for part in flow.parts() {
        latency += part.work.as_ref().map_or(0.0, |work| copy_time(topology, work));
        latency += part.stage.map_or(0.0, |stage| picos(stage.latency.0));
        for leg in part.legs() {
            latency += leg_latency(topology, part, leg, &ways(topology, part, leg)?);
        }
    }
    Ok(latency)
}

/// Nanoseconds of the copies of a block: by the processor, or by memory where that is slower.
pub(crate) fn copy_time(topology: &Topology, work: &ProcessorWork) -> f64 {
    let memory = work.memory_time(topology).unwrap_or(0.0) * as_f64(work.traffic);
    picos(work.copy.0).max(memory)
}

/// Nanoseconds of a leg: fixed latencies, the first packet (`way::Way::latency`), and the rest of the stream.
fn leg_latency(topology: &Topology, flow: &FlowSpec, leg: &Leg, ways: &[PacketRoute]) -> f64 {
    let memory = topology.node(flow.memory).kind.memory();
    let of_memory = memory.filter(|_| !ways.is_empty()).map_or(0.0, |memory| match leg.op {
        Op::Write => picos(memory.write_latency.0),
        Op::Read => picos(memory.read_latency.0),
    });
    let first: f64 = ways.iter().map(|way| way.latency(topology)).sum();
    picos(leg.latency.0) + of_memory + first + stream_time(topology, flow, leg, ways)
}

/// Nanoseconds from the first packet of a command to the last, at the lowest rate: `(n - p) / B`. Reads whose tags cover a
/// window `w` below `n` take `(n - w) / w` round trips at least (Little's law on tags).
pub(crate) fn stream_time(
    topology: &Topology,
    flow: &FlowSpec,
    leg: &Leg,
    ways: &[PacketRoute],
) -> f64 {
    let size = as_f64(flow.request);
    let endpoint = match &topology.node(leg.initiator).kind {
        NodeKind::Endpoint(endpoint) => Some(endpoint),
        _ => None,
    };
    let store = endpoint.and_then(|endpoint| endpoint.rate_of_store(leg.store, leg.op));
    let own = store.into_iter().chain(leg.bound).min();
    let Some(data) = ways.last() else {
        return own.map_or(0.0, |rate| size / per_nano(rate.0));
    };
    let memory = topology.node(flow.memory).kind.memory();
    let memory = memory.and_then(|memory| memory.rate(leg.op));
    let slowest = own.into_iter().chain(memory).min();
    let steps = data.steps.iter().map(|step| step.cost / rate_of(topology, step.link));
    let per_byte = steps.chain(slowest.map(|rate| 1.0 / per_nano(rate.0))).fold(0.0, f64::max);
    let rest = (size - data.payload).max(0.0) * per_byte;
    match endpoint.filter(|_| leg.op == Op::Read) {
        Some(endpoint) => {
            let window = f64::from(endpoint.tags) * as_f64(endpoint.mrrs.min(flow.request));
            let round = round_trip(topology, flow.memory, ways);
            rest.max((size - window).max(0.0) / window * round)
        }
        None => rest,
    }
}
