//! What receivers can hold, and how fast their credits come back.
//!
//! Leaves out what waits there, which the solver finds.

use crate::model::{LinkIndex, Topology};
use crate::way::{PacketKind, Step, Way, picos, rate_of};

/// Payload a nanosecond that the credits of a receiver allow: what it can hold, each time that credits
/// come back (PCIe base specification, "Flow control").
pub(super) fn credit_rate(
    topology: &Topology,
    step: &Step,
    way: &Way,
    next: Option<LinkIndex>,
) -> f64 {
    if way.kind == PacketKind::Completion && next.is_none() {
        return f64::INFINITY;
    }
    room(topology, step, way) / loop_time(topology, step, next).max(1e-3)
}

/// How long a packet that does not wait holds credits of the receiver of a step.
pub(super) fn loop_time(topology: &Topology, step: &Step, next: Option<LinkIndex>) -> f64 {
    let wire = &topology.link(step.link).wire;
    let node = topology.node(topology.receiver(step.link, step.direction));
    let around = 2.0 * picos(wire.propagation.0) + step.packet / rate_of(topology, step.link);
    match next {
        Some(next) => around + picos(node.kind.latency().0) + step.packet / rate_of(topology, next),
        None => around,
    }
}

/// Payload that the receiver of a step can hold.
pub(super) fn room(topology: &Topology, step: &Step, way: &Way) -> f64 {
    let credits = &topology.link(step.link).wire.credits;
    let (headers, units) = match way.kind {
        PacketKind::Posted => (credits.posted_headers, credits.posted_data),
        // Requests carry no payload.
        PacketKind::NonPosted => (credits.nonposted_headers, u32::MAX),
        PacketKind::Completion => (credits.completion_headers, credits.completion_data),
    };
    (f64::from(headers) * way.payload).min(16.0 * f64::from(units))
}
