//! That one core by itself, and memories by any of their names, are predicted by their parameters.

use super::*;

fn by_processor(path: Path) -> Flow {
    Flow { block: Bytes::mib(1), depth: 1, ..Flow::new("host", "host", path) }
}

#[test]
fn one_core_copies_at_its_parameter_and_maps_at_that_of_its_faults() {
    let given = with(&[
        ("host.copy", 7.5, "GB/s"),
        ("host.fault", 800.0, "ns"),
        ("host.window", 65536.0, "B"),
    ]);
    for engine in [Engine::Closed, Engine::Flow, Engine::Tlp, Engine::Auto] {
        for (path, expected) in [(Path::HostPipelined, 7.5), (Path::HostMapped, 81.92)] {
            let record = run(&machine("pair"), &given, &one(by_processor(path)), engine)
                .unwrap_or_else(|error| panic!("{engine:?} {path}: {error:?}"));
            let found = rate(&record, 0);
            assert!(is_near(found, expected), "{engine:?} {path}: {found}");
            assert_eq!(limit(&record), "the processor", "{engine:?} {path}");
            assert!(record.cases[0].links.is_empty());
        }
    }
}

#[test]
fn a_copy_costs_host_memory_and_a_map_costs_faults() {
    let of = |path| predict(&machine("pair"), &one(by_processor(path)), Engine::Flow);
    let (copy, map) = (of(Path::HostPipelined), of(Path::HostMapped));
    assert!(is_near(copy.summaries[0].host_bytes_per_byte.expect("a number"), 3.0));
    assert_eq!(copy.cases[0].page_faults, None);
    assert_eq!(map.cases[0].host_memory.bytes, Some(Bytes::ZERO));
    assert_eq!(map.cases[0].page_faults.expect("faults").minor, (1 << 30) / 65536);
    let beside = vec![by_processor(Path::HostPipelined), Flow::new("a", "b", Path::HostPipelined)];
    let both = predict(&machine("pair"), &workload(vec![("both", beside)]), Engine::Flow);
    assert_eq!(both.cases[0].flows.len(), 2);
}

#[test]
fn copies_share_cores_and_host_memory() {
    let four = |path| {
        let flow = Flow { block: Bytes::kib(64), ..by_processor(path) };
        workload(vec![("four", vec![flow; 4])])
    };
    for engine in [Engine::Flow, Engine::Tlp] {
        let of = |given: &[(&str, f64, &str)], path| {
            let record = run(&machine("pair"), &with(given), &four(path), engine);
            rate(&record.expect("a prediction"), 0)
        };
        for (cores, expected) in [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0)] {
            // Of few threads none is always ready, on packets.
            let found = of(
                &[("host.cores", cores, "count"), ("host.memory", 1e3, "GB/s")],
                Path::HostPipelined,
            );
            assert!((found / expected - 1.0).abs() < 0.03, "{engine:?} {cores}: {found}");
        }
        let found = of(&[("host.cores", 1.0, "count")], Path::HostMapped);
        assert!((found / 131.07 - 1.0).abs() < 0.03, "{engine:?}, maps: {found}");
        // Three bytes for each.
        let found = of(&[("host.memory", 60.0, "GB/s")], Path::HostPipelined);
        assert!((found / 20.0 - 1.0).abs() < 0.06, "{engine:?}, memory: {found}");
    }
}

#[test]
fn one_core_goes_by_no_other_path() {
    let parameters = parameters(None).expect("the defaults");
    let flow = by_processor(Path::HostSerial);
    let error = run(&machine("pair"), &parameters, &one(flow), Engine::Flow).expect_err("refused");
    let source = std::error::Error::source(&error).expect("a source").to_string();
    assert!(source.contains("and not by `host-serial`"), "{source}");
}

#[test]
fn a_memory_is_written_and_read_at_its_parameters_whatever_it_is_called() {
    let pair = machine("pair");
    let lends = ["cmb:c", "p2pmem:c", "/dev/c"];
    for name in lends {
        let given = with(&[
            (&format!("{name}.memory.write"), 0.5, "GB/s"),
            (&format!("{name}.memory.read"), 250.0, "MB/s"),
        ]);
        assert_eq!((strangers(&given, &pair), unused(&given, &pair)), (vec![], vec![]), "{name}");
        assert!(is_near(alone(&pair, &given, Flow::new("a", "cmb:c", Path::P2p)), 0.5), "{name}");
        assert!(is_near(alone(&pair, &given, Flow::new("cmb:c", "a", Path::P2p)), 0.25), "{name}");
    }
    let usual = alone(&pair, &with(&[]), Flow::new("a", "cmb:c", Path::P2p));
    assert!(usual > 1.0, "{usual}");
    let stranger =
        with(&[("cmb:nobody.memory.write", 1.0, "GB/s"), ("cmb:c.memory.rite", 1.0, "x")]);
    assert_eq!(strangers(&stranger, &pair).len(), 2);
    // A rate is no size.
    let text = "[parameter.\"cmb:c.memory.write\"]\nvalue = 1\nunit = \"B\"\nfrom = \"guess\"\nsource = \"a test\"\n";
    assert!(super::parameters(Some(text)).is_err());
}

#[test]
fn memory_of_a_gpu_goes_by_its_number() {
    let machine = machine("donard");
    let gpu = machine.functions.iter().find(|one| one.kind == peerlane_fabric::Kind::Gpu);
    let own = gpu.expect("a GPU").name.clone();
    let given = with(&[("gpu:0.memory.write", 0.3, "GB/s")]);
    assert_eq!(own_name("gpu:0.memory.write", &machine), format!("{own}.memory.write"));
    assert!(is_near(alone(&machine, &given, Flow::new("drive", "gpu:0", Path::P2p)), 0.3));
}
