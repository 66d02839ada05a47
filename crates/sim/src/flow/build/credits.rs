//! Credits of receivers.

use crate::model::{LinkIndex, PacketKind, Topology, picos};
use crate::way::{PacketRoute, RouteLink, rate_of};

/// Payload a nanosecond that credits allow: the room of the receiver in each round trip of credits (PCIe base
/// specification, "Flow control"). Initiators accept every completion.
pub(super) fn credit_rate(
    topology: &Topology,
    step: &RouteLink,
    way: &PacketRoute,
    next: Option<LinkIndex>,
) -> f64 {
    if way.kind == PacketKind::Completion && next.is_none() {
        return f64::INFINITY;
    }
    room(topology, step, way) / hold_time(topology, step, next).max(1e-3)
}

/// Time that an undelayed packet holds credits of the receiver of a step, in nanoseconds.
pub(super) fn hold_time(topology: &Topology, step: &RouteLink, next: Option<LinkIndex>) -> f64 {
    let wire = &topology.link(step.link).wire;
    let node = topology.node(topology.receiver(step.link, step.direction));
    let around = 2.0 * picos(wire.propagation.0) + step.packet / rate_of(topology, step.link);
    match next {
        Some(next) => around + picos(node.kind.latency().0) + step.packet / rate_of(topology, next),
        None => around,
    }
}

/// Room of the receiver of a step, in bytes of payload.
pub(super) fn room(topology: &Topology, step: &RouteLink, way: &PacketRoute) -> f64 {
    let credits = &topology.link(step.link).wire.credits;
    // Requests carry no payload.
    let units = if way.kind == PacketKind::NonPosted { u32::MAX } else { credits.data };
    (f64::from(credits.headers) * way.payload).min(16.0 * f64::from(units))
}
