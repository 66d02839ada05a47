//! Host paths: memory, processors and copies.

use peerlane_results::PageFaults;

use super::*;

const EVERY: [Engine; 3] = [Engine::Closed, Engine::Flow, Engine::Tlp];

#[test]
fn host_paths_go_by_host_memory() {
    let ends = [
        ("r7515-10-smartssd", "drive0", "fpga:fpga1"),
        ("r7515-10-smartssd", "fpga0", "fpga1"),
        ("donard-gen5", "gpu", "drive0"),
    ];
    for (name, source, target) in ends {
        for path in [Path::P2p, Path::HostPipelined, Path::HostPageCache] {
            let flow = one(Flow::new(source, target, path));
            let case = &predict(&machine(name), &flow, Engine::Flow).cases[0];
            let routes = (case.bytes_by_route.p2p, case.bytes_by_route.host);
            let host = case.host_memory.bytes.expect("predicted");
            if path == Path::P2p {
                assert_eq!((routes, host), ((case.bytes, Bytes::ZERO), Bytes::ZERO));
            } else {
                assert_eq!(routes, (Bytes::ZERO, case.bytes), "{source} {target} {path}");
                assert!(case.flows[0].memory == "host" && host.0 >= 2 * case.bytes.0);
            }
        }
    }
}

#[test]
fn copies_cost_host_memory() {
    for (target, path, expected) in [
        ("c", Path::HostPipelined, 2.0),
        ("c", Path::HostMapped, 5.0),
        ("c", Path::HostPageCache, 8.0),
        ("host", Path::HostPipelined, 1.0),
        ("host", Path::HostPageCache, 4.0),
    ] {
        let record = predict(&machine("epyc"), &one(Flow::new("a", target, path)), Engine::Flow);
        let found = record.summaries[0].host_bytes_per_byte.expect("a number");
        assert!(is_near(found, expected), "{target} {path}: {found}");
    }
}

/// With one slot times add: `1/X = 1/X_serial + copies/copy + fault/window`.
#[test]
fn host_copies_are_a_stage() {
    let machine = machine("r7515-10-smartssd");
    for engine in EVERY {
        let of = |path| {
            let flow = Flow { block: Bytes::mib(1), ..Flow::new("drive0", "drive1", path) };
            let given = [("host.copy", 2.0, "GB/s")];
            let record = predict_with(&machine, &given, &one(flow), engine);
            (rate(&record, 0), record.cases[0].page_faults)
        };
        let (serial, none) = of(Path::HostSerial);
        let (cached, no_map) = of(Path::HostPageCache);
        let (mapped, faults) = of(Path::HostMapped);
        let said = format!("{engine:?}: {serial} {cached} {mapped}");
        assert!(is_near(cached, 1.0 / (1.0 / serial + 2.0 / 2.0)), "{said}");
        assert!(is_near(mapped, 1.0 / (1.0 / serial + 1.0 / 2.0 + 500.0 / 65536.0)), "{said}");
        // 1 GiB in windows of 64 KiB.
        let counted = Some(PageFaults { minor: 16_384, major: 0 });
        assert_eq!([none, no_map, faults], [None, None, counted]);
    }
}

fn by_processor(path: Path) -> Flow {
    Flow { block: Bytes::mib(1), depth: 1, ..Flow::new("host", "host", path) }
}

#[test]
fn cores_copy_at_their_parameters() {
    let given = [("host.copy", 7.5, "GB/s"), ("host.fault", 800.0, "ns")];
    for engine in EVERY {
        for (path, expected) in [(Path::HostPipelined, 7.5), (Path::HostMapped, 81.92)] {
            let record = predict_with(&machine("pair"), &given, &one(by_processor(path)), engine);
            assert!(is_near(rate(&record, 0), expected), "{engine:?} {}", rate(&record, 0));
            assert!(limits(&record) == ["the processor"] && record.cases[0].links.is_empty());
        }
    }
    let refused = one(by_processor(Path::HostSerial));
    let error = run(&machine("pair"), &with(&[]), &refused, Engine::Flow).expect_err("refused");
    let source = std::error::Error::source(&error).expect("a source").to_string();
    assert!(source.contains("and not by `host-serial`"), "{source}");
}

/// From so many drives to as many others of ten.
fn cached(count: usize) -> Vec<Flow> {
    let flow = |at| {
        let flow = Flow::new(format!("d{at}"), format!("d{}", 9 - at), Path::HostPageCache);
        Flow { block: Bytes::mib(1), ..flow }
    };
    (0..count).map(flow).collect()
}

#[test]
fn copies_share_processors() {
    for engine in [Engine::Flow, Engine::Tlp] {
        let copies = [("host.copy", 5.0, "GB/s"), ("host.overlap", 2.0, "count")];
        let given = [("host.cores", 2.0, "count"), copies[0], copies[1]];
        let record = predict_with(&machine("ten"), &given, &together(cached(5)), engine);
        let case = &record.cases[0];
        let busy = case.cpu.system_ns.0 as f64 / case.elapsed_ns.0 as f64;
        assert!((busy / 2.0 - 1.0).abs() < 0.01, "{engine:?}: {busy}");
        assert_eq!(prediction(&record).engine, "flow: packets share no processors");
        assert_eq!(limits(&record), ["the processors"; 5]);
        assert!(gain(&record, "the processors") > 1.09);
    }
}

#[test]
fn copies_take_host_memory_from_transfers() {
    let of = |path, copied: usize| {
        let mut all = cached(copied);
        all.push(Flow { depth: 32, ..Flow::new("d4", "d5", path) });
        let given = [("host.memory", 10.0, "GB/s")];
        let record = predict_with(&machine("ten"), &given, &together(all), Engine::Flow);
        let case = &record.cases[0];
        let carried = case.host_memory.bytes.expect("predicted").0 as f64;
        (case.flows[copied].bytes.0 as f64, carried / case.elapsed_ns.0 as f64)
    };
    let (beside, carried) = of(Path::HostPipelined, 4);
    assert!(is_near(carried, 10.0) && beside < 0.99 * of(Path::HostPipelined, 0).0, "{carried}");
    let (beside, alone) = (of(Path::P2p, 4).0, of(Path::P2p, 0).0);
    assert!(is_near(beside, alone), "{beside} {alone}");
}

/// A server with a GPU and a network controller at 10 Gbit/s, which passes all that peers read.
fn server() -> Fabric {
    let nic = "device = \"0x1003\"\n";
    let mut server = changed("donard", nic, &format!("{nic}ethernet = \"1.25GB/s\"\n"));
    server.bridges.iter_mut().for_each(|bridge| bridge.peer.read = None);
    server
}

#[test]
fn memories_and_wires_bound_both_routes() {
    let given = [("gpu:0.memory.write", 0.5, "GB/s"), ("gpu:0.memory.read", 250.0, "MB/s")];
    // Full frames.
    let wire = 1.25 * 1448.0 / 1538.0;
    for (source, target, most, object) in [
        ("drive", "gpu:0", 0.5, "memory of gpu"),
        ("nic", "gpu:0", 0.5, "memory of gpu"),
        ("gpu:0", "host", 0.25, "memory of gpu"),
        ("nic", "host", wire, "wire of nic, in"),
        ("host", "nic", wire, "wire of nic, out"),
    ] {
        for engine in EVERY {
            let is_host = source == "host" || target == "host";
            let paths = [Path::P2p, Path::HostPipelined].into_iter();
            for path in paths.filter(|&path| !is_host || path != Path::P2p) {
                let flow = one(Flow { block: Bytes::mib(1), ..Flow::new(source, target, path) });
                let record = predict_with(&server(), &given, &flow, engine);
                let place = format!("{engine:?}, {source} to {target}, {path}");
                assert!(is_near(rate(&record, 0), most), "{place}: {}", rate(&record, 0));
                assert_eq!(limits(&record), [object], "{place}");
                assert!(is_near(gain(&record, object), 1.1), "{place}");
            }
        }
    }
}

#[test]
fn pages_and_pieces_come_from_parameters() {
    let epyc = machine("epyc");
    let fast = ("drive.read.rate", 14_000.0, "MB/s");
    let p2p = || Flow::new("a", "cmb:c", Path::P2p);
    let cut = alone(&epyc, &[fast, ("root.split", 64.0, "B")], p2p());
    let ratio = cut / alone(&epyc, &[fast], p2p());
    assert!(is_near(ratio, (64.0 / 88.0) / (256.0 / 280.0)), "{ratio}");
    // One walker of 10 us for each page of 4 KiB.
    let walks = [fast, ("iommu.walkers", 1.0, "count"), ("iommu.walk", 10.0, "us")];
    let translating = changed("epyc", "iommu = \"off\"", "iommu = \"translating\"");
    assert!(is_near(alone(&translating, &walks, p2p()), 4096.0 / 10e-6 / 1e9));
    assert!(alone(&epyc, &walks, p2p()) > 6.0, "no translation, no walks");
}
