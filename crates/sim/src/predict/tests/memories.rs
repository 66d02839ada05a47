//! That the memory of a device, or the wire behind it, bounds what ends there or begins there by every route.

use super::*;

/// A server with a GPU and a network controller at 10 Gbit/s, which passes all that peers read.
fn server() -> Fabric {
    let nic = "device = \"0x1003\"\n";
    let mut server = changed("donard", nic, &format!("{nic}ethernet = \"1.25G\"\n"));
    server.bridges.iter_mut().for_each(|bridge| bridge.peer.read = None);
    server
}

#[test]
fn a_memory_or_a_wire_bounds_both_routes_and_is_named() {
    // Half a gigabyte a second written, a quarter read; full frames.
    let given = with(&[("gpu:0.memory.write", 0.5, "GB/s"), ("gpu:0.memory.read", 250.0, "MB/s")]);
    let wire = 1.25 * 1448.0 / 1538.0;
    for (source, target, most, object) in [
        ("drive", "gpu:0", 0.5, "memory of gpu"),
        ("host", "gpu:0", 0.5, "memory of gpu"),
        ("nic", "gpu:0", 0.5, "memory of gpu"),
        ("gpu:0", "drive", 0.25, "memory of gpu"),
        ("gpu:0", "host", 0.25, "memory of gpu"),
        ("drive", "nic", wire, "memory of nic"),
        ("host", "nic", wire, "memory of nic"),
        ("nic", "drive", wire, "memory of nic"),
        ("nic", "host", wire, "memory of nic"),
    ] {
        let of = |path| Flow { block: Bytes::mib(1), ..Flow::new(source, target, path) };
        for engine in [Engine::Closed, Engine::Flow, Engine::Tlp] {
            let cases =
                [Path::P2p, Path::HostPipelined].map(|path| ("a route", vec![of(path)])).to_vec();
            let record = run(&server(), &given, &workload(cases), engine).expect("predicted");
            for (case, bytes) in [(0, 0.0), (1, 2.0)] {
                let (found, record) = (rate(&record, case), &record.cases[case]);
                let place = format!("{engine:?}, {source} to {target}, case {case}");
                assert!(is_near(found, most), "{place}: {found} and not {most}");
                assert_eq!(limit_of(&record.flows[0]), object, "{place}");
                let prediction = record.prediction.as_ref().expect("one");
                let gain = prediction.gains.first();
                let gains = |gain: &Gain| gain.resource == object && is_near(gain.ratio, 1.1);
                assert!(engine == Engine::Closed || gain.is_some_and(gains), "{place}: {gain:?}");
                let ends_in_host = [source, target].contains(&"host");
                let most = if ends_in_host { 1.0 } else { bytes } * record.bytes.0 as f64;
                let found = prediction.host_memory.expect("an interval").1;
                assert!(is_near(1.0 + found.0 as f64, 1.0 + most), "{place}: {found}");
            }
        }
    }
}

#[test]
fn a_device_is_as_slow_where_one_slot_takes_turns() {
    let given = with(&[("gpu:0.memory.write", 1.0, "GB/s")]);
    let serial = |parameters: &Parameters| {
        let flow = Flow { block: Bytes::mib(1), ..Flow::new("host", "gpu:0", Path::HostSerial) };
        let rates = [Engine::Closed, Engine::Flow, Engine::Tlp].map(|engine| {
            let flows = one(flow.clone());
            rate(&run(&server(), parameters, &flows, engine).expect("predicted"), 0)
        });
        assert!(rates.iter().all(|&rate| is_near(rate, rates[0])), "{rates:?}");
        rates[0]
    };
    assert!(serial(&with(&[])) > 4.0);
    assert!(is_near(serial(&given), 1.0), "{}", serial(&given));
}

#[test]
fn a_wire_gains_one_way_at_a_time() {
    let flows = ["drive", "host"].map(|source| Flow::new(source, "nic", Path::HostPipelined));
    let mut timed = workload(vec![("out", flows.to_vec())]);
    // What comes in is little.
    let limit = Some(ByteRate(100_000_000));
    timed.cases[0].flows.push(Flow { limit, ..Flow::new("nic", "host", Path::HostPipelined) });
    timed.cases[0].time_ns = Some(Nanos::seconds(1));
    let record = predict(&server(), &timed, Engine::Flow);
    let gains = &record.cases[0].prediction.as_ref().expect("one").gains;
    let resources: Vec<&str> = gains.iter().map(|gain| gain.resource.as_str()).collect();
    assert_eq!(resources, ["memory of nic", "limit"]);
}
