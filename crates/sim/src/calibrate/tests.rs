use std::collections::BTreeMap;

use peerlane_results::{BENCH_SCHEMA, CaseSpec, Repeats, RouteVerdict, WORKLOAD_SCHEMA, Workload};
use peerlane_results::{CpuCost, HostMemoryTraffic, Latency, Machine};
use peerlane_units::Nanos;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::devices::drive::{Side, split_throughput};
use crate::devices::table::Table;
use crate::parameters::{Parameter, ParameterShape, Parameters};

/// A drive as one would hope it to be: 80 us and 2.5 GB/s alone, 3.3 GB/s and 500 000 commands at most.
pub(super) fn drive() -> Side {
    let latency = Table::line(80e-6, 2.5e9);
    Side { latency, rate: 3.3e9, commands: 500_000.0 }
}

/// What a drive does, which splits what is larger than a MiB.
pub(super) fn does(side: &Side, block: f64, depth: u32) -> f64 {
    split_throughput(side, block, f64::from(depth), 1_048_576.0)
}

fn case(
    source: &str,
    target: &str,
    block: Bytes,
    depth: u32,
    rate: f64,
    repeat: u32,
) -> CaseRecord {
    let path = Path::HostPipelined;
    of(Flow { block, depth, ..Flow::new(source, target, path) }, rate, repeat)
}

/// A run of a transfer at a rate.
pub(super) fn of(flow: Flow, rate: f64, repeat: u32) -> CaseRecord {
    let bytes = Bytes::mib(1024);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
    #[expect(clippy::cast_precision_loss, reason = "a GiB")]
    let elapsed_ns = Nanos((bytes.0 as f64 / rate * 1e9) as u64);
    let Flow { source, target, block, depth, order, .. } = &flow;
    let name = format!("{source} {target} {block} {depth} {order:?}");
    CaseRecord {
        asked: CaseSpec { name, flows: vec![flow], time_ns: None },
        repeat,
        bytes,
        elapsed_ns,
        bytes_by_route: peerlane_results::BytesByRoute::default(),
        latency: Latency::default(),
        cpu: CpuCost::default(),
        host_memory: HostMemoryTraffic { bytes: None, reason: "a test".to_owned() },
        flows: Vec::new(),
        verification: None,
        evidence: Vec::new(),
        verdict: RouteVerdict::NotKnown,
        limits: Vec::new(),
        links: Vec::new(),
        prediction: None,
        page_faults: None,
        warnings: Vec::new(),
    }
}

fn record(cases: Vec<CaseRecord>) -> BenchRecord {
    let repeats = Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None };
    let asked = Workload {
        schema: WORKLOAD_SCHEMA.to_owned(),
        name: "calibrate".to_owned(),
        kind: WorkloadKind::Calibrate,
        cases: cases.iter().map(|case| case.asked.clone()).collect(),
        repeats,
        seed: 1,
    };
    let machine = Machine {
        name: "bench".to_owned(),
        fabric: String::new(),
        kernel: None,
        program: String::new(),
    };
    BenchRecord {
        schema: BENCH_SCHEMA.to_owned(),
        asked,
        machine,
        outline: None,
        basis: Basis::Measured,
        started_s: None,
        cases,
        summaries: Vec::new(),
        effects: Vec::new(),
        packets: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Commands a second of that drive in random order.
const RANDOM: f64 = 90_000.0;

/// The rows of a drive, each off by what `noise` says of it.
pub(super) fn measured_drive(name: &str, noise: impl Fn(usize) -> f64) -> BenchRecord {
    let mut cases = Vec::new();
    for (source, target) in [(name, "null"), ("host", name)] {
        for block in BLOCKS {
            for depth in DEPTHS {
                #[expect(clippy::cast_precision_loss, reason = "a block size")]
                let rate = does(&drive(), block.0 as f64, depth);
                let rate = rate * noise(cases.len());
                cases.push(case(source, target, block, depth, rate, 0));
            }
        }
    }
    for (source, target) in [(name, "null"), ("host", name)] {
        for block in RANDOM_BLOCKS {
            for depth in RANDOM_DEPTHS {
                let side = Side { commands: RANDOM, ..drive() };
                #[expect(clippy::cast_precision_loss, reason = "a block size")]
                let rate = does(&side, block.0 as f64, depth);
                let path = Path::HostPipelined;
                let flow = Flow { block, depth, ..Flow::new(source, target, path) };
                let rate = rate * noise(cases.len());
                cases.push(of(Flow { order: Order::Random, ..flow }, rate, 0));
            }
        }
    }
    record(cases)
}

#[test]
fn a_drive_without_noise_is_found_again() {
    let found = calibrate(&measured_drive("nvme0n1", |_| 1.0)).expect("a calibration");
    assert_eq!(found.sides.len(), 2);
    for side in &found.sides {
        assert_eq!((side.rows.fitted.len(), side.rows.held_out.len()), (4, 11));
        assert!(side.rows.worst_error() < 1e-4, "{side:?}");
        assert!((side.side.rate / 3.3e9 - 1.0).abs() < 1e-6);
        let random = side.random.as_ref().expect("random rows");
        assert_eq!((random.rows.fitted.len(), random.rows.held_out.len()), (1, 3));
        assert!(random.rows.worst_error() < 1e-4, "{random:?}");
        assert!((random.commands / RANDOM - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_quarter_makes_the_parameters_and_the_rest_tests_them() {
    // The held-out row of 256 KiB at depth 8 is half of what the parameters say.
    let index = 2 * DEPTHS.len() + 1;
    let found = calibrate(&measured_drive("d", |at| if at == index { 0.5 } else { 1.0 }));
    let found = found.expect("a calibration");
    let read = found.sides.iter().find(|side| side.op == Op::Read).expect("reads");
    assert!((read.rows.worst_error() - 1.0).abs() < 1e-4);
    assert!((read.rows.mean_error() - 1.0 / 11.0).abs() < 1e-3);
    let write = found.sides.iter().find(|side| side.op == Op::Write).expect("writes");
    assert!(write.rows.worst_error() < 1e-4);
}

#[test]
fn repeats_give_the_median_and_the_range() {
    let mut record = measured_drive("d", |_| 1.0);
    for factor in [0.9, 1.2] {
        let rate = 3.3e9 * factor;
        record.cases.push(case("d", "null", Bytes::mib(128), 32, rate, 1));
    }
    let found = calibrate(&record).expect("a calibration");
    let row = found.sides[0].rows.fitted.iter().find(|row| row.block > 1e8).expect("the row");
    assert!((row.measured / 3.3e9 - 1.0).abs() < 1e-6);
    assert!(row.least < 3.0e9 && row.most > 3.9e9);
}

#[derive(Deserialize)]
struct File {
    parameter: BTreeMap<String, ParameterShape>,
}

pub(super) fn read(text: &str) -> Vec<Parameter> {
    let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut parameters = Parameters::default();
    for (name, shape) in file.parameter {
        let parameter = shape.parameter(&name, |_| None).expect("a parameter");
        parameters.add(parameter).expect("a parameter with a source");
    }
    parameters.iter().cloned().collect()
}

#[test]
fn the_file_is_read_back_with_its_provenance() {
    let mut record = measured_drive("nvme0n1", |_| 1.0);
    record.basis = Basis::Emulated;
    let text = calibrate(&record).expect("a calibration").to_toml();
    let parameters = read(&text);
    assert_eq!(parameters.len(), 10);
    let rate = parameters.iter().find(|found| found.name == "nvme0n1.read.rate").expect("a rate");
    assert!((rate.value / 3.3e9 - 1.0).abs() < 1e-6);
    assert!(rate.source.contains("semantics, not speed"), "{}", rate.source);
    assert!(text.contains("11 rows held out"));
    let random = |op: &str| {
        let name = format!("nvme0n1.random-{op}.commands");
        parameters.iter().find(move |found| found.name == name).expect("commands")
    };
    for op in ["read", "write"] {
        assert!((random(op).value / RANDOM - 1.0).abs() < 1e-6);
        assert!(random(op).source.contains(&format!("random {op} of 4096 bytes at depth 32")));
    }
}

#[test]
fn a_range_is_as_wide_as_the_error_of_the_rows_held_out_where_repeats_agree() {
    // Each row was measured once; that of 256 KiB at depth 8 is half of what the parameters say.
    let index = 2 * DEPTHS.len() + 1;
    let found = calibrate(&measured_drive("d", |at| if at == index { 0.5 } else { 1.0 }));
    let found = found.expect("a calibration");
    let read_rows = &found.sides.iter().find(|side| side.op == Op::Read).expect("reads").rows;
    let error = read_rows.mean_error();
    assert!(error > 0.05);
    let parameters = read(&found.to_toml());
    let of_read = parameters.iter().filter(|one| one.name.starts_with("d.read."));
    assert_eq!(of_read.clone().count(), 4);
    for one in of_read {
        assert!(one.lo <= one.value / (1.0 + error) * 1.001, "{one:?}");
        assert!(one.hi >= one.value * (1.0 + error) * 0.999, "{one:?}");
        assert!(one.source.contains("the range holds"), "{}", one.source);
    }
    // Writes and random order have errors of their own, which are none.
    for one in parameters.iter().filter(|one| !one.name.starts_with("d.read.")) {
        assert!(one.hi / one.lo < 1.001, "{one:?}");
    }
}

#[test]
fn a_record_without_random_rows_says_nothing_of_them_and_one_such_row_alone_is_refused() {
    let mut record = measured_drive("d", |_| 1.0);
    let is_random = |case: &CaseRecord| case.asked.flows[0].order == Order::Random;
    let random = record.cases.iter().find(|case| is_random(case)).cloned().expect("one");
    record.cases.retain(|case| !is_random(case));
    let found = calibrate(&record).expect("a calibration");
    assert!(found.sides.iter().all(|side| side.random.is_none()));
    assert!(!found.to_toml().contains("random"));
    record.cases.push(random);
    assert!(matches!(calibrate(&record), Err(CalibrateError::Rows { what, .. }) if what == "read"));
}

#[test]
fn blocks_in_random_order_are_predicted_no_faster_than_others() {
    let mut record = measured_drive("nvme0n1", |_| 1.0);
    let is_random = |case: &&mut CaseRecord| case.asked.flows[0].order == Order::Random;
    for case in record.cases.iter_mut().filter(is_random) {
        case.elapsed_ns = Nanos(case.elapsed_ns.0 / 100);
    }
    for side in calibrate(&record).expect("a calibration").sides {
        let random = side.random.as_ref().expect("random rows");
        assert!(random.commands > 2.0 * side.side.commands, "{side:?}");
        for row in random.rows.fitted.iter().chain(&random.rows.held_out) {
            assert!(row.predicted <= 1.001 * side.side.commands * row.block, "{row:?}");
        }
    }
}

#[test]
fn what_is_no_calibration_is_refused() {
    let good = measured_drive("d", |_| 1.0);
    let predicted = BenchRecord { basis: Basis::Predicted, ..good.clone() };
    assert_eq!(calibrate(&predicted), Err(CalibrateError::Predicted));
    let mut sweep = good.clone();
    sweep.asked.kind = WorkloadKind::Sweep;
    assert_eq!(calibrate(&sweep), Err(CalibrateError::Kind(WorkloadKind::Sweep)));
    assert_eq!(calibrate(&record(Vec::new())), Err(CalibrateError::NoDrive));
    let few = record(vec![case("d", "null", Bytes::kib(4), 1, 1e9, 0)]);
    assert!(matches!(calibrate(&few), Err(CalibrateError::Rows { what, .. }) if what == "read"));
    let many = record(vec![good.cases[0].clone(); MOST_CASES + 1]);
    assert_eq!(calibrate(&many), Err(CalibrateError::TooMany(MOST_CASES + 1)));
}

proptest! {
    #[test]
    fn noise_in_is_error_out_and_no_more(seed: u64, level in 0.0..0.1f64) {
        let draw = crate::parameters::Draw::new(seed);
        let noise = |at: usize| 1.0 + level * (2.0 * draw.unit(0, at as u64) - 1.0);
        let found = calibrate(&measured_drive("d", noise)).expect("a calibration");
        for side in &found.sides {
            // A ratio of two numbers that are each off by `level`, and a slope of two times.
            prop_assert!(side.rows.worst_error() < 4.0 * level + 0.01, "{side:?}");
            let random = side.random.as_ref().expect("random rows");
            prop_assert!(random.rows.worst_error() < 4.0 * level + 0.01, "{side:?}");
        }
    }

    #[test]
    fn any_name_makes_a_file_that_is_read(name in "[^\0]{1,20}") {
        prop_assume!(name != "host" && name != "null");
        let found = calibrate(&measured_drive(&name, |_| 1.0)).expect("a calibration");
        prop_assert_eq!(read(&found.to_toml()).len(), 10);
    }
}
