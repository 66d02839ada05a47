use peerlane_fabric::Fabric;
use peerlane_results::{
    Basis, CaseSpec, Flow, FlowRecord, Gain, Order, Path, Repeats, WORKLOAD_SCHEMA, Warning,
    Workload, WorkloadKind,
};
use peerlane_units::{Bytes, Nanos};

use super::*;

mod apart;
mod bounds;
mod cautions;
mod gains;
mod limits;
mod media;
mod memories;
mod names;
mod paths;
mod processor;
mod processors;
mod sets;
mod settings;
mod sockets;
mod turns;

fn machine(name: &str) -> Fabric {
    let file = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Fabric::from_toml(&std::fs::read_to_string(file).expect("it is there")).expect("a machine")
}

fn workload(cases: Vec<(&str, Vec<Flow>)>) -> Workload {
    let case =
        |(name, flows): (&str, Vec<Flow>)| CaseSpec { name: name.to_owned(), flows, time_ns: None };
    Workload {
        schema: WORKLOAD_SCHEMA.to_owned(),
        name: "test".to_owned(),
        kind: WorkloadKind::Crowd,
        cases: cases.into_iter().map(case).collect(),
        repeats: Repeats { warm_up: 0, least: 1, most: 1, until_per_mille: None },
        seed: 7,
    }
}

fn predict(machine: &Fabric, workload: &Workload, engine: Engine) -> BenchRecord {
    let parameters = parameters(None).expect("the defaults are parameters");
    run(machine, &parameters, workload, engine).expect("it can be predicted")
}

fn rate(record: &BenchRecord, case: usize) -> f64 {
    record.summaries[case].rate.median / 1e9
}

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
    parameters(Some(&text)).expect("parameters")
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
fn pairs_of_drives_add_up_and_an_incast_does_not() {
    let ten = machine("ten");
    let pairs = [("d0", "d1"), ("d2", "d3")].map(|(a, b)| Flow::new(a, b, Path::P2p)).to_vec();
    let incast = ["d0", "d2", "d3"].map(|source| Flow::new(source, "d1", Path::P2p)).to_vec();
    let one = vec![Flow::new("d0", "d1", Path::P2p)];
    let record = predict(
        &ten,
        &workload(vec![("one", one), ("pairs", pairs), ("in", incast)]),
        Engine::Flow,
    );
    assert_eq!(record.basis, Basis::Predicted);
    let ratio = rate(&record, 1) / rate(&record, 0);
    assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
    assert!(rate(&record, 2) < rate(&record, 0) * 1.05, "one target takes no more from three");
    let case = &record.cases[1];
    assert_eq!(
        (case.bytes_by_route.host, case.host_memory.bytes),
        (Bytes::ZERO, Some(Bytes::ZERO))
    );
    assert!(
        case.flows.iter().all(|flow| flow.memory.starts_with("cmb:") && flow.limited_by.is_some())
    );
    let prediction = case.prediction.as_ref().expect("it is one");
    assert!(prediction.engine.starts_with("flow"), "{prediction:?}");
    let (low, high) = prediction.interval.expect("few flows");
    assert!(low < high && low.0 > 0);
}

#[test]
fn no_link_carries_more_than_it_can() {
    let flows =
        (0..5).map(|n| Flow::new(format!("d{n}"), format!("d{}", 9 - n), Path::P2p)).collect();
    let record = predict(&machine("ten"), &workload(vec![("across", flows)]), Engine::Flow);
    let links = &record.cases[0].links;
    assert!(!links.is_empty());
    for link in links {
        assert!(link.payload.0 as f64 <= link.ceiling.0 as f64 * 1.001, "{link:?}");
    }
}

#[test]
fn the_host_path_costs_host_memory_and_one_buffer_costs_time() {
    let case = |path| vec![Flow::new("a", "c", path)];
    let cases = vec![
        ("pipelined", case(Path::HostPipelined)),
        ("serial", case(Path::HostSerial)),
        ("cache", case(Path::HostPageCache)),
    ];
    let record = predict(&machine("epyc"), &workload(cases), Engine::Flow);
    let host: Vec<f64> =
        record.summaries.iter().filter_map(|one| one.host_bytes_per_byte).collect();
    assert!((host[0] - 2.0).abs() < 0.01 && host[2] > host[1], "{host:?}");
    assert!(rate(&record, 1) < rate(&record, 0), "{:?}", record.summaries);
    assert!(record.summaries[2].cpu_s_per_gib > record.summaries[1].cpu_s_per_gib);
}

#[test]
fn engines_agree_on_a_flow_that_is_alone_and_packets_give_percentiles() {
    let case = || workload(vec![("one", vec![Flow::new("d0", "d5", Path::P2p)])]);
    let ten = machine("ten");
    let [closed, flow, tlp] =
        [Engine::Closed, Engine::Flow, Engine::Tlp].map(|engine| predict(&ten, &case(), engine));
    let of = |record: &BenchRecord| rate(record, 0);
    assert!((of(&closed) / of(&flow) - 1.0).abs() < 0.01, "{} {}", of(&closed), of(&flow));
    assert!((of(&tlp) / of(&flow) - 1.0).abs() < 0.02, "{} {}", of(&tlp), of(&flow));
    assert!(flow.summaries[0].block.count == 0 && tlp.summaries[0].block.count > 100);
}

#[test]
fn bounds_of_several_flows_are_said_to_be_of_each_alone() {
    let writer = |source: &str| Flow::new(source, "d0", Path::HostPipelined);
    let cases = vec![("one", vec![writer("d1")]), ("two", vec![writer("d1"), writer("d2")])];
    let [closed, flow] = [Engine::Closed, Engine::Flow]
        .map(|engine| predict(&machine("ten"), &workload(cases.clone()), engine));
    assert!((rate(&closed, 1) / rate(&closed, 0) - 2.0).abs() < 0.01, "{:?}", closed.summaries);
    assert!((rate(&flow, 1) / rate(&flow, 0) - 1.0).abs() < 0.01, "{:?}", flow.summaries);
    let says = |case: usize| {
        let prediction = closed.cases[case].prediction.as_ref().expect("it is one");
        prediction.engine.contains("their sum may be beyond what they share")
    };
    assert_eq!([says(0), says(1)], [false, true]);
}

#[test]
fn rates_that_had_not_settled_are_told() {
    let (machine, parameters) = (machine("ten"), parameters(None).expect("parameters"));
    let predictor = Predictor { fabric: &machine, parameters: &parameters, seed: 7 };
    let asked = one(Flow::new("d0", "d5", Path::P2p));
    let prepared = predictor.prepare(&asked.cases[0], &parameters.values(), Engine::Flow, None);
    let mut prepared = prepared.expect("it can be predicted");
    let warnings = |prepared: &Prepared<'_>| {
        predictor.case(prepared, &windows::Shown::new()).expect("a record").warnings
    };
    assert_eq!(warnings(&prepared), []);
    prepared.found.unsettled = 0.0149;
    let told = Warning::NotSettled { case: "one".to_owned(), per_mille: 15 };
    assert_eq!(warnings(&prepared), [told]);
}

/// What a reader of a prediction looks for, on ten pairs of SmartSSDs that do not know each other.
#[test]
fn ten_pairs_are_predicted_with_everything_that_a_record_has() {
    let machine = machine("r7515-10-smartssd");
    let all = |path| -> Vec<Flow> {
        let pair =
            |n: usize| Flow::new(format!("drive{n}"), format!("drive{}", (n + 1) % 10), path);
        (0..10).map(pair).collect()
    };
    let cases = vec![("p2p", all(Path::P2p)), ("host", all(Path::HostPipelined))];
    let record = predict(&machine, &workload(cases), Engine::Auto);
    for case in &record.cases {
        let prediction = case.prediction.as_ref().expect("it is one");
        let (low, high) = prediction.interval.expect("few flows");
        let rate = case.rate().expect("a rate");
        assert!(low <= rate && rate <= high && low < high, "{low} {rate} {high}");
        assert!(case.flows.iter().all(|flow| flow.limited_by.is_some()), "{case:?}");
        assert!(case.flows.iter().all(|flow| flow.block.count > 50), "no percentiles");
        assert!(case.flows.iter().all(|flow| flow.block.p99_ns >= flow.block.p50_ns));
        assert!(case.cpu.system_ns.0 > 0, "no processor time");
        // Up and down of each drive and of each switch above one, at least.
        assert!(case.links.len() >= 40, "{:?}", case.links);
        assert!(case.links.iter().all(|link| link.busy.is_some_and(|busy| busy <= 1.001)));
        let together = prediction.gains.first().expect("something limits");
        assert!(together.ratio > 1.02, "all of what limits gains: {:?}", prediction.gains);
        // The description states 2006 MB/s of writes.
        assert!(rate.0 <= 10 * 2_006_000_000, "{rate}");
    }
    let traffic = |case: usize| record.cases[case].prediction.as_ref().and_then(|p| p.host_memory);
    assert_eq!(traffic(0), Some((Bytes::ZERO, Bytes::ZERO)));
    assert_eq!(traffic(1), Some((Bytes::ZERO, Bytes(20 * Bytes::mib(1024).0))));
    // Each pair goes through the FPGA beside its target, not all through one.
    let memories: std::collections::BTreeSet<&str> =
        record.cases[0].flows.iter().map(|flow| flow.memory.as_str()).collect();
    assert_eq!(memories.len(), 10, "{memories:?}");
}

#[test]
fn a_record_does_not_depend_on_the_number_of_threads() {
    let flows: Vec<Flow> = (0..9).map(|n| Flow::new(format!("d{n}"), "d9", Path::P2p)).collect();
    let workload = workload(vec![("in", flows.clone()), ("some", flows[..4].to_vec())]);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| predict(&machine("ten"), &workload, Engine::Flow))
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn variants_come_in_order_on_any_number_of_threads() {
    let ten = machine("ten");
    let parameters = parameters(None).expect("the defaults are parameters");
    let rate = parameters.position("drive.read.rate").expect("it is a default");
    let variant = |index: usize| {
        let mut numbers = parameters.values();
        numbers[rate] = 1e8 * (1 + index % 20) as f64;
        (workload(vec![("one", vec![Flow::new("d0", "d1", Path::P2p)])]), numbers)
    };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| variants(&ten, &parameters, 100, variant, Engine::Flow).expect("predicted"))
    };
    let one = on(1);
    assert!((one[0][0] / 1e8 - 1.0).abs() < 0.01 && one[4][0] > 4.0 * one[0][0], "{:?}", &one[..5]);
    assert_eq!(one, on(3));
}

/// One block under way for each of three by host memory: packets find turns in which they meet, which fluids do not have.
#[test]
fn variants_by_packets_are_not_those_by_fluids() {
    let ten = machine("ten");
    let parameters = parameters(None).expect("the defaults are parameters");
    let flow =
        |(source, target), depth| Flow { depth, ..Flow::new(source, target, Path::HostSerial) };
    let pairs = [("d0", "d9"), ("d1", "d8"), ("d2", "d7")];
    let asked = |depth| workload(vec![("pairs", pairs.map(|pair| flow(pair, depth)).to_vec())]);
    let depths = [1, 2];
    let variant = |index: usize| (asked(depths[index]), parameters.values());
    let [fluids, packets] = [Engine::Flow, Engine::Tlp]
        .map(|engine| variants(&ten, &parameters, 2, variant, engine).expect("predicted"));
    for (index, depth) in depths.into_iter().enumerate() {
        let [by_fluids, by_packets] = [Engine::Flow, Engine::Tlp]
            .map(|engine| rate(&predict(&ten, &asked(depth), engine), 0));
        let [fluids, packets] = [&fluids, &packets].map(|rates| rates[index][0] / 1e9);
        assert!((fluids / by_fluids - 1.0).abs() < 1e-6, "{fluids} {by_fluids}");
        assert!((packets / by_packets - 1.0).abs() < 1e-6, "{packets} {by_packets}");
        assert!(
            depth > 1 || (packets / fluids - 1.0).abs() > 3e-4,
            "{packets} {fluids}: nothing to tell apart"
        );
    }
}

#[test]
fn names_that_are_not_there_and_ends_without_initiator_are_refused() {
    let parameters = parameters(None).expect("the defaults are parameters");
    for (source, target) in [("d0", "elsewhere"), ("host", "null")] {
        let workload = workload(vec![("no", vec![Flow::new(source, target, Path::P2p)])]);
        let error = run(&machine("ten"), &parameters, &workload, Engine::Auto);
        assert!(matches!(error, Err(PredictError::Flow { .. })), "{error:?}");
    }
}

#[test]
fn a_file_of_parameters_goes_before_the_defaults() {
    let file = "[parameter.\"d0.read.rate\"]\nvalue = 100\nunit = \"MB/s\"\nfrom = \"guess\"\nsource = \"a test\"\n\
                [parameter.\"d0.read.commands\"]\nvalue = 1e6\nunit = \"count\"\nfrom = \"guess\"\nsource = \"a test\"\n\
                [parameter.\"d0.read.time-4096\"]\nvalue = 90\nunit = \"us\"\nfrom = \"guess\"\nsource = \"a test\"\n";
    let parameters = parameters(Some(file)).expect("parameters");
    let workload = workload(vec![("slow", vec![Flow::new("d0", "d1", Path::P2p)])]);
    let record = run(&machine("ten"), &parameters, &workload, Engine::Flow).expect("predicted");
    assert!((rate(&record, 0) - 0.1).abs() < 0.001, "{}", rate(&record, 0));
    assert_eq!(record.cases[0].flows[0].limited_by.as_deref(), Some("medium of d0, read"));
    assert!(super::parameters(Some("[parameter.x]\n")).is_err());
}

#[test]
fn no_more_blocks_are_in_flight_than_a_transfer_has() {
    let few = |blocks: u64, depth| Flow {
        bytes: Bytes(4096 * blocks),
        block: Bytes(4096),
        depth,
        ..Flow::new("a", "b", Path::P2p)
    };
    for engine in [Engine::Closed, Engine::Auto, Engine::Tlp] {
        let cases = vec![("one", vec![few(1, 16)]), ("three", vec![few(3, 3)])];
        let record = predict(&machine("pair"), &workload(cases), engine);
        for case in &record.cases {
            // A drive alone takes 85 us to read 4 KiB, and 20 us to write them.
            let took = case.elapsed_ns.0;
            assert!((100_000..130_000).contains(&took), "{engine:?}: {took}");
            let block = &case.flows[0].block;
            assert!(block.p50_ns.0 <= took + took / 50, "{engine:?}: {took}, {block:?}");
        }
    }
    let mut timed = one(few(1, 16));
    timed.cases[0].time_ns = Some(Nanos(1_000_000_000));
    let [alone, timed] = [one(few(1, 16)), timed]
        .map(|workload| rate(&predict(&machine("pair"), &workload, Engine::Flow), 0));
    assert!(timed > 10.0 * alone, "{timed} {alone}");
}

#[test]
fn what_is_twice_as_slow_on_packets_takes_twice_as_long_or_moves_half() {
    let (limited_by, paces) = (more::More::Own(own::Own::Depth), Vec::new());
    let flow =
        super::case::FoundFlow { bytes: 8e9, start: 1e9, end: 3e9, limited_by, paces, knee: None };
    let found = Found { flows: vec![flow; 2], sets: Vec::new(), sets_in_all: 0, unsettled: 0.0 };
    for (has_time, expected) in [(false, (8e9, 5e9)), (true, (4e9, 3e9))] {
        let mut found = found.clone();
        found.take_rates(&[(1, 2.0)].into(), has_time);
        let [kept, slower] = [0, 1].map(|index| (found.flows[index].bytes, found.flows[index].end));
        assert_eq!((kept, slower), ((8e9, 3e9), expected), "only what was in a window");
    }
}

#[test]
fn packets_let_a_transfer_be_faster_when_others_have_ended() {
    let short = Flow { bytes: Bytes::mib(1024), ..Flow::new("d0", "d2", Path::P2p) };
    let long = Flow { bytes: Bytes::mib(9 * 1024), ..Flow::new("d1", "d2", Path::P2p) };
    let both = workload(vec![("both", vec![short, long])]);
    let [fluids, packets] =
        [Engine::Flow, Engine::Tlp].map(|engine| predict(&machine("ten"), &both, engine));
    let ratio = rate(&packets, 0) / rate(&fluids, 0);
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
}

#[test]
fn a_case_of_unequal_flows_is_at_its_limit_where_one_of_them_is() {
    let slow = Flow { limit: Some(ByteRate(10_000_000)), ..Flow::new("d0", "d1", Path::P2p) };
    let mut timed = workload(vec![("both", vec![slow, Flow::new("d2", "d3", Path::P2p)])]);
    timed.cases[0].time_ns = Some(Nanos(1_000_000_000));
    for engine in [Engine::Closed, Engine::Flow] {
        let record = predict(&machine("ten"), &timed, engine);
        let lowest = record.cases[0].limits[0].bytes_per_second.0 as f64 / 1e9;
        assert!(is_near(rate(&record, 0), lowest), "{engine:?}: {lowest}");
    }
}

#[test]
fn a_time_counts_from_when_each_transfer_begins() {
    let flow = |seconds| Flow {
        start_ns: Nanos::seconds(seconds),
        ..Flow::new("drive0", "host", Path::HostPipelined)
    };
    // One after the other, with a second between them, and both at once.
    for (start, shares) in [(2, [1.0, 1.0]), (0, [0.5, 0.5])] {
        let mut timed = workload(vec![("timed", vec![flow(0), flow(start)])]);
        timed.cases[0].time_ns = Some(Nanos::seconds(1));
        for engine in [Engine::Flow, Engine::Tlp, Engine::Auto] {
            let record = predict(&machine("r7515-10-smartssd"), &timed, engine);
            let flows = &record.cases[0].flows;
            for (flow, share) in flows.iter().zip(shares) {
                assert!(is_near(flow.bytes.0 as f64 / 1e9, 3.3 * share), "{start} {flow:?}");
                assert!(is_near(flow.elapsed_ns.0 as f64 / 1e9, 1.0), "{start} {flow:?}");
            }
        }
    }
}
