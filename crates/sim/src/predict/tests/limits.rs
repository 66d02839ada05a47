//! Limits of transfers, and the gains of more of them.

use super::*;
use crate::generate::{fabric, workload as generated};

#[test]
fn full_queues_name_their_cause() {
    let idle = "name = \"idle\"\nkind = \"fpga\"";
    let crowded = changed("victim", idle, "name = \"idle\"\nkind = \"nvme\"\nsize = \"1T\"");
    for depth in [4, 64] {
        let flow = |source| Flow { depth, ..Flow::new(source, "hot", Path::P2p) };
        let flows = ["drive0", "drive1", "drive2", "idle"].map(flow).to_vec();
        let record = predict(&crowded, &workload(vec![("in", flows)]), Engine::Flow);
        assert_eq!(limits(&record), ["link of hot down"; 4], "depth {depth}");
        assert!((1.09..1.11).contains(&gain(&record, "link of hot down")));
    }
}

#[test]
fn own_limits_leave_flows_their_demand() {
    let machine = fabric("pods:1:2").expect("notation").expect("a machine");
    let mut asked = generated("random:40:2", &machine).expect("notation").expect("a workload");
    asked.cases[0].time_ns = Some(Nanos::seconds(1));
    let [found, alone] = [Engine::Flow, Engine::Closed].map(|e| predict(&machine, &asked, e));
    for (found, alone) in found.cases[0].flows.iter().zip(&alone.cases[0].flows) {
        let share = found.bytes.0 as f64 / alone.bytes.0 as f64;
        let is_shared = ["medium", "link", "memory"].iter().any(|k| limit_of(found).starts_with(k));
        assert!(is_shared || share > 0.99, "{share} of its demand, {found:?}");
    }
}

#[test]
fn gains_are_those_of_faster_machines() {
    let p2p = Flow::new("a", "b", Path::P2p);
    let small = Flow { block: Bytes::kib(4), depth: 256, order: Order::Random, ..p2p.clone() };
    let copy = Flow { block: Bytes::mib(1), ..Flow::new("host", "host", Path::HostPipelined) };
    for (flow, resource, rates) in [
        (p2p.clone(), "medium of a, read", [("a.read.rate", 1.0, "GB/s"), ("a.mixed", 1.0, "x")]),
        (
            p2p.clone(),
            "medium of b, written",
            [("b.write.rate", 1.0, "GB/s"), ("b.mixed", 1.0, "x")],
        ),
        (
            small,
            "random commands of b",
            [("b.random-write.commands", 30e3, "count"), ("b.mixed", 1.0, "x")],
        ),
        (copy, "the processor", [("host.copy", 5.0, "GB/s"), ("b.mixed", 1.0, "x")]),
    ] {
        let [before, after] = [1.0, 1.1].map(|times| {
            let given = [(rates[0].0, rates[0].1 * times, rates[0].2), rates[1]];
            predict_with(&machine("pair"), &given, &one(flow.clone()), Engine::Flow)
        });
        let expected = rate(&after, 0) / rate(&before, 0);
        let found = gain(&before, resource);
        assert!((found / expected - 1.0).abs() < 0.003, "{resource}: {found}, not {expected}");
        assert_eq!(limits(&before), [resource]);
    }
}

#[test]
fn depth_gain_matches_more_blocks() {
    let of = |depth| {
        let flow = Flow { block: Bytes::kib(4), depth, ..Flow::new("a", "b", Path::P2p) };
        predict(&machine("pair"), &one(flow), Engine::Flow)
    };
    let expected = rate(&of(11), 0) / rate(&of(10), 0);
    assert!((gain(&of(10), "depth") / expected - 1.0).abs() < 0.003, "{expected}");
    assert_eq!(limits(&of(10)), ["its depth"]);
}

#[test]
fn limits_of_one_kind_gain_together() {
    let flows = ["a", "b", "a", "b"].map(|target| small("host", target)).to_vec();
    let record = predict(&machine("pair"), &together(flows), Engine::Flow);
    assert!(is_near(gain(&record, "random commands of 2 drives"), 1.1));
    assert!(is_near(gain(&record, "random commands of a"), 1.05));
}

#[test]
fn lowest_ceiling_is_the_limit() {
    for (count, given, expected) in [
        (1, vec![], "random commands of a"),
        (2, vec![], "random commands of a"),
        (1, vec![("host.command", 50.0, "us")], "the processor"),
    ] {
        let asked = workload(vec![("some", vec![small("host", "a"); count])]);
        let record = predict_with(&machine("pair"), &given, &asked, Engine::Flow);
        let lowest = &record.cases[0].limits[0];
        assert_eq!((lowest.object.as_str(), limits(&record)[0]), (expected, expected));
        assert!(is_near(rate(&record, 0) * 1e9, lowest.bytes_per_second.0 as f64), "{expected}");
    }
}

#[test]
fn caps_slow_no_block() {
    let predict = |limit: Option<u64>, engine| {
        let (block, limit) = (Bytes::mib(1), limit.map(ByteRate));
        let flow = Flow::new("drive0", "host", Path::HostPipelined);
        let given = [("drive0.read.rate", 3_000.0, "MB/s")];
        let flow = Flow { block, depth: 1, limit, ..flow };
        predict_with(&machine("victim"), &given, &one(flow), engine)
    };
    for engine in [Engine::Closed, Engine::Flow, Engine::Tlp] {
        let free = rate(&predict(None, engine), 0);
        for (limit, expected) in [(1_000_000_000, 1.0), (5_000_000_000, free)] {
            let found = predict(Some(limit), engine);
            assert!(is_near(rate(&found, 0), expected), "{engine:?} {limit}: {}", rate(&found, 0));
            assert_eq!(limits(&found) == ["its limit"], limit < 2_000_000_000);
        }
    }
    let median = |limit| predict(limit, Engine::Tlp).summaries[0].block.p50_ns.0 as f64;
    assert!((median(Some(1_000_000_000)) / median(None) - 1.0).abs() < 0.02);
}
