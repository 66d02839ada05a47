//! Network controllers, two machines with a network between them, and Direct Connect.

use super::*;
use crate::reproduce::Study;

/// Payload of 100 Gbit/s in full frames.
const WIRE: f64 = 12.5 * 1448.0 / 1538.0;
const WITHOUT_COPIES: [Path; 2] = [Path::P2p, Path::HostPipelined];

fn example(name: &str) -> String {
    let file = format!("{}/../../docs/examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(file).expect("an example")
}

fn example_workload(name: &str) -> Workload {
    toml::from_str(&example(name)).expect("a workload")
}

fn by(transport: &str, source: &str, target: &str) -> Flow {
    let via = Some(transport.to_owned());
    Flow { via, ..Flow::new(source, target, Path::HostPipelined) }
}

fn refusal(machine: &Fabric, flow: Flow) -> String {
    let error = run(machine, &with(&[]), &one(flow), Engine::Flow).expect_err("it is refused");
    let mut cause: &dyn std::error::Error = &error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[test]
fn wires_bound_both_routes() {
    for (rate, name) in [(0.125, "wire"), (1.25, "wire"), (12.5, "wire"), (50.0, "link")] {
        let stated = format!("ethernet = \"{}MB/s\"", rate * 1e3);
        let server = changed("trifecta", "ethernet = \"12.5GB/s\"", &stated);
        for (source, target) in [("nic", "gpu"), ("gpu", "nic"), ("nic", "host"), ("host", "nic")] {
            let is_host = source == "host" || target == "host";
            let paths = WITHOUT_COPIES.into_iter();
            for path in paths.filter(|&path| !is_host || path != Path::P2p) {
                for engine in [Engine::Closed, Engine::Flow, Engine::Tlp] {
                    let flow = Flow { depth: 64, ..Flow::new(source, target, path) };
                    let record = predict(&server, &one(flow), engine);
                    let place = format!("{rate} {source} {target} {path} {engine:?}: {record:?}");
                    let found = self::rate(&record, 0);
                    assert!(found <= rate * 1448.0 / 1538.0 * 1.001, "{place}");
                    assert!(name == "wire" || (20.0..31.5).contains(&found), "{place}");
                    assert!(limits(&record)[0].starts_with(name) || name == "link", "{place}");
                }
            }
        }
    }
}

#[test]
fn wires_are_full_duplex() {
    let both = [("gpu", "nic"), ("nic", "gpu")].map(|(a, b)| Flow::new(a, b, Path::P2p));
    for engine in [Engine::Flow, Engine::Tlp] {
        let record = predict(&machine("trifecta"), &together(both.to_vec()), engine);
        assert!(is_near(rate(&record, 0), 2.0 * WIRE), "{engine:?} {}", rate(&record, 0));
        assert_eq!(limits(&record), ["wire of nic, out", "wire of nic, in"]);
        let slow = [("nic.memory.write", 1.0, "GB/s")];
        let record = predict_with(&machine("trifecta"), &slow, &together(both.to_vec()), engine);
        let [out, into] = [0, 1].map(|flow| record.cases[0].flows[flow].bytes.0 as f64 / 1e9);
        assert!(is_near(out, 1.0) && is_near(into, WIRE), "{engine:?} {out} {into}");
    }
    let same = together(vec![Flow::new("nic", "gpu", Path::P2p), by("rdma", "nic", "host")]);
    assert!(is_near(rate(&predict(&machine("trifecta"), &same, Engine::Flow), 0), WIRE));
}

#[test]
fn host_paths_cross_memory_twice() {
    let crossings = |machine: &Fabric, flow: Flow| {
        let (least, most) =
            prediction(&predict(machine, &one(flow), Engine::Flow)).host_memory.expect("predicted");
        assert_eq!(least, Bytes::ZERO);
        most.0 / Bytes::mib(1024).0
    };
    let (one, two) = (machine("trifecta"), machine("two-servers"));
    for (source, target) in [("drive", "nic"), ("nic", "drive"), ("nic", "gpu")] {
        assert_eq!(crossings(&one, Flow::new(source, target, Path::P2p)), 0);
        assert_eq!(crossings(&one, by("rdma", source, target)), 2);
    }
    let ends = ("store/drive0", "compute/gpu");
    assert_eq!(crossings(&two, Flow::new(ends.0, ends.1, Path::P2p)), 0);
    assert_eq!(crossings(&two, by("rdma", ends.0, ends.1)), 4);
    assert_eq!(crossings(&two, by("tcp", ends.0, ends.1)), 7);
    let slow = [("host.memory", 5.0, "GB/s")];
    assert!(is_near(alone(&one, &slow, by("rdma", "nic", "gpu")), 2.5));
    assert!(is_near(alone(&one, &slow, Flow::new("nic", "gpu", Path::P2p)), WIRE));
}

#[test]
fn unknown_wires_are_assumed_aloud() {
    let silent = changed("trifecta", "ethernet = \"12.5GB/s\"\n", "");
    let flow = || Flow::new("nic", "gpu", Path::P2p);
    let told = |machine: &Fabric, given: Given<'_>, flow: Flow| {
        predict_with(machine, given, &one(flow), Engine::Flow).warnings
    };
    let taken_as = ByteRate(12_500_000_000);
    let warning = Warning::NetworkNotStated { nics: vec!["nic".to_owned()], others: 0, taken_as };
    assert_eq!(told(&silent, &[], flow()), [warning]);
    assert_eq!(told(&machine("trifecta"), &[], flow()), []);
    assert_eq!(told(&silent, &[], Flow::new("drive", "gpu", Path::P2p)), []);
    let measured = [("nic.memory.read", 3.0, "GB/s"), ("nic.memory.write", 3.0, "GB/s")];
    assert_eq!(told(&silent, &measured, flow()), []);
    assert!(is_near(alone(&silent, &measured, flow()), 3.0));
    let slower = [("ethernet.rate", 1.25, "GB/s")];
    assert!(is_near(alone(&silent, &slower, flow()), WIRE / 10.0));
    assert!(is_near(alone(&machine("trifecta"), &slower, flow()), WIRE));
    let said = "each network controller of the machine says its rate";
    assert_eq!(unused(&with(&slower), &machine("trifecta")), [("ethernet.rate", said)]);
}

#[test]
fn machines_move_at_the_slowest() {
    let servers = machine("two-servers");
    for (name, rate, limit) in [
        ("store/drive0.read.rate", 0.8, "medium of store/drive0, read"),
        ("store/nic.memory.write", 0.7, "wire of store/nic, out"),
        ("compute/nic.memory.read", 0.6, "wire of compute/nic, in"),
        ("compute/drive.write.rate", 0.5, "medium of compute/drive, written"),
    ] {
        for path in WITHOUT_COPIES {
            for engine in [Engine::Closed, Engine::Flow] {
                let flow = one(Flow::new("store/drive0", "compute/drive", path));
                let record = predict_with(&servers, &[(name, rate, "GB/s")], &flow, engine);
                let found = self::rate(&record, 0);
                assert!(is_near(found, rate), "{name} {path} {engine:?}: {found}");
                assert_eq!(limits(&record), [limit], "{path} {engine:?}");
            }
        }
    }
    let narrow = [("compute/nic.lanes", 1.0, "count"), ("compute/nic.generation", 1.0, "count")];
    let flow = one(Flow::new("store/drive0", "compute/drive", Path::P2p));
    let record = predict_with(&servers, &narrow, &flow, Engine::Flow);
    assert!(rate(&record, 0) < 0.25 && limits(&record) == ["link of compute/nic up"]);
}

#[test]
fn senders_share_the_receiving_wire() {
    let to_gpu = |drive| Flow::new(drive, "compute/gpu", Path::P2p);
    let beside = Flow::new("store/drive1", "store/drive0", Path::P2p);
    let given = [("store/nic.memory.write", 50.0, "GB/s")];
    let flows = vec![to_gpu("store/drive0"), to_gpu("store/drive1")];
    let both = predict_with(&machine("two-servers"), &given, &together(flows), Engine::Flow);
    assert!(is_near(rate(&both, 0), WIRE));
    assert_eq!(limits(&both), ["wire of compute/nic, in"; 2]);
    // A flow held up by another machine leaves its drive to others.
    let slow = [("compute/nic.memory.read", 1.0, "GB/s")];
    let flows = vec![to_gpu("store/drive1"), beside];
    let record = predict_with(&machine("two-servers"), &slow, &together(flows), Engine::Flow);
    let of = |flow: usize| record.cases[0].flows[flow].bytes.0 as f64 / 1e9;
    assert!(is_near(of(0), 1.0) && is_near(of(1), 4.0), "{} {}", of(0), of(1));
}

#[test]
fn tcp_copies_at_the_receiver() {
    let servers = machine("two-servers");
    let slow = [("host.copy", 2.0, "GB/s")];
    let flow = |transport| by(transport, "store/drive0", "compute/gpu");
    let record = predict_with(&servers, &slow, &one(flow("tcp")), Engine::Flow);
    assert!(rate(&record, 0) > 1.8 && rate(&record, 0) < 2.0, "{}", rate(&record, 0));
    assert_eq!(limits(&record), ["the processor"]);
    assert!(is_near(alone(&servers, &slow, flow("rdma")), 6.8));
    let one = machine("trifecta");
    assert!(alone(&one, &slow, by("tcp", "nic", "gpu")) < 2.0);
    assert!(is_near(alone(&one, &slow, by("tcp", "gpu", "nic")), WIRE));
}

#[test]
fn wrong_transports_are_refused() {
    let (server, servers) = (machine("trifecta"), machine("two-servers"));
    let peer = Flow { path: Path::P2p, ..by("tcp", "nic", "gpu") };
    assert!(refusal(&server, peer).contains("take the path `host`"));
    let local = by("rdma", "drive", "gpu");
    assert!(refusal(&server, local).contains("neither end is a network controller"));
    let mapped = Flow::new("store/drive0", "compute/drive", Path::HostMapped);
    assert!(refusal(&servers, mapped).contains("not by `host-mapped`"));
    let wire = refusal(&servers, Flow::new("store/nic", "compute/drive", Path::P2p));
    assert_eq!(wire, "nothing moves data from store/nic to compute/drive");
    let nic = "kind = \"nic\"\nunder = \"store/down-nic\"\nlink = \"16GT/s x16\"\nethernet = \"12.5GB/s\"";
    let offline = changed("two-servers", nic, "kind = \"other\"\nunder = \"store/down-nic\"");
    let apart = refusal(&offline, Flow::new("store/drive0", "compute/drive", Path::P2p));
    assert_eq!(apart, "no network controller is in the machine of store/drive0");
    let no_memory = changed("trifecta", "cmb = \"128M\"\n", "");
    let written = refusal(&no_memory, Flow::new("drive", "nic", Path::P2p));
    assert!(written.contains("no device lends memory between drive and nic"));
    let via = Flow { via: Some("gpu:0".to_owned()), ..Flow::new("drive", "nic", Path::P2p) };
    assert!(is_near(self::alone(&no_memory, &[], via), 6.8));
}

#[test]
fn packets_stay_in_one_machine() {
    let record = predict(&machine("two-servers"), &example_workload("two-servers"), Engine::Tlp);
    for case in &record.cases {
        let prediction = case.prediction.as_ref().expect("a prediction");
        assert_eq!(prediction.engine, "flow: packets stay in one machine");
        assert!(case.flows[0].block.count == 0 && prediction.interval.is_some());
    }
}

#[test]
fn direct_connect_agrees_with_its_figures() {
    let report = Study::built_in().and_then(|study| study.report(&["001".to_owned()]));
    let report = report.expect("figures");
    let gain = report.rows.iter().find(|row| row.figure == "gain-at-x1").expect("a figure");
    let gain = gain.predicted.as_f64().expect("a ratio");
    let fitted = report.parameters.iter().find(|one| one.name == "dc.drive").expect("fitted");
    let text = example("direct-connect-parameters");
    let parameters = super::super::parameters(Some(&text)).expect("parameters");
    for rate in ["drive.read.rate", "drive.write.rate"] {
        let given = parameters.values()[parameters.position(rate).expect("given")];
        assert!((given / fitted.value - 1.0).abs() < 1e-3, "{rate}: {given}");
    }
    let asked = example_workload("direct-connect");
    let of = |link: &str| {
        let machine = changed("direct-connect", "link = \"2.5GT/s x8\"", link);
        let record = run(&machine, &parameters, &asked, Engine::Flow).expect("predicted");
        let host = record.cases[0].host_memory.bytes;
        assert_eq!(host, Some(Bytes::ZERO), "the copy by the card");
        let limit = |case: usize| limit_of(&record.cases[case].flows[0]).to_owned();
        ([rate(&record, 0), rate(&record, 1)], [limit(0), limit(1)])
    };
    let ([wide, host_wide], _) = of("link = \"2.5GT/s x8\"");
    let ([narrow, host_narrow], [own, by_host]) = of("link = \"2.5GT/s x1\"");
    let found = narrow / host_narrow;
    assert!((found / gain - 1.0).abs() < 0.02, "{found} {gain}");
    assert!(is_near(wide, narrow) && is_near(wide, host_wide), "{wide} {narrow} {host_wide}");
    assert!(own.starts_with("medium of drive") && by_host.starts_with("link of bridge "));
}
