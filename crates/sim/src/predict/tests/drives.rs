//! Media, commands and caches of drives.

use super::*;

#[test]
fn small_blocks_share_commands() {
    let two = workload(vec![("two", vec![small("host", "a"); 2])]);
    for given in [vec![], vec![("a.write.rate", 9.0, "GB/s")]] {
        for engine in [Engine::Flow, Engine::Tlp] {
            let record = predict_with(&machine("pair"), &given, &two, engine);
            assert!(is_near(rate(&record, 0), 50e3 * 4096.0 / 1e9), "{}", rate(&record, 0));
            assert_eq!(limits(&record), ["random commands of a"; 2]);
            assert!(is_near(gain(&record, "random commands of a"), 1.1));
        }
    }
}

#[test]
fn commands_and_medium_limit_each_flow() {
    let flows = vec![small("a", "host"), Flow::new("a", "host", Path::HostPipelined)];
    let record = predict(&machine("pair"), &together(flows), Engine::Flow);
    assert_eq!(limits(&record), ["random commands of a", "medium of a, read"]);
    // Both take shares of one time.
    let expected = 2.0 / (1.0 / 6.5 + 1.0 / (800e3 * 4096.0 / 1e9));
    assert!(is_near(rate(&record, 0), expected), "{}", rate(&record, 0));
}

#[test]
fn reads_and_writes_share_a_drive() {
    let drive = |mixed: &str| {
        let states = format!("name = \"drive0\"\n{mixed}");
        changed("r7515-10-smartssd", "name = \"drive0\"\n", &states)
    };
    let flows = [("drive0", "host"), ("host", "drive0")];
    let both = together(flows.map(|(a, b)| Flow::new(a, b, Path::HostPipelined)).to_vec());
    let of = |machine: &Fabric, given: Given<'_>| {
        let record = predict_with(machine, given, &both, Engine::Flow);
        let [read, written] =
            [0, 1].map(|flow: usize| record.cases[0].flows[flow].bytes.0 as f64 / 1e9);
        (read / 3.3 + written / 2.006, record)
    };
    let (share, record) = of(&drive(""), &[]);
    assert!(is_near(share, 1.0), "{share}");
    let medium = "medium of drive0, read and written";
    assert_eq!(limits(&record), [medium; 2]);
    assert!(is_near(gain(&record, medium), 1.1));
    // The description of the machine, and a parameter before it.
    assert!(is_near(of(&drive("mixed = 2.0\n"), &[]).0, 2.0));
    let half = of(&drive("mixed = 2.0\n"), &[("drive0.mixed", 0.5, "x")]).0;
    assert!(is_near(half, 0.5), "{half}");
    // A throttle of the lab counts both together.
    let flows = [("a", "host"), ("host", "a")];
    let both = together(flows.map(|(a, b)| Flow::new(a, b, Path::HostPipelined)).to_vec());
    let throttled = predict(&machine("throttled"), &both, Engine::Flow);
    assert!(is_near(rate(&throttled, 0), 0.01), "{}", rate(&throttled, 0));
}

#[test]
fn medium_limits_own_memory() {
    let copy = || one(Flow::new("d1", "d0", Path::P2p));
    let record = predict(&machine("ten"), &copy(), Engine::Flow);
    assert_eq!(limits(&record), ["medium of d0, written"]);
    assert!(is_near(gain(&record, "medium of d0, written"), 1.1));
    let memory = "p2pmem = { size = \"64M\", write = \"1GB/s\" }";
    let record = predict(&changed("ten", "cmb = \"64M\"", memory), &copy(), Engine::Flow);
    assert!(limits(&record) == ["memory of d0"] && is_near(rate(&record, 0), 1.0));
}

#[test]
fn drive_writes_stay_within_rate() {
    // By its own memory and from the host, while it is read a little.
    let limit = Some(ByteRate(200_000_000));
    let flows = vec![
        Flow::new("d1", "d0", Path::P2p),
        Flow::new("host", "d0", Path::HostPipelined),
        Flow { limit, ..Flow::new("d0", "host", Path::HostPipelined) },
    ];
    let given = [("d0.write.rate", 1.5, "GB/s"), ("d0.mixed", 1.5, "x")];
    for engine in [Engine::Flow, Engine::Tlp] {
        let record = predict_with(&machine("ten"), &given, &together(flows.clone()), engine);
        let flows = &record.cases[0].flows;
        let written = (flows[0].bytes.0 + flows[1].bytes.0) as f64 / 1e9;
        assert!(is_near(written, 1.5), "{engine:?}: {written}");
        assert_eq!(limits(&record)[..2], ["medium of d0, written"; 2]);
    }
}

#[test]
fn throttles_and_largest_commands_count() {
    let read = || Flow::new("a", "host", Path::HostPipelined);
    assert!(is_near(alone(&machine("throttled"), &[], read()), 0.01));
    // 4 KiB << 3 is 32 KiB a command: four times as many of them as of 128 KiB.
    let small = changed("pair", "name = \"a\"\n", "name = \"a\"\nmdts = 3\n");
    let slow = [("a.read.commands", 50e3, "count")];
    assert!(is_near(alone(&small, &slow, read()), 50e3 * 32768.0 / 1e9));
    assert!(is_near(alone(&machine("pair"), &slow, read()), 50e3 * 131_072.0 / 1e9));
}

#[test]
fn random_commands_are_own_or_lower() {
    let fast = [
        ("host.command", 100.0, "ns"),
        ("d1.generation", 6.0, "count"),
        ("d1.lanes", 16.0, "count"),
        ("d1.read.rate", 20.0, "GB/s"),
    ];
    let (own, any) = ("d1.random-read.commands", "drive.random-read.commands");
    for (stated, expected) in [
        (vec![(own, 1.2e6, "count")], 1.2e6),
        (vec![(any, 1.2e6, "count")], 1.2e6),
        (vec![(own, 76_289.0, "count"), ("d1.read.commands", 63_697.0, "count")], 76_289.0),
        // A drive that states sequential ones alone does no more than those.
        (vec![("d1.read.commands", 63_697.0, "count")], 63_697.0),
    ] {
        let given = [&fast, &stated[..]].concat();
        let flow = Flow { depth: 1024, ..small("d1", "host") };
        let found = alone(&machine("ten"), &given, flow) * 1e9 / 4096.0;
        assert!(is_near(found, expected), "{stated:?}: {found}");
    }
}

#[test]
fn full_caches_lower_writes() {
    let given = [
        ("a.write.rate", 3000.0, "MB/s"),
        ("a.write.cache", 30e9, "B"),
        ("a.write.sustained", 0.5, "x"),
        ("a.read.rate", 3000.0, "MB/s"),
        ("a.read.sustained", 0.8, "x"),
    ];
    let of = |gigabytes: u64| Flow {
        bytes: Bytes(gigabytes * 1_000_000_000),
        ..Flow::new("host", "a", Path::HostPipelined)
    };
    assert!(is_near(alone(&machine("pair"), &given, of(20)), 3.0));
    // Ten seconds for 30 GB, then 40 for 60 GB.
    assert!(is_near(alone(&machine("pair"), &given, of(90)), 90.0 / 50.0));
    let read = Flow::new("a", "host", Path::HostPipelined);
    assert!(is_near(alone(&machine("pair"), &given, read), 2.4));
}
