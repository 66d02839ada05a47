//! What more of something gains, beside a machine that has more of it.

use super::*;

/// Parameters of a case, and what they are called that more of something changes.
const RATES: [(&str, f64, &str); 8] = [
    ("a.read.rate", 5_000.0, "MB/s"),
    ("b.write.rate", 4_000.0, "MB/s"),
    // Times of small commands alone, which hold next to nothing of the medium.
    ("a.read.time-512", 80.0, "us"),
    ("b.write.time-512", 20.0, "us"),
    ("host.copy", 8.0, "GB/s"),
    ("host.command", 2.0, "us"),
    ("host.fault", 0.5, "us"),
    ("host.memory", 40.0, "GB/s"),
];

fn found(engine: Engine, flow: &Flow, changed: &[(&str, f64)]) -> BenchRecord {
    let rates = RATES.map(|(name, value, unit)| {
        let times =
            changed.iter().find(|(known, _)| *known == name).map_or(1.0, |(_, times)| *times);
        (name, value * times, unit)
    });
    run(&machine("pair"), &with(&rates), &one(flow.clone()), engine).expect("predicted")
}

#[test]
fn more_of_what_blocks_take_time_in_gains_what_a_machine_with_more_of_it_does() {
    const PROCESSOR: &[(&str, f64)] =
        &[("host.copy", 1.1), ("host.command", 1.0 / 1.1), ("host.fault", 1.0 / 1.1)];
    let things: [(&str, &[(&str, f64)]); 4] = [
        ("medium of a, read", &[("a.read.rate", 1.1)]),
        ("medium of b, written", &[("b.write.rate", 1.1)]),
        ("the processor", PROCESSOR),
        ("memory of host", &[("host.memory", 1.1)]),
    ];
    for (path, depth, expected) in [
        (Path::P2p, 1, &["medium of a, read", "medium of b, written"][..]),
        (Path::HostPipelined, 2, &["medium of a, read", "medium of b, written"]),
        (Path::HostSerial, 1, &["medium of a, read", "medium of b, written"]),
        (Path::HostPageCache, 1, &["the processor"]),
        (Path::HostMapped, 1, &["the processor"]),
    ] {
        let flow = Flow { block: Bytes::mib(1), depth, ..Flow::new("a", "b", path) };
        for engine in [Engine::Closed, Engine::Flow] {
            assert_gains(engine, &flow, expected, &things);
        }
    }
}

/// Asserts that a case gains by what is expected, and by each thing what a machine with more of it does.
fn assert_gains(engine: Engine, flow: &Flow, expected: &[&str], things: &[(&str, &[(&str, f64)])]) {
    let before = found(engine, flow, &[]);
    let path = flow.path;
    let gains = &before.cases[0].prediction.as_ref().expect("one").gains;
    let named = |name: &str| gains.iter().find(|gain| gain.resource == name);
    for name in expected {
        assert!(
            named(name).is_some_and(|gain| gain.ratio > 1.01),
            "{engine:?}, {path}, {name}: {gains:?}"
        );
    }
    for (name, changed) in things {
        let Some(gain) = named(name) else { continue };
        let after = rate(&found(engine, flow, changed), 0) / rate(&before, 0);
        assert!(
            (gain.ratio / after - 1.0).abs() < 0.003,
            "{engine:?}, {path}, {name}: {after}, {gain:?}"
        );
    }
}

#[test]
fn a_processor_that_copies_by_itself_gains_by_as_much_as_it_is_faster() {
    let asked = || Flow { block: Bytes::mib(1), ..Flow::new("host", "host", Path::HostPipelined) };
    for count in [1, 2] {
        let asked = workload(vec![("copies", vec![asked(); count])]);
        let record = predict(&machine("pair"), &asked, Engine::Flow);
        let gains = &record.cases[0].prediction.as_ref().expect("one").gains;
        let processor = gains.iter().find(|gain| gain.resource == "the processor");
        assert!(processor.is_some_and(|gain| is_near(gain.ratio, 1.1)), "{gains:?}");
    }
}

#[test]
fn a_tenth_more_depth_gains_what_eleven_blocks_do_beside_ten() {
    let flow = |depth| Flow { block: Bytes::kib(4), depth, ..Flow::new("a", "b", Path::P2p) };
    for engine in [Engine::Closed, Engine::Flow] {
        let [ten, eleven] = [10, 11].map(|depth| found(engine, &flow(depth), &[]));
        assert_eq!(limit_of(&ten.cases[0].flows[0]), "its depth");
        let gains = &ten.cases[0].prediction.as_ref().expect("one").gains;
        let depth = gains.iter().find(|gain| gain.resource == "depth").expect("a gain");
        let expected = rate(&eleven, 0) / rate(&ten, 0);
        assert!(expected > 1.09, "{expected}");
        assert!((depth.ratio / expected - 1.0).abs() < 0.003, "{engine:?}: {expected}, {depth:?}");
    }
}
