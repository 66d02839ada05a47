//! Files of parameters: names of devices, values that make no sense, and values without effect.

use peerlane_fabric::FunctionKind;

use super::*;

fn error(machine: &Fabric, given: Given<'_>) -> String {
    let flow = one(Flow::new("a", "host", Path::HostPipelined));
    let error = run(machine, &with(given), &flow, Engine::Flow).expect_err("refused");
    let PredictError::Setting(SettingError::Parameter(error)) = error else { panic!("{error}") };
    error.to_string()
}

#[test]
fn own_parameters_go_first() {
    let slow = [
        ("d0.read.rate", 100.0, "MB/s"),
        ("d0.read.commands", 1e6, "count"),
        ("d0.read.time-4096", 90.0, "us"),
    ];
    let record =
        predict_with(&machine("ten"), &slow, &one(Flow::new("d0", "d1", Path::P2p)), Engine::Flow);
    assert!(is_near(rate(&record, 0), 0.1), "{}", rate(&record, 0));
    assert_eq!(limits(&record), ["medium of d0, read"]);
    assert!(super::parameters(Some("[parameter.x]\n")).is_err());
}

#[test]
fn impossible_values_are_refused() {
    let pair = machine("pair");
    for (name, value, unit, said) in [
        ("switch.latency", 1e18, "ns", "million times beyond"),
        ("/dev/a.read.commands", 1e-30, "count", "million times beyond"),
        ("pcie.mps", 1e30, "B", "PCIe has 128"),
        ("pcie.mrrs", 8192.0, "B", "PCIe has 128"),
        ("a.lanes", 3.0, "count", "a link has 1, 2, 4"),
        ("a.generation", 7.0, "count", "generations of links are 1 to 6"),
        ("a.turns", 300.0, "count", "1 to 256 turns"),
        ("a.mixed", 5.0, "x", "0.1 to 2"),
        ("host.overlap", 4.0, "count", "1 to 3"),
        ("host.window", 1.0, "B", "a page at least"),
        ("iommu.miss", 101.0, "%", "a share is 1 at most"),
        ("a.read.sustained", 1.01, "x", "a share is 1 at most"),
        ("a.read.time-4K", 9.0, "us", "a whole number of bytes above zero"),
    ] {
        let found = error(&pair, &[(name, value, unit)]);
        assert!(found.contains(said), "{name}: {found}");
    }
    let twice = [("a.read.time-4096", 9.0, "us"), ("/dev/a.read.time-04096", 9.0, "us")];
    assert!(error(&pair, &twice).contains("two of its times are of one size"));
    let twice = [("a.read.rate", 1.0, "GB/s"), ("/dev/a.read.rate", 2.0, "GB/s")];
    assert!(error(&pair, &twice).contains("another name of the same device says it, too"));
}

#[test]
fn units_of_something_else_are_refused() {
    for (name, unit) in [
        ("a.read.rate", "us"),
        ("/dev/nvme0n1.write.time-4096", "MB/s"),
        ("cmb:c.memory.write", "B"),
        ("pcie.tags", "B"),
        ("/dev/a.generation", "GB/s"),
    ] {
        let error = super::parameters(Some(&text(&[(name, 100.0, unit)]))).expect_err(name);
        let ParametersError::Parameter(error) = error else { panic!("{error}") };
        assert!(error.to_string().contains(&format!("`{name}`: its unit is")), "{error}");
    }
}

#[test]
fn unknown_names_are_listed() {
    let names = [
        "/dev/d0.mixd",
        "/dev/d00.mixed",
        "d0.read.rat",
        "d00.read.rate",
        "drive.lanes",
        "drive.turns",
        "switch.read.rate",
    ];
    let given = names.map(|name| (name, 1.0, "GB/s"));
    let given: Vec<_> = given
        .into_iter()
        .map(|(name, value, unit)| match name {
            "/dev/d00.mixed" | "drive.lanes" | "drive.turns" => (name, value, "count"),
            _ => (name, value, unit),
        })
        .chain([("d0.read.rate", 1.0, "GB/s"), ("d0.turns", 2.0, "count")])
        .collect();
    assert_eq!(unknown(&with(&given), &machine("ten")), names);
}

#[test]
fn unused_parameters_have_reasons() {
    let given = [
        ("ethernet.mtu", 9000.0, "B"),
        ("ethernet.tunnel", 20.0, "B"),
        ("iommu.walk", 200.0, "ns"),
        ("machine.stated", 0.9, "x"),
        ("socket-link.latency", 200.0, "ns"),
    ];
    let given = with(&given);
    let names = |machine: &str| -> Vec<&str> {
        unused(&given, &self::machine(machine)).iter().map(|one| one.0).collect()
    };
    let all = ["ethernet.mtu", "ethernet.tunnel", "iommu.walk", "machine.stated"];
    assert_eq!(names("ten"), [&all[..], &["socket-link.latency"]].concat());
    assert!(!names("translating").contains(&"iommu.walk"));
    // A number of each drive leaves one of any drive without use.
    let own: Vec<String> = (0..10).map(|n| format!("d{n}.read.time-4096")).collect();
    let mut given: Vec<_> = own.iter().map(|name| (name.as_str(), 9.0, "us")).collect();
    given.push(("drive.read.time-8192", 90.0, "us"));
    let names = |given: Given<'_>| unused(&with(given), &machine("ten")).len();
    assert_eq!((names(&given), names(&given[1..])), (1, 0));
    assert_eq!(unused(&with(&[]), &machine("ten")), [], "defaults were not given");
}

#[test]
fn devices_have_several_names() {
    let named = changed("pair", "name = \"a\"\n", "name = \"a\"\naddress = \"0000:41:00.0\"\n");
    let read = || Flow::new("/dev/a", "host", Path::HostPipelined);
    let usual = alone(&named, &[], read());
    for name in ["a", "/dev/a", "0000:41:00.0", "/dev/0000:41:00.0"] {
        let of = |quantity: &str, value, unit| {
            let name = format!("{name}.{quantity}");
            let given = [(name.as_str(), value, unit)];
            assert_eq!(unknown(&with(&given), &named), [""; 0], "{name}");
            alone(&named, &given, read())
        };
        assert!(is_near(of("read.rate", 0.5, "GB/s"), 0.5), "{name}");
        assert!(of("lanes", 1.0, "count") < 0.7 * usual, "{name}");
    }
    for name in ["cmb:c", "p2pmem:c", "/dev/c"] {
        let given = [(&*format!("{name}.memory.write"), 0.5, "GB/s")];
        assert!(is_near(alone(&named, &given, Flow::new("a", "cmb:c", Path::P2p)), 0.5), "{name}");
    }
    assert_eq!(own_name("gpu:0.memory.write", &machine("donard")), "gpu.memory.write");
}

#[test]
fn drive_is_any_drive() {
    // A drive of this machine is called so, and its description says 2.5 GB/s.
    let read = || Flow::new("drive", "host", Path::HostPipelined);
    assert!(is_near(alone(&machine("donard"), &[("drive.read.rate", 1.0, "GB/s")], read()), 2.5));
    let own = [("/dev/drive.read.rate", 1.0, "GB/s")];
    assert!(is_near(alone(&machine("donard"), &own, read()), 1.0));
}

#[test]
fn ends_without_data_are_refused() {
    let pair = machine("pair");
    let port = pair
        .functions
        .iter()
        .find(|function| function.kind == FunctionKind::RootPort)
        .expect("one");
    for name in [port.name.as_str(), "switch", "nothing"] {
        let flow = Flow::new(name, "host", Path::HostPipelined);
        let error = run(&pair, &with(&[]), &one(flow), Engine::Flow).expect_err(name);
        let hint = error.hint(&pair).expect("a hint");
        assert!(hint.starts_with("sources and targets are a, b, c, host, null;"), "{hint}");
    }
    let nowhere = one(Flow::new("host", "null", Path::P2p));
    let error = run(&pair, &with(&[]), &nowhere, Engine::Auto).expect_err("no device");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("nothing moves data from host to null"));
}
