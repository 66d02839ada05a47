//! The record of a finished copy.

use hdrhistogram::Histogram;
use peerlane_fabric::Fabric;
use peerlane_results::{
    BytesByRoute, COPY_SCHEMA, Content, CopyRecord, HostMemoryTraffic, Latency, Machine,
    MemoryFacts, Percentiles, Plan, Route, RouteEvidence, RouteVerdict, Shape, Warning,
};
use peerlane_units::{Bytes, Nanos};

use super::Done;
use super::carry::Payload;

/// PCI vendor of the devices that QEMU makes up.
const QEMU_VENDOR: u16 = 0x1b36;

/// What was settled before the first byte moved.
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
) -> CopyRecord {
    let bytes = settled.shape.length;
    let Payload { moved, tail, before } = done.payload;
    let relayed = Bytes(moved.bytes);
    let data = Bytes(relayed.0 + tail.0);
    let is_known = !warnings.iter().any(|one| matches!(one, Warning::RouteNotKnown { .. }));
    let bytes_by_route = match settled.route {
        Route::P2p if is_known => BytesByRoute { p2p: relayed, host: tail },
        Route::P2p => BytesByRoute { p2p: Bytes::ZERO, host: tail },
        Route::Host => BytesByRoute { p2p: Bytes::ZERO, host: data },
    };
    let zeroed = moved.zeroed + moved.zeroes_written;
    let content = Content {
        data,
        holes: Bytes(moved.skipped + zeroed),
        zeroed_by_device: Bytes(moved.zeroed),
        zeroes_written: Bytes(moved.zeroes_written),
        before,
    };
    warnings.extend(of_the_machine(fabric));
    let latency = Latency {
        read: percentiles(&moved.read_latency),
        write: percentiles(&moved.write_latency),
    };
    CopyRecord {
        schema: COPY_SCHEMA.to_owned(),
        asked: plan.asked.clone(),
        machine: machine(fabric),
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
        scrubbed: done.scrubbed,
        verification: done.verification,
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

pub(crate) fn machine(fabric: &Fabric) -> Machine {
    Machine {
        name: fabric.name.clone(),
        fabric: format!("{:016x}", fnv1a(fabric.to_toml().as_bytes())),
        kernel: fabric.kernel.release.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// FNV-1a, 64 bits (draft-eastlake-fnv).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What a reader must know of the machine and the program.
pub fn of_the_machine(fabric: &Fabric) -> Vec<Warning> {
    let is_made_up = |model: Option<&str>| model.is_some_and(|model| model.contains("QEMU"));
    let sign = fabric.functions.iter().find_map(|function| {
        let model = function.nvme.as_ref().and_then(|nvme| nvme.model.as_deref());
        if is_made_up(model) {
            return model.map(|model| model.trim().to_owned());
        }
        (function.vendor == Some(QEMU_VENDOR)).then(|| format!("{} is QEMU's", function.name))
    });
    let mut warnings: Vec<Warning> =
        sign.map(|sign| Warning::Emulated { sign }).into_iter().collect();
    if cfg!(debug_assertions) {
        warnings.push(Warning::DebugBuild);
    }
    warnings
}

fn percentiles(latency: &Histogram<u64>) -> Percentiles {
    if latency.is_empty() {
        return Percentiles::default();
    }
    let at = |quantile: f64| Nanos(latency.value_at_quantile(quantile));
    Percentiles {
        count: latency.len(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: Nanos(latency.max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
