//! The account of a completed copy.

use peerlane_fabric::Fabric;
use peerlane_results::{
    BytesByRoute, CompletedCopy, Content, HostMemoryTraffic, Latency, MemoryFacts, Plan, Route,
    RouteEvidence, RouteVerdict, Shape, Warning,
};
use peerlane_units::Bytes;

use super::Done;
use super::account::Payload;
use crate::transfer::relay::percentiles;
use peerlane_results::warnings_of_machine;

/// Terms that were settled before the first byte moved.
pub(super) struct Settled {
    pub(super) route: Route,
    pub(super) reason: String,
    pub(super) shape: Shape,
    pub(super) memory: MemoryFacts,
}

pub(super) fn write(
    fabric: &Fabric,
    plan: &Plan,
    settled: Settled,
    done: Done,
    evidence: Vec<RouteEvidence>,
    mut warnings: Vec<Warning>,
) -> CompletedCopy {
    let bytes = settled.shape.length;
    let Payload { moved, tail, before, by_lost_memory } = done.payload;
    let relayed = Bytes(moved.bytes);
    let tail = Bytes(tail.0 + by_lost_memory.tail);
    let data = Bytes(relayed.0 + tail.0 + by_lost_memory.data);
    let is_known = !warnings.iter().any(|one| matches!(one, Warning::RouteNotKnown { .. }));
    let bytes_by_route = match settled.route {
        Route::P2p if is_known => BytesByRoute { p2p: relayed, host: tail },
        Route::P2p => BytesByRoute { p2p: Bytes::ZERO, host: tail },
        Route::Host => {
            BytesByRoute { p2p: Bytes(by_lost_memory.data), host: Bytes(relayed.0 + tail.0) }
        }
    };
    let zeroed = moved.zeroed + by_lost_memory.zeroed;
    let zeroes_written = moved.zeroes_written + by_lost_memory.zeroes_written;
    let skipped = moved.skipped + by_lost_memory.skipped;
    let content = Content {
        data,
        holes: Bytes(skipped + zeroed + zeroes_written),
        zeroed_by_device: Bytes(zeroed),
        zeroes_written: Bytes(zeroes_written),
        before,
    };
    warnings.extend(warnings_of_machine(fabric));
    let latency = Latency {
        read: percentiles(&moved.read_latency),
        write: percentiles(&moved.write_latency),
    };
    CompletedCopy {
        asked: plan.asked.clone(),
        machine: fabric.into(),
        source: plan.source.clone(),
        target: plan.target.clone(),
        memory: settled.memory,
        route: settled.route,
        reason: settled.reason,
        bytes_by_route,
        bytes,
        content,
        elapsed_ns: done.elapsed,
        first_done_ns: moved.first_done,
        last_done_ns: moved.last_done,
        check_ns: done.check,
        shape: settled.shape,
        latency,
        cpu: done.cpu,
        host_memory: HostMemoryTraffic {
            bytes: None,
            reason: "memory controller counters are not read".to_owned(),
        },
        verification: done.verification,
        stages: done.stages,
        verdict: match is_known {
            true => peerlane_evidence::verdict(&evidence),
            // What fits either route says nothing where the library chose it.
            false => RouteVerdict::NotKnown,
        },
        evidence,
        warnings,
        limits: plan.limits.clone(),
    }
}
