//! Links, sockets, Ethernets, root complexes, and the assumptions about them.

use super::*;

const X4: &str = "link = \"16GT/s x4\"";

/// A drive and a GPU below root ports of their own, each with keys of its own: port, device.
fn pair(drive: [&str; 2], gpu: [&str; 2]) -> Fabric {
    let ([slot, a], [big, g]) = (drive, gpu);
    peerlane_testing::machine(&format!(
        "iommu = 'off'
         slot root-port {slot}
           a nvme read = '7GB/s'; write = '5GB/s'; {a}
         big root-port {big}
           g gpu {g}"
    ))
}

fn warnings(machine: &Fabric, given: Given<'_>, flow: Flow) -> Vec<Warning> {
    predict_with(machine, given, &one(flow), Engine::Flow).warnings
}

fn to_gpu() -> Flow {
    Flow::new("a", "gpu:0", Path::P2p)
}

fn to_host() -> Flow {
    Flow::new("a", "host", Path::HostPipelined)
}

#[test]
fn unknown_links_are_warned_of() {
    let silent = pair(["", X4], ["", ""]);
    let assumed = |given: Given<'_>, flow| {
        let found = warnings(&silent, given, flow).into_iter().find_map(|warning| match warning {
            Warning::LinkNotStated { below, taken_as, .. } => Some((below, taken_as)),
            _ => None,
        });
        found.map(|(below, taken_as)| (below.join(" "), taken_as))
    };
    let g = |speed: &str| Some(("g".to_owned(), speed.to_owned()));
    assert_eq!(assumed(&[], to_gpu()), g("16GT/s x4"));
    assert_eq!(assumed(&[], to_host()), None, "the link of the GPU is not crossed");
    let wide = [("pcie.lanes", 16.0, "count"), ("pcie.generation", 5.0, "count")];
    assert_eq!(assumed(&wide, to_gpu()), g("32GT/s x16"));
    let own = [("g.lanes", 16.0, "count"), ("g.generation", 4.0, "count")];
    assert_eq!(assumed(&own, to_gpu()), None);
    let wide = [("pcie.lanes", 8.0, "count")];
    assert_eq!(unused(&with(&wide), &silent), []);
    let said = "the machine's description says how fast each link is";
    assert_eq!(unused(&with(&wide), &pair(["", X4], ["", X4])), [("pcie.lanes", said)]);
}

#[test]
fn unknown_links_widen_the_interval() {
    let flows = workload(vec![("x", vec![to_gpu(); 4])]);
    let fast = [("a.read.rate", 60.0, "GB/s"), ("a.lanes", 16.0, "count")];
    let record = predict_with(&pair(["", X4], ["", ""]), &fast, &flows, Engine::Flow);
    let (low, high) = prediction(&record).interval.expect("a range");
    assert!(low.0 < 4_000_000_000 && high.0 > 14_000_000_000, "{low} to {high}");
    let record = predict_with(&pair(["", X4], ["", X4]), &fast, &flows, Engine::Flow);
    let (low, high) = prediction(&record).interval.expect("a range");
    assert!(low.0 > 6_000_000_000 && high.0 < 8_000_000_000, "{low} to {high}");
}

#[test]
fn links_have_the_lesser_speed() {
    let narrow = pair(["link_below = \"16GT/s x2\"", X4], ["", ""]);
    assert!(is_near(alone(&narrow, &[], to_host()), 3.59));
    // Links that are down, or nobody looked at.
    let down = "link = { maximum = \"16GT/s x4\" }";
    for (port, own, found, expected) in [
        ("", down, "16GT/s x4", 6.98),
        ("link_below = \"8GT/s x4\"", "", "8GT/s x4", 3.59),
        ("link_below = \"8GT/s x16\"", down, "8GT/s x4", 3.59),
    ] {
        let machine = pair([port, own], ["", ""]);
        let (below, taken_as) = (vec!["a".to_owned()], found.to_owned());
        let told = Warning::LinkNotTrained { below, others: 0, taken_as };
        assert_eq!(warnings(&machine, &[], to_host()), [told]);
        assert!(is_near(alone(&machine, &[], to_host()), expected), "{port} {own}");
    }
}

#[test]
fn parameters_change_links() {
    let of = |lanes, generation| {
        let fast = ("drive.read.rate", 60_000.0, "MB/s");
        let link = [("d0.lanes", lanes, "count"), ("d0.generation", generation, "count"), fast];
        alone(&machine("ten"), &link, Flow::new("d1", "d0", Path::P2p))
    };
    let narrow = of(1.0, 3.0);
    assert!(narrow < 1.0 && is_near(of(2.0, 3.0), 2.0 * narrow), "{narrow}");
    assert!(is_near(of(1.0, 4.0), 2.0 * narrow), "{narrow}");
}

#[test]
fn pasted_text_must_state_links() {
    let mut silent = pair(["", X4], ["", ""]);
    silent.origin = peerlane_fabric::Origin::Text;
    let run = |given: Given<'_>, flow| run(&silent, &with(given), &one(flow), Engine::Flow);
    let error = run(&[], to_gpu()).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("`link` is unknown for g"));
    let hint = error.hint(&silent).expect("what to do");
    assert!(hint.contains("--format toml") && hint.contains("name = \"g\""), "{hint}");
    run(&[], to_host()).expect("the link of the GPU is not crossed");
    let own = [("g.lanes", 16.0, "count"), ("g.generation", 4.0, "count")];
    run(&own, to_gpu()).expect("a parameter states it");
}

#[test]
fn unlimited_root_complexes_are_warned_of() {
    let silent = changed("donard", "p2p_read = \"650MB/s\"", "");
    let (read, write) =
        (Flow::new("drive", "gpu:0", Path::P2p), Flow::new("gpu:0", "drive", Path::P2p));
    let keys = |machine: &Fabric, flows: Vec<Flow>| {
        let record = predict(machine, &workload(vec![("all", flows)]), Engine::Flow);
        let [Warning::PeersNotStated { keys, .. }] = &record.warnings[..] else { return vec![] };
        keys.clone()
    };
    let both = vec![read.clone(), write.clone()];
    assert_eq!(keys(&silent, vec![write.clone()]), ["p2p_read"]);
    assert_eq!(keys(&silent, both), ["p2p_read", "p2p_write"]);
    assert_eq!(keys(&machine("donard"), vec![write]), [""; 0]);
    let host = Flow { path: Path::HostPipelined, ..read };
    assert_eq!(keys(&silent, vec![host]), [""; 0]);
}

#[test]
fn refused_peers_are_warned_of() {
    let (amd, intel) = ("\"AuthenticAMD\"\nfamily = 23", "\"GenuineIntel\"\nfamily = 6");
    let fabric = changed("r7515-10-smartssd", amd, intel);
    let warnings = |target, path| {
        let flow = Flow::new("drive0", target, path);
        predict(&fabric, &workload(vec![("two", vec![flow; 2])]), Engine::Flow).cases[0]
            .warnings
            .clone()
    };
    let found = warnings("fpga:fpga1", Path::P2p);
    let [Warning::NotPermitted { memory, initiator, others: 0, .. }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((memory.as_str(), initiator.as_str()), ("fpga1", "drive0"));
    assert_eq!(warnings("fpga:fpga1", Path::HostPipelined), []);
    assert_eq!(warnings("fpga0", Path::P2p), [], "a switch needs no processor");
}

/// Four drives below one socket, and a GPU below the other; with more keys of the first host bridge.
fn sockets(first: &str) -> Fabric {
    let drive =
        |n| format!(" root{n} root-port\n  a{n} nvme link = '32GT/s x4'; read = '13GB/s'\n");
    let drives: String = (0..4).map(drive).collect();
    peerlane_testing::machine(&format!(
        "iommu = 'off'\npci0000:00 host-bridge numa_node = 0; {first}\n{drives}\
         pci0000:80 host-bridge numa_node = 1\n top root-port\n  g gpu link = '32GT/s x16'"
    ))
}

#[test]
fn links_between_sockets_limit() {
    let across = || {
        let flows = (0..4).map(|n| Flow::new(format!("a{n}"), "gpu:0", Path::P2p));
        workload(vec![("across", flows.collect())])
    };
    let name = "link between sockets from pci0000:00 to pci0000:80";
    for engine in [Engine::Flow, Engine::Tlp] {
        let record = predict(&sockets(""), &across(), engine);
        assert!(is_near(rate(&record, 0), 31.0), "{engine:?}: {}", rate(&record, 0));
        assert_eq!(limits(&record), [name; 4]);
        assert!(is_near(gain(&record, name), 1.1));
        let load = record.cases[0].links.iter().find(|load| load.other_end.is_some());
        assert!(load.is_some_and(|load| load.busy.is_some_and(|busy| is_near(busy, 1.0))));
    }
    let given = [("socket-link.rate", 12.0, "GB/s")];
    let of = |machine: &Fabric| rate(&predict_with(machine, &given, &across(), Engine::Flow), 0);
    assert!(is_near(of(&sockets("")), 12.0));
    let stated = sockets("socket_link = \"20GB/s\"");
    assert!(is_near(of(&stated), 20.0));
    let said = "the machine's description says it of each link between sockets";
    assert_eq!(unused(&with(&given), &stated), [("socket-link.rate", said)]);
    let capped = predict(&sockets("p2p_write = \"9GB/s\""), &across(), Engine::Flow);
    assert_eq!(limits(&capped)[0], "writes between peers through pci0000:00");
}

#[test]
fn ethernets_limit() {
    // 256 bytes of payload, header 16, bridge 10, frame 38.
    let frames = 1.25 * 256.0 / (256.0 + 16.0 + 10.0 + 38.0);
    let from = ["drive0", "drive1"].map(|from| Flow::new(from, "host", Path::HostPipelined));
    let both = workload(vec![("both", from.to_vec())]);
    for engine in [Engine::Flow, Engine::Tlp] {
        let record = predict(&machine("direct-connect"), &both, engine);
        assert!(is_near(rate(&record, 0), frames), "{engine:?}: {}", rate(&record, 0));
        assert_eq!(limits(&record)[0], "link of bridge-ethernet up");
    }
}

#[test]
fn shared_queues_hold_up_strangers() {
    let to = |n: usize| if n == 4 { "idle" } else { "hot" };
    let flows = (0..5).map(|n| Flow::new(format!("drive{n}"), to(n), Path::P2p)).collect();
    let asked = workload(vec![("victim", flows)]);
    let time = |given: Given<'_>| {
        let record = predict_with(&machine("victim"), given, &asked, Engine::Flow);
        record.cases[0].flows[4].elapsed_ns.0 as f64
    };
    assert!(time(&[]) > 2.0 * time(&[("queues.shared", 0.01, "x")]));
}
