//! Windows against longer ones.

use peerlane_results::{CaseSpec, Flow, Path};
use peerlane_units::{ByteRate, Nanos};

use super::*;
use crate::generate::{Draws, LenderNames, fabric};
use crate::model::{ModelEndpoint, ModelParameters, NodeIndex, NodeKind, Topology};
use crate::tlp::{TrainSizes, simulate};

/// Ten drives whose media several flows of one drive share.
fn drives() -> (Topology, Vec<NodeIndex>) {
    let fabric = fabric("tree:10").unwrap().unwrap();
    let mut topology = Topology::from_fabric(&fabric, &ModelParameters::default()).unwrap();
    let find = |number| topology.find(&format!("d{number}")).unwrap();
    let drives: Vec<NodeIndex> = (0..10).map(find).collect();
    for &drive in &drives {
        let posts = Some(ByteRate(5_000_000_000));
        let fetches = Some(ByteRate(3_000_000_000));
        topology.node_mut(drive).kind =
            NodeKind::Endpoint(ModelEndpoint { posts, fetches, ..ModelEndpoint::default() });
    }
    (topology, drives)
}

/// Flows with blocks of so many KiB and so much depth, behind a drive of 80 us.
fn blocks(mut flows: Vec<FlowSpec>, kib: u64, depth: u32) -> Vec<FlowSpec> {
    for flow in &mut flows {
        flow.first.latency = Picos::micros(80);
        (flow.request, flow.depth) = (Bytes::kib(kib), depth);
    }
    flows
}

/// The part of a machine file that copies among so many drives use, a mebibyte at a time by host memory.
fn serial_among(drives: usize) -> MachinePart {
    let file = format!("{}/../../machines/r7515-10-smartssd.toml", env!("CARGO_MANIFEST_DIR"));
    let fabric = peerlane_fabric::Fabric::from_toml(&std::fs::read_to_string(file).unwrap());
    let (fabric, parameters) = (fabric.unwrap(), super::super::parameters(None).unwrap());
    let numbers = parameters.values();
    let setting = super::super::setting::ParameterSetting::new(&parameters, &numbers);
    let topology = setting.topology(&fabric).unwrap();
    let flow = |(source, target)| {
        let (source, target) = (format!("drive{source}"), format!("drive{target}"));
        let flow = Flow::new(&source, &target, Path::HostSerial);
        Flow { block: Bytes::mib(1), depth: 1, ..flow }
    };
    let flows = each_to_each(drives).into_iter().map(flow).collect();
    let case = CaseSpec { name: "in".to_owned(), flows, time_ns: None };
    let model = Model::new(&fabric, topology, &setting, &case).unwrap();
    MachinePart::of_flows(&model.topology, model.flows.iter().map(|flow| &flow.spec))
}

fn each_to_each(drives: usize) -> Vec<(usize, usize)> {
    let pairs = (0..drives).flat_map(|one| (0..drives).map(move |other| (one, other)));
    pairs.filter(|(one, other)| one != other).collect()
}

/// Returns the largest errors of a window's rates, medians and 99th percentiles, against a long run at full depth.
fn errors(part: &MachinePart) -> [f64; 3] {
    let found = window(part, EVENTS).unwrap();
    assert!(found.outcome.is_settled, "the window");
    let extent = RunLength::Steady { window: Picos::millis(60), most: Picos::millis(200) };
    let settings = tlp::Settings { extent, ..tlp::Settings::default() };
    let long = simulate(&part.topology, &part.flows, &settings).unwrap();
    assert!(long.is_settled, "the long run");
    let mut errors = [0.0_f64; 3];
    for ((one, left_out), long) in found.outcome.flows.iter().zip(&found.left_out).zip(&long.flows)
    {
        let nanos = |time: Nanos| super::super::nanos(time);
        let at = |share| {
            let times = [one, long].map(|flow| nanos(flow.latency.quantile(share).to_nanos()));
            (times[0] + left_out, times[1])
        };
        let rates = (as_f64(Bytes(one.rate.0)), as_f64(Bytes(long.rate.0)));
        let pairs = [rates, at(0.5), at(0.99)];
        for (error, (found, expected)) in errors.iter_mut().zip(pairs) {
            *error = error.max((found / expected - 1.0).abs());
        }
    }
    errors
}

#[test]
fn windows_agree_with_long_runs() {
    let (topology, d) = drives();
    let incast = || (1..6).map(|at| FlowSpec::write("in", d[at], d[0])).collect();
    let pairs = || (0..5).map(|at| FlowSpec::read("pair", d[at], d[at + 5])).collect();
    let all = || -> Vec<FlowSpec> {
        let flow = |(one, other)| FlowSpec::relay("all", d[one], d[9], d[other]);
        each_to_each(4).into_iter().map(flow).collect()
    };
    let part = |flows: Vec<FlowSpec>| MachinePart::of_flows(&topology, flows.iter());
    // Where depth leaves gaps, flows find turns in which they meet less, for longer than a window.
    let cases = [
        ("deep incast", part(blocks(incast(), 128, 32)), [0.01, 0.02, 0.02]),
        ("shallow incast", part(blocks(incast(), 64, 2)), [0.03, 0.06, 0.06]),
        ("pairs", part(blocks(pairs(), 128, 8)), [0.01, 0.02, 0.02]),
        ("each to each", part(blocks(all(), 128, 16)), [0.01, 0.02, 0.02]),
        ("depth left out", part(blocks(pairs(), 8192, 16)), [0.01, 0.02, 0.02]),
    ];
    for (name, part, most) in cases {
        let found = errors(&part);
        assert!(found.iter().zip(most).all(|(found, most)| *found < most), "{name}: {found:?}");
    }
}

#[test]
fn windows_keep_to_their_events() {
    for (drives, events) in [(2, EVENTS / 6), (3, EVENTS / 6), (6, EVENTS)] {
        let part = serial_among(drives);
        let Window { outcome, .. } = window(&part, events).unwrap();
        let least = outcome.flows.iter().map(|one| one.latency.count()).min();
        assert!(outcome.events <= events + events / 4, "{drives}: {}", outcome.events);
        assert!(outcome.is_settled && least >= Some(4), "{drives}: {least:?}");
    }
}

#[test]
fn parts_match_the_whole() {
    let fabric = fabric("pods:3:5").unwrap().unwrap();
    let topology = Topology::from_fabric(&fabric, &ModelParameters::default()).unwrap();
    let (lenders, mut draws) = (LenderNames::from_fabric(&fabric), Draws::new(2));
    let extent = RunLength::Steady { window: Picos::micros(500), most: Picos::millis(1) };
    let settings =
        tlp::Settings { extent, train: TrainSizes::Fixed(8), ..tlp::Settings::default() };
    for _ in 0..8 {
        let mut pair = || lenders.pair(&mut draws).map(|name| topology.find(name).unwrap());
        let ([source, target], [other, memory]) = (pair(), pair());
        let flows = [FlowSpec::read("r", source, target), FlowSpec::write("w", other, memory)];
        let part = MachinePart::of_flows(&topology, flows.iter());
        assert!(part.topology.nodes().len() < topology.nodes().len());
        let whole = simulate(&topology, &flows, &settings).unwrap();
        let alone = simulate(&part.topology, &part.flows, &settings).unwrap();
        assert_eq!(whole.events, alone.events);
        for (whole, alone) in whole.flows.iter().zip(&alone.flows) {
            assert_eq!((whole.bytes, &whole.latency), (alone.bytes, &alone.latency));
        }
    }
}

#[test]
fn alike_pairs_share_a_key() {
    let (topology, d) = drives();
    let key = |from: usize, to: usize, kib: u64| {
        let flows = blocks(vec![FlowSpec::write("w", d[from], d[to])], kib, 4);
        MachinePart::of_flows(&topology, flows.iter()).key()
    };
    // Eight switches: drives 0 and 8 hang from one, the others do not share theirs.
    assert_eq!(key(1, 2, 64), key(5, 3, 64));
    assert_ne!(key(1, 2, 64), key(0, 8, 64));
    assert_ne!(key(1, 2, 64), key(1, 2, 128));
}
