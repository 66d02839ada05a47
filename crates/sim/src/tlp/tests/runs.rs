//! Seeds, extents, trains, and sound accounts of random flows.

use super::*;
use crate::generate::{Draws, LenderNames, fabric};

/// Writes, reads and a relay over one switch.
fn mixture() -> (Topology, Vec<FlowSpec>) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let bare = Wire::bare(ByteRate(1_000_000_000_000), Picos::ZERO);
    let host = t.add_below(top, "host", NodeKind::HostMemory(HostMemory::default()), bare);
    let hub = t.add_below(top, "switch", switch(), wire("16GT/s x8"));
    let drives: Vec<NodeIndex> = (0..6)
        .map(|i| {
            let above = if i < 4 { hub } else { top };
            t.add_below(above, format!("d{i}"), endpoint(), wire("16GT/s x4"))
        })
        .collect();
    let mut slow = FlowSpec::read("slow", drives[4], host).with(Bytes::kib(64), 4);
    slow.first.latency = Picos::micros(80);
    let flows = vec![
        FlowSpec::write("w", drives[0], drives[4]),
        FlowSpec::read("r", drives[1], drives[5]),
        FlowSpec::relay("relay", drives[2], host, drives[3]),
        slow,
    ];
    (t, flows)
}

#[test]
fn seeds_decide_figures() {
    let (t, mut flows) = mixture();
    flows[3].depth = 1;
    let figures = |seed| {
        let outcome = simulated(&t, &flows, &Settings { seed, ..window(500, 8) });
        let flows = outcome.flows.into_iter().map(|flow| (flow.bytes, flow.latency));
        (flows.collect::<Vec<_>>(), outcome.events)
    };
    assert_eq!(figures(0), figures(0));
    assert_ne!(figures(0), figures(1));
}

#[test]
fn windows_end_with_enough_commands() {
    let (t, flows) = mixture();
    let window = |events| {
        let settings = Settings { extent: RunLength::Window { events }, ..Settings::default() };
        simulate(&t, &flows, &settings).unwrap()
    };
    let outcome = window(u64::MAX);
    let counts = outcome.flows.iter().map(|flow| flow.latency.count());
    assert!(outcome.is_settled && counts.min() >= Some(256));
    let short = window(1);
    assert!(!short.is_settled && short.events < outcome.events, "{}", short.events);
}

/// Eight flows of all kinds on two sockets, with these queues and tags.
fn random_flows(seed: u64, is_shared: bool, tags: u32) -> (Topology, Vec<FlowSpec>) {
    let fabric = fabric(&format!("pods:1:{seed}")).unwrap().unwrap();
    let (lenders, mut draws) = (LenderNames::from_fabric(&fabric), Draws::new(seed));
    let mut t = Topology::from_fabric(&fabric, &ModelParameters::default()).unwrap();
    for at in (0..t.nodes().len()).map(|at| NodeIndex(u32::try_from(at).unwrap())) {
        match &mut t.node_mut(at).kind {
            NodeKind::Switch(switch) => switch.has_shared_queue = is_shared,
            NodeKind::RootComplex(root) => root.has_shared_queue = is_shared,
            NodeKind::Endpoint(endpoint) => endpoint.tags = tags,
            NodeKind::HostMemory(_) => {}
        }
    }
    let [host, first, second, third] =
        ["p0/host0", "p0/s00-d0", "p0/s00-d1", "p0/s00-d2"].map(|name| t.find(name).unwrap());
    let flow = |kind: usize| {
        let [one, other] = lenders.pair(&mut draws).map(|name| t.find(name).unwrap());
        let is_free = |d: &NodeIndex| *d != one && *d != other;
        let memory = [first, second, third].into_iter().find(is_free).unwrap();
        let flow = match kind % 4 {
            0 => FlowSpec::write("w", one, other),
            1 => FlowSpec::read("r", one, other),
            2 => FlowSpec::relay("relay", one, memory, other),
            _ => FlowSpec::relay("bounce", one, host, other),
        };
        flow.with(Bytes::kib(64), 8)
    };
    let flows = (0..8).map(flow).collect();
    (t, flows)
}

/// A simulation of broken accounts is an error.
#[test]
fn random_flows_are_sound() {
    let extent = RunLength::Steady { window: Picos::millis(1), most: Picos::millis(2) };
    for seed in 0..12 {
        let tags = if seed % 2 == 0 { 4 } else { 256 };
        let (t, flows) = random_flows(seed, seed % 3 > 0, tags);
        let train = if seed % 4 < 2 { TrainSizes::Auto } else { TrainSizes::Fixed(1) };
        let outcome = simulate(&t, &flows, &Settings { seed, train, extent }).unwrap();
        assert!(outcome.flows.iter().all(|flow| flow.bytes.0 > 0), "{seed}");
    }
}

#[test]
fn trains_keep_rates() {
    let (t, flows) = mixture();
    let [one, sixteen] =
        [1, 16].map(|packets| rates(&simulated(&t, &flows, &window(5_000, packets))));
    for ((flow, one), sixteen) in flows.iter().zip(one).zip(sixteen) {
        assert_near(sixteen, one, 1.0, &flow.name);
    }
}
