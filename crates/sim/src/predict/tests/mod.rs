use peerlane_fabric::Fabric;
use peerlane_results::{
    Basis, CaseSpec, Flow, FlowRecord, FlowStage, Order, Path, Prediction, Repeats,
    WORKLOAD_SCHEMA, Warning, Workload, WorkloadKind,
};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::*;

mod drives;
mod host;
mod limits;
mod links;
mod network;
mod packets;
mod parameters;
mod stages;

fn text_of(machine: &str) -> String {
    let file = format!("{}/../../machines/{machine}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(file).expect("it is there")
}

fn machine(name: &str) -> Fabric {
    Fabric::from_toml(&text_of(name)).expect("a machine")
}

/// A machine with one piece of its text replaced.
fn changed(name: &str, from: &str, to: &str) -> Fabric {
    let text = text_of(name);
    assert!(text.contains(from), "{name} has no {from}");
    Fabric::from_toml(&text.replacen(from, to, 1)).expect("a machine")
}

fn workload(cases: Vec<(&str, Vec<Flow>)>) -> Workload {
    let case =
        |(name, flows): (&str, Vec<Flow>)| CaseSpec { name: name.to_owned(), flows, time_ns: None };
    Workload {
        schema: WORKLOAD_SCHEMA.to_owned(),
        name: "test".to_owned(),
        kind: WorkloadKind::Crowd,
        cases: cases.into_iter().map(case).collect(),
        repeats: Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None, time_ns: None },
        seed: 7,
    }
}

fn one(flow: Flow) -> Workload {
    workload(vec![("one", vec![flow])])
}

/// Blocks of 4 KiB in random order.
fn small(source: &str, target: &str) -> Flow {
    let flow = Flow::new(source, target, Path::HostPipelined);
    Flow { block: Bytes::kib(4), depth: 64, order: Order::Random, ..flow }
}

/// Flows that run together for a second.
fn together(flows: Vec<Flow>) -> Workload {
    let mut timed = workload(vec![("together", flows)]);
    timed.cases[0].time_ns = Some(Nanos::seconds(1));
    timed
}

type Given<'a> = &'a [(&'a str, f64, &'a str)];

fn text(given: Given<'_>) -> String {
    let entry = |&(name, value, unit): &(&str, f64, &str)| {
        format!(
            "[parameter.\"{name}\"]\nvalue = {value:e}\nunit = \"{unit}\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        )
    };
    given.iter().map(entry).collect()
}

/// The defaults with some other values, `name value unit` each.
fn with(given: Given<'_>) -> Parameters {
    super::parameters(Some(&text(given))).expect("parameters")
}

fn predict_with(
    machine: &Fabric,
    given: Given<'_>,
    workload: &Workload,
    engine: Engine,
) -> BenchRecord {
    run(machine, &with(given), workload, engine).expect("it can be predicted")
}

fn predict(machine: &Fabric, workload: &Workload, engine: Engine) -> BenchRecord {
    predict_with(machine, &[], workload, engine)
}

fn rate(record: &BenchRecord, case: usize) -> f64 {
    record.summaries[case].rate.median / 1e9
}

/// The rate of one flow by the flow engine.
fn alone(machine: &Fabric, given: Given<'_>, flow: Flow) -> f64 {
    rate(&predict_with(machine, given, &one(flow), Engine::Flow), 0)
}

fn limit_of(flow: &FlowRecord) -> &str {
    flow.limited_by.as_deref().expect("something limits")
}

fn limits(record: &BenchRecord) -> Vec<&str> {
    record.cases[0].flows.iter().map(limit_of).collect()
}

fn prediction(record: &BenchRecord) -> &Prediction {
    record.cases[0].prediction.as_ref().expect("a prediction")
}

fn gain(record: &BenchRecord, resource: &str) -> f64 {
    let gains = &prediction(record).gains;
    let found = gains.iter().find(|gain| gain.resource == resource);
    found.unwrap_or_else(|| panic!("{resource}: {gains:?}")).ratio
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.01
}

#[test]
fn pairs_add_up_unlike_incasts() {
    let flows = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(a, b)| Flow::new(a, b, Path::P2p)).collect::<Vec<_>>()
    };
    let cases = vec![
        ("one", flows(&[("d0", "d1")])),
        ("pairs", flows(&[("d0", "d1"), ("d2", "d3")])),
        ("incast", flows(&[("d0", "d1"), ("d2", "d1"), ("d3", "d1")])),
    ];
    let record = predict(&machine("ten"), &workload(cases), Engine::Flow);
    assert_eq!(record.basis, Basis::Predicted);
    let [one, pairs, incast] = [0, 1, 2].map(|case| rate(&record, case));
    assert!((pairs / one - 2.0).abs() < 0.02 && incast < 1.05 * one, "{one} {pairs} {incast}");
}

#[test]
fn engines_agree_on_single_flows() {
    let asked = one(Flow::new("d0", "d5", Path::P2p));
    let [closed, flow, tlp] = [Engine::Closed, Engine::Flow, Engine::Tlp]
        .map(|engine| rate(&predict(&machine("ten"), &asked, engine), 0));
    assert!(is_near(closed, flow) && (tlp / flow - 1.0).abs() < 0.02, "{closed} {flow} {tlp}");
}

#[test]
fn closed_bounds_are_of_each_alone() {
    let writers = ["d1", "d2"].map(|source| Flow::new(source, "d0", Path::HostPipelined));
    let cases = vec![("one", writers[..1].to_vec()), ("two", writers.to_vec())];
    let record = predict(&machine("ten"), &workload(cases), Engine::Closed);
    assert!(is_near(rate(&record, 1), 2.0 * rate(&record, 0)), "{:?}", record.summaries);
    let engine = |case: usize| &record.cases[case].prediction.as_ref().expect("one").engine;
    assert!(engine(1).contains("their sum may be beyond") && !engine(0).contains("sum"));
}

#[test]
fn ten_pairs_have_a_whole_record() {
    let all = |path| -> Vec<Flow> {
        let pair =
            |n: usize| Flow::new(format!("drive{n}"), format!("drive{}", (n + 1) % 10), path);
        (0..10).map(pair).collect()
    };
    let cases = vec![("p2p", all(Path::P2p)), ("host", all(Path::HostPipelined))];
    let record = predict(&machine("r7515-10-smartssd"), &workload(cases), Engine::Auto);
    for case in &record.cases {
        let prediction = case.prediction.as_ref().expect("it is one");
        let (low, high) = prediction.interval.expect("few flows");
        let rate = case.rate().expect("a rate");
        assert!(low <= rate && rate <= high && low < high, "{low} {rate} {high}");
        assert!(prediction.engine.starts_with("tlp: "), "{}", prediction.engine);
        assert!(case.flows.iter().all(|flow| flow.limited_by.is_some() && flow.block.count > 50));
        assert!(case.cpu.system_ns.0 > 0 && case.links.len() >= 40);
        assert!(case.links.iter().all(|link| link.busy.is_some_and(|busy| busy <= 1.001)));
        assert!(prediction.gains[0].ratio > 1.02, "{:?}", prediction.gains);
        // The description states 2006 MB/s of writes.
        assert!(rate.0 <= 10 * 2_006_000_000, "{rate}");
    }
    let traffic = |case: usize| record.cases[case].prediction.as_ref().and_then(|p| p.host_memory);
    assert_eq!(traffic(0), Some((Bytes::ZERO, Bytes::ZERO)));
    assert_eq!(traffic(1), Some((Bytes::ZERO, Bytes(20 * Bytes::mib(1024).0))));
}

#[test]
fn predictions_do_not_depend_on_threads() {
    let flows: Vec<Flow> = (0..9).map(|n| Flow::new(format!("d{n}"), "d9", Path::P2p)).collect();
    let asked = workload(vec![("in", flows.clone()), ("some", flows[..4].to_vec())]);
    let (ten, parameters) = (machine("ten"), with(&[]));
    let read = parameters.position("drive.read.rate").expect("a default");
    let variant = |index: usize| {
        let mut numbers = parameters.values();
        numbers[read] = 1e8 * (1 + index) as f64;
        (one(Flow::new("d0", "d1", Path::P2p)), numbers)
    };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            let rates = variants(&ten, &parameters, 20, variant, Engine::Flow);
            (predict(&ten, &asked, Engine::Flow), rates.expect("predicted"))
        })
    };
    let (record, rates) = on(1);
    assert!(is_near(rates[4][0], 5e8) && is_near(rates[0][0], 1e8), "{rates:?}");
    assert_eq!((record, rates), on(3));
}

#[test]
fn few_blocks_end_without_delay() {
    let few = |blocks: u64, depth| Flow {
        bytes: Bytes(4096 * blocks),
        block: Bytes(4096),
        depth,
        ..Flow::new("a", "b", Path::P2p)
    };
    for engine in [Engine::Closed, Engine::Auto] {
        let cases = vec![("one", vec![few(1, 16)]), ("three", vec![few(3, 3)])];
        for case in predict(&machine("pair"), &workload(cases), engine).cases {
            // A drive alone takes 85 us to read 4 KiB, and 20 us to write them.
            assert!((100_000..130_000).contains(&case.elapsed_ns.0), "{}", case.elapsed_ns);
        }
    }
}

#[test]
fn intervals_hold_rate_and_range() {
    // Drives of a draw differ; those of the prediction do not, and fill no queue.
    let range = |drive| {
        let head =
            format!("[parameter.\"drive{drive}.read.rate\"]\nvalue = 3.4\nlo = 3.0\nhi = 3.45\n");
        head + "unit = \"GB/s\"\nfrom = \"guess\"\nsource = \"a test\"\n"
    };
    let parameters = super::parameters(Some(&(0..4).map(range).collect::<String>()));
    let pairs = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
    let flow = |(from, to)| Flow::new(format!("drive{from}"), format!("fpga{to}"), Path::P2p);
    let all = workload(vec![("all", pairs.filter(|(from, to)| from != to).map(flow).collect())]);
    let smartssd = machine("r7515-10-smartssd");
    let record = run(&smartssd, &parameters.expect("parameters"), &all, Engine::Tlp);
    let record = record.expect("predicted");
    let (low, high) = prediction(&record).interval.expect("a range");
    let (low, high) = (low.0 as f64 * 0.999, high.0 as f64 * 1.001);
    let rate = record.summaries[0].rate.median;
    assert!(low <= rate && rate <= high && low < 0.99 * high, "{low} {rate} {high}");
}
