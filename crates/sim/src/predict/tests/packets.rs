//! Rates and percentiles by packets, and the choice between engines.

use super::*;
use crate::generate::{fabric, workload as generated};

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

/// A machine, and more transfers on it than `auto` simulates by packets.
fn many() -> (Fabric, Workload) {
    let machine = fabric("tree:20").expect("notation").expect("a machine");
    let asked = generated("random:129", &machine).expect("notation").expect("a workload");
    (machine, asked)
}

/// A case as the flow engine finds it.
fn found(machine: &Fabric, case: &CaseSpec) -> (Model, CaseRates) {
    let parameters = with(&[]);
    let predictor = Predictor { fabric: machine, parameters: &parameters, seed: 7 };
    let model = predictor.model(case, &parameters.values()).expect("a model");
    let found = model.flow(CAREFUL).expect("rates");
    (model, found)
}

#[test]
fn packets_decide_small_cases() {
    // One block at a time: packets find turns in which they meet less than flows do.
    let pair = |(source, target)| Flow { depth: 1, ..Flow::new(source, target, Path::HostSerial) };
    let pairs = [("d0", "d9"), ("d1", "d8"), ("d2", "d7")].map(pair);
    let asked = workload(vec![("pairs", pairs.to_vec())]);
    let [auto, tlp, flow] = [Engine::Auto, Engine::Tlp, Engine::Flow].map(|engine| {
        let record = predict(&machine("ten"), &asked, engine);
        (rate(&record, 0), prediction(&record).engine.clone(), medians(&record))
    });
    assert!(auto.0 == tlp.0 && (auto.0 / flow.0 - 1.0).abs() > 3e-4, "{auto:?} {flow:?}");
    assert!(auto.1.starts_with("tlp: few enough transfers") && flow.1 == "flow: as asked for");
    assert!(auto.2[0] > 0.0 && flow.2[0] == 0.0);
    let parameters = with(&[]);
    let variant = |_| (asked.clone(), parameters.values());
    let rates = variants(&machine("ten"), &parameters, 1, variant, Engine::Tlp);
    assert!((rates.expect("predicted")[0][0] / 1e9 / tlp.0 - 1.0).abs() < 1e-6);
}

#[test]
fn many_transfers_are_flows() {
    let (machine, asked) = many();
    let record = predict(&machine, &asked, Engine::Auto);
    assert_eq!(prediction(&record).engine, "flow: too many transfers for packets");
    assert_eq!(record.cases[0].warnings, []);
}

#[test]
fn unsettled_rates_are_told() {
    let (machine, asked) = many();
    let (model, mut found) = found(&machine, &asked.cases[0]);
    found.unsettled = 0.0149;
    let (engine, windows) = (String::new(), None);
    let report = CaseReport { found, engine, is_by_flows: true, windows };
    let told = Warning::NotSettled { case: asked.cases[0].name.clone(), per_mille: 15 };
    assert_eq!(record::record(&asked.cases[0], &model, report).warnings, [told]);
}

#[test]
fn rates_by_flows_have_the_solver_error() {
    let asked = workload(vec![("pairs", vec![Flow::new("d0", "d1", Path::P2p)])]);
    let [flow, tlp] = [Engine::Flow, Engine::Tlp].map(|engine| {
        let record = predict(&machine("ten"), &asked, engine);
        let (low, high) = prediction(&record).interval.expect("a range");
        [low, high].map(|end| end.0 as f64 / 1e9 / rate(&record, 0))
    });
    assert!(is_near(flow[0], tlp[0] * (1.0 - SOLVER_ERROR)), "{flow:?} {tlp:?}");
    assert!(is_near(flow[1], tlp[1] * (1.0 + SOLVER_ERROR)), "{flow:?} {tlp:?}");
}

#[test]
fn joining_flows_have_percentiles() {
    let joining = ["d1", "d2", "d3", "d4", "d5"].map(|source| flow(source, 1, 2));
    let flows: Vec<Flow> = std::iter::once(flow("d0", 40, 0)).chain(joining).collect();
    let record = predict(&machine("ten"), &workload(vec![("six", flows)]), Engine::Auto);
    let alone = predict(&machine("ten"), &one(flow("d0", 40, 0)), Engine::Auto);
    let (medians, alone) = (medians(&record), medians(&alone)[0]);
    // The long one is alone for most of its bytes; one of forty commands is one of six.
    assert!((medians[0] / alone - 1.0).abs() < 0.02, "{medians:?} {alone}");
    assert!(medians[1..].iter().all(|median| median / alone > 4.0), "{medians:?} {alone}");
    let long = &record.cases[0].flows[0].block;
    assert!(long.p90_ns.0 as f64 / alone < 1.1 && long.p99_ns.0 as f64 / alone > 4.0, "{long:?}");
}

#[test]
fn flows_without_a_window_are_told() {
    let machine = fabric("servers:30").expect("notation").expect("a machine");
    let asked = generated("random:110", &machine).expect("notation").expect("a workload");
    let case = &predict(&machine, &asked, Engine::Tlp).cases[0];
    let none = case.flows.iter().filter(|flow| flow.block.count == 0).count();
    let told = case.warnings.iter().find_map(|warning| match warning {
        Warning::NotSimulated { transfers, of: 110, .. } => Some(*transfers as usize),
        _ => None,
    });
    assert_eq!(told, Some(none).filter(|&none| none > 0));
}

#[test]
fn packets_slow_flow_or_move_less() {
    let case = workload(vec![("two", vec![flow("d0", 1, 0), flow("d1", 1, 0)])]).cases.remove(0);
    let (_, found) = found(&machine("ten"), &case);
    let slower = [(1, 2.0)].into();
    let [longer, less] = [false, true].map(|has_time| {
        let mut slowed = found.clone();
        slowed.slow(&slower, has_time);
        slowed
    });
    assert!(is_near(longer.flows[1].end, 2.0 * found.flows[1].end));
    assert!(is_near(less.flows[1].bytes, found.flows[1].bytes / 2.0));
    assert!(is_near(longer.flows[0].end, found.flows[0].end), "only what was in a window");
}
