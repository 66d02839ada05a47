//! Records, machines and trees made up for tests.

use peerlane_fabric::Fabric;
use peerlane_results::{
    BENCH_SCHEMA, Basis, BenchRecord, BytesByRoute, CaseRecord, CaseSpec, CpuCost, Flow,
    FlowRecord, HostMemoryTraffic, Latency, Machine, NODES_SCHEMA, NodeRecord, NodesRecord,
    NodesTask, Path, Percentiles, Repeats, RouteVerdict, WORKLOAD_SCHEMA, Workload, WorkloadKind,
};
use peerlane_units::{Bytes, Nanos};

/// A case of one flow between two drives.
pub(crate) fn spec(name: &str, path: Path) -> CaseSpec {
    let flow = Flow { block: Bytes::mib(1), ..Flow::new("nvme0n1", "nvme1n1", path) };
    CaseSpec { name: name.to_owned(), flows: vec![flow], time_ns: None }
}

/// A run of a case of one flow that took so long for its bytes.
pub(crate) fn run(name: &str, path: Path, bytes: Bytes, elapsed_ns: Nanos) -> CaseRecord {
    let none = Percentiles::default;
    let bytes_by_route = match path {
        Path::P2p => BytesByRoute { p2p: bytes, host: Bytes(0) },
        _ => BytesByRoute { p2p: Bytes(0), host: bytes },
    };
    let flow = FlowRecord {
        bytes,
        elapsed_ns,
        first_done_ns: Nanos(0),
        memory: "cmb:nvme2".to_owned(),
        bytes_by_route,
        block: none(),
        limited_by: None,
        knee: None,
        places: None,
        stage: None,
    };
    CaseRecord {
        asked: spec(name, path),
        repeat: 0,
        bytes,
        elapsed_ns,
        bytes_by_route,
        latency: Latency::default(),
        cpu: CpuCost::default(),
        host_memory: HostMemoryTraffic { bytes: None, reason: "made up".to_owned() },
        flows: vec![flow],
        verification: None,
        evidence: Vec::new(),
        verdict: RouteVerdict::Consistent,
        limits: Vec::new(),
        links: Vec::new(),
        prediction: None,
        page_faults: None,
        warnings: Vec::new(),
    }
}

/// A record of runs of a gigabyte, by name and rate in bytes a second.
pub(crate) fn record(cases: &[(&str, Vec<f64>)]) -> BenchRecord {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates of tests are above one"
    )]
    let time = |rate: f64| Nanos((1e18 / rate) as u64);
    let each = |(name, rates): &(&str, Vec<f64>)| -> Vec<CaseRecord> {
        rates.iter().map(|&rate| run(name, Path::P2p, Bytes(1_000_000_000), time(rate))).collect()
    };
    BenchRecord {
        schema: BENCH_SCHEMA.to_owned(),
        asked: Workload {
            schema: WORKLOAD_SCHEMA.to_owned(),
            name: "sweep".to_owned(),
            kind: WorkloadKind::Sweep,
            cases: cases.iter().map(|(name, _)| spec(name, Path::P2p)).collect(),
            repeats: Repeats {
                warm_up: 1,
                least: 5,
                most: 20,
                until_per_mille: None,
                time_ns: None,
            },
            seed: 1,
        },
        machine: Machine {
            name: "host".to_owned(),
            fabric: "0".to_owned(),
            kernel: Some("7.2.0".to_owned()),
            program: "0.1.0".to_owned(),
        },
        outline: None,
        basis: Basis::Measured,
        started_s: Some(1),
        cases: cases.iter().flat_map(each).collect(),
        summaries: Vec::new(),
        effects: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A node with a benchmark, if it has one.
pub(crate) fn node(name: &str, bench: Option<BenchRecord>) -> NodeRecord {
    NodeRecord {
        name: name.to_owned(),
        hostname: None,
        address: "127.0.0.1".to_owned(),
        devices: Vec::new(),
        used: Vec::new(),
        attempts: 1,
        parts: 0,
        bench: bench.map(Box::new),
        doctor: None,
        scan: None,
        error: None,
        missing: None,
    }
}

/// A benchmark on some nodes.
pub(crate) fn nodes(nodes: Vec<NodeRecord>) -> NodesRecord {
    NodesRecord {
        schema: NODES_SCHEMA.to_owned(),
        what: NodesTask::Bench,
        nodes,
        parts: None,
        elapsed_ns: Nanos(1),
        scan: None,
        variants: Vec::new(),
    }
}

/// Three drives below a switch: `a` and `b`, and `c` with memory; all links are 16 GT/s.
pub(crate) fn machine() -> Fabric {
    Fabric::from_toml(include_str!("testing.toml")).unwrap()
}
