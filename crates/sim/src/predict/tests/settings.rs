//! That everything which a machine file, a parameter or a workload says has its effect.

use super::*;
use crate::calibrate::{self, Calibration, RandomCalibration, Row, Rows, SideCalibration};
use crate::devices::drive::{Side, split_throughput};
use crate::devices::table::Table;
use crate::predict::setting::whole;
use crate::way::as_f64;

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
fn random_commands_that_are_stated_are_not_cut_to_sequential_ones() {
    let small = |order| Flow {
        block: Bytes::kib(4),
        depth: 1024,
        order,
        ..Flow::new("d1", "host", Path::HostPipelined)
    };
    let commands = |others: &[(&str, f64, &str)], order| {
        let fast = [
            ("host.command", 100.0, "ns"),
            ("d1.generation", 6.0, "count"),
            ("d1.lanes", 16.0, "count"),
            ("d1.read.rate", 20.0, "GB/s"),
        ];
        let given = with(&[&fast, others].concat());
        let link = machine("ten");
        alone(&link, &given, small(order)) * 1e9 / 4096.0
    };
    let (own, any) = ("d1.random-read.commands", "drive.random-read.commands");
    // More than any drive does in order; and more than this one does.
    for (stated, expected) in [
        (vec![(own, 1.2e6, "count")], 1.2e6),
        (vec![(any, 1.2e6, "count")], 1.2e6),
        (vec![(own, 76_289.0, "count"), ("d1.read.commands", 63_697.0, "count")], 76_289.0),
        (vec![(own, 76_289.0, "count"), ("drive.read.commands", 63_697.0, "count")], 76_289.0),
        // Of a drive that states those in order alone, no more than these.
        (vec![("d1.read.commands", 63_697.0, "count")], 63_697.0),
        (vec![("d1.read.commands", 63_697.0, "count"), (any, 50e3, "count")], 50e3),
    ] {
        let found = commands(&stated, Order::Random);
        assert!(is_near(found, expected), "{stated:?}: {found} and not {expected}");
    }
    let in_order = commands(&[(own, 1.2e6, "count")], Order::Sequential);
    assert!(is_near(in_order, 800e3), "{in_order}");
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
    let range = super::parameters(Some(range)).expect("parameters");
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
    let text = Calibration { machine: "m".to_owned(), sides, ..Calibration::default() }.to_toml();
    let parameters = super::parameters(Some(&text)).expect("parameters");
    for (source, target, commands) in [("a", "host", 70e3), ("host", "a", 30e3)] {
        let flow = Flow::new(source, target, Path::HostPipelined);
        let flow = Flow { block: Bytes::kib(4), depth: 64, order: Order::Random, ..flow };
        assert!(strangers(&parameters, &machine("pair")).is_empty());
        assert!(is_near(alone(&machine("pair"), &parameters, flow), commands * 4096.0 / 1e9));
    }
}

/// A drive far from what the model takes any drive for: few commands, and a machine that splits its larger blocks.
#[test]
fn the_rates_that_made_a_calibration_are_those_that_are_predicted_with_it() {
    let side = Side { latency: Table::line(250e-6, 0.7e9), rate: 2.2e9, commands: 26e3 };
    let mut cases = Vec::new();
    for (source, target) in [("a", "null"), ("host", "a")] {
        for (block, depth) in calibrate::BLOCKS
            .into_iter()
            .flat_map(|block| calibrate::DEPTHS.map(|depth| (block, depth)))
        {
            let rate =
                split_throughput(&side, as_f64(block), f64::from(depth), as_f64(Bytes::mib(1)));
            let flow = Flow { block, depth, ..Flow::new(source, target, Path::HostPipelined) };
            cases.push((flow, rate));
        }
    }
    let flows = cases.iter().map(|(flow, _)| ("a row", vec![flow.clone()])).collect();
    let mut measured = predict(&machine("pair"), &workload(flows), Engine::Closed);
    measured.asked.kind = WorkloadKind::Calibrate;
    measured.basis = Basis::Measured;
    for (case, (_, rate)) in measured.cases.iter_mut().zip(&cases) {
        case.elapsed_ns = Nanos(whole(as_f64(case.bytes) / rate * 1e9));
    }
    let found = calibrate::calibrate(&measured).expect("a calibration");
    let parameters = super::parameters(Some(&found.to_toml())).expect("parameters");
    for engine in [Engine::Closed, Engine::Flow] {
        for (flow, rate) in &cases {
            let record =
                run(&machine("pair"), &parameters, &one(flow.clone()), engine).expect("predicted");
            let predicted = super::rate(&record, 0) * 1e9;
            assert!(
                (predicted / rate - 1.0).abs() < 0.02,
                "{engine:?} {flow:?}: {predicted} for {rate}"
            );
        }
    }
    let worst = found.sides.iter().map(|side| side.rows.worst_error()).fold(0.0, f64::max);
    assert!(worst < 1e-3, "{worst}");
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
    let parameters = super::parameters(Some(&text)).expect("parameters");
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
