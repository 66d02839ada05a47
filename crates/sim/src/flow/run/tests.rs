use super::active::Active;
use super::*;
use crate::flow::network::{Class, NONE, Resource, ResourceVisit};

/// One link of 4 bytes a nanosecond, and transfers that ask for 3.
fn link(classes: usize) -> FlowNetwork {
    let hop = ResourceVisit { resource: 0, port: NONE, quantum: 1.0, cost: 1.0 };
    FlowNetwork {
        resources: vec![Resource { capacity: 4.0, rank: 0, is_pool: false, ..Resource::default() }],
        classes: vec![
            Class { count: 1, demand: 3.0, legs: vec![vec![hop]], ..Class::default() };
            classes
        ],
    }
}

fn settings() -> RunSettings<'static> {
    RunSettings { solve: SolverSettings::default(), quantum: 0.0, together: 0.0, ended: None }
}

fn transfer(class: usize, start: f64, bytes: f64) -> FlowTransfer {
    FlowTransfer { class, start, bytes, time: f64::INFINITY }
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-6 * expected
}

#[test]
fn rates_rise_when_another_ends() {
    let transfers = [transfer(0, 0.0, 100.0), transfer(1, 0.0, 500.0)];
    let run = run(&link(2), &transfers, settings()).expect("in order");
    // Both at 2 until 50, then 400 bytes at 3.
    assert!(near(run.outcomes[0].end, 50.0), "{run:?}");
    assert!(near(run.outcomes[1].end, 50.0 + 400.0 / 3.0), "{run:?}");
    assert_eq!(run.outcomes[0].limit, Some(0));
}

#[test]
fn several_legs_speed_up_too() {
    let mut network = link(2);
    for (class, rank) in network.classes.iter_mut().zip(1..) {
        // Each has a medium of its own, which is slower than the link alone.
        class.add(vec![ResourceVisit { resource: rank, port: NONE, quantum: 1.0, cost: 1.0 }], 1.0);
        network.resources.push(Resource { capacity: 3.0, rank: 0, ..Resource::default() });
    }
    let transfers = [transfer(0, 0.0, 100.0), transfer(1, 0.0, 500.0)];
    let run = run(&network, &transfers, settings()).expect("in order");
    assert!((run.outcomes[0].end / 50.0 - 1.0).abs() < 1e-3, "{run:?}");
    assert!((run.outcomes[1].end / (50.0 + 400.0 / 3.0) - 1.0).abs() < 1e-3, "{run:?}");
}

#[test]
fn late_transfers_take_their_turn() {
    let transfers = [transfer(0, 0.0, 300.0), transfer(0, 50.0, 100.0)];
    let run = run(&link(1), &transfers, settings()).expect("in order");
    // 150 bytes alone at 3, then both at 2: the second ends at 100, the first has 50 left at 3.
    assert!(near(run.outcomes[1].end, 100.0), "{run:?}");
    assert!(near(run.outcomes[0].end, 100.0 + 50.0 / 3.0), "{run:?}");
}

#[test]
fn paces_belong_to_one_transfer() {
    let transfers = [transfer(0, 0.0, 300.0), transfer(0, 50.0, 100.0), transfer(0, 1e3, 30.0)];
    let run = run(&link(1), &transfers, settings()).expect("in order");
    let of = |index: usize| -> Vec<(f64, f64)> {
        run.paces[index].iter().map(|pace| (pace.rate(), pace.bytes)).collect()
    };
    let expected = [vec![(2.0, 100.0), (3.0, 200.0)], vec![(2.0, 100.0)], vec![(3.0, 30.0)]];
    for (index, expected) in expected.iter().enumerate() {
        let found = of(index);
        let is_near = found.len() == expected.len()
            && found.iter().zip(expected).all(|(a, b)| near(a.0, b.0) && near(a.1, b.1));
        assert!(is_near, "{found:?} {expected:?}");
    }
}

#[test]
fn endless_transfers_stop_in_time() {
    let endless = |start| FlowTransfer { time: 30.0, ..transfer(0, start, f64::INFINITY) };
    let exact = run(&link(1), &[endless(0.0), endless(0.0)], settings()).expect("in order");
    assert!(exact.outcomes.iter().all(|one| near(one.bytes, 60.0)), "{exact:?}");
    assert!(exact.outcomes.iter().all(|one| near(one.end, 30.0)), "{exact:?}");
    // One that is over within a quantum is over, too.
    let settings = RunSettings { quantum: 1_000.0, ..settings() };
    let batched = run(&link(1), &[endless(0.0), endless(5.0)], settings).expect("in order");
    assert!(near(batched.outcomes[0].end, 30.0) && near(batched.outcomes[1].end, 35.0));
}

#[test]
fn time_counts_from_each_start() {
    let timed = |start, bytes| FlowTransfer { time: 30.0, ..transfer(0, start, bytes) };
    let transfers = [timed(0.0, f64::INFINITY), timed(10.0, f64::INFINITY), timed(100.0, 30.0)];
    let run = run(&link(1), &transfers, settings()).expect("in order");
    // 10 ns alone at 3, 20 together at 2, 10 alone; the last begins when all is over, and ends by its bytes.
    let bytes = run.outcomes.iter().map(|outcome| outcome.bytes);
    assert!(bytes.zip([70.0, 70.0, 30.0]).all(|(a, b)| near(a, b)), "{run:?}");
    let ends = run.outcomes.iter().map(|outcome| outcome.end);
    assert!(ends.zip([30.0, 40.0, 110.0]).all(|(a, b)| near(a, b)), "{run:?}");
    assert!(run.outcomes.iter().all(|one| one.limit.is_none() || one.limit == Some(0)));
}

#[test]
fn ends_below_clock_resolution_end() {
    // At 1e30 ns the next moment is 1e14 ns later, and 300 bytes take 100.
    let transfers = [transfer(0, 1e30, 300.0), transfer(0, 1e30, 600.0)];
    let run = run(&link(1), &transfers, settings()).expect("in order");
    assert!(run.outcomes.iter().all(|one| near(one.end, 1e30) && one.bytes >= 300.0), "{run:?}");
}

#[test]
fn close_ends_share_a_solution() {
    let transfers: Vec<FlowTransfer> =
        (0..10).map(|index| transfer(0, 0.0, 1000.0 + f64::from(index))).collect();
    let exact = run(&link(1), &transfers, settings()).expect("in order");
    let together = RunSettings { together: 0.02, ..settings() };
    for (settings, most) in [(RunSettings { quantum: 100.0, ..settings() }, 0.05), (together, 0.01)]
    {
        let batched = run(&link(1), &transfers, settings).expect("in order");
        assert!(batched.solutions < exact.solutions, "{} {}", batched.solutions, exact.solutions);
        for (a, b) in exact.outcomes.iter().zip(&batched.outcomes) {
            assert!((a.end / b.end - 1.0).abs() <= most && near(a.bytes, b.bytes), "{a:?} {b:?}");
        }
    }
}

#[test]
fn unsettled_rates_are_reported() {
    // A queue in front of two outputs of which one is slow takes rounds.
    let hop = |resource, port| ResourceVisit { resource, port, quantum: 1.0, cost: 1.0 };
    let resource = |capacity, rank| Resource { capacity, rank, ..Resource::default() };
    let leg = |output| vec![vec![hop(0, NONE), hop(output, 0)]];
    let class = |output| Class { count: 1, demand: 3.0, legs: leg(output), ..Class::default() };
    let network = FlowNetwork {
        resources: vec![resource(4.0, 0), resource(1.0, 1), resource(4.0, 1)],
        classes: vec![class(1), class(2)],
    };
    let transfers =
        [0, 1].map(|class| FlowTransfer { time: 100.0, ..transfer(class, 0.0, f64::INFINITY) });
    let of = |rounds| {
        let solve = SolverSettings { tolerance: 1e-6, rounds };
        let settings = RunSettings { solve, quantum: 0.0, together: 0.0, ended: None };
        run(&network, &transfers, settings).expect("in order").unsettled
    };
    assert!(of(1) > 0.1, "{}", of(1));
    assert_eq!(of(2000), 0.0);
}

#[test]
fn threads_change_nothing() {
    let mut network = link(0);
    network.resources =
        vec![Resource { capacity: 4.0, rank: 0, is_pool: false, ..Resource::default() }; 40];
    for resource in 0..40 {
        let hop =
            ResourceVisit { resource, port: NONE, quantum: 1.0, cost: 1.0 + f64::from(resource) };
        network.classes.push(Class {
            count: 1,
            demand: 3.0,
            legs: vec![vec![hop]],
            ..Class::default()
        });
    }
    let transfers: Vec<FlowTransfer> =
        (0..400_u32).map(|i| transfer((i % 40) as usize, f64::from(i % 7), 100.0)).collect();
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| run(&network, &transfers, settings()).expect("in order"))
    };
    assert_eq!(on(1), on(4));
}

/// A link of 400 bytes a nanosecond for as many transfers, each with a medium of 3 of its own.
fn crowd() -> FlowNetwork {
    let hop = |resource, port| ResourceVisit { resource, port, quantum: 1.0, cost: 1.0 };
    let mut network = link(0);
    network.resources[0].capacity = 400.0;
    for medium in 1..=400 {
        network.resources.push(Resource { capacity: 3.0, rank: 0, ..Resource::default() });
        let mut class = Class { count: 1, demand: 10.0, ..Class::default() };
        class.add(vec![hop(0, NONE)], 1.0);
        class.add(vec![hop(medium, NONE)], 1.0);
        network.classes.push(class);
    }
    network
}

#[test]
fn many_close_ends_share_solutions() {
    let bytes = |index: usize| 1000.0 + 2.0 * index as f64;
    let transfers: Vec<FlowTransfer> = (0..400).map(|at| transfer(at, 0.0, bytes(at))).collect();
    let run = run(&crowd(), &transfers, settings()).expect("in order");
    // The last 256 each by themselves.
    assert!(run.solutions < 335, "{}", run.solutions);
    // All have the same rate, and the shortest ends first.
    let (mut end, mut before) = (0.0, 0.0);
    for (index, outcome) in run.outcomes.iter().enumerate() {
        end += (bytes(index) - before) / (400.0 / (400 - index) as f64).min(3.0);
        before = bytes(index);
        assert!((outcome.end / end - 1.0).abs() < 5e-3, "{index}: {} {end}", outcome.end);
        assert!(near(outcome.bytes, bytes(index)));
        let moved: f64 = run.paces[index].iter().map(|pace| pace.bytes).sum();
        assert!((moved / bytes(index) - 1.0).abs() < 5e-3, "{index}: {moved}");
    }
}

#[test]
fn finished_parts_fall_apart() {
    // Two crowds, and one transfer that joins them.
    let mut network = crowd();
    let (resources, classes) = (network.resources.clone(), network.classes.clone());
    let behind = u32::try_from(resources.len()).expect("few");
    network.resources.extend(resources);
    for mut class in classes {
        class.legs.iter_mut().flatten().for_each(|hop| hop.resource += behind);
        network.classes.push(class);
    }
    let both = network.classes[0].legs[0].iter().chain(&network.classes[400].legs[0]).copied();
    let legs = both.map(|hop| vec![hop]).collect();
    network.classes.push(Class { count: 1, demand: 1.0, legs, ..Class::default() });
    let parts = Parts::new(&network);
    assert_eq!(parts.parts.len(), 1);
    let mut active = Active::new(parts.view(&parts.parts[0]));
    let settings = SolverSettings::default();
    (0..801).for_each(|class| active.set_count(class, 1));
    assert_eq!(active.solve(settings), 1);
    let rates = active.rates.clone();
    (0..200).chain(400..610).chain([800]).for_each(|class| active.set_count(class, 0));
    active.forget(|class| class != 500);
    assert_eq!(active.solve(settings), 2);
    assert!(active.rates[300] > 1.9 * rates[300] && active.rates[700] > 2.0 * rates[700]);
    // One of which something is still to come was not forgotten.
    active.set_count(500, 1);
    active.forget(|_| true);
    assert_eq!(active.solve(settings), 1);
    assert!((active.rates[500] - 400.0 / 191.0).abs() < 0.01, "{}", active.rates[500]);
    assert_eq!(active.solve(settings), 0);
}
