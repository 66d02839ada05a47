use peerlane_results::{
    BytesByRoute, CaseSpec, CpuCost, HostMemoryTraffic, Latency, Path, Percentiles, Places,
    RouteVerdict,
};
use peerlane_units::Nanos;

use super::*;

/// Two drives below a switch, one behind another root port; those of the switch redirect where `acs` says so.
fn machine(acs: &str) -> Fabric {
    peerlane_testing::machine(&format!(
        "cpu = {{ vendor = 'AuthenticAMD', family = 25 }}
         root root-port
           switch upstream-port
             down-a downstream-port {acs}
               a nvme link = '8GT/s x4'; size = '64M'
             down-b downstream-port {acs}
               b nvme size = '64M'; cmb = '16M'
         other root-port
           c nvme size = '64M'"
    ))
}

fn flow(source: &str, target: &str, path: Path) -> Flow {
    Flow {
        block: Bytes(4096),
        depth: 1,
        bytes: Bytes(1_000_000),
        ..Flow::new(source, target, path)
    }
}

fn run(flows: &[(Flow, &str, Option<Places>)]) -> CaseRecord {
    let bytes = Bytes(1_000_000);
    let done = flows.iter().map(|(flow, memory, places)| FlowRecord {
        bytes,
        elapsed_ns: Nanos(500_000),
        first_done_ns: Nanos(0),
        memory: (*memory).to_owned(),
        bytes_by_route: match flow.path {
            Path::P2p => BytesByRoute { p2p: bytes, host: Bytes(0) },
            _ => BytesByRoute { p2p: Bytes(0), host: bytes },
        },
        block: Percentiles::default(),
        limited_by: None,
        knee: None,
        places: places.clone(),
        stage: None,
    });
    CaseRecord {
        flows: done.collect(),
        asked: CaseSpec {
            name: "one".to_owned(),
            flows: flows.iter().map(|(flow, ..)| flow.clone()).collect(),
            time_ns: None,
        },
        repeat: 0,
        bytes,
        elapsed_ns: Nanos(1_000_000),
        bytes_by_route: BytesByRoute::default(),
        latency: Latency::default(),
        cpu: CpuCost::default(),
        host_memory: HostMemoryTraffic { bytes: None, reason: String::new() },
        verification: None,
        evidence: Vec::new(),
        verdict: RouteVerdict::NotKnown,
        limits: Vec::new(),
        links: Vec::new(),
        prediction: None,
        page_faults: None,
        warnings: Vec::new(),
    }
}

/// The loads of a run in words, in MB/s.
fn loads(fabric: &Fabric, run: &CaseRecord) -> String {
    let ways = FlowLoads::new(fabric, run, Basis::Measured);
    let one = |load: &LinkLoad| {
        let sign = if load.direction == Direction::Up { '+' } else { '-' };
        format!("{}{sign}{}", load.below, load.payload.0 / 1_000_000)
    };
    ways.loads.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn payload_turns_at_nearest_common_port() {
    let fabric = machine("");
    let own = run(&[(flow("/dev/lab/a", "/dev/lab/b", Path::P2p), "cmb:b", None)]);
    assert_eq!(loads(&fabric, &own), "a+1000 b-1000");
    let far = run(&[(flow("/dev/lab/c", "/dev/lab/a", Path::P2p), "cmb:b", None)]);
    assert_eq!(loads(&fabric, &far), "switch-1000 a-1000 b+1000 b-1000 c+1000");
}

#[test]
fn redirected_payload_goes_by_the_root() {
    let fabric = machine("acs = \"redirect\"");
    let own = run(&[(flow("/dev/lab/a", "/dev/lab/b", Path::P2p), "cmb:b", None)]);
    assert_eq!(loads(&fabric, &own), "switch+1000 switch-1000 a+1000 b-1000");
}

#[test]
fn host_path_crosses_links_to_root() {
    let fabric = machine("");
    let host = run(&[(flow("a", "c", Path::HostPipelined), "host", None)]);
    assert_eq!(loads(&fabric, &host), "switch+1000 a+1000 c-1000");
}

#[test]
fn shared_link_carries_sum_of_flows() {
    let fabric = machine("");
    let both = run(&[
        (flow("a", "cmb:b", Path::P2p), "cmb:nvme7", None),
        (flow("c", "cmb:b", Path::P2p), "cmb:nvme7", None),
    ]);
    assert_eq!(loads(&fabric, &both), "switch-1000 a+1000 b-2000 c+1000");
    let ways = FlowLoads::new(&fabric, &both, Basis::Measured);
    let b = fabric.find("b").expect("b");
    assert!(ways.roles.contains(&(b, "memory of 2".to_owned())), "{:?}", ways.roles);
}

#[test]
fn recorded_places_precede_typed_ones() {
    let fabric = machine("");
    let name = |name: &str| Some(name.to_owned());
    let places = Places { source: name("a"), target: name("c"), memory: name("b") };
    let file = (flow("/srv/file", "/dev/disk/by-id/x", Path::P2p), "cmb:nvme7", Some(places));
    assert_eq!(loads(&fabric, &run(&[file])), "switch+1000 a+1000 b+1000 b-1000 c-1000");
    let unknown = [
        (flow("a", "c", Path::P2p), "cmb:nvme7", None),
        (flow("/srv/file", "c", Path::HostPipelined), "host", None),
        (flow("a", "c", Path::HostPipelined), "host", Some(Places::default())),
    ];
    let ways = FlowLoads::new(&fabric, &run(&unknown), Basis::Measured);
    assert_eq!((ways.loads.len(), ways.roles.len(), ways.unknown), (0, 0, 3));
}

#[test]
fn ceiling_requires_known_real_speed() {
    let fabric = machine("");
    let host = run(&[(flow("a", "c", Path::HostPipelined), "host", None)]);
    let of = |basis| -> Vec<u64> {
        FlowLoads::new(&fabric, &host, basis).loads.iter().map(|load| load.ceiling.0).collect()
    };
    assert_eq!(of(Basis::Measured), [0, 3_938_461_538, 0]);
    assert_eq!(of(Basis::Emulated), [0, 0, 0]);
}
