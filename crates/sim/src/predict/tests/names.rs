//! That a file of parameters calls devices by any of their names.

use peerlane_fabric::Kind;

use super::*;

#[test]
fn parameters_that_nothing_uses_are_named() {
    let ten = machine("ten");
    let given = with(&[
        ("d0.read.rate", 1.0, "GB/s"),
        ("/dev/d0.write.time-4096", 1.0, "us"),
        ("d0.turns", 2.0, "count"),
        ("d0.mixed", 1.2, "x"),
        ("drive.read.time-8192", 90.0, "us"),
        ("d00.read.rate", 1.0, "GB/s"),
        ("d0.read.rat", 1.0, "GB/s"),
        ("drive.turns", 2.0, "count"),
        ("drive.lanes", 2.0, "count"),
        ("/dev/d0.mixd", 1.0, "x"),
        ("/dev/d00.mixed", 1.0, "x"),
    ]);
    let found = [
        "/dev/d0.mixd",
        "/dev/d00.mixed",
        "d0.read.rat",
        "d00.read.rate",
        "drive.lanes",
        "drive.turns",
    ];
    assert_eq!(strangers(&given, &ten), found);
    // A switch, and memory of an FPGA, are no drives.
    let given = with(&[("up0.read.rate", 1.0, "GB/s"), ("fpga0.mixed", 1.0, "x")]);
    let found = ["fpga0.mixed", "up0.read.rate"];
    assert_eq!(strangers(&given, &machine("r7515-10-smartssd")), found);
}

#[test]
fn numbers_of_any_drive_are_none_of_a_drive_that_is_called_so() {
    let donard = machine("donard");
    let read = || Flow::new("drive", "host", Path::HostPipelined);
    // Its description says 2.5 GB/s, whatever any drive does.
    assert!(is_near(alone(&donard, &with(&[]), read()), 2.5));
    let any = with(&[("drive.read.rate", 1.0, "GB/s")]);
    assert!(is_near(alone(&donard, &any, read()), 2.5));
    assert_eq!(unused(&any, &donard).len(), 1);
    let own = with(&[("/dev/drive.read.rate", 1.0, "GB/s")]);
    assert!(is_near(alone(&donard, &own, read()), 1.0));
    assert_eq!((strangers(&own, &donard), unused(&own, &donard)), (vec![], vec![]));
}

#[test]
fn numbers_that_the_machine_says_better_are_named_with_the_reason() {
    let names = |given: &[(&str, f64, &str)], fabric: &Fabric| -> Vec<String> {
        let given = with(given);
        unused(&given, fabric).into_iter().map(|(name, _)| name.to_owned()).collect()
    };
    let given = [
        ("drive.read.rate", 1.0, "GB/s"),
        ("drive.write.rate", 1.0, "GB/s"),
        ("drive.read.commands", 1e5, "count"),
        ("drive.mixed", 1.2, "x"),
        ("iommu.walk", 300.0, "ns"),
        ("ethernet.mtu", 9000.0, "B"),
        ("ethernet.tunnel", 12.0, "B"),
        ("switch.latency", 90.0, "ns"),
        ("machine.stated", 0.9, "x"),
        ("host.copy", 5.0, "GB/s"),
    ];
    // All ten drives state both rates.
    let smartssd = machine("r7515-10-smartssd");
    let found =
        ["drive.read.rate", "drive.write.rate", "ethernet.mtu", "ethernet.tunnel", "iommu.walk"];
    assert_eq!(names(&given, &smartssd), found);
    // Nothing is stated of those of `ten`, nor of an Ethernet.
    let found = ["ethernet.mtu", "ethernet.tunnel", "iommu.walk", "machine.stated"];
    assert_eq!(names(&given, &machine("ten")), found);
    let of_translating = names(&given, &machine("translating"));
    assert!(!of_translating.contains(&"iommu.walk".to_owned()), "{of_translating:?}");
    // A number of each drive leaves one of any drive without use; of one drive it does not.
    let mut of_each: Vec<(String, f64, &str)> =
        (0..10).map(|n| (format!("d{n}.read.time-4096"), 9.0, "us")).collect();
    of_each.push(("drive.read.time-8192".to_owned(), 90.0, "us"));
    let all: Vec<_> = of_each.iter().map(|(name, value, unit)| (&**name, *value, *unit)).collect();
    assert_eq!(names(&all, &machine("ten")), ["drive.read.time-8192"]);
    assert_eq!(names(&all[1..], &machine("ten")), [""; 0]);
    assert!(unused(&with(&[]), &smartssd).is_empty(), "what is built in was not given");
}

#[test]
fn a_drive_may_be_called_in_a_file_as_it_is_on_the_command_line() {
    let named = changed("pair", "name = \"a\"\n", "name = \"a\"\naddress = \"0000:41:00.0\"\n");
    let read = || Flow::new("/dev/a", "host", Path::HostPipelined);
    let written = || Flow { depth: 1, ..Flow::new("host", "a", Path::HostPipelined) };
    let both = || {
        let mut both = workload(vec![("both", vec![read(), Flow { depth: 32, ..written() }])]);
        both.cases[0].time_ns = Some(Nanos::seconds(1));
        both
    };
    for name in ["a", "/dev/a", "0000:41:00.0", "/dev/0000:41:00.0"] {
        let set = |what: &str, value, unit| {
            let name = format!("{name}.{what}");
            let given = with(&[(&name, value, unit)]);
            assert_eq!(strangers(&given, &named), [""; 0], "{name}");
            given
        };
        assert!(is_near(alone(&named, &set("read.rate", 0.5, "GB/s"), read()), 0.5), "{name}");
        let slow = alone(&named, &set("write.time-4096", 10e3, "us"), written());
        assert!(slow < 0.2 * alone(&named, &with(&[]), written()), "{name}: {slow}");
        let rate = |given| rate(&run(&named, &given, &both(), Engine::Flow).expect("predicted"), 0);
        let (slow, fast) = (rate(set("mixed", 0.2, "x")), rate(with(&[])));
        assert!(slow < 0.3 * fast, "{name}: {slow} {fast}");
        let narrow = set("lanes", 1.0, "count");
        let (narrow, usual) = (alone(&named, &narrow, read()), alone(&named, &with(&[]), read()));
        assert!(narrow < 0.7 * usual, "{name}: {narrow} {usual}");
    }
    // Its range makes the same draws, whatever it is called.
    let range = |name: &str| {
        let text = format!(
            "[parameter.\"{name}.read.rate\"]\nvalue = 0.5\nlo = 0.3\nhi = 0.6\nunit = \"GB/s\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        );
        let given = super::parameters(Some(&text)).expect("parameters");
        let record = run(&named, &given, &one(read()), Engine::Flow).expect("predicted");
        record.cases[0].prediction.as_ref().expect("one").interval.expect("a range")
    };
    assert_eq!(range("a"), range("/dev/a"));
    let twice = with(&[("a.read.rate", 1.0, "GB/s"), ("/dev/a.read.rate", 2.0, "GB/s")]);
    let error = run(&named, &twice, &one(read()), Engine::Flow).expect_err("which of both?");
    let PredictError::Setting(SettingError::Parameter(error)) = error else { panic!("{error}") };
    let said = "parameter `a.read.rate`: another name of the same device says it, too";
    assert_eq!(error.to_string(), said);
}

#[test]
fn ports_and_switches_are_no_ends_and_a_hint_names_what_is() {
    let pair = machine("pair");
    let parameters = parameters(None).expect("the defaults");
    let port = pair.functions.iter().find(|function| function.kind == Kind::RootPort).expect("one");
    for name in [port.name.as_str(), "switch", "nothing"] {
        let flow = Flow::new(name, "host", Path::HostPipelined);
        let error = run(&pair, &parameters, &one(flow), Engine::Flow).expect_err(name);
        let hint = error.hint(&pair).expect("a hint");
        assert!(hint.starts_with("ends are a, b, c, host, null;"), "{hint}");
    }
}
