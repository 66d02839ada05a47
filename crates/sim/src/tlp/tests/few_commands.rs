//! Flows of few commands.

use super::*;

/// Writes of a mebibyte from devices below one switch, one at a time each, after so many microseconds of latency.
fn pairs(count: usize, micros: u64) -> (Topology, Vec<FlowSpec>) {
    let mut topology = Topology::new();
    let top = topology.add("root", root());
    let below = topology.add_below(top, "switch", switch(), wire("8GT/s x4"));
    let mut flow = |at: usize| {
        let source = topology.add_below(below, format!("a{at}"), endpoint(), wire("8GT/s x4"));
        let target = topology.add_below(top, format!("b{at}"), endpoint(), wire("8GT/s x4"));
        let mut flow = FlowSpec::write("w", source, target).with(Bytes::mib(1), 1);
        flow.first.latency = Picos::micros(micros);
        flow
    };
    let flows = (0..count).map(&mut flow).collect();
    (topology, flows)
}

/// A mebibyte takes 292 us on the link. Mean-value analysis: two customers complete 2 / (300 + 292 (1 + 292 / 592)) commands
/// a microsecond. With constant times they would meet at every command: 2.37 GB/s.
#[test]
fn single_commands_form_a_closed_network() {
    for (count, micros, expected) in [(2, 300, 2.85), (3, 300, 3.35), (2, 100, 3.44)] {
        let (t, flows) = pairs(count, micros);
        let found = rates(&simulated(&t, &flows, &window(100_000, 16)));
        assert_near(found.iter().sum(), expected, 3.0, "all");
    }
}

#[test]
fn jitter_is_at_most_a_tenth() {
    let (t, d, _) = devices(4, "8GT/s x4");
    let flow = |from: usize, to: usize| {
        let mut flow = FlowSpec::write("w", d[from], d[to]).with(Bytes::kib(64), 1);
        flow.first.latency = Picos::micros(20);
        flow
    };
    let of = |flows: &[FlowSpec]| {
        let outcome = simulated(&t, flows, &window(50_000, 16));
        [0.5, 1.0].map(|share| outcome.flows[0].latency.quantile(share).0 as f64)
    };
    let alone = of(&[flow(0, 1)]);
    assert_eq!(alone[0], alone[1]);
    let beside = of(&[flow(0, 1), flow(2, 3)]);
    assert_near(beside[1], 1.1 * alone[1], 1.0, "longest");
    assert_near(beside[0], alone[0], 2.0, "median");
}

#[test]
fn rate_limit_paces_after_a_pause() {
    let (t, mut flows) = pairs(1, 300);
    flows[0].first.bound = Some(ByteRate(2_000_000_000));
    let outcome = simulated(&t, &flows, &window(50_000, 16));
    assert_near(rates(&outcome)[0], 1.048_576 / (0.3 + 1.048_576 / 2.0), 1.0, "bounded");
}
