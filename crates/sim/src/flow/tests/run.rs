use super::{FlowNetwork, NONE, NetworkFlow, Resource, ResourceVisit, SolverSettings};
use crate::flow::run::{FlowRun, FlowTransfer, RunSettings, run};

const SETTINGS: RunSettings<'static> = RunSettings {
    solve: SolverSettings { tolerance: 1e-6, rounds: 2000 },
    together: 0.0,
    ended: None,
};

/// A megabyte, or a millisecond.
const M: f64 = 1e6;

fn visit(resource: u32, port: u32) -> ResourceVisit {
    ResourceVisit { resource, port, quantum: 1.0, cost: 1.0 }
}

/// One link of 4 bytes a nanosecond, and flows that ask for 3.
fn link(flows: usize) -> FlowNetwork {
    let flow =
        NetworkFlow { demand: 3.0, legs: vec![vec![visit(0, NONE)]], ..NetworkFlow::default() };
    FlowNetwork { resources: vec![Resource { capacity: 4.0, rank: 0 }], flows: vec![flow; flows] }
}

/// A transfer of so many megabytes from a moment in milliseconds.
fn transfer(start: f64, bytes: f64) -> FlowTransfer {
    FlowTransfer { start: start * M, bytes: bytes * M, time: f64::INFINITY }
}

/// The transfers on one link.
fn on_link(transfers: &[FlowTransfer], settings: RunSettings<'_>) -> FlowRun {
    run(&link(transfers.len()), transfers, settings).expect("in order")
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-4 * expected, "{found} instead of {expected}");
}

#[test]
fn rates_change_with_active_transfers() {
    // Both at 2 until one ends at 50 ms, then 400 MB at 3; or alone at 3 until 50 ms, then both at 2.
    for (transfers, ends) in [
        ([transfer(0.0, 100.0), transfer(0.0, 500.0)], [50.0, 50.0 + 400.0 / 3.0]),
        ([transfer(0.0, 300.0), transfer(50.0, 100.0)], [100.0 + 50.0 / 3.0, 100.0]),
    ] {
        let run = on_link(&transfers, SETTINGS);
        for (outcome, end) in run.outcomes.iter().zip(ends) {
            assert_near(outcome.end, end * M);
        }
        assert_eq!((run.sets, run.unsettled), (2, 0.0), "{run:?}");
    }
    assert_eq!(on_link(&[transfer(0.0, 1.0)], SETTINGS).outcomes[0].limit, None);
    let both = on_link(&[transfer(0.0, 9.0), transfer(0.0, 9.0)], SETTINGS);
    assert_eq!(both.outcomes[1].limit, Some(0));
}

#[test]
fn time_counts_from_each_start() {
    let timed = |start, bytes| FlowTransfer { time: 30.0 * M, ..transfer(start, bytes) };
    let transfers = [timed(0.0, f64::INFINITY), timed(10.0, f64::INFINITY), timed(100.0, 30.0)];
    let run = on_link(&transfers, SETTINGS);
    // 10 ms alone at 3, 20 together at 2, 10 alone; the last begins when all is over, and ends by its bytes.
    for (outcome, (bytes, end)) in
        run.outcomes.iter().zip([(70.0, 30.0), (70.0, 40.0), (30.0, 110.0)])
    {
        assert_near(outcome.bytes, bytes * M);
        assert_near(outcome.end, end * M);
    }
}

#[test]
fn ends_below_clock_resolution_end() {
    // At 1e30 ns the next moment is 1e14 ns later, and 300 bytes take 100.
    let transfer = |bytes| FlowTransfer { start: 1e30, bytes, time: f64::INFINITY };
    let run = on_link(&[transfer(300.0), transfer(600.0)], SETTINGS);
    let bytes: Vec<f64> = run.outcomes.iter().map(|one| one.bytes).collect();
    assert_eq!(bytes, [300.0, 600.0], "{run:?}");
}

#[test]
fn close_ends_share_a_solution() {
    let transfers: Vec<FlowTransfer> =
        (0..10).map(|index| transfer(0.0, 1000.0 + f64::from(index))).collect();
    let exact = on_link(&transfers, SETTINGS);
    let batched = on_link(&transfers, RunSettings { together: 0.02, ..SETTINGS });
    assert!(batched.sets < exact.sets, "{} {}", batched.sets, exact.sets);
    for (a, b) in exact.outcomes.iter().zip(&batched.outcomes) {
        assert!((a.end / b.end - 1.0).abs() <= 0.01 && a.bytes == b.bytes, "{a:?} {b:?}");
    }
}

#[test]
fn many_close_ends_share_solutions() {
    // A link of 400 bytes a nanosecond for as many transfers, each with a medium of 3 of its own.
    let mut network = link(0);
    network.resources[0].capacity = 400.0;
    for medium in 1..=400 {
        network.resources.push(Resource { capacity: 3.0, rank: 0 });
        let legs = vec![vec![visit(0, NONE)], vec![visit(medium, NONE)]];
        network.flows.push(NetworkFlow { demand: 10.0, legs, ..NetworkFlow::default() });
    }
    let bytes = |index: usize| 1000.0 + 2.0 * index as f64;
    let transfers: Vec<FlowTransfer> = (0..400).map(|at| transfer(0.0, bytes(at))).collect();
    let run = run(&network, &transfers, SETTINGS).expect("in order");
    assert!(run.sets < 335, "{}", run.sets);
    // All have the same rate, and the shortest ends first.
    let (mut end, mut before) = (0.0, 0.0);
    for (index, outcome) in run.outcomes.iter().enumerate() {
        end += (bytes(index) - before) / (400.0 / (400 - index) as f64).min(3.0) * M;
        before = bytes(index);
        assert!((outcome.end / end - 1.0).abs() < 5e-3, "{index}: {} {end}", outcome.end);
    }
}

#[test]
fn unsettled_rates_are_reported() {
    // A queue in front of two outputs, one of them slow, takes rounds.
    let flow = |output| NetworkFlow {
        demand: 3.0,
        legs: vec![vec![visit(0, NONE), visit(output, 0)]],
        ..NetworkFlow::default()
    };
    let resources = [(4.0, 0), (1.0, 1), (4.0, 1)];
    let resources = resources.map(|(capacity, rank)| Resource { capacity, rank }).to_vec();
    let network = FlowNetwork { resources, flows: vec![flow(1), flow(2)] };
    let timed = FlowTransfer { time: 100.0 * M, ..transfer(0.0, f64::INFINITY) };
    let unsettled = |rounds| {
        let solve = SolverSettings { tolerance: 1e-6, rounds };
        run(&network, &[timed; 2], RunSettings { solve, ..SETTINGS }).expect("in order").unsettled
    };
    assert!(unsettled(1) > 0.1, "{}", unsettled(1));
    assert_eq!(unsettled(2000), 0.0);
}

#[test]
fn threads_change_nothing() {
    let mut network = link(0);
    for (resource, cost) in (0..40).zip(1..) {
        network.resources.push(Resource { capacity: 4.0, rank: 0 });
        let visit = ResourceVisit { cost: f64::from(cost), ..visit(resource, NONE) };
        let flow = NetworkFlow { demand: 3.0, legs: vec![vec![visit]], ..NetworkFlow::default() };
        network.flows.extend([flow.clone(), flow]);
    }
    let transfers: Vec<FlowTransfer> =
        (0..80_u32).map(|i| transfer(f64::from(i % 7), 100.0)).collect();
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| run(&network, &transfers, SETTINGS).expect("in order"))
    };
    assert_eq!(on(1), on(4));
}
