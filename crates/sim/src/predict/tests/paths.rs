//! Which way bytes go: by which memory, at what cost of the processor, and whether a kernel would let them.

use peerlane_results::PageFaults;

use super::*;

const EVERY: [Engine; 3] = [Engine::Closed, Engine::Flow, Engine::Tlp];

fn on(name: &str, flow: Flow, engine: Engine) -> BenchRecord {
    predict(&machine(name), &one(flow), engine)
}

#[test]
fn a_host_path_goes_by_host_memory_whatever_its_ends_are_and_however_they_are_called() {
    let smartssd = "r7515-10-smartssd";
    let ends = [
        (smartssd, "drive0", "fpga:fpga1"),
        (smartssd, "drive0", "fpga1"),
        (smartssd, "fpga:fpga0", "drive1"),
        (smartssd, "fpga0", "fpga1"),
        ("donard-gen5", "drive0", "gpu"),
        ("donard-gen5", "gpu", "drive0"),
    ];
    for (machine, source, target) in ends {
        for path in [Path::P2p, Path::HostPipelined, Path::HostSerial, Path::HostPageCache] {
            let case = &on(machine, Flow::new(source, target, path), Engine::Flow).cases[0];
            let routes = (case.bytes_by_route.p2p, case.bytes_by_route.host);
            let said = format!("{source} to {target} by {path}");
            if path == Path::P2p {
                assert_eq!(routes, (case.bytes, Bytes::ZERO), "{said}");
                assert_eq!(case.host_memory.bytes, Some(Bytes::ZERO), "{said}");
            } else {
                assert_eq!(routes, (Bytes::ZERO, case.bytes), "{said}");
                assert_eq!(case.flows[0].memory, "host", "{said}");
                assert!(case.host_memory.bytes >= Some(Bytes(2 * case.bytes.0)), "{said}");
            }
        }
    }
}

/// The experiment of document 000, from a drive to the memory of another SmartSSD: "2x faster" for large blocks.
#[test]
fn one_buffer_in_host_memory_takes_twice_as_long_to_the_memory_of_a_smartssd() {
    let flow =
        |path| Flow { block: Bytes::mib(128), depth: 1, ..Flow::new("drive0", "fpga:fpga1", path) };
    for engine in EVERY {
        let [p2p, host] = [Path::P2p, Path::HostSerial]
            .map(|path| rate(&on("r7515-10-smartssd", flow(path), engine), 0));
        assert!((1.9..2.2).contains(&(p2p / host)), "{engine:?}: {p2p} {host}");
    }
}

/// With one slot times add: `1/X = 1/X_serial + copies/copy + fault/window`.
#[test]
fn copies_of_the_processor_are_one_more_stage_of_a_block_on_every_engine() {
    let machine = machine("r7515-10-smartssd");
    for (copy, engine) in [2.0, 10.0].into_iter().flat_map(|copy| EVERY.map(|one| (copy, one))) {
        let given = with(&[("host.copy", copy, "GB/s")]);
        let of = |path| {
            let flow = Flow { block: Bytes::mib(1), ..Flow::new("drive0", "drive1", path) };
            let record = run(&machine, &given, &one(flow), engine).expect("predicted");
            (rate(&record, 0), record.cases[0].page_faults)
        };
        let (serial, none) = of(Path::HostSerial);
        let (cached, no_map) = of(Path::HostPageCache);
        let (mapped, faults) = of(Path::HostMapped);
        let said = format!("{engine:?} {copy}: {serial} {cached} {mapped}");
        assert!(is_near(cached, 1.0 / (1.0 / serial + 2.0 / copy)), "{said}");
        let fault = 500.0 / 65536.0;
        assert!(is_near(mapped, 1.0 / (1.0 / serial + 1.0 / copy + fault)), "{said}");
        // 1 GiB in windows of 64 KiB.
        let counted = Some(PageFaults { minor: 16_384, major: 0 });
        assert_eq!([none, no_map, faults], [None, None, counted]);
    }
}

#[test]
fn a_copy_between_host_memory_and_a_drive_waits_for_the_processor_too() {
    for engine in EVERY {
        let of = |path| {
            let flow = Flow { block: Bytes::mib(1), ..Flow::new("drive0", "host", path) };
            rate(&on("r7515-10-smartssd", flow, engine), 0)
        };
        let (serial, cached) = (of(Path::HostSerial), of(Path::HostPageCache));
        let expected = 1.0 / (1.0 / serial + 1.0 / 10.0);
        assert!(is_near(cached, expected), "{engine:?}: {serial} {cached}");
    }
}

#[test]
fn peers_that_the_kernel_would_refuse_are_predicted_with_its_reason() {
    let (amd, intel) = ("\"AuthenticAMD\"\nfamily = 23", "\"GenuineIntel\"\nfamily = 6");
    let fabric = changed("r7515-10-smartssd", amd, intel);
    let warnings = |ends: &[(&str, &str)], path| {
        let flows = ends.iter().map(|&(from, to)| Flow::new(from, to, path)).collect();
        let record = predict(&fabric, &workload(vec![("one", flows)]), Engine::Flow);
        record.cases[0].warnings.clone()
    };
    let pair = ("drive0", "fpga:fpga1");
    assert_eq!(warnings(&[pair], Path::HostPipelined), []);
    assert_eq!(warnings(&[("drive0", "fpga0")], Path::P2p), [], "a switch needs no processor");
    let at = |name| fabric.find(name).expect("it is there");
    let reach = peerlane_reach::decide(&fabric, at("fpga1"), at("drive0"));
    assert!(!reach.is_permitted(), "{reach:?}");
    let told = |others| {
        let (memory, initiator) = ("fpga1".to_owned(), "drive0".to_owned());
        Warning::NotPermitted { memory, initiator, others, reason: reach.summary() }
    };
    assert_eq!(warnings(&[pair], Path::P2p), [told(0)]);
    assert_eq!(warnings(&[pair, pair], Path::P2p), [told(0)], "one pair is said once");
    let two = warnings(&[pair, ("drive1", "fpga0")], Path::P2p);
    let pairs = two.iter().map(|warning| match warning {
        Warning::NotPermitted { others, .. } => 1 + others,
        _ => 0,
    });
    assert_eq!(pairs.sum::<u64>(), 2, "{two:?}");
}

#[test]
fn generated_machines_have_processors_that_forward() {
    let fabric = crate::generate::fabric("tree:20").expect("a notation").expect("a machine");
    let made = crate::generate::workload("random:8", &fabric).expect("a notation").expect("flows");
    assert_eq!(predict(&fabric, &made, Engine::Flow).cases[0].warnings, []);
}
