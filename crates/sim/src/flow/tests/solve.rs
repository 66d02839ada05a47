use super::{FlowNetwork, NONE, NetworkFlow, Resource, ResourceVisit, Solver, SolverSettings};

const SETTINGS: SolverSettings = SolverSettings { tolerance: 1e-9, rounds: 2000 };

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
            for rank in [depths - depth, depths + depth] {
                tree.network.resources.push(Resource { capacity, rank });
            }
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
        self.network.flows.push(NetworkFlow { demand, legs, ..NetworkFlow::default() });
        self
    }

    /// Rates and limits of all flows.
    fn solve(&self) -> (Vec<f64>, Vec<Option<u32>>) {
        self.network.check().expect("numbers above zero");
        let mut solver = Solver::new(&self.network);
        solver.solve_all(SETTINGS);
        assert!(solver.residual <= SETTINGS.tolerance, "{}", solver.residual);
        let flows = 0..self.network.flows.len();
        let rates: Vec<f64> = flows.clone().map(|flow| solver.rate(flow)).collect();
        for (resource, load) in self.network.resources.iter().zip(self.network.load(&rates)) {
            assert!(load <= resource.capacity * (1.0 + 1e-6), "{load} on {}", resource.capacity);
        }
        (rates, flows.map(|flow| solver.limit(flow)).collect())
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
    expect_rates(&incast(3).solve().0, &[0.6, 0.6, 0.6, 1.8]);
    let seven: Vec<f64> = (0..7).map(|_| 1.8 / 7.0).chain([1.8]).collect();
    expect_rates(&incast(7).solve().0, &seven);
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
    expect_rates(&solution.0, &[0.9; 5]);
    assert_eq!(solution.1, vec![Some(3); 5], "the hot sink's link limits the victim, too");
}

#[test]
fn flows_that_fit_are_uncut() {
    let mut tree = LinkTree::new(&[(0, 10.0), (0, 10.0)]);
    let solution = tree.flow(1, 2, 3.0).flow(1, 2, 4.0).solve();
    expect_rates(&solution.0, &[3.0, 4.0]);
    assert_eq!(solution.1, [None, None]);
}

#[test]
fn slow_legs_leave_their_rest() {
    // Flow 0 is a relay: 1 to 2, then 2 to 3 over a slow link. Flow 1 shares the first stage only.
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0), (0, 1.0)]);
    let legs = vec![tree.leg(1, 2, 1.0), tree.leg(2, 3, 1.0)];
    tree.network.flows.push(NetworkFlow { demand: 10.0, legs, ..NetworkFlow::default() });
    tree.flow(1, 2, 10.0);
    let solution = tree.solve();
    expect_rates(&solution.0, &[1.0, 3.0]);
    assert_eq!(solution.1[0], Some(5));
}

#[test]
fn reads_load_both_directions() {
    // Completions of 1.1 bytes a byte from 1 to 2, requests of 0.05 the other way; a write the other
    // way leaves room for the requests only as its link does.
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0)]);
    let legs = vec![tree.leg(2, 1, 0.05), tree.leg(1, 2, 1.1)];
    tree.network.flows.push(NetworkFlow { demand: 10.0, legs, ..NetworkFlow::default() });
    let alone = tree.solve();
    expect_rates(&alone.0, &[4.0 / 1.1]);
    tree.flow(2, 1, 10.0);
    let read = 4.0 / 1.1;
    expect_rates(&tree.solve().0, &[read, 4.0 - 0.05 * read]);
}

#[test]
fn turns_count_packets() {
    // Packets of 1 and of 0.25 units.
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0), (0, 4.0)]);
    tree.flow(1, 3, 10.0).flow(2, 3, 10.0);
    for hop in &mut tree.network.flows[1].legs[0] {
        hop.quantum = 0.25;
    }
    expect_rates(&tree.solve().0, &[3.2, 0.8]);
}

#[test]
fn leaving_flows_free_their_share() {
    let tree = incast(3);
    let mut solver = Solver::new(&tree.network);
    solver.solve_all(SETTINGS);
    for (active, expected) in [(3, [1.2; 3].as_slice()), (4, &[0.6, 0.6, 0.6, 1.8])] {
        solver.solve(&(0..active).collect::<Vec<_>>(), SETTINGS);
        expect_rates(&(0..active).map(|flow| solver.rate(flow)).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn slow_answers_hold_all_tags() {
    // Tags for 4 bytes a nanosecond, an answer over a slow link and one over a fast link.
    let resources = [(0, 4.0), (1, 0.5), (1, 4.0)];
    let resources = resources.map(|(rank, capacity)| Resource { capacity, rank });
    let visit = |resource| ResourceVisit { resource, port: NONE, quantum: 1.0, cost: 1.0 };
    let read = |link| NetworkFlow {
        demand: 10.0,
        legs: vec![vec![visit(0)], vec![visit(link)]],
        tags: vec![(0, 1..2)],
        priority: Vec::new(),
    };
    let network = FlowNetwork { resources: resources.to_vec(), flows: vec![read(1), read(2)] };
    let mut solver = Solver::new(&network);
    solver.solve_all(SETTINGS);
    expect_rates(&[solver.rate(0), solver.rate(1)], &[0.5; 2]);
}

#[test]
fn numbers_without_meaning_are_refused() {
    let mut tree = LinkTree::new(&[(0, 4.0), (0, 4.0)]);
    tree.flow(1, 2, f64::NAN);
    let error = tree.network.check().expect_err("no number").to_string();
    assert_eq!(error, "flow 0 has NaN, which is not positive and finite");
}

#[test]
fn parts_share_no_resource() {
    let visit = |resource| ResourceVisit { resource, port: NONE, quantum: 1.0, cost: 1.0 };
    let flow = |resource, priority| NetworkFlow {
        demand: 1.0,
        legs: vec![vec![visit(resource)]],
        priority,
        ..NetworkFlow::default()
    };
    let resources = (0..3).map(|rank| Resource { capacity: 1.0, rank }).collect();
    let flows = vec![flow(2, vec![]), flow(0, vec![]), flow(2, vec![]), flow(0, vec![(1, 0.1)])];
    let parts = FlowNetwork { resources, flows }.parts();
    let numbers: Vec<_> =
        parts.iter().map(|part| (part.flows.as_slice(), part.resources.as_slice())).collect();
    assert_eq!(numbers, [(&[0, 2][..], &[2][..]), (&[1, 3], &[0, 1])]);
    assert_eq!(parts[1].network.flows[1].priority, [(1, 0.1)]);
    assert_eq!(parts[0].network.resources[0].rank, 2);
}
