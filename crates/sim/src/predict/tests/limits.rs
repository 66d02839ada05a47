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
