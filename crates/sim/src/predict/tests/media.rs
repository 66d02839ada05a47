//! That what reads and writes a drive shares its medium.

use super::*;

#[test]
fn writers_of_a_drive_in_random_order_share_its_commands() {
    let writer = || Flow {
        block: Bytes::kib(4),
        depth: 64,
        order: Order::Random,
        ..Flow::new("host", "a", Path::HostPipelined)
    };
    let two = workload(vec![("two", vec![writer(), writer()])]);
    // A medium that is faster makes no difference.
    for given in [with(&[]), with(&[("a.write.rate", 9.0, "GB/s")])] {
        for engine in [Engine::Flow, Engine::Tlp] {
            let record = run(&machine("pair"), &given, &two, engine).expect("predicted");
            assert!(is_near(rate(&record, 0), 50e3 * 4096.0 / 1e9), "{}", rate(&record, 0));
            assert_eq!(limit(&record), "random commands of a");
            let gains = &record.cases[0].prediction.as_ref().expect("one").gains;
            let [Gain { resource, ratio }] = &gains[..] else { panic!("{gains:?}") };
            assert!(resource == "random commands of a" && is_near(*ratio, 1.1), "{gains:?}");
        }
    }
}

/// Blocks of 4 KiB in random order.
fn small(source: &str, target: &str) -> Flow {
    Flow {
        block: Bytes::kib(4),
        depth: 64,
        order: Order::Random,
        ..Flow::new(source, target, Path::HostPipelined)
    }
}

/// What limits each flow, and the gains.
fn limits_and_gains(record: &BenchRecord) -> (Vec<&str>, Vec<(&str, f64)>) {
    let case = &record.cases[0];
    let gains = &case.prediction.as_ref().expect("one").gains;
    let gains = gains.iter().map(|gain| (gain.resource.as_str(), gain.ratio)).collect();
    (case.flows.iter().map(limit_of).collect(), gains)
}

#[test]
fn a_drive_is_limited_by_its_commands_or_its_medium_flow_by_flow() {
    let large = |source: &str, target: &str| Flow::new(source, target, Path::HostPipelined);
    let predict = |flows: Vec<Flow>, given: &[(&str, f64, &str)]| {
        let mut timed = workload(vec![("some", flows)]);
        timed.cases[0].time_ns = Some(Nanos::seconds(1));
        run(&machine("pair"), &with(given), &timed, Engine::Flow).expect("predicted")
    };
    let (commands, read) = ("random commands of a", "medium of a, read");
    // Both take shares of one time, so that a tenth more of either gives something to both.
    let record = predict(vec![small("a", "host"), large("a", "host")], &[]);
    let (limits, gains) = limits_and_gains(&record);
    assert_eq!(limits, [commands, read]);
    let of = |name| gains.iter().find(|gain| gain.0 == name).expect("a gain").1;
    let (rate, random) = (6.5, 800e3 * 4096.0 / 1e9);
    let both = |rate: f64, random: f64| 2.0 / (1.0 / rate + 1.0 / random);
    assert!(is_near(super::rate(&record, 0), both(rate, random)), "{record:?}");
    let ratio = |rate, random| both(rate, random) / both(6.5, 800e3 * 4096.0 / 1e9);
    assert!((of(commands) / ratio(rate, 1.1 * random) - 1.0).abs() < 0.003, "{gains:?}");
    assert!((of(read) / ratio(1.1 * rate, random) - 1.0).abs() < 0.003, "{gains:?}");
    // Where the drive is written, too, both are shares of the time of its medium.
    let record =
        predict(vec![small("a", "host"), small("host", "a")], &[("host.command", 100.0, "ns")]);
    assert_eq!(limits_and_gains(&record).0, [commands; 2]);
    let gain = limits_and_gains(&record).1[0];
    assert!(gain.0 == commands && is_near(gain.1, 1.1), "{gain:?}");
    // Several drives of which each has several writers.
    let ends = ["a", "b", "a", "b"];
    let record = predict(ends.map(|end| small("host", end)).to_vec(), &[]);
    let (limits, gains) = limits_and_gains(&record);
    assert_eq!(limits, ends.map(|end| format!("random commands of {end}")));
    assert!(gains[0].0 == "random commands of 2 drives" && is_near(gains[0].1, 1.1), "{gains:?}");
}

#[test]
fn more_of_a_medium_stops_at_the_commands_of_those_who_share_it() {
    // Commands of 128 KiB come to 5 % more than the medium.
    let commands = 1.05 * 3e9 / 131_072.0;
    let given = [("a.read.rate", 3.0, "GB/s"), ("a.read.commands", commands, "count")];
    let slow = Flow { block: Bytes::kib(4), order: Order::Random, ..reader() };
    let flows = vec![reader(), reader(), slow];
    let mut timed = workload(vec![("three", flows)]);
    timed.cases[0].time_ns = Some(Nanos::seconds(1));
    let predict = |given: &[(&str, f64, &str)]| {
        run(&machine("pair"), &with(given), &timed, Engine::Flow).expect("predicted")
    };
    let record = predict(&given);
    let (limits, gains) = limits_and_gains(&record);
    assert_eq!(limits[0], "medium of a, read");
    let found = gains.iter().find(|gain| gain.0 == "medium of a, read").expect("a gain").1;
    let faster = predict(&[("a.read.rate", 3.3, "GB/s"), given[1]]);
    let expected = rate(&faster, 0) / rate(&record, 0);
    assert!((found / expected - 1.0).abs() < 0.002, "{found} and not {expected}: {gains:?}");
}

fn reader() -> Flow {
    Flow { depth: 64, ..Flow::new("a", "host", Path::HostPipelined) }
}

#[test]
fn a_drive_that_moves_data_out_of_its_own_memory_is_limited_by_its_medium_by_name() {
    let record = predict(&machine("ten"), &one(Flow::new("d1", "d0", Path::P2p)), Engine::Flow);
    assert_eq!(limit(&record), "medium of d0, written");
    let gains = &record.cases[0].prediction.as_ref().expect("one").gains;
    let best = gains.first().expect("something gains");
    assert_eq!(best.resource, "medium of d0, written");
    assert!(is_near(best.ratio, 1.1), "{gains:?}");
    // A memory that is slower than the medium behind it stays what limits.
    let memory = "cmb = \"64M\"";
    let slow = changed("ten", memory, "p2pmem = { size = \"64M\", write = \"1G\" }");
    let record = predict(&slow, &one(Flow::new("d1", "d0", Path::P2p)), Engine::Flow);
    assert_eq!(limit(&record), "memory of d0");
    assert!(is_near(rate(&record, 0), 1.0), "{}", rate(&record, 0));
}

#[test]
fn a_drive_that_is_read_and_written_at_once_shares_its_time() {
    let drive = |mixed: &str| {
        let states = format!("name = \"drive0\"\n{mixed}");
        changed("r7515-10-smartssd", "name = \"drive0\"\n", &states)
    };
    let both = || {
        let mut timed = workload(vec![(
            "both",
            vec![
                Flow::new("drive0", "host", Path::HostPipelined),
                Flow::new("host", "drive0", Path::HostPipelined),
            ],
        )]);
        timed.cases[0].time_ns = Some(Nanos::seconds(1));
        timed
    };
    let rates = |machine: &Fabric, parameters: &Parameters| {
        let record = run(machine, parameters, &both(), Engine::Flow).expect("predicted");
        let each = |at: usize| record.cases[0].flows[at].bytes.0 as f64 / 1e9;
        (each(0), each(1), record)
    };
    let (read, written, record) = rates(&drive(""), &with(&[]));
    assert!(is_near(read / 3.3 + written / 2.006, 1.0), "{read} {written}");
    assert!(is_near(read, written), "{read} {written}");
    assert_eq!(limit(&record), "medium of drive0, read and written");
    let prediction = record.cases[0].prediction.as_ref().expect("one");
    let gain = prediction.gains.first().expect("something gains");
    assert_eq!(gain.resource, "medium of drive0, read and written");
    assert!(is_near(gain.ratio, 1.1), "{gain:?}");
    // From half of that to all that both rates allow.
    let (low, high) = prediction.interval.expect("few flows");
    assert!((low.0 as f64) < 0.8e9 * (read + written), "{low}");
    assert!(high.0 as f64 > 1.2e9 * (read + written), "{high}");
    // By the description of the machine, and before it by a parameter.
    let (read, written, _) = rates(&drive("mixed = 2.0\n"), &with(&[]));
    assert!(is_near(read, 3.3) && is_near(written, 2.006), "{read} {written}");
    let half = with(&[("drive0.mixed", 0.5, "x")]);
    let (read, written, _) = rates(&drive("mixed = 2.0\n"), &half);
    assert!(is_near(read / 3.3 + written / 2.006, 0.5), "{read} {written}");
    for wrong in [0.05, 5.0] {
        let wrong = with(&[("drive0.mixed", wrong, "x")]);
        assert!(run(&drive(""), &wrong, &both(), Engine::Flow).is_err());
    }
    // What holds a drive of the lab back counts both together.
    let (throttled, apart) = (machine("throttled"), with(&[("drive.mixed", 2.0, "x")]));
    let mut asked = both();
    asked.cases[0].flows[0].source = "a".to_owned();
    asked.cases[0].flows[1].target = "a".to_owned();
    let record = run(&throttled, &apart, &asked, Engine::Flow).expect("predicted");
    assert!(is_near(rate(&record, 0), 0.01), "{}", rate(&record, 0));
}

#[test]
fn two_media_that_limit_a_copy_alike_gain_together() {
    let alike = with(&[("a.read.rate", 2.0, "GB/s"), ("b.write.rate", 2.0, "GB/s")]);
    let gains = |parameters: &Parameters| {
        let asked = one(Flow::new("a", "b", Path::P2p));
        let record = run(&machine("pair"), parameters, &asked, Engine::Flow).expect("predicted");
        record.cases[0].prediction.as_ref().expect("one").gains.clone()
    };
    let found = gains(&alike);
    let media = ["medium of a, read", "medium of b, written"];
    assert!(media.iter().all(|medium| found[0].resource.contains(medium)), "{found:?}");
    assert!(is_near(found[0].ratio, 1.1), "{found:?}");
    assert!(
        found[1..].iter().all(|gain| gain.ratio < 1.0005),
        "alone they gain nothing: {found:?}"
    );
    // Where one is slower it gains alone, and nothing is said of both.
    let one_slower = with(&[("a.read.rate", 2.0, "GB/s"), ("b.write.rate", 1.0, "GB/s")]);
    let found = gains(&one_slower);
    assert_eq!(found[0].resource, "medium of b, written");
    assert!(found.iter().all(|gain| !gain.resource.contains("as much more")), "{found:?}");
}

#[test]
fn random_writes_leave_little_of_a_drive_to_reads() {
    let flows = vec![small("a", "host"), small("host", "a")];
    let mut timed = workload(vec![("both", flows)]);
    timed.cases[0].time_ns = Some(Nanos::seconds(1));
    let fast = with(&[("host.command", 100.0, "ns")]);
    let record = run(&machine("pair"), &fast, &timed, Engine::Flow).expect("predicted");
    let commands = |at: usize| record.cases[0].flows[at].bytes.0 as f64 / 4096.0;
    // 800 k reads a second alone, 50 k writes.
    let share = commands(0) / 800e3 + commands(1) / 50e3;
    assert!(is_near(share, 1.0), "{} {}", commands(0), commands(1));
    // Not beyond what a link, the processor or depth would let through.
    assert!(commands(0) < 700e3, "{}", commands(0));
}

#[test]
fn copies_in_a_circle_read_and_write_every_drive() {
    // Each drive takes what the one before it has, by its own memory or that of others.
    for (machine_name, name, memory) in
        [("ten", "d", None), ("r7515-10-smartssd", "drive", None), ("ten", "d", Some("cmb:d9"))]
    {
        let copy = |n: usize| Flow {
            via: memory.map(str::to_owned),
            ..Flow::new(format!("{name}{n}"), format!("{name}{}", (n + 1) % 3), Path::P2p)
        };
        let ring = workload(vec![("ring", (0..3).map(copy).collect())]);
        let one = workload(vec![("one", vec![copy(0)])]);
        let machine = machine(machine_name);
        for engine in [Engine::Flow, Engine::Tlp] {
            let (ring, one) = (predict(&machine, &ring, engine), predict(&machine, &one, engine));
            let (ring, one) = (rate(&ring, 0), rate(&one, 0));
            // Alone each copy is held up by the writing drive; together drives read in the same time.
            assert!(ring < 0.75 * 3.0 * one, "{machine_name} {engine:?}: {ring} {one}");
        }
    }
}

#[test]
fn a_drive_writes_no_more_than_its_rate_in_whatever_ways_data_come() {
    // By its own memory and from the host, while it is read a little.
    let limit = Some(ByteRate(200_000_000));
    let flows = || {
        vec![
            Flow::new("d1", "d0", Path::P2p),
            Flow::new("host", "d0", Path::HostPipelined),
            Flow { limit, ..Flow::new("d0", "host", Path::HostPipelined) },
        ]
    };
    let mut timed = workload(vec![("three", flows())]);
    timed.cases[0].time_ns = Some(Nanos::seconds(1));
    for (mixed, engine) in [(1.5, Engine::Flow), (1.5, Engine::Tlp), (2.0, Engine::Flow)] {
        let rate = ("d0.write.rate", 1.5, "GB/s");
        let given = with(&[rate, ("d0.mixed", mixed, "x")]);
        let record = run(&machine("ten"), &given, &timed, engine).expect("predicted");
        let flows = &record.cases[0].flows;
        let written = (flows[0].bytes.0 + flows[1].bytes.0) as f64 / 1e9;
        assert!(is_near(written, 1.5), "{mixed} {engine:?}: {written}");
        assert_eq!(limit_of(&flows[0]), "medium of d0, written");
        assert_eq!(limit_of(&flows[1]), "medium of d0, written");
        let alone = run(&machine("ten"), &given, &timed, Engine::Closed).expect("predicted");
        assert!(alone.cases[0].flows.iter().all(|flow| flow.bytes.0 <= 1_505_000_000));
    }
    // Where nothing is read, no limit says so.
    let only = Workload {
        cases: vec![CaseSpec { flows: flows()[..2].to_vec(), ..timed.cases[0].clone() }],
        ..timed
    };
    for engine in [Engine::Flow, Engine::Tlp] {
        let record = predict(&machine("ten"), &only, engine);
        let case = &record.cases[0];
        assert!(case.flows.iter().all(|flow| limit_of(flow) == "medium of d0, written"));
        let gain = &case.prediction.as_ref().expect("one").gains[0];
        assert!(gain.resource == "medium of d0, written" && is_near(gain.ratio, 1.1), "{gain:?}");
    }
}
