use std::collections::BTreeMap;

use peerlane_results::{CaseSpec, Packets};
use peerlane_units::Nanos;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::devices::drive::{DriveSide, split_throughput};
use crate::devices::table::SizeTable;
use crate::parameters::{Parameter, ParameterShape, Parameters};

/// A drive by the model: 80 us and 2.5 GB/s alone, 3.3 GB/s and 300,000 commands at most.
fn drive() -> DriveSide {
    DriveSide { latency: SizeTable::line(80e-6, 2.5e9), rate: 3.3e9, commands: 300_000.0 }
}

/// Commands a second of that drive in random order.
const RANDOM: f64 = 90_000.0;

/// Position of the held-out row of 256 KiB at depth 8.
const HELD_OUT: usize = 2 * DEPTHS.len() + 1;

fn sample() -> BenchRecord {
    let text = include_str!("../../../../fixtures/results/bench-stream.json");
    let mut record: BenchRecord = serde_json::from_str(text).expect("a record");
    record.asked.kind = WorkloadKind::Calibrate;
    record.packets.clear();
    record
}

/// A GiB of a transfer at a rate.
fn case(sample: &BenchRecord, flow: Flow, rate: f64) -> CaseRecord {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
    let elapsed_ns = Nanos((1_073_741_824.0 / rate * 1e9) as u64);
    let asked = CaseSpec { name: String::new(), flows: vec![flow], time_ns: None };
    CaseRecord { asked, elapsed_ns, bytes: Bytes::mib(1024), ..sample.cases[0].clone() }
}

/// The rows of a drive by the model, each multiplied by `noise` of its position.
fn measured(name: &str, noise: impl Fn(usize) -> f64) -> BenchRecord {
    let in_random_order = DriveSide { commands: RANDOM, ..drive() };
    let (sample, mut cases) = (sample(), Vec::new());
    for (side, blocks, depths, order) in [
        (drive(), &BLOCKS[..], &DEPTHS[..], Order::Sequential),
        (in_random_order, &RANDOM_BLOCKS, &RANDOM_DEPTHS, Order::Random),
    ] {
        for (source, target) in [(name, "null"), ("host", name)] {
            for (&block, &depth) in
                blocks.iter().flat_map(|block| depths.iter().map(move |depth| (block, depth)))
            {
                #[expect(clippy::cast_precision_loss, reason = "a block size")]
                let size = block.0 as f64;
                let rate = split_throughput(&side, size, f64::from(depth), 1_048_576.0);
                let flow = Flow::new(source, target, Path::HostPipelined);
                let flow = Flow { block, depth, order, ..flow };
                cases.push(case(&sample, flow, rate * noise(cases.len())));
            }
        }
    }
    BenchRecord { cases, ..sample }
}

fn calibrated(record: &BenchRecord) -> Calibration {
    calibrate(record).expect("a calibration")
}

fn parse(text: &str) -> BTreeMap<String, Parameter> {
    #[derive(Deserialize)]
    struct FitFile {
        parameter: BTreeMap<String, ParameterShape>,
    }
    let file: FitFile = toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut parameters = Parameters::default();
    for (name, shape) in file.parameter {
        let parameter = shape.parameter(&name, |_| None).expect("a parameter");
        parameters.add(parameter).expect("a parameter with a source");
    }
    parameters.iter().map(|one| (one.name.clone(), one.clone())).collect()
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 1e-3
}

#[test]
fn noiseless_rates_give_the_drive_back() {
    let mut record = measured("nvme0n1", |_| 1.0);
    record.basis = Basis::Emulated;
    let found = calibrated(&record);
    assert_eq!(found.sides.len(), 2);
    for side in &found.sides {
        assert_eq!((side.rows.fitted.len(), side.rows.held_out.len()), (4, 11));
        let random = side.random.as_ref().expect("random rows");
        assert_eq!((random.rows.fitted.len(), random.rows.held_out.len()), (1, 3));
        assert!(side.rows.worst_error().max(random.rows.worst_error()) < 1e-4, "{side:?}");
    }
    let parameters = parse(&found.to_toml());
    assert_eq!(parameters.len(), 10);
    for (name, expected) in [
        ("nvme0n1.read.rate", 3.3e9),
        ("nvme0n1.write.commands", 300e3),
        ("nvme0n1.write.time-4096", 80e-6 + 4096.0 / 2.5e9),
        ("nvme0n1.random-read.commands", RANDOM),
    ] {
        let found = &parameters[name];
        assert!(is_near(found.value, expected), "{found:?}");
        assert!(found.source.contains("semantics, not speed"), "{found:?}");
    }
}

#[test]
fn held_out_errors_widen_ranges() {
    // Measured at half the rate that the other rows predict.
    let found = calibrated(&measured("d", |at| if at == HELD_OUT { 0.5 } else { 1.0 }));
    let [read, write] = &found.sides[..] else { panic!("both directions") };
    assert!(write.rows.worst_error() < 1e-4);
    assert!(is_near(read.rows.worst_error(), 1.0));
    let error = read.rows.mean_error();
    assert!((error - 1.0 / 11.0).abs() < 1e-3);
    let text = found.to_toml();
    assert!(text.contains("# d, read: 11 rows held out, mean error 9.1 %, worst 100.0 %."));
    assert!(text.contains("# Does not fit: 262144 bytes at depth 8, predicted +100 %."), "{text}");
    for (name, one) in parse(&text) {
        let is_wide = one.hi / one.value > (1.0 + error) * 0.999
            && one.value / one.lo > (1.0 + error) * 0.999;
        let is_exact = one.hi / one.lo < 1.001;
        assert!(if name.starts_with("d.read.") { is_wide } else { is_exact }, "{one:?}");
    }
}

#[test]
fn repeats_give_median_and_range() {
    let mut record = measured("d", |_| 1.0);
    for factor in [0.9, 1.2] {
        let flow = Flow::new("d", "null", Path::HostPipelined);
        let flow = Flow { block: BLOCKS[4], depth: 32, ..flow };
        record.cases.push(case(&sample(), flow, 3.3e9 * factor));
    }
    let rate = &parse(&calibrated(&record).to_toml())["d.read.rate"];
    assert!(is_near(rate.value, 3.3e9), "{rate:?}");
    assert!(is_near(rate.lo, 0.9 * 3.3e9) && is_near(rate.hi, 1.2 * 3.3e9), "{rate:?}");
}

#[test]
fn random_commands_never_exceed_sequential_ones() {
    let mut record = measured("d", |_| 1.0);
    for case in &mut record.cases {
        if case.asked.flows[0].order == Order::Random {
            case.elapsed_ns = Nanos(case.elapsed_ns.0 / 100);
        }
    }
    for side in calibrated(&record).sides {
        let random = side.random.as_ref().expect("random rows");
        assert!(random.commands > 2.0 * side.side.commands, "{side:?}");
        for row in random.rows.fitted.iter().chain(&random.rows.held_out) {
            assert!(row.predicted <= 1.001 * side.side.commands * row.block, "{row:?}");
        }
    }
}

#[test]
fn other_transfers_are_ignored() {
    let mut record = measured("d", |_| 1.0);
    record.cases.retain(|case| case.asked.flows[0].order != Order::Random);
    let expected = calibrated(&record);
    assert!(expected.sides.iter().all(|side| side.random.is_none()));
    assert!(!expected.to_toml().contains("random"));
    for (source, target, path) in [
        ("host", "host", Path::HostPipelined),
        ("d", "host", Path::HostPageCache),
        ("d", "cmb:c", Path::P2p),
    ] {
        record.cases.push(case(&sample(), Flow::new(source, target, path), 1e9));
    }
    assert_eq!(calibrated(&record), expected);
}

#[test]
fn unusable_records_are_refused() {
    let good = measured("d", |_| 1.0);
    let record = |cases| BenchRecord { cases, ..good.clone() };
    let mut sweep = good.clone();
    sweep.asked.kind = WorkloadKind::Sweep;
    let is_random = |case: &CaseRecord| case.asked.flows[0].order == Order::Random;
    let (random, mut sequential): (Vec<_>, Vec<_>) =
        good.cases.iter().cloned().partition(is_random);
    let few = record(sequential[..1].to_vec());
    sequential.push(random[0].clone());
    for (wrong, reason) in [
        (BenchRecord { basis: Basis::Predicted, ..good.clone() }, "cannot calibrate the model"),
        (sweep, "a workload of kind sweep lacks"),
        (record(Vec::new()), "no case reads or writes"),
        (record(vec![good.cases[0].clone(); MAX_CASES + 1]), "the record has 10001 cases"),
        (few, "d, read: needs depth 1 and a larger one"),
        (record(sequential), "d, read: needs a second row in random"),
    ] {
        let refusal = calibrate(&wrong).expect_err(reason).to_string();
        assert!(refusal.starts_with(reason), "{refusal}");
    }
}

#[test]
fn packet_settings_are_the_least() {
    let device = |device: &str, packets, reason: Option<&str>| DevicePackets {
        device: device.to_owned(),
        address: None,
        packets,
        reason: reason.map(str::to_owned),
    };
    let set = |payload, tags| Some(Packets { payload: Bytes(payload), request: Bytes(512), tags });
    let mut record = measured("d", |_| 1.0);
    record.packets = vec![
        device("d", set(256, 32), None),
        device("e", set(128, 256), None),
        device("f", None, Some("why\n")),
    ];
    let text = calibrated(&record).to_toml();
    let parameters = parse(&text);
    for (name, expected) in [("pcie.mps", 128.0), ("pcie.mrrs", 512.0), ("pcie.tags", 32.0)] {
        assert!(is_near(parameters[name].value, expected), "{text}");
    }
    assert!(text.contains("# f: no pcie.mps, pcie.mrrs and pcie.tags: why"), "{text}");
}

proptest! {
    #[test]
    fn noise_bounds_the_error(seed: u64, level in 0.0..0.1f64) {
        let draw = crate::parameters::Draw::new(seed);
        let noise = |at: usize| 1.0 + level * (2.0 * draw.unit(0, at as u64) - 1.0);
        for side in calibrated(&measured("d", noise)).sides {
            let random = side.random.as_ref().expect("random rows");
            // A ratio of two numbers that are each off by `level`, and a slope of two times.
            let worst = side.rows.worst_error().max(random.rows.worst_error());
            prop_assert!(worst < 4.0 * level + 0.01, "{side:?}");
        }
    }

    #[test]
    fn any_name_makes_a_readable_file(name in "[^\0]{1,20}") {
        prop_assume!(!matches!(name.as_str(), "host" | "null"));
        prop_assert_eq!(parse(&calibrated(&measured(&name, |_| 1.0)).to_toml()).len(), 10);
    }
}
