//! Transfers with a block or two in flight beside others where reads and writes take turns, as fluids and on packets.

use super::*;

/// Three drives and a memory that is four times as fast written as read, below one switch.
fn switched() -> Fabric {
    let mut text = String::from(
        r#"
name = "switched"
iommu = "off"

[[function]]
name = "up"
kind = "upstream-port"
link = "16GT/s x16"

[[function]]
name = "g"
kind = "gpu"
under = "up"
link = "16GT/s x16"
p2pmem = { size = "16G", read = "3G", write = "12G" }
"#,
    );
    for name in ["a", "b", "c"] {
        text += &format!("[[function]]\nname = \"{name}\"\nkind = \"nvme\"\nunder = \"up\"\n");
        text += "link = \"32GT/s x4\"\nread = \"14G\"\nwrite = \"9G\"\n";
    }
    Fabric::from_toml(&text).expect("a machine")
}

fn flow(source: &str, target: &str, depth: u32, path: Path) -> Flow {
    Flow { block: Bytes::mib(1), depth, ..Flow::new(source, target, path) }
}

#[test]
fn few_commands_have_turns_of_equal_bytes_beside_many() {
    let machine = switched();
    let p2p = |source, target, depth| flow(source, target, depth, Path::P2p);
    let by_host = |source, target, depth| flow(source, target, depth, Path::HostPipelined);
    let through = Flow { via: Some("gpu:0".to_owned()), ..p2p("a", "b", 1) };
    for flows in [
        vec![p2p("gpu:0", "a", 1), p2p("b", "gpu:0", 32)],
        vec![p2p("gpu:0", "a", 1), p2p("b", "gpu:0", 32), p2p("c", "gpu:0", 32)],
        vec![p2p("a", "gpu:0", 1), p2p("gpu:0", "b", 32)],
        vec![through, p2p("gpu:0", "c", 32)],
        vec![by_host("host", "a", 1), by_host("a", "host", 32)],
        vec![by_host("a", "host", 1), by_host("host", "a", 32)],
    ] {
        let mut asked = workload(vec![("both", flows)]);
        asked.cases[0].time_ns = Some(Nanos::seconds(1));
        let [fluids, packets] = [Engine::Flow, Engine::Tlp].map(|engine| {
            let record = run(&machine, &with(&[]), &asked, engine).expect("predicted");
            record.cases[0].flows.iter().map(|flow| flow.bytes.0 as f64 / 1e9).collect::<Vec<_>>()
        });
        for (fluid, packets) in fluids.iter().zip(&packets) {
            assert!((fluid / packets - 1.0).abs() < 0.06, "{fluids:?} {packets:?}");
        }
    }
}

#[test]
fn a_transfer_with_one_slot_waits_for_nobody_where_it_is_alone() {
    for memory in [8.0, 12.0, 20.0] {
        let given = with(&[("host.memory", memory, "GB/s")]);
        for path in [Path::HostSerial, Path::HostPageCache, Path::HostMapped] {
            let [closed, fluid] = [Engine::Closed, Engine::Flow].map(|engine| {
                let asked = one(flow("a", "b", 1, path));
                rate(&run(&machine("pair"), &given, &asked, engine).expect("predicted"), 0)
            });
            assert!((fluid / closed - 1.0).abs() < 0.005, "{memory} {path}: {fluid} {closed}");
        }
    }
}

#[test]
fn engines_that_say_different_rates_of_a_case_are_told_with_both() {
    let machine = switched();
    let p2p = |source, target, depth| flow(source, target, depth, Path::P2p);
    let through = Flow { via: Some("gpu:0".to_owned()), ..p2p("a", "b", 1) };
    for (flows, is_told) in [
        (vec![through, p2p("c", "gpu:0", 32)], true),
        (vec![p2p("gpu:0", "a", 32), p2p("b", "gpu:0", 32)], false),
    ] {
        let mut asked = workload(vec![("both", flows)]);
        asked.cases[0].time_ns = Some(Nanos::seconds(1));
        let [fluids, packets] = [Engine::Auto, Engine::Tlp]
            .map(|engine| run(&machine, &with(&[]), &asked, engine).expect("predicted"));
        let mean = |record: &BenchRecord| rate(record, 0);
        for record in [&fluids, &packets] {
            let told = record.cases[0].warnings.iter().find_map(|warning| match warning {
                Warning::EnginesDiffer { fluids, packets, .. } => Some((fluids.0, packets.0)),
                _ => None,
            });
            assert_eq!(told.is_some(), is_told, "{told:?}");
            if let Some((as_fluids, on_packets)) = told {
                assert!(is_near(mean(&fluids), as_fluids as f64 / 1e9), "{as_fluids}");
                assert!(is_near(mean(&packets), on_packets as f64 / 1e9), "{on_packets}");
            }
            let prediction = record.cases[0].prediction.as_ref().expect("one");
            let (low, high) = prediction.interval.expect("a range");
            let ratio = (high.0 - low.0) as f64 / 1e9 / mean(record);
            let of_fluids = fluids.cases[0].prediction.as_ref().and_then(|one| one.interval);
            let (low, high) = of_fluids.expect("a range");
            let expected = (high.0 - low.0) as f64 / 1e9 / mean(&fluids);
            assert!((ratio - expected).abs() < 0.02, "{ratio} and not {expected}");
        }
    }
}
