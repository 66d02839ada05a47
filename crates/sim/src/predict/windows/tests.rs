//! Windows beside longer ones, and what may be left out of them.

use peerlane_results::{CaseSpec, Flow, Path};
use peerlane_units::Nanos;

use super::super::case::{Model, Set};
use super::choose::EVENTS;
use super::mixed::later;
use super::*;
use crate::generate::{Draws, pods, tree};
use crate::model::{Endpoint, NodeIndex, NodeKind, Picos, Topology};
use crate::tlp::Extent;

#[derive(serde::Deserialize)]
struct Table {
    flow: Flow,
}

/// Ten drives with media that several flows of one drive share.
fn drives() -> (Topology, Vec<NodeIndex>) {
    let mut machine = tree(10);
    let drives = machine.groups.remove(0);
    for &drive in &drives {
        let posts = Some(ByteRate(5_000_000_000));
        let fetches = Some(ByteRate(3_000_000_000));
        machine.topology.node_mut(drive).kind =
            NodeKind::Endpoint(Endpoint { posts, fetches, ..Endpoint::default() });
    }
    (machine.topology, drives)
}

/// Flows with blocks of so many KiB and so much depth, behind a drive of 80 us.
fn blocks(mut flows: Vec<FlowSpec>, kib: u64, depth: u32) -> Vec<FlowSpec> {
    for flow in &mut flows {
        flow.first.latency = Picos::micros(80);
        (flow.request, flow.depth) = (Bytes::kib(kib), depth);
    }
    flows
}

/// Percentiles at full depth over a window of many commands.
fn long(part: &Part) -> (Vec<Percentiles>, bool) {
    let (topology, flows) = (&part.topology, &part.flows);
    let extent = Extent::Steady { window: Picos::millis(200), most: Picos::millis(400) };
    let settings = tlp::Settings { extent, train: Train::Fixed(16), ..tlp::Settings::default() };
    let outcome = simulate(topology, flows, &settings).unwrap();
    let percentiles = outcome.flows.iter().map(|one| one.latency.percentiles());
    (percentiles.collect(), outcome.is_settled)
}

fn error(found: Nanos, expected: Nanos) -> f64 {
    (super::super::nanos(found) / super::super::nanos(expected) - 1.0).abs()
}

#[test]
fn short_windows_at_little_depth_have_the_percentiles_of_long_ones_at_all_of_it() {
    let (topology, d) = drives();
    let incast = || (1..6).map(|at| FlowSpec::write("in", d[at], d[0])).collect();
    let pairs = || (0..5).map(|at| FlowSpec::read("pair", d[at], d[at + 5])).collect();
    let all = || -> Vec<FlowSpec> {
        let others = |one: usize| (0..4).filter(move |&other| other != one);
        let flow = |one: usize, other: usize| FlowSpec::relay("all", d[one], d[9], d[other]);
        (0..4).flat_map(|one| others(one).map(move |other| flow(one, other))).collect()
    };
    // Where depth leaves gaps, flows find turns in which they meet less, for longer than a window is.
    let cases = [
        ("incast, deep", blocks(incast(), 128, 32), 0.02),
        ("incast, shallow", blocks(incast(), 64, 2), 0.06),
        ("pairs", blocks(pairs(), 128, 8), 0.02),
        ("all to all", blocks(all(), 128, 16), 0.02),
        ("blocks so large that depth is left out", blocks(pairs(), 8192, 16), 0.02),
    ];
    for (name, flows, most) in cases {
        let part = Part::of(&topology, flows.iter());
        let found = window(&part, EVENTS).unwrap();
        let (long, is_settled) = long(&part);
        assert!(is_settled && found.outcome.is_settled, "{name} has not settled");
        for ((one, &behind), long) in found.outcome.flows.iter().zip(&found.behind).zip(long) {
            let short = later(&one.latency.percentiles(), behind);
            let median = error(short.p50_ns, long.p50_ns);
            let last = error(short.p99_ns, long.p99_ns);
            assert!(median < most && last < most, "{name}: {short:?} {long:?}");
        }
        let is_shallow = found.behind.iter().any(|&behind| behind > 0.0);
        assert_eq!(is_shallow, name.contains("left out"), "{name}");
    }
}

/// What flows use of a machine whose parameters are these.
fn part(machine: &str, parameters: Option<&str>, flows: Vec<Flow>) -> Part {
    let file = format!("{}/../../machines/{machine}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).unwrap();
    let fabric = peerlane_fabric::Fabric::from_toml(&text).unwrap();
    let parameters = super::super::parameters(parameters).unwrap();
    let numbers = parameters.values();
    let setting = super::super::setting::Setting::new(&parameters, &numbers);
    let topology = setting.topology(&fabric).unwrap();
    let case = CaseSpec { name: "in".to_owned(), flows, time_ns: None };
    let model = Model::new(&fabric, &topology, &setting, &case).unwrap();
    Part::of(&model.topology, model.flows.iter().map(|flow| &flow.spec))
}

/// Nine drives that fill the memory beside a tenth, one block of 1 MiB each at a time.
fn incast_at_depth_1() -> Part {
    let case = |at: u32| {
        let flow = format!(
            "{{ source = 'drive{at}', target = 'drive0', path = 'p2p', block = '1M', depth = 1, \
             order = 'sequential', offset = 0, target_offset = 0, bytes = '1G', start_ns = 0 }}"
        );
        toml::from_str::<Table>(&format!("flow = {flow}")).unwrap().flow
    };
    part("r7515-10-smartssd", None, (1..10).map(case).collect())
}

#[test]
fn at_depth_1_percentiles_do_not_hang_on_when_a_window_looks() {
    let part = incast_at_depth_1();
    let base = longer(settings(&part.flows, 1.9));
    let at = |times: u64| {
        let mut settings = tlp::Settings { train: Train::Fixed(8), ..base.clone() };
        if let Extent::Even { after, .. } = &mut settings.extent {
            *after = Picos(after.0 * times);
        }
        let outcome = simulate(&part.topology, &part.flows, &settings).unwrap();
        outcome.flows.iter().map(|flow| flow.latency.percentiles()).collect::<Vec<_>>()
    };
    let (early, late) = (at(1), at(2));
    for (early, late) in early.iter().zip(&late) {
        let median = error(early.p50_ns, late.p50_ns);
        let last = error(early.p99_ns, late.p99_ns);
        assert!(median < 0.03 && last < 0.08, "{early:?} {late:?}");
    }
}

/// Copies of 1 MiB by host memory among so many drives, each to each, one leg after the other.
fn serial_among(drives: usize) -> Part {
    let pairs = (0..drives).flat_map(|one| (0..drives).map(move |other| (one, other)));
    let copy = |(one, other): (usize, usize)| {
        let (source, target) = (format!("drive{one}"), format!("drive{other}"));
        let flow = Flow::new(&source, &target, Path::HostSerial);
        Flow { block: Bytes::mib(1), depth: 1, ..flow }
    };
    let pairs = pairs.filter(|(one, other)| one != other);
    part("r7515-10-smartssd", None, pairs.map(copy).collect())
}

#[test]
fn windows_of_few_slots_keep_to_their_events() {
    for (drives, share) in [(2, 1), (3, 1), (3, 6), (6, 1), (10, 1)] {
        let Window { outcome, .. } = window(&serial_among(drives), EVENTS / share).unwrap();
        // Twice as many where shorter trains differ; what it takes to settle and four commands of each are in no share.
        let most = (2 * EVENTS / share).max(EVENTS);
        assert!(outcome.is_settled && outcome.events <= most, "{drives}: {}", outcome.events);
        let least = outcome.flows.iter().map(|one| one.latency.count()).min();
        assert!(least >= Some(3), "{drives}: {least:?}");
    }
}

#[test]
fn rates_of_a_longer_window_are_within_the_margins_of_a_short_one() {
    let rate = |side: &str| {
        let values = "value = 14\nunit = \"GB/s\"\nfrom = \"guess\"\nsource = \"a test\"\n";
        format!("[parameter.\"drive.{side}.rate\"]\n{values}")
    };
    let (p2p, host) = (Path::P2p, Path::HostPipelined);
    let copies = [("d8", "d1", host), ("d4", "d3", p2p), ("d5", "d7", p2p)];
    let copies = copies.map(|(source, target, path)| Flow {
        block: Bytes::kib(64),
        depth: 4,
        ..Flow::new(source, target, path)
    });
    let part = part("ten", Some(&(rate("read") + &rate("write"))), copies.to_vec());
    let Window { outcome, depths, .. } = window(&part, EVENTS).unwrap();
    assert!(outcome.is_settled);
    let (before, time) = (outcome.warm_up, Picos(outcome.measured.0 * 4));
    let [after, most] = [2, 4].map(|times| Picos(before.0 * times));
    let extent = Extent::Even { after, brief: time, least: time, window: time, most };
    let train = Train::Fixed(outcome.train);
    let settings = tlp::Settings { extent, train, ..tlp::Settings::default() };
    let longer = simulate(&part.topology, &part.flows, &settings).unwrap();
    let nanos = super::super::nanos(outcome.measured.to_nanos());
    let mut beyond_a_block = 0;
    for (at, (one, longer)) in outcome.flows.iter().zip(&longer.flows).enumerate() {
        let spec = &part.flows[at];
        let expected = as_f64(Bytes(longer.rate.0)) / 1e9 * nanos;
        let off = (as_f64(one.bytes) - expected).abs();
        let trains = tlp::AGREEMENT * expected;
        let margin = apart::margin(one, spec, depths[at], nanos) + trains;
        assert!(off <= margin && margin < 0.05 * expected, "{off} {margin} {expected}");
        beyond_a_block += usize::from(off > as_f64(spec.request) + trains);
    }
    assert!(beyond_a_block > 0, "a block would do");
}

#[test]
fn a_flow_has_no_margin_where_rates_still_change_and_is_none_where_fluids_have_no_rates() {
    let (topology, d) = drives();
    let flows = [FlowSpec::write("one", d[1], d[0]), FlowSpec::write("other", d[2], d[0])];
    let part = Part::of(&topology, blocks(flows.to_vec(), 64, 8).iter());
    let set = Set { members: vec![(5, 1.0), (3, 1.0)], time: 1e6, first: 2e6 };
    let mut window = window(&part, EVENTS).unwrap();
    let furthest = |window: &Window| apart::furthest(&set, &part.flows, window);
    window.fluids[1] *= 1.5;
    let found = furthest(&window).unwrap();
    assert!(found.flow == 3 && found.margin.is_some() && found.is_told(), "{found:?}");
    assert_eq!((found.transfers, found.time, found.first), (2, 1e6, 2e6));
    window.outcome.is_settled = false;
    let found = furthest(&window).unwrap();
    assert!(found.flow == 3 && found.margin.is_none() && !found.is_told(), "{found:?}");
    window.fluids[1] = 0.0;
    assert_eq!(furthest(&window).map(|one| one.flow), Some(5));
    window.fluids[0] = 0.0;
    assert!(furthest(&window).is_none());
}

#[test]
fn a_part_of_a_machine_gives_the_same_figures_as_the_whole() {
    let machine = pods(3, 5);
    let mut draws = Draws::new(2);
    let settings = tlp::Settings {
        extent: Extent::Steady { window: Picos::micros(500), most: Picos::millis(1) },
        train: Train::Fixed(8),
        ..tlp::Settings::default()
    };
    for _ in 0..8 {
        let (source, target) = machine.pair(&mut draws);
        let (other, memory) = machine.pair(&mut draws);
        let flows = [FlowSpec::read("r", source, target), FlowSpec::write("w", other, memory)];
        let part = Part::of(&machine.topology, flows.iter());
        assert!(part.topology.nodes().len() < machine.topology.nodes().len());
        let whole = simulate(&machine.topology, &flows, &settings).unwrap();
        let alone = simulate(&part.topology, &part.flows, &settings).unwrap();
        assert_eq!(whole.events, alone.events);
        for (whole, alone) in whole.flows.iter().zip(&alone.flows) {
            assert_eq!((whole.bytes, &whole.latency), (alone.bytes, &alone.latency));
        }
    }
}

#[test]
fn pairs_of_drives_that_are_alike_have_one_window() {
    let (topology, d) = drives();
    let key = |from: usize, to: usize, kib: u64| {
        let flows = blocks(vec![FlowSpec::write("w", d[from], d[to])], kib, 4);
        Part::of(&topology, flows.iter()).key()
    };
    // Eight switches: drives 0 and 8 hang from one, the others do not share theirs.
    assert_eq!(key(1, 2, 64), key(5, 3, 64));
    assert_ne!(key(1, 2, 64), key(0, 8, 64));
    assert_ne!(key(1, 2, 64), key(1, 2, 128));
}
