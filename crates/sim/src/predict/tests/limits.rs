//! What is said to limit a flow, and what more of it would gain.

use super::*;
use crate::generate::{fabric, workload as generated};

/// Four drives behind a switch and one beside it, and a memory at an x4 link.
fn crowded() -> Fabric {
    changed(
        "victim",
        "name = \"idle\"\nkind = \"fpga\"",
        "name = \"idle\"\nkind = \"nvme\"\nsize = \"1T\"",
    )
}

fn limits(record: &BenchRecord) -> Vec<&str> {
    record.cases[0].flows.iter().map(limit_of).collect()
}

fn gains(record: &BenchRecord) -> Vec<(&str, f64)> {
    let prediction = record.cases[0].prediction.as_ref().expect("it is one");
    prediction.gains.iter().map(|gain| (gain.resource.as_str(), gain.ratio)).collect()
}

#[test]
fn who_waits_behind_full_queues_is_limited_by_what_those_wait_for() {
    for depth in [4, 16, 64, 256] {
        let flow = |source| Flow { depth, ..Flow::new(source, "hot", Path::P2p) };
        let flows = ["drive0", "drive1", "drive2", "idle"].map(flow).to_vec();
        let record = predict(&crowded(), &workload(vec![("in", flows)]), Engine::Flow);
        assert_eq!(limits(&record), ["link of hot down"; 4], "depth {depth}");
        assert!(matches!(gains(&record)[..], [("link of hot down", 1.09..1.11)]), "{record:?}");
    }
}

#[test]
fn a_flow_is_limited_by_itself_where_it_gets_what_it_asks_for() {
    for seed in 1..6 {
        let machine = fabric(&format!("pods:1:{seed}")).expect("notation").expect("a machine");
        let asked = generated(&format!("random:40:{seed}"), &machine);
        let mut asked = asked.expect("notation").expect("a workload");
        // All run all the time, so that each has one rate.
        asked.cases[0].time_ns = Some(Nanos::seconds(1));
        let [found, alone] =
            [Engine::Flow, Engine::Closed].map(|engine| predict(&machine, &asked, engine));
        for (found, alone) in found.cases[0].flows.iter().zip(&alone.cases[0].flows) {
            let share = found.bytes.0 as f64 / alone.bytes.0 as f64;
            let is_own =
                !["medium", "link", "memory"].iter().any(|k| limit_of(found).starts_with(k));
            assert!(!is_own || share > 0.99, "{seed}: {share} of what it asks for, {found:?}");
        }
    }
}

#[test]
fn what_limits_as_much_within_a_percent_is_named_beside_what_limits() {
    let machine = machine("victim");
    let write = |commands: f64| {
        let others =
            [("drive0.write.rate", 14_000.0, "MB/s"), ("drive0.write.commands", commands, "count")];
        let flow = Flow { depth: 64, ..Flow::new("host", "drive0", Path::HostPipelined) };
        run(&machine, &with(&others), &one(flow), Engine::Flow).expect("predicted")
    };
    let full = rate(&write(1e6), 0) * 1e9 / 131_072.0;
    let (link, commands) = ("link of drive0 down", "commands of drive0");
    for (share, first, second) in [(0.9992, commands, link), (1.0008, link, commands)] {
        let record = write(full * share);
        assert_eq!(limit(&record), first);
        let both = format!("{first}, and as much more of {second}");
        let gains = gains(&record);
        assert!(gains[0].0 == both && gains[0].1 > 1.09, "{gains:?}");
        assert!(gains[1].0 == first && gains[1].1 < 1.01, "{gains:?}");
    }
}

#[test]
fn the_processor_and_commands_that_limit_as_much_gain_together() {
    // 800 k commands a second each, as built in.
    let reader = |drive| Flow {
        block: Bytes::kib(4),
        depth: 256,
        order: Order::Random,
        ..Flow::new(drive, "host", Path::HostPipelined)
    };
    for (drives, other) in
        [(&["a"][..], "random commands of a"), (&["a", "b"], "random commands of 2 drives")]
    {
        let flows = drives.iter().map(|&drive| reader(drive)).collect();
        let fast = with(&[("a.lanes", 16.0, "count")]);
        let record = run(&machine("epyc"), &fast, &workload(vec![("in", flows)]), Engine::Flow);
        let record = record.expect("predicted");
        let both = format!("the processor, and as much more of {other}");
        let gains = gains(&record);
        assert!(gains[0].0 == both && is_near(gains[0].1, 1.1), "{gains:?}");
        assert!(gains[1].0 == "the processor" && is_near(gains[1].1, 1.0), "{gains:?}");
        assert_eq!(gains.len(), 2, "{gains:?}");
    }
}

#[test]
fn commands_and_the_processor_are_among_the_limits_of_a_case_where_they_limit_it() {
    let small = |depth| Flow {
        block: Bytes::kib(4),
        depth,
        order: Order::Random,
        ..Flow::new("host", "a", Path::HostPipelined)
    };
    let copied = || Flow { block: Bytes::mib(1), ..Flow::new("host", "b", Path::HostPageCache) };
    let slow = with(&[("host.copy", 0.5, "GB/s"), ("host.overlap", 3.0, "count")]);
    for (flows, given, expected) in [
        (vec![small(64)], with(&[]), "random commands of a"),
        (vec![small(64), small(64)], with(&[]), "random commands of a"),
        (vec![small(64)], with(&[("host.command", 50.0, "us")]), "the processor"),
        (vec![copied()], slow, "the processor"),
    ] {
        for engine in [Engine::Closed, Engine::Flow] {
            // Bounds of several flows are those of each alone.
            if flows.len() > 1 && engine == Engine::Closed {
                continue;
            }
            let asked = workload(vec![("some", flows.clone())]);
            let record = run(&machine("pair"), &given, &asked, engine).expect("predicted");
            let lowest = &record.cases[0].limits[0];
            assert_eq!((lowest.object.as_str(), limit(&record)), (expected, expected));
            let share = rate(&record, 0) * 1e9 / lowest.bytes_per_second.0 as f64;
            assert!(is_near(share, 1.0), "{engine:?}, {expected}: {share}");
        }
    }
    // Where they limit nothing, what does is the lowest.
    let record = predict(&machine("pair"), &one(reader_of_much()), Engine::Flow);
    let objects = record.cases[0].limits.iter().map(|limit| limit.object.as_str());
    assert!(!objects.clone().any(|name| name.contains("commands") || name.contains("processor")));
    assert_eq!(objects.clone().next(), Some(limit(&record)));
}

fn reader_of_much() -> Flow {
    Flow { depth: 64, ..Flow::new("a", "host", Path::HostPipelined) }
}

#[test]
fn a_limit_keeps_a_flow_from_more_and_makes_no_block_slower() {
    let machine = machine("victim");
    let others = [("drive0.read.rate", 3_000.0, "MB/s")];
    let predict = |limit: Option<u64>, depth, engine| {
        let limit = limit.map(ByteRate);
        let flow = Flow {
            block: Bytes::mib(1),
            depth,
            limit,
            ..Flow::new("drive0", "host", Path::HostPipelined)
        };
        run(&machine, &with(&others), &one(flow), engine).expect("predicted")
    };
    for engine in [Engine::Closed, Engine::Flow, Engine::Tlp] {
        let free = rate(&predict(None, 1, engine), 0);
        for (limit, expected) in [(1_000_000_000, 1.0), (5_000_000_000, free)] {
            let found = predict(Some(limit), 1, engine);
            let at = rate(&found, 0);
            assert!(
                (at / expected - 1.0).abs() < 0.005,
                "{engine:?} {limit}: {at} and not {expected}"
            );
            assert_eq!(limit_of(&found.cases[0].flows[0]) == "its limit", limit < 2_000_000_000);
        }
    }
    let median =
        |limit, depth| predict(limit, depth, Engine::Tlp).summaries[0].block.p50_ns.0 as f64;
    let alone = median(None, 1);
    for depth in [1, 16] {
        let paced = median(Some(1_000_000_000), depth);
        assert!((paced / alone - 1.0).abs() < 0.02, "depth {depth}: {paced} and not {alone}");
    }
    // A limit that is more than there is leaves all the depth under way.
    assert!(median(Some(5_000_000_000), 16) > 10.0 * alone);
}
