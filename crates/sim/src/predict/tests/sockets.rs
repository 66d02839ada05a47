//! Links between sockets, root complexes by their host bridges, and latencies of memories.

use peerlane_results::{Direction, LinkLoad};

use super::*;

/// Four drives below one socket, one of them at a port that is called `root1`, and a GPU below the other; with more keys of
/// either host bridge.
fn two(first: &str, second: &str) -> Fabric {
    let mut text = format!(
        "name = \"two\"\niommu = \"off\"\n\
         [[host_bridge]]\nname = \"pci0000:00\"\nnuma_node = 0\n{first}\n\
         [[host_bridge]]\nname = \"pci0000:80\"\nnuma_node = 1\n{second}\n"
    );
    let mut device = |port: &str, bridge: &str, rest: &str| {
        text += &format!(
            "[[function]]\nname = \"{port}\"\nkind = \"root-port\"\nunder = \"{bridge}\"\n\
             [[function]]\nunder = \"{port}\"\n{rest}\n"
        );
    };
    for number in 0..4 {
        let drive =
            format!("name = \"a{number}\"\nkind = \"nvme\"\nlink = \"32GT/s x4\"\nread = \"13G\"");
        device(&format!("root{number}"), "pci0000:00", &drive);
    }
    device("top", "pci0000:80", "name = \"g\"\nkind = \"gpu\"\nlink = \"32GT/s x16\"");
    Fabric::from_toml(&text).expect("a machine")
}

fn across() -> Workload {
    let flows = (0..4).map(|number| Flow::new(format!("a{number}"), "gpu:0", Path::P2p));
    workload(vec![("across", flows.collect())])
}

const LINK: &str = "link between sockets from pci0000:00 to pci0000:80";

#[test]
fn a_link_between_sockets_is_a_limit_with_a_range_a_load_and_a_gain() {
    for engine in [Engine::Flow, Engine::Tlp] {
        let record = predict(&two("", ""), &across(), engine);
        assert!(is_near(rate(&record, 0), 31.0), "{engine:?}: {}", rate(&record, 0));
        let case = &record.cases[0];
        assert!(case.flows.iter().all(|flow| limit_of(flow) == LINK), "{:?}", case.flows);
        let prediction = case.prediction.as_ref().expect("one");
        let (low, high) = prediction.interval.expect("few flows");
        assert!(low.0 < 16_000_000_000 && high.0 > 45_000_000_000, "{low} to {high}");
        let gain = prediction.gains.iter().find(|gain| gain.resource == LINK).expect("it limits");
        assert!(is_near(gain.ratio, 1.1), "{gain:?}");
        let is_it = |load: &&LinkLoad| load.other_end.is_some();
        let loads: Vec<_> = case.links.iter().filter(is_it).collect();
        let [LinkLoad { below, other_end, direction, busy, .. }] = loads[..] else {
            panic!("{loads:?}")
        };
        let ends = (below.as_str(), other_end.as_deref(), *direction);
        assert_eq!(ends, ("pci0000:80", Some("pci0000:00"), Direction::Down));
        assert!(busy.is_some_and(|busy| is_near(busy, 1.0)), "{busy:?}");
    }
}

#[test]
fn what_sockets_carry_between_them_is_stated_by_either_or_a_parameter() {
    let given = [("socket-link.rate", 12.0, "GB/s")];
    let of = |machine: &Fabric, given: &[(&str, f64, &str)]| {
        rate(&run(machine, &with(given), &across(), Engine::Flow).expect("predicted"), 0)
    };
    assert!(is_near(of(&two("", ""), &given), 12.0));
    assert_eq!(unused(&with(&given), &two("", "")), []);
    let stated = |rate| format!("socket_link = \"{rate}G\"");
    let machines = [two(&stated(20), ""), two("", &stated(20)), two(&stated(40), &stated(20))];
    for machine in &machines {
        assert!(is_near(of(machine, &given), 20.0), "{}", of(machine, &given));
        let given = with(&given);
        let said = "the machine's description says it of each link between sockets";
        assert_eq!(unused(&given, machine), [("socket-link.rate", said)]);
    }
    let given = with(&[("socket-link.latency", 100.0, "ns")]);
    assert_eq!(unused(&given, &machines[0]), []);
    let said = "the machine has one memory node";
    assert_eq!(unused(&given, &machine("ten")), [("socket-link.latency", said)]);
}

#[test]
fn a_root_complex_is_called_as_its_host_bridge_is_and_not_as_a_port() {
    let capped = two("p2p_write = \"9G\"", "");
    let record = predict(&capped, &across(), Engine::Flow);
    assert_eq!(limit(&record), "writes between peers through pci0000:00");
    // Host bridges of one memory node are one root complex.
    let more = "p2p_write = \"9G\"\n[[host_bridge]]\nname = \"pci0000:40\"\nnuma_node = 0";
    let record = predict(&two(more, ""), &across(), Engine::Flow);
    assert_eq!(limit(&record), "writes between peers through the host bridges of node 0");
    let translating = with(&[("iommu.walk", 40.0, "us")]);
    let mut fabric = two("", "");
    fabric.iommu = peerlane_fabric::IommuMode::Translating;
    let record = run(&fabric, &translating, &across(), Engine::Flow).expect("predicted");
    assert_eq!(limit(&record), "page walks of the IOMMU at pci0000:00");
}

/// One command at a time of a drive that takes next to none, so that the rest of a block is what memory and ways take.
#[test]
fn latencies_of_memories_and_of_links_between_sockets_are_parameters() {
    let quick = ["read", "write"].map(|side| format!("drive.{side}.time-4096"));
    let block = |source: &str, target: &str, path| Flow {
        block: Bytes::kib(4),
        depth: 1,
        bytes: Bytes::mib(1),
        ..Flow::new(source, target, path)
    };
    let (p2p, host) = (Path::P2p, Path::HostPipelined);
    let machine = two("", "");
    for (name, source, target, path) in [
        ("host.read-latency", "host", "a0", host),
        ("host.write-latency", "a0", "host", host),
        ("device.read-latency", "gpu:0", "a0", p2p),
        ("device.write-latency", "a0", "gpu:0", p2p),
        ("socket-link.latency", "a0", "gpu:0", p2p),
    ] {
        let time = |latency: f64| {
            let mut given: Vec<_> = quick.iter().map(|name| (name.as_str(), 1.0, "us")).collect();
            given.push((name, latency, "us"));
            4096.0 / alone(&machine, &with(&given), block(source, target, path))
        };
        let longer = time(30.0) - time(10.0);
        assert!(is_near(longer, 20_000.0), "{name}: {longer} ns");
    }
    // Completions of 128 bytes in place of 256, over a link that they fill.
    let of = |completion| {
        let given = [("device.completion", completion, "B"), ("drive.write.rate", 60.0, "GB/s")];
        let flow = Flow { depth: 64, ..Flow::new("gpu:0", "a0", p2p) };
        alone(&machine, &with(&given), flow)
    };
    let ratio = of(128.0) / of(256.0);
    assert!(is_near(ratio, (128.0 / 148.0) / (256.0 / 276.0)), "{ratio}");
}
