use super::*;
use crate::flow::network::{Class, Resource, ResourceVisit};

/// A tree of links: every node but the first has a parent and a link to it, as fast in both
/// directions.
struct LinkTree {
    parent: Vec<usize>,
    network: FlowNetwork,
}

impl LinkTree {
    fn new(nodes: &[(usize, f64)]) -> Self {
        let mut tree = Self { parent: vec![0], network: FlowNetwork::default() };
        let depths = u32::try_from(nodes.len()).expect("small") + 1;
        // Up-links deepest first, then down-links: node n has links 2(n-1) up and 2(n-1)+1 down.
        for &(parent, capacity) in nodes {
            tree.parent.push(parent);
            let depth = u32::try_from(tree.way_up(tree.parent.len() - 1).len()).expect("small");
            tree.network.resources.push(Resource {
                capacity,
                rank: depths - depth,
                ..Resource::default()
            });
            tree.network.resources.push(Resource {
                capacity,
                rank: depths + depth,
                ..Resource::default()
            });
        }
        tree
    }

    /// The nodes from this one up to the one below the root.
    fn way_up(&self, node: usize) -> Vec<usize> {
        std::iter::successors(Some(node), |&node| Some(self.parent[node]))
            .take_while(|&node| node != 0)
            .collect()
    }

    fn leg(&self, source: usize, target: usize, cost: f64) -> Vec<ResourceVisit> {
        let (up, down) = (self.way_up(source), self.way_up(target));
        let shared = up.iter().rev().zip(down.iter().rev()).take_while(|(a, b)| a == b).count();
        let number =
            |node: usize, down: usize| u32::try_from(2 * (node - 1) + down).expect("small");
        let up = up[..up.len() - shared].iter().map(|&node| number(node, 0));
        let down = down[..down.len() - shared].iter().rev().map(|&node| number(node, 1));
        let mut port = NONE;
        up.chain(down)
            .map(|resource| (resource, std::mem::replace(&mut port, resource)))
            .map(|(resource, port)| ResourceVisit { resource, port, quantum: 1.0, cost })
            .collect()
    }

    fn flow(&mut self, source: usize, target: usize, demand: f64) -> &mut Self {
        let legs = vec![self.leg(source, target, 1.0)];
        self.network.classes.push(Class { count: 1, demand, legs, ..Class::default() });
        self
    }

    fn solve(&self) -> Solution {
        let settings = SolverSettings { tolerance: 1e-9, ..SolverSettings::default() };
        let mut solver = Solver::new(&self.network).expect("a tree is in order");
        let solution = solver.solve(settings);
        assert!(
            solution.has_converged(settings),
            "{} after {}",
            solution.residual,
            solution.rounds
        );
        for (resource, load) in self.network.resources.iter().zip(&solution.load) {
            assert!(*load <= resource.capacity * (1.0 + 1e-6), "{load} on {}", resource.capacity);
        }
        solution
    }
}

#[track_caller]
fn expect_rates(found: &[f64], expected: &[f64]) {
    let fits = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3 * b);
    assert!(fits && found.len() == expected.len(), "{found:?} instead of {expected:?}");
}

/// Drives behind a switch and one at the root, all to one sink: node 1 is the switch, 2 the sink, 3
/// the direct drive, 4.. those behind the switch.
fn incast(behind: usize) -> LinkTree {
    let mut nodes = vec![(0, 14.4), (0, 3.6), (0, 3.6)];
    nodes.extend((0..behind).map(|_| (1, 3.6)));
    let mut tree = LinkTree::new(&nodes);
    for source in 4..4 + behind {
        tree.flow(source, 2, 3.2);
    }
    tree.flow(3, 2, 3.2);
    tree
}

#[test]
fn a_switch_gets_one_turn() {
    expect_rates(&incast(3).solve().rates, &[0.6, 0.6, 0.6, 1.8]);
    let seven: Vec<f64> = (0..7).map(|_| 1.8 / 7.0).chain([1.8]).collect();
    expect_rates(&incast(7).solve().rates, &seven);
}

#[test]
fn full_buffers_slow_their_victims() {
    // Node 1 a switch with five drives, 2 the hot sink, 3 the idle one.
    let mut nodes = vec![(0, 14.4), (0, 3.6), (0, 3.6)];
    nodes.extend((0..5).map(|_| (1, 3.6)));
    let mut tree = LinkTree::new(&nodes);
    for source in 4..8 {
        tree.flow(source, 2, 3.2);
    }
    tree.flow(8, 3, 3.2);
    let solution = tree.solve();
    expect_rates(&solution.rates, &[0.9; 5]);
    assert_eq!(solution.limits, vec![Some(3); 5], "the hot sink's link limits the victim, too");
}

#[test]
fn flows_that_fit_are_uncut() {
    let mut tree = LinkTree::new(&[(0, 10.0), (0, 10.0)]);
    let solution = tree.flow(1, 2, 3.0).flow(1, 2, 4.0).solve();
    expect_rates(&solution.rates, &[3.0, 4.0]);
    assert_eq!(solution.limits, [None, None]);
}

#[test]
fn merged_flows_equal_single_ones() {
    let mut single = LinkTree::new(&[(0, 10.0), (0, 4.0), (0, 10.0)]);
    single.flow(1, 2, 3.0).flow(1, 2, 3.0).flow(1, 2, 3.0).flow(3, 2, 1.5);
    let mut merged = LinkTree::new(&[(0, 10.0), (0, 4.0), (0, 10.0)]);
    merged.flow(1, 2, 3.0).flow(3, 2, 1.5);
    merged.network.classes[0].count = 3;
    let (single, merged) = (single.solve(), merged.solve());
    expect_rates(&[single.rates[0], single.rates[3]], &merged.rates);
}

#[test]
fn slow_legs_leave_their_rest() {
    // Flow 0 is a relay: 1 to 2, then 2 to 3 over a slow link. Flow 1 shares the first stage only.
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0), (0, 1.0)]);
    let legs = vec![tree.leg(1, 2, 1.0), tree.leg(2, 3, 1.0)];
    tree.network.classes.push(Class { count: 1, demand: 10.0, legs, ..Class::default() });
    tree.flow(1, 2, 10.0);
    let solution = tree.solve();
    expect_rates(&solution.rates, &[1.0, 3.0]);
    assert_eq!(solution.limits[0], Some(5));
}

#[test]
fn reads_load_both_directions() {
    // Completions of 1.1 bytes a byte from 1 to 2, requests of 0.05 the other way; a write the other
    // way leaves room for the requests only as its link does.
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0)]);
    let legs = vec![tree.leg(2, 1, 0.05), tree.leg(1, 2, 1.1)];
    tree.network.classes.push(Class { count: 1, demand: 10.0, legs, ..Class::default() });
    let alone = tree.solve();
    expect_rates(&alone.rates, &[4.0 / 1.1]);
    tree.flow(2, 1, 10.0);
    let read = 4.0 / 1.1;
    expect_rates(&tree.solve().rates, &[read, 4.0 - 0.05 * read]);
}

#[test]
fn leaving_flows_free_their_share() {
    let mut solver = Solver::new(&incast(3).network).expect("a tree is in order");
    let settings = SolverSettings { tolerance: 1e-9, ..SolverSettings::default() };
    solver.solve(settings);
    solver.set_count(3, 0);
    expect_rates(&solver.solve(settings).rates[..3], &[1.2; 3]);
    solver.set_count(3, 1);
    expect_rates(&solver.solve(settings).rates, &[0.6, 0.6, 0.6, 1.8]);
}

#[test]
fn invalid_networks_are_refused() {
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0)]);
    tree.flow(1, 2, f64::NAN);
    assert!(matches!(tree.network.check(), Err(NetworkError::NotPositive { what: "class", .. })));
    tree.network.classes[0].demand = 1.0;
    tree.network.classes[0].legs[0].reverse();
    assert!(matches!(tree.network.check(), Err(NetworkError::OutOfOrder { class: 0, .. })));
    tree.network.classes[0].legs[0][0].resource = 9;
    assert!(matches!(tree.network.check(), Err(NetworkError::NoSuchResource { .. })));
}

#[test]
fn turns_count_packets() {
    // Packets of 1 and of 0.25 units.
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0), (0, 4.0)]);
    tree.flow(1, 3, 10.0).flow(2, 3, 10.0);
    for hop in &mut tree.network.classes[1].legs[0] {
        hop.quantum = 0.25;
    }
    expect_rates(&tree.solve().rates, &[3.2, 0.8]);
}

/// Reads of 512 bytes, each by one of two tags for so long when nothing waits, whose answers of two packets in
/// a row meet at a sender of 4 bytes a nanosecond.
fn reads_of_two_tags(idle: [f64; 2]) -> Solution {
    let resource = |rank, capacity| Resource { rank, capacity, ..Resource::default() };
    let resources = vec![
        Resource { is_pool: true, ..resource(0, 2.0 * 512.0) },
        resource(1, 1e9),
        resource(1, 1e9),
        Resource { is_sender: true, ..resource(2, 4.0) },
    ];
    let class = |(idle, up): (f64, u32)| {
        let tags = ResourceVisit { resource: 0, port: NONE, quantum: idle, cost: idle };
        let answer = |resource, port| ResourceVisit { resource, port, quantum: 256.0, cost: 1.0 };
        let legs = vec![vec![tags], vec![answer(up, NONE), answer(3, up)]];
        Class { count: 1, demand: 10.0, legs, batch: vec![2.0; 2], ..Class::default() }
    };
    let classes = idle.into_iter().zip(1..).map(class).collect();
    let network = FlowNetwork { resources, classes };
    let mut solver = Solver::new(&network).expect("in order");
    solver.solve(SolverSettings { tolerance: 1e-9, ..SolverSettings::default() })
}

#[test]
fn unequal_round_trips_meet_by_half() {
    let rates = reads_of_two_tags([900.0, 1300.0]).rates;
    // The rates are equal, and of the other's answers, 128 ns each, half have a tag while this one has.
    let share = rates[0] / 4.0;
    let wait = share * 128.0 / 2.0 / 2.0 / (1.0 - 2.0 * share + share);
    expect_rates(&rates, &[1024.0 / (2200.0 + 2.0 * wait); 2]);
    assert!(wait > 4.0, "{wait}");
}

#[test]
fn equal_round_trips_stay_apart() {
    expect_rates(&reads_of_two_tags([1100.0; 2]).rates, &[1024.0 / 2200.0; 2]);
}
