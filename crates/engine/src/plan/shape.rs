//! Sizes and counts of a plan: the size of a request, the number of slots, the tail.

use peerlane_reach::PEER_REQUEST_MAX;
use peerlane_results::{Asked, EndpointKind, MemoryFacts, Route, Shape, Tail, Warning};
use peerlane_units::Bytes;

use super::gpu;
use crate::endpoints::Endpoint;

/// Slots start at whole pages, since peer-to-peer pages are mapped one by one.
pub(crate) const SLOT_ALIGNMENT: Bytes = Bytes::kib(4);
/// Most slots: a bound for the ring.
const SLOTS_MAX: u64 = 4096;
/// Most host memory for slots together.
const HOST_ROOM: Bytes = Bytes::mib(1024);

/// Both ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanEnds<'a> {
    pub(super) source: &'a Endpoint,
    pub(super) target: &'a Endpoint,
}

/// Returns the way to write the end of a copy that is not a whole number of target blocks.
pub(super) fn tail(ends: PlanEnds<'_>, length: Bytes) -> Tail {
    let (source, target) = (&ends.source.facts, &ends.target.facts);
    let rest = Bytes(length.0 % target.block.0);
    match target.kind {
        _ if rest == Bytes::ZERO => Tail::None,
        EndpointKind::File => Tail::RoundUpAndCut,
        _ if rest.is_multiple_of(source.block) => Tail::MergeInSlot,
        EndpointKind::Gpu => Tail::None,
        EndpointKind::BlockDevice | EndpointKind::Passthrough => Tail::MergeInHost,
    }
}

/// Bytes of memory that one request takes.
pub(super) fn slot(ends: PlanEnds<'_>, asked: &Asked, route: Route) -> Bytes {
    stride(request(ends, asked, route).0)
}

fn stride(request: Bytes) -> Bytes {
    request.round_up(SLOT_ALIGNMENT).unwrap_or(request)
}

/// Bytes of one request, and its limit in words.
fn request(ends: PlanEnds<'_>, asked: &Asked, route: Route) -> (Bytes, String) {
    let limit = |end: &Endpoint| match route {
        Route::Host => end.facts.request_host,
        Route::P2p => end.facts.request_p2p.unwrap_or(PEER_REQUEST_MAX),
    };
    let named = |end: &Endpoint| {
        let name = end.facts.device.as_ref().unwrap_or(&end.facts.path);
        (limit(end), format!("the largest request of {name}"))
    };
    let (least, reason) = [named(ends.source), named(ends.target)].into_iter().fold(
        (asked.block, "the block size".to_owned()),
        |one, other| {
            if other.0 < one.0 { other } else { one }
        },
    );
    let unit = common_multiple(ends.source.facts.block, ends.target.facts.block);
    match least.round_down(unit) {
        Bytes::ZERO => {
            (unit, format!("the smallest request for source and target, {} bytes", unit.0))
        }
        request => (request, reason),
    }
}

/// Sizes and counts for a route; `room` is the free space of the memory, `None` for host memory.
pub(super) fn shape(
    ends: PlanEnds<'_>,
    asked: &Asked,
    length: Bytes,
    route: Route,
    room: Option<Bytes>,
    warnings: &mut Vec<Warning>,
) -> Shape {
    let (request, request_limit) = request(ends, asked, route);
    let per_block = asked.block.0.div_ceil(request.0).max(1);
    let wanted = u64::from(asked.depth).saturating_mul(per_block);
    let useful = useful_slots(length.0.div_ceil(request.0));
    let shape = Shape {
        length,
        request,
        slots: u32::try_from(wanted.min(useful).min(SLOTS_MAX)).unwrap_or(u32::MAX),
        memory: Bytes::ZERO,
        request_limit,
        slots_limit: slots_limit(wanted, useful).to_owned(),
        tail: tail(ends, length),
    };
    let fitted = fitted(&shape, room.map_or(HOST_ROOM, leave_some));
    if u64::from(fitted.slots) < wanted.min(useful) {
        warnings.push(Warning::DepthReduced {
            asked: u32::try_from(wanted).unwrap_or(u32::MAX),
            slots: fitted.slots,
        });
    }
    fitted
}

/// Slots that are of use to a copy of so many parts: parts in flight after the last read are
/// written while nothing is read, so they are kept to a 32nd of the copy, or four slots if that is
/// less.
fn useful_slots(parts: u64) -> u64 {
    (parts / 32).max(4).min(parts).max(1)
}

fn slots_limit(wanted: u64, useful: u64) -> &'static str {
    if useful < wanted.min(SLOTS_MAX) {
        "the length of the copy"
    } else if SLOTS_MAX < wanted {
        "the most slots there can be"
    } else {
        "the queue depth"
    }
}

/// The shape with no more slots than `room` holds, but one at least.
pub(crate) fn fitted(shape: &Shape, room: Bytes) -> Shape {
    let stride = stride(shape.request);
    let most = u32::try_from(room.0 / stride.0).unwrap_or(u32::MAX);
    let slots = shape.slots.min(most).max(1);
    let slots_limit =
        if slots < shape.slots { "the free memory" } else { &shape.slots_limit }.to_owned();
    Shape {
        slots,
        slots_limit,
        memory: Bytes(stride.0.saturating_mul(u64::from(slots))),
        ..shape.clone()
    }
}

/// The shape with no more slots than there may be requests between drives and a GPU.
pub(super) fn for_memory(shape: Shape, memory: Option<&MemoryFacts>) -> Shape {
    let is_gpu = memory.and_then(gpu::way_of).is_some();
    if !is_gpu || shape.slots <= gpu::REQUESTS_MAX {
        return shape;
    }
    let slots = gpu::REQUESTS_MAX;
    let memory = Bytes(stride(shape.request).0.saturating_mul(u64::from(slots)));
    let slots_limit = "the most requests of a GPU at a time".to_owned();
    Shape { slots, memory, slots_limit, ..shape }
}

/// An eighth of the free memory stays free, for other users of the pool and since a map is one run.
fn leave_some(free: Bytes) -> Bytes {
    Bytes(free.0 - free.0 / 8)
}

fn common_multiple(one: Bytes, other: Bytes) -> Bytes {
    let (mut a, mut b) = (one.0.max(1), other.0.max(1));
    let product = a.saturating_mul(b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    Bytes(product / a)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_common_multiple_is_a_multiple_of_both(one in 1u64..10_000, other in 1u64..10_000) {
            let both = common_multiple(Bytes(one), Bytes(other));
            prop_assert!(both.is_multiple_of(Bytes(one)) && both.is_multiple_of(Bytes(other)));
            prop_assert!(both.0 <= one * other);
        }
    }
}
