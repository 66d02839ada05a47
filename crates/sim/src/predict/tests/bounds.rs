//! That what makes no sense in a file of parameters is refused.

use super::*;

#[test]
fn a_number_that_no_machine_has_is_refused_and_so_is_a_unit_of_something_else() {
    let flow = || Flow { block: Bytes::mib(1024), ..Flow::new("a", "host", Path::HostPipelined) };
    let pair = machine("pair");
    for (name, value, unit) in [
        ("pcie.mps", 1e30, "B"),
        ("switch.latency", 1e18, "ns"),
        ("/dev/a.read.commands", 1e-30, "count"),
        ("host.command", 1e300, "ns"),
    ] {
        let given = with(&[(name, value, unit)]);
        for engine in [Engine::Flow, Engine::Tlp] {
            let error = run(&pair, &given, &one(flow()), engine).expect_err(name);
            let PredictError::Setting(SettingError::Parameter(error)) = error else {
                panic!("{error}")
            };
            assert!(error.to_string().contains("million times beyond"), "{error}");
        }
        let usual = with(&[]);
        let position = usual.position(name);
        if let Ok(position) = position {
            let mut numbers = usual.values();
            numbers[position] = value;
            let of = |_| (one(flow()), numbers.clone());
            assert!(variants(&pair, &usual, 1, of, Engine::Flow).is_err(), "{name}");
        }
    }
    // The slowest that there may be, in the largest blocks.
    let small = ("drive.largest", 4096.0, "B");
    let slow = with(&[("a.read.commands", 0.6, "count"), small]);
    assert!(run(&pair, &slow, &one(flow()), Engine::Tlp).is_ok());
    for (name, unit) in [
        ("a.read.rate", "us"),
        ("/dev/nvme0n1.write.time-4096", "MB/s"),
        ("drive.write.cache", "count"),
        ("pcie.tags", "B"),
        ("a.lanes", "B"),
        ("/dev/a.generation", "GB/s"),
        ("a.turns", "us"),
    ] {
        let text = format!(
            "[parameter.\"{name}\"]\nvalue = 100\nunit = \"{unit}\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        );
        let error = super::parameters(Some(&text)).expect_err(name);
        let ParametersError::Parameter(error) = error else { panic!("{error}") };
        assert!(error.to_string().contains(&format!("`{name}`: its unit is")), "{error}");
    }
}

#[test]
fn lanes_generations_and_turns_are_numbers_that_there_are() {
    let ten = machine("ten");
    let flow = || one(Flow::new("d1", "d0", Path::P2p));
    for (name, value, said) in [
        ("d0.lanes", 1e300_f64, "a link has 1, 2, 4"),
        ("d0.lanes", 0.1, "a link has 1, 2, 4"),
        ("d0.generation", 1e10, "generations of links are 1 to 6"),
        ("/dev/d0.turns", 1e300, "1 to 256 turns"),
        ("d0.turns", 0.3, "1 to 256 turns"),
    ] {
        // By itself and as the end of a range, which draws round to what there is.
        let ends = [(value, value), (value.min(2.0), value.max(2.0))];
        for (lo, hi) in ends {
            let within = if lo < hi { 2.0 } else { value };
            let text = format!(
                "[parameter.\"{name}\"]\nvalue = {within:e}\nlo = {lo:e}\nhi = {hi:e}\nunit = \"count\"\nfrom = \"guess\"\nsource = \"a test\"\n"
            );
            let given = super::parameters(Some(&text)).expect("numbers");
            let error = run(&ten, &given, &flow(), Engine::Flow).expect_err(name);
            let PredictError::Setting(SettingError::Parameter(error)) = error else {
                panic!("{error}")
            };
            assert!(error.to_string().contains(said), "{error}");
        }
    }
    for (name, value) in [("d0.lanes", 32.0), ("d0.generation", 6.0), ("d0.turns", 256.0)] {
        let given = with(&[(name, value, "count")]);
        assert!(run(&ten, &given, &flow(), Engine::Flow).is_ok(), "{name}");
    }
}

#[test]
fn a_row_that_is_wrong_is_refused_and_drops_no_table() {
    let read =
        || Flow { block: Bytes::kib(4), depth: 1, ..Flow::new("b", "host", Path::HostSerial) };
    let pair = machine("pair");
    let slow = ("b.read.time-4096", 40e3, "us");
    let rate = alone(&pair, &with(&[slow]), read());
    assert!(is_near(rate, 4096.0 / 40e-3 / 1e9), "{rate}");
    let whole = "a size is a whole number of bytes above zero";
    for (wrong, said) in [
        ("b.read.time-nan", whole),
        ("b.read.time-0", whole),
        ("/dev/b.read.time-inf", whole),
        ("b.read.time-4096.0", whole),
        ("b.read.time-4K", whole),
        ("drive.read.time--1", whole),
        ("/dev/b.read.time-04096", "two of its times are of one size"),
    ] {
        let given = with(&[slow, (wrong, 90.0, "us")]);
        assert_eq!(strangers(&given, &pair), [""; 0], "{wrong}");
        let error = run(&pair, &given, &one(read()), Engine::Flow).expect_err(wrong);
        let PredictError::Setting(SettingError::Parameter(error)) = error else {
            panic!("{error}")
        };
        assert!(error.to_string().contains(said), "{wrong}: {error}");
    }
}

#[test]
fn the_slowest_rates_that_there_may_be_are_counted_in_packets() {
    let memory = "p2pmem = { size = '64M', read = '1M', write = '1M' }";
    let machine = changed("pair", "cmb = \"64M\"", memory);
    let least = with(&[("machine.stated", 0.01, "x")]);
    for (from, to) in [("cmb:c", "a"), ("a", "cmb:c")] {
        let flow = one(Flow { block: Bytes::mib(1), ..Flow::new(from, to, Path::P2p) });
        let record = run(&machine, &least, &flow, Engine::Tlp).expect("predicted");
        assert!(is_near(rate(&record, 0), 1e-5), "{from} to {to}: {}", rate(&record, 0));
    }
}

#[test]
fn shares_above_one_and_packets_that_pcie_has_not_are_refused() {
    let pair = machine("pair");
    for (name, unit, wrong) in [
        ("host.overlap", "count", 4.0),
        ("host.window", "B", 1.0),
        ("queues.shared", "x", 5.0),
        ("iommu.miss", "%", 101.0),
        ("a.read.sustained", "x", 1.01),
        ("machine.stated", "x", 0.009),
        ("pcie.mps", "B", 64.0),
        ("pcie.mrrs", "B", 8192.0),
    ] {
        let one = one(Flow::new("a", "b", Path::P2p));
        let error = run(&pair, &with(&[(name, wrong, unit)]), &one, Engine::Flow).expect_err(name);
        let said = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(said.contains(name) || format!("{error:?}").contains(name), "{said}");
    }
}
