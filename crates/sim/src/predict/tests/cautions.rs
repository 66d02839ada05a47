//! What a prediction takes for granted, and says so.

use super::*;

fn warnings(machine: &Fabric, given: &[(&str, f64, &str)], flow: Flow) -> Vec<Warning> {
    run(machine, &with(given), &one(flow), Engine::Flow).expect("predicted").warnings
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// A drive and a GPU below root ports of their own, each with keys of its own: port, device.
fn pair(drive: [&str; 2], gpu: [&str; 2]) -> Fabric {
    let text = format!(
        "name = \"two\"\niommu = \"off\"\n\
         [[function]]\nname = \"slot\"\nkind = \"root-port\"\n{}\n\
         [[function]]\nname = \"a\"\nkind = \"nvme\"\nunder = \"slot\"\nread = \"7G\"\nwrite = \"5G\"\n{}\n\
         [[function]]\nname = \"big\"\nkind = \"root-port\"\n{}\n\
         [[function]]\nname = \"g\"\nkind = \"gpu\"\nunder = \"big\"\n{}\n",
        drive[0], drive[1], gpu[0], gpu[1]
    );
    Fabric::from_toml(&text).expect("a machine")
}

const X4: &str = "link = \"16GT/s x4\"";

#[test]
fn links_whose_speed_nothing_says_are_named_with_what_they_are_taken_for() {
    let of_links = |found: Vec<Warning>| -> Vec<Warning> {
        found.into_iter().filter(|one| !matches!(one, Warning::PeersNotStated { .. })).collect()
    };
    let read = || Flow::new("a", "gpu:0", Path::P2p);
    let stated = pair(["", X4], ["", "link = \"16GT/s x16\""]);
    assert_eq!(of_links(warnings(&stated, &[], read())), []);
    let silent = pair(["", X4], ["", ""]);
    let taken = |below: &[&str], taken_as: &str| Warning::LinkNotStated {
        below: names(below),
        others: 0,
        taken_as: taken_as.to_owned(),
    };
    assert_eq!(of_links(warnings(&silent, &[], read())), [taken(&["g"], "16GT/s x4")]);
    // It does not cross the link of the GPU.
    let host = Flow::new("a", "host", Path::HostPipelined);
    assert_eq!(of_links(warnings(&silent, &[], host)), []);
    let wide = [("pcie.lanes", 16.0, "count"), ("pcie.generation", 5.0, "count")];
    assert_eq!(of_links(warnings(&silent, &wide, read())), [taken(&["g"], "32GT/s x16")]);
    let own = [("g.lanes", 16.0, "count"), ("g.generation", 4.0, "count")];
    assert_eq!(of_links(warnings(&silent, &own, read())), []);
    assert_eq!(of_links(warnings(&silent, &own[..1], read())), [taken(&["g"], "16GT/s x16")]);
    // All of a workload are in one warning, the first of them by name.
    let ten = machine("ten");
    let cases = (0..9).map(|n| Flow::new(format!("d{n}"), format!("d{}", n + 1), Path::P2p));
    let record = predict(&ten, &workload(vec![("all", cases.collect())]), Engine::Flow);
    let [Warning::LinkNotStated { below, others, .. }] = &record.warnings[..] else {
        panic!("{:?}", record.warnings)
    };
    assert_eq!((below.len(), *others), (8, 4), "ten drives and two switches: {below:?}");
}

#[test]
fn the_range_of_a_prediction_holds_what_a_link_may_be_that_nothing_states() {
    let range = |gpu| {
        let flows = (0..4).map(|_| Flow::new("a", "gpu:0", Path::P2p)).collect();
        let fast = [("a.read.rate", 60.0, "GB/s"), ("a.lanes", 16.0, "count")];
        let record = run(
            &pair(["", X4], ["", gpu]),
            &with(&fast),
            &workload(vec![("x", flows)]),
            Engine::Flow,
        );
        record.expect("predicted").cases[0].prediction.as_ref().and_then(|one| one.interval)
    };
    let (low, high) = range("").expect("a range");
    assert!(low.0 < 4_000_000_000 && high.0 > 14_000_000_000, "{low} to {high}");
    let (low, high) = range(X4).expect("a range");
    assert!(low.0 > 6_000_000_000 && high.0 < 8_000_000_000, "{low} to {high}");
    let given = with(&[("pcie.lanes", 8.0, "count")]);
    assert_eq!(unused(&given, &pair(["", X4], ["", ""])), []);
    let said = "the machine's description says how fast each link is";
    assert_eq!(unused(&given, &pair(["", X4], ["", X4])), [("pcie.lanes", said)]);
    let wrong = run(
        &machine("pair"),
        &with(&[("pcie.lanes", 3.0, "count")]),
        &one(Flow::new("a", "host", Path::HostPipelined)),
        Engine::Flow,
    );
    let error = wrong.expect_err("no such link");
    assert!(error.hint(&machine("pair")).is_some_and(|hint| hint.contains("1,2,4,8")), "{error}");
}

#[test]
fn a_link_is_no_faster_than_the_port_above_it_and_may_be_known_by_what_it_supports() {
    let read = || Flow::new("a", "host", Path::HostPipelined);
    let narrow = pair(["link_below = \"16GT/s x2\"", X4], ["", ""]);
    let rate = alone(&narrow, &with(&[]), read());
    assert!(is_near(rate, 3.59), "{rate}");
    assert_eq!(warnings(&narrow, &[], read()), []);
    let taken = |taken_as: &str| Warning::LinkNotTrained {
        below: names(&["a"]),
        others: 0,
        taken_as: taken_as.to_owned(),
    };
    // Down, or not looked at; with the port alone; and the lesser of both.
    let down = "link = { maximum = \"16GT/s x4\" }";
    for (port, own, found, expected) in [
        ("", down, "16GT/s x4", 6.98),
        ("link_below = \"8GT/s x4\"", "", "8GT/s x4", 3.59),
        ("link_below = \"8GT/s x16\"", down, "8GT/s x4", 3.59),
    ] {
        let machine = pair([port, own], ["", ""]);
        assert_eq!(warnings(&machine, &[], read()), [taken(found)]);
        let rate = alone(&machine, &with(&[]), read());
        assert!(is_near(rate, expected), "{port} {own}: {rate}");
    }
}

#[test]
fn a_root_complex_between_peers_of_which_nothing_is_stated_is_warned_of() {
    let (read, write) =
        (Flow::new("drive", "gpu:0", Path::P2p), Flow::new("gpu:0", "drive", Path::P2p));
    let silent = changed("donard", "p2p_read = \"650M\"", "");
    let warned = |keys: &[&str]| Warning::PeersNotStated {
        through: names(&["pci0000:00"]),
        others: 0,
        keys: names(keys),
    };
    assert_eq!(warnings(&silent, &[], write.clone()), [warned(&["p2p_read"])]);
    assert_eq!(warnings(&silent, &[], read.clone()), [warned(&["p2p_write"])]);
    // The description states what peers read.
    assert_eq!(warnings(&machine("donard"), &[], write.clone()), []);
    assert_eq!(warnings(&machine("donard"), &[], read.clone()), [warned(&["p2p_write"])]);
    let both = workload(vec![("in", vec![read.clone()]), ("out", vec![write])]);
    let record = predict(&silent, &both, Engine::Flow);
    assert_eq!(record.warnings, [warned(&["p2p_read", "p2p_write"])]);
    // By host memory, and below one switch, nothing is between peers there.
    let host = Flow { path: Path::HostPipelined, ..read };
    assert_eq!(warnings(&silent, &[], host), []);
    let below = Flow::new("drive0", "fpga:fpga0", Path::P2p);
    assert_eq!(warnings(&machine("r7515-10-smartssd"), &[], below), []);
    let across = Flow::new("drive0", "fpga:fpga1", Path::P2p);
    assert_eq!(warnings(&machine("r7515-10-smartssd"), &[], across).len(), 1);
}

#[test]
fn unknown_links_of_pasted_text_are_refused_by_name() {
    let mut silent = pair(["", X4], ["", ""]);
    silent.origin = peerlane_fabric::Origin::Text;
    let run = |given: &[(&str, f64, &str)], to: &str, path: Path| {
        let flow = one(Flow::new("a", to, path));
        run(&silent, &with(given), &flow, Engine::Flow).map(drop)
    };
    let error = run(&[], "gpu:0", Path::P2p).unwrap_err();
    assert!(error.to_string().ends_with("`link` is not known of g"), "{error}");
    let hint = error.hint(&silent).expect("what to do");
    assert!(hint.contains("--format toml") && hint.contains("name = \"g\""), "{hint}");
    run(&[], "host", Path::HostPipelined).expect("the link of the GPU is not crossed");
    let own = [("g.lanes", 16.0, "count"), ("g.generation", 4.0, "count")];
    run(&own, "gpu:0", Path::P2p).expect("a parameter states it");
}
