//! Percentiles of flows that are active in several sets, and what is said of flows that are in no window.

use peerlane_results::Percentiles;

use super::super::flows::Planned;
use super::*;
use crate::generate::{Draws, fabric, workload as generated};
use crate::model::{FlowSpec, Picos};
use crate::tlp;

fn flow(source: &str, gigabytes: u64, start: u64) -> Flow {
    Flow {
        bytes: Bytes::kib(128 * 7_629 * gigabytes),
        start_ns: Nanos::seconds(start),
        ..Flow::new(source, "d9", Path::P2p)
    }
}

fn medians(record: &BenchRecord) -> Vec<f64> {
    record.cases[0].flows.iter().map(|flow| flow.block.p50_ns.0 as f64).collect()
}

#[test]
fn flows_that_join_later_have_percentiles_and_so_have_those_that_they_join() {
    let ten = machine("ten");
    let joining = ["d1", "d2", "d3", "d4", "d5"].map(|source| flow(source, 1, 2));
    let flows: Vec<Flow> = std::iter::once(flow("d0", 40, 0)).chain(joining).collect();
    let record = predict(&ten, &workload(vec![("six", flows)]), Engine::Auto);
    let alone = predict(&ten, &one(flow("d0", 40, 0)), Engine::Auto);
    assert_eq!(record.cases[0].warnings, []);
    let (medians, alone) = (medians(&record), medians(&alone)[0]);
    // Most of the long one is moved while it is alone; in one of forty commands it is one of six.
    assert!((medians[0] / alone - 1.0).abs() < 0.02, "{medians:?} {alone}");
    assert!(medians[1..].iter().all(|median| median / alone > 4.0), "{medians:?} {alone}");
    let long = &record.cases[0].flows[0].block;
    assert!(long.p90_ns.0 as f64 / alone < 1.1 && long.p99_ns.0 as f64 / alone > 4.0, "{long:?}");
    assert_eq!(
        record.summaries[0].block.p99_ns,
        record.cases[0].flows[1].block.p99_ns.max(long.p99_ns)
    );
}

#[test]
fn flows_that_do_the_same_one_after_the_other_have_the_same_percentiles() {
    let flows = vec![flow("d0", 1, 0), flow("d0", 1, 9)];
    let record = predict(&machine("ten"), &workload(vec![("two", flows)]), Engine::Auto);
    let medians = medians(&record);
    assert!(medians[0] > 0.0 && medians[0] == medians[1], "{medians:?}");
}

#[test]
fn flows_in_no_window_are_told() {
    let machine = fabric("servers:30").expect("notation").expect("a machine");
    let asked = generated("random:110", &machine).expect("notation").expect("a workload");
    let record = predict(&machine, &asked, Engine::Tlp);
    let flows = &record.cases[0].flows;
    let none = flows.iter().filter(|flow| flow.block.count == 0).count();
    assert!(none > 0, "all are in a window: nothing to tell");
    let told = &record.cases[0].warnings;
    let is_told = |warning: &Warning| matches!(warning, Warning::NotSimulated { transfers, of: 110, .. } if *transfers as usize == none);
    assert!(told.iter().any(is_told), "{none}: {told:?}");
}

/// Percentiles of each transfer by a simulation of all packets of all transfers, from start to end.
fn whole(machine: &Fabric, asked: &CaseSpec) -> Vec<Percentiles> {
    let parameters = super::super::parameters(None).expect("defaults");
    let numbers = parameters.values();
    let setting = Setting::new(&parameters, &numbers);
    let topology = setting.topology(machine).expect("a topology");
    let model = Model::new(machine, &topology, &setting, asked).expect("a model");
    let flows = model.flows.iter().zip(&asked.flows);
    let spec =
        |(flow, asked): (&Planned, &Flow)| FlowSpec { bytes: asked.bytes, ..flow.spec.clone() };
    let specs: Vec<FlowSpec> = flows.map(spec).collect();
    let extent = tlp::Extent::Whole { most: Picos::millis(10_000) };
    let settings =
        tlp::Settings { extent, train: tlp::Train::Fixed(8), ..tlp::Settings::default() };
    let outcome = tlp::simulate(&model.topology, &specs, &settings).expect("packets");
    assert!(outcome.is_settled);
    outcome.flows.iter().map(|flow| flow.latency.percentiles()).collect()
}

/// Twelve transfers among six drives, each with its own begin and length.
fn unequal(seed: u64, block: Bytes, depth: u32) -> Workload {
    let mut draws = Draws::new(seed);
    let flow = |_| {
        let source = draws.below(6);
        let target = (source + 1 + draws.below(5)) % 6;
        let (blocks, start) = (300 + draws.below(1_500) as u64, draws.below(30_000_000) as u64);
        let ends = [source, target].map(|drive| format!("d{drive}"));
        let (bytes, start_ns) = (Bytes::kib(128 * blocks), Nanos(start));
        Flow { bytes, block, depth, start_ns, ..Flow::new(&ends[0], &ends[1], Path::P2p) }
    };
    workload(vec![("all", (0..12).map(flow).collect())])
}

#[test]
fn percentiles_of_transfers_that_end_one_by_one_are_those_of_all_their_packets() {
    let ten = machine("ten");
    let mut errors = [Vec::new(), Vec::new(), Vec::new()];
    for (seed, kib, depth) in [(1, 128, 4), (3, 64, 4), (5, 512, 16)] {
        let asked = unequal(seed, Bytes::kib(kib), depth);
        let expected = whole(&ten, &asked.cases[0]);
        let record = predict(&ten, &asked, Engine::Auto);
        for (flow, expected) in record.cases[0].flows.iter().zip(expected) {
            let of = |p: &Percentiles| [p.p50_ns, p.p90_ns, p.p99_ns].map(|nanos| nanos.0 as f64);
            let pairs = of(&flow.block).into_iter().zip(of(&expected));
            for (errors, (found, expected)) in errors.iter_mut().zip(pairs) {
                errors.push((found / expected - 1.0).abs());
            }
        }
    }
    let means = errors.map(|errors| errors.iter().sum::<f64>() / errors.len() as f64);
    // Of the windows alone, without what they say of other sets, medians would be 6 % off.
    assert!(means[0] < 0.025 && means[1] < 0.01 && means[2] < 0.01, "{means:?}");
}
