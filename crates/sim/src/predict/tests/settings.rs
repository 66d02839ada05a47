//! That everything which a machine file, a parameter or a workload says has its effect.

use peerlane_results::FlowRecord;

use super::*;
use crate::calibrate::{self, Calibration, RandomCalibration, Row, Rows, SideCalibration};
use crate::devices::drive::Side;
use crate::devices::table::Table;

/// The text of a machine with something put in place of something else.
fn changed(name: &str, from: &str, to: &str) -> Fabric {
    let file = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).expect("it is there");
    assert!(text.contains(from), "{name} has no {from}");
    Fabric::from_toml(&text.replacen(from, to, 1)).expect("a machine")
}

/// Parameters with some of other values, `name value unit` each.
fn with(others: &[(&str, f64, &str)]) -> Parameters {
    let entry = |&(name, value, unit): &(&str, f64, &str)| {
        format!(
            "[parameter.\"{name}\"]\nvalue = {value:e}\nunit = \"{unit}\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        )
    };
    let text: String = others.iter().map(entry).collect();
    super::super::parameters(Some(&text)).expect("parameters")
}

fn one(flow: Flow) -> Workload {
    workload(vec![("one", vec![flow])])
}

fn alone(machine: &Fabric, parameters: &Parameters, flow: Flow) -> f64 {
    rate(&run(machine, parameters, &one(flow), Engine::Flow).expect("predicted"), 0)
}

fn limit(record: &BenchRecord) -> &str {
    limit_of(&record.cases[0].flows[0])
}

fn limit_of(flow: &FlowRecord) -> &str {
    flow.limited_by.as_deref().expect("something limits")
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.01
}

#[test]
fn a_throttle_and_a_largest_command_of_the_machine_file_count() {
    let throttled = machine("throttled");
    let rate = alone(&throttled, &with(&[]), Flow::new("a", "host", Path::HostPipelined));
    assert!(is_near(rate, 0.01), "{rate}");
    // 4 KiB << 3 is 32 KiB a command: four times as many of them as of 128 KiB.
    let small = changed("pair", "name = \"a\"\n", "name = \"a\"\nmdts = 3\n");
    let slow = with(&[("a.read.commands", 50e3, "count")]);
    let flow = || Flow::new("a", "host", Path::HostPipelined);
    assert!(is_near(alone(&small, &slow, flow()), 50e3 * 32768.0 / 1e9));
    assert!(is_near(alone(&machine("pair"), &slow, flow()), 50e3 * 131_072.0 / 1e9));
}

#[test]
fn blocks_in_random_order_are_bounded_by_random_commands() {
    let small = |order| Flow {
        block: Bytes::kib(4),
        depth: 64,
        order,
        ..Flow::new("host", "a", Path::HostPipelined)
    };
    let pair = machine("pair");
    let record = predict(&pair, &one(small(Order::Random)), Engine::Flow);
    assert!(is_near(rate(&record, 0), 50e3 * 4096.0 / 1e9), "{}", rate(&record, 0));
    assert_eq!(limit(&record), "random commands of a");
    let in_order = alone(&pair, &with(&[]), small(Order::Sequential));
    assert!(in_order > 5.0 * rate(&record, 0), "{in_order}");
    let own = with(&[("a.random-write.commands", 100e3, "count")]);
    assert!(is_near(alone(&pair, &own, small(Order::Random)), 100e3 * 4096.0 / 1e9));
}

#[test]
fn writers_of_a_drive_in_random_order_share_its_commands() {
    let writer = || Flow {
        block: Bytes::kib(4),
        depth: 64,
        order: Order::Random,
        ..Flow::new("host", "a", Path::HostPipelined)
    };
    for engine in [Engine::Flow, Engine::Tlp] {
        let two = workload(vec![("two", vec![writer(), writer()])]);
        let record = predict(&machine("pair"), &two, engine);
        assert!(is_near(rate(&record, 0), 50e3 * 4096.0 / 1e9), "{}", rate(&record, 0));
        assert_eq!(limit(&record), "medium of a, written");
        let gains = &record.cases[0].prediction.as_ref().expect("one").gains;
        assert!(gains.iter().any(|gain| is_near(gain.ratio, 1.1)), "{gains:?}");
    }
}

#[test]
fn a_link_has_the_lanes_and_the_generation_that_a_parameter_says() {
    let ten = machine("ten");
    let flow = || Flow::new("d1", "d0", Path::P2p);
    let fast = ("drive.read.rate", 60_000.0, "MB/s");
    let of = |lanes, generation| {
        let link = [("d0.lanes", lanes, "count"), ("d0.generation", generation, "count"), fast];
        alone(&ten, &with(&link), flow())
    };
    let narrow = of(1.0, 3.0);
    assert!(narrow < 1.0 && is_near(of(2.0, 3.0) / narrow, 2.0), "{narrow}");
    assert!(is_near(of(1.0, 4.0) / narrow, 2.0), "{narrow}");
    let wrong = run(&ten, &with(&[("d0.lanes", 3.0, "count")]), &one(flow()), Engine::Flow);
    assert!(wrong.is_err());
    // Of a range, draws are links that there are.
    let range = "[parameter.\"d0.lanes\"]\nvalue = 4\nlo = 1\nhi = 16\nunit = \"count\"\nfrom = \"guess\"\nsource = \"a test\"\n";
    let range = super::super::parameters(Some(range)).expect("parameters");
    assert!(run(&ten, &range, &one(flow()), Engine::Flow).is_ok());
    let unknown = with(&[("d0.lanes", 4.0, "count"), ("nobody.lanes", 4.0, "count")]);
    assert_eq!(strangers(&unknown, &ten), ["nobody.lanes"]);
}

#[test]
fn random_blocks_are_predicted_by_what_a_calibration_wrote_of_them() {
    let side = |op, commands: f64| {
        let rate = commands * 4096.0;
        let (least, most) = (rate * 0.98, rate * 1.02);
        let row = Row { block: 4096.0, depth: 32.0, measured: rate, least, most, predicted: rate };
        let rows = Rows { fitted: vec![row], held_out: Vec::new() };
        let random = Some(RandomCalibration { commands, rows });
        let side = Side { latency: Table::line(50e-6, 3e9), rate: 3e9, commands: 600e3 };
        SideCalibration { drive: "a".to_owned(), op, side, rows: Rows::default(), random }
    };
    let sides = vec![side(calibrate::Op::Read, 70e3), side(calibrate::Op::Write, 30e3)];
    let text = Calibration { machine: "m".to_owned(), is_emulated: false, sides }.to_toml();
    let parameters = super::super::parameters(Some(&text)).expect("parameters");
    for (source, target, commands) in [("a", "host", 70e3), ("host", "a", 30e3)] {
        let flow = Flow::new(source, target, Path::HostPipelined);
        let flow = Flow { block: Bytes::kib(4), depth: 64, order: Order::Random, ..flow };
        assert!(strangers(&parameters, &machine("pair")).is_empty());
        assert!(is_near(alone(&machine("pair"), &parameters, flow), commands * 4096.0 / 1e9));
    }
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
    let small = |source: &str, target: &str| Flow {
        block: Bytes::kib(4),
        depth: 64,
        order: Order::Random,
        ..Flow::new(source, target, Path::HostPipelined)
    };
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
fn the_page_cache_costs_host_memory_for_each_of_its_copies() {
    let most = |target: &str, path| {
        let record = predict(&machine("epyc"), &one(Flow::new("a", target, path)), Engine::Flow);
        record.summaries[0].host_bytes_per_byte.expect("a number")
    };
    assert!(is_near(most("c", Path::HostPipelined), 2.0));
    assert!(is_near(most("c", Path::HostMapped), 5.0));
    assert!(is_near(most("c", Path::HostPageCache), 8.0));
    assert!(is_near(most("host", Path::HostPipelined), 1.0));
    assert!(is_near(most("host", Path::HostPageCache), 4.0));
}

#[test]
fn writes_beyond_the_cache_of_a_drive_are_slower() {
    let pair = machine("pair");
    let parameters = with(&[
        ("a.write.rate", 3000.0, "MB/s"),
        ("a.write.cache", 30e9, "B"),
        ("a.write.sustained", 0.5, "x"),
        ("a.read.rate", 3000.0, "MB/s"),
        ("a.read.sustained", 0.8, "x"),
    ]);
    let of = |gigabytes: u64| Flow {
        bytes: Bytes(gigabytes * 1_000_000_000),
        ..Flow::new("host", "a", Path::HostPipelined)
    };
    assert!(is_near(alone(&pair, &parameters, of(20)), 3.0));
    // Ten seconds for 30 GB, then 40 for 60 GB.
    assert!(is_near(alone(&pair, &parameters, of(90)), 90.0 / 50.0));
    let mut timed = one(of(1));
    timed.cases[0].time_ns = Some(Nanos::seconds(20));
    let record = run(&pair, &parameters, &timed, Engine::Flow).expect("predicted");
    assert!(is_near(rate(&record, 0), (30.0 + 15.0) / 20.0), "{}", rate(&record, 0));
    let read = alone(&pair, &parameters, Flow::new("a", "host", Path::HostPipelined));
    assert!(is_near(read, 2.4), "{read}");
}

#[test]
fn queues_that_are_shared_hold_up_a_stranger_and_others_do_not() {
    let victim = machine("victim");
    let names: Vec<&str> = victim.functions.iter().map(|function| function.name.as_str()).collect();
    assert!(names.contains(&"hot") && names.contains(&"drive4"), "{names:?}");
    let flows = || -> Vec<Flow> {
        let to = |n: usize| if n == 4 { "idle" } else { "hot" };
        (0..5).map(|n| Flow::new(format!("drive{n}"), to(n), Path::P2p)).collect()
    };
    let fifth = |parameters: &Parameters| {
        let record = run(&victim, parameters, &workload(vec![("v", flows())]), Engine::Flow);
        let record = record.expect("predicted");
        let flow = &record.cases[0].flows[4];
        flow.bytes.0 as f64 / flow.elapsed_ns.0 as f64
    };
    let (shared, own) = (fifth(&with(&[])), fifth(&with(&[("queues.shared", 0.01, "x")])));
    assert!(own > 2.0 * shared, "{shared} {own}");
}

#[test]
fn pieces_turns_and_page_walks_come_from_parameters() {
    // Writes that are cut into 64 bytes leave 64 / 88 of the link in place of 256 / 280.
    let epyc = machine("epyc");
    let fast = ("drive.read.rate", 14_000.0, "MB/s");
    let p2p = || Flow::new("a", "cmb:c", Path::P2p);
    let (whole, cut) = (with(&[fast]), with(&[fast, ("root.split", 64.0, "B")]));
    let ratio = alone(&epyc, &cut, p2p()) / alone(&epyc, &whole, p2p());
    assert!(is_near(ratio, (64.0 / 88.0) / (256.0 / 280.0)), "{ratio}");
    // One walker of 10 us for each page of 4 KiB.
    let walks = with(&[fast, ("iommu.walkers", 1.0, "count"), ("iommu.walk", 10.0, "us")]);
    let text = "iommu = \"off\"";
    let translating = changed("epyc", text, "iommu = \"translating\"");
    let rate = alone(&translating, &walks, p2p());
    assert!(is_near(rate, 4096.0 / 10e-6 / 1e9), "{rate}");
    assert!(alone(&epyc, &walks, p2p()) > 6.0, "where nothing translates nothing is walked");
    // Two turns in a row for one of two drives that fill one link.
    let flows = || ["d1", "d2"].map(|source| Flow::new(source, "cmb:d0", Path::P2p)).to_vec();
    let (ten, turns) = (machine("ten"), with(&[fast, ("d1.turns", 2.0, "count")]));
    let record = run(&ten, &turns, &workload(vec![("in", flows())]), Engine::Flow);
    let record = record.expect("predicted");
    let took: Vec<f64> =
        record.cases[0].flows.iter().map(|flow| flow.elapsed_ns.0 as f64).collect();
    // Both move 1 GiB; when the first is done, the other has half of its own left and the link alone.
    assert!(is_near(took[1] / took[0], (1.5 + 0.5) / 1.5), "{took:?}");
}

#[test]
fn packets_keep_to_the_time_of_a_case_and_gains_are_those_of_fluids() {
    let mut timed = one(Flow::new("d0", "host", Path::HostPipelined));
    timed.cases[0].time_ns = Some(Nanos::seconds(2));
    let record = predict(&machine("ten"), &timed, Engine::Tlp);
    assert_eq!(record.cases[0].elapsed_ns, Nanos::seconds(2));
    let gains = &record.cases[0].prediction.as_ref().expect("one").gains;
    let fluids = predict(&machine("ten"), &timed, Engine::Flow);
    assert_eq!(gains, &fluids.cases[0].prediction.as_ref().expect("one").gains);
}

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
        let given = super::super::parameters(Some(&text)).expect("parameters");
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
        let error = super::super::parameters(Some(&text)).expect_err(name);
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
            let given = super::super::parameters(Some(&text)).expect("numbers");
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

#[test]
fn an_ethernet_between_two_parts_of_a_switch_and_behind_a_card_is_a_limit() {
    // 256 bytes of payload, header 16, bridge 10, frame 38.
    let frames = 1.25 * 256.0 / (256.0 + 16.0 + 10.0 + 38.0);
    let direct = machine("direct-connect");
    let both =
        || ["drive0", "drive1"].map(|from| Flow::new(from, "host", Path::HostPipelined)).to_vec();
    for engine in [Engine::Flow, Engine::Tlp] {
        let record = predict(&direct, &workload(vec![("both", both())]), engine);
        assert!(is_near(rate(&record, 0), frames), "{engine:?}: {}", rate(&record, 0));
        assert_eq!(limit(&record), "link of bridge-ethernet up");
        let link = record.cases[0].links.iter().find(|link| link.below == "bridge-ethernet");
        assert!(link.is_some_and(|link| link.busy.is_some_and(|busy| is_near(busy, 1.0))));
    }
    // What stays beyond it does not cross it.
    let beyond = alone(&direct, &with(&[]), Flow::new("drive0", "fpga:buffer", Path::P2p));
    assert!(is_near(beyond, 0.911), "{beyond}");
    let card = "\n\n[[function]]\nname = \"net\"\nkind = \"nic\"\nunder = \"slot2\"\nlink = \"2.5GT/s x8\"\n\
                ethernet = \"125M\"\n\n[[function]]\nname = \"buffer\"";
    let with_card = changed("direct-connect", "\n\n[[function]]\nname = \"buffer\"", card);
    let sent = alone(&with_card, &with(&[]), Flow::new("drive0", "net", Path::P2p));
    assert!(is_near(sent, 0.125 * (1500.0 - 52.0) / 1538.0), "{sent}");
}

#[test]
fn a_rate_is_within_its_own_range() {
    // Drives that are all alike fill no queue that those of draws, which differ, do.
    let rate = |drive| {
        format!(
            "[parameter.\"drive{drive}.read.rate\"]\nvalue = 3.4\nlo = 3.0\nhi = 3.45\nunit = \"GB/s\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        )
    };
    let text: String = (0..10).map(rate).collect();
    let parameters = super::super::parameters(Some(&text)).expect("parameters");
    let pairs = (0..10).flat_map(|from| (0..10).map(move |to| (from, to)));
    let pairs = pairs.filter(|(from, to)| from != to).map(|(from, to)| Flow {
        depth: 8,
        ..Flow::new(format!("drive{from}"), format!("fpga{to}"), Path::P2p)
    });
    let all = workload(vec![("all", pairs.collect())]);
    let record = run(&machine("r7515-10-smartssd"), &parameters, &all, Engine::Tlp);
    let record = record.expect("predicted");
    let prediction = record.cases[0].prediction.as_ref().expect("one");
    let (low, high) = prediction.interval.expect("a range");
    let rate = record.summaries[0].rate.median;
    let (low, high) = (low.0 as f64 * 0.999, high.0 as f64 * 1.001);
    assert!(low <= rate && rate <= high && low < high * 0.99, "{low} {rate} {high}");
}
