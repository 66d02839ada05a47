//! Cases with a known answer.

use super::*;

/// `behind` drives behind a switch and one next to it, all writing into one x4 sink.
fn parking_lot(behind: usize) -> (Topology, Vec<FlowSpec>) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let hub = t.add_below(top, "switch", switch(), wire("8GT/s x16"));
    let drives =
        (0..behind).map(|i| t.add_below(hub, format!("d{i}"), endpoint(), wire("8GT/s x4")));
    let mut drives: Vec<NodeIndex> = drives.collect();
    drives.push(t.add_below(top, "direct", endpoint(), wire("8GT/s x4")));
    let sink = t.add_below(top, "sink", endpoint(), wire("8GT/s x4"));
    let flows = drives.iter().map(|&drive| FlowSpec::write("w", drive, sink)).collect();
    (t, flows)
}

#[test]
fn direct_device_equals_whole_switch() {
    for (behind, expected) in [(3, 0.60), (7, 0.26)] {
        let (t, flows) = parking_lot(behind);
        let found = rates(&simulated(&t, &flows, &window(8_000, 16)));
        for rate in &found[..behind] {
            assert_near(*rate, expected, 1.5, &format!("one of {behind} behind the switch"));
        }
        assert_near(found[behind], 1.80, 1.0, "the direct one");
    }
}

/// Rates of four drives into a hot sink and of a victim into an idle sink, over one x16 uplink.
fn victim(has_shared_queue: bool) -> Vec<f64> {
    let mut t = Topology::new();
    let complex = RootComplex { has_shared_queue, ..RootComplex::default() };
    let top = t.add("root", NodeKind::RootComplex(complex));
    let kind = NodeKind::Switch(Switch { has_shared_queue, ..Switch::default() });
    let hub = t.add_below(top, "switch", kind, wire("8GT/s x16"));
    let drives: Vec<NodeIndex> =
        (0..5).map(|i| t.add_below(hub, format!("d{i}"), endpoint(), wire("8GT/s x4"))).collect();
    let hot = t.add_below(top, "hot", endpoint(), wire("8GT/s x4"));
    let idle = t.add_below(top, "idle", endpoint(), wire("8GT/s x4"));
    let sinks = [hot, hot, hot, hot, idle];
    let flows: Vec<FlowSpec> =
        drives.iter().zip(sinks).map(|(&drive, sink)| FlowSpec::write("w", drive, sink)).collect();
    rates(&simulated(&t, &flows, &window(4_000, 16)))
}

#[test]
fn shared_queues_slow_a_victim() {
    for (is_shared, expected) in [(true, 0.90), (false, 3.59)] {
        let found = victim(is_shared);
        assert_near(found[4], expected, 1.5, "the victim");
        found[..4].iter().for_each(|rate| assert_near(*rate, 0.90, 1.5, "one of four"));
    }
}

#[test]
fn weights_divide_an_output() {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let hub = t.add_below(top, "switch", switch(), wire("8GT/s x4"));
    let nodes = ["a", "b"].map(|name| t.add_below(hub, name, endpoint(), wire("8GT/s x4")));
    let weights = vec![(t.link_above(nodes[0]).unwrap(), 3)];
    t.node_mut(hub).kind = NodeKind::Switch(Switch { weights, ..Switch::default() });
    let sink = t.add_below(top, "sink", endpoint(), wire("8GT/s x4"));
    let flows = nodes.map(|node| FlowSpec::write("w", node, sink));
    let found = rates(&simulated(&t, &flows, &window(4_000, 4)));
    assert_near(found[0] / found[1], 3.0, 1.0, "three turns to one");
}

#[test]
fn root_limits_apply_to_peers() {
    let (mut t, nodes, host) = devices(4, "8GT/s x4");
    let top = t.find("root").unwrap();
    let capped = RootComplex {
        p2p_write: Some(ByteRate(5_000_000_000)),
        p2p_read: Some(ByteRate(2_000_000_000)),
        ..RootComplex::default()
    };
    t.node_mut(top).kind = NodeKind::RootComplex(capped);
    let sum = |of: fn(&str, NodeIndex, NodeIndex) -> FlowSpec, to: [NodeIndex; 2]| {
        let flows = [of("p", nodes[0], to[0]), of("q", nodes[1], to[1])];
        rates(&simulated(&t, &flows, &window(1_000, 16))).iter().sum::<f64>()
    };
    let peers = [nodes[2], nodes[3]];
    assert_near(sum(|n, a, b| FlowSpec::write(n, a, b), peers), 5.0, 1.0, "writes");
    assert_near(sum(|n, a, b| FlowSpec::read(n, a, b), peers), 2.0, 1.0, "reads");
    let to_host = sum(|n, a, b| FlowSpec::write(n, a, b), [host, host]);
    assert_near(to_host, 2.0 * 3.59, 1.0, "writes to host memory");
}

#[test]
fn impossible_flows_are_errors() {
    let (mut t, nodes, host) = devices(2, "8GT/s x4");
    let top = t.find("root").unwrap();
    let writes_only = RootComplex { forwards_reads: false, ..RootComplex::default() };
    t.node_mut(top).kind = NodeKind::RootComplex(writes_only);
    let error = |flow| simulate(&t, &[flow], &window(10, 1)).unwrap_err();
    assert!(matches!(error(FlowSpec::write("w", nodes[0], top)), TlpError::NoMemory(..)));
    assert!(matches!(error(FlowSpec::write("w", host, nodes[0])), TlpError::NoInitiator(..)));
    let empty = FlowSpec::write("w", nodes[0], nodes[1]).with(Bytes::ZERO, 1);
    assert_eq!(error(empty), TlpError::Commands("w".into()));
    assert!(matches!(error(FlowSpec::write("w", nodes[0], nodes[0])), TlpError::Path { .. }));
    let source = PathError::ReadsNotForwarded("root".into());
    let read = error(FlowSpec::read("r", nodes[0], nodes[1]));
    assert_eq!(read, TlpError::Path { flow: "r".into(), source });
    simulated(&t, &[FlowSpec::read("r", nodes[0], host)], &window(100, 1));
}

#[test]
fn egress_buffers_keep_outputs_busy() {
    // A request of 512 bytes is answered in a burst of up to 8 completions, which the egress buffer of its output holds.
    // Without one, all but the last of k block the other output: k / (k - 1) of one output for both.
    let cases = [(64, 4, 512), (128, 4, 512), (256, 4, 512), (128, 2, 512), (128, 2, 4096)];
    for ((completion, width, request), train) in cases.into_iter().flat_map(|c| [(c, 1), (c, 8)]) {
        let mut t = Topology::new();
        let top = t.add("root", root());
        let mut host = HostMemory::default();
        host.memory.completion = Bytes(completion);
        let bare = Wire::bare(ByteRate(100_000_000_000), Picos::ZERO);
        let host = t.add_below(top, "host", NodeKind::HostMemory(host), bare);
        let below = t.add_below(top, "switch", switch(), wire("8GT/s x8"));
        let lanes = format!("8GT/s x{width}");
        let flow = |number: u32| {
            let kind = ModelEndpoint { mrrs: Bytes(request), ..ModelEndpoint::default() };
            let kind = NodeKind::Endpoint(kind);
            let device = t.add_below(below, number.to_string(), kind, wire(&lanes));
            FlowSpec::read(number.to_string(), device, host)
        };
        let flows: Vec<FlowSpec> = (0..8 / width).map(flow).collect();
        let all: f64 = rates(&simulated(&t, &flows, &window(2_000, train))).iter().sum();
        let link = gb(speed("8GT/s x8").read_ceiling(Bytes(completion)));
        assert_near(all, link, 1.5, "all");
    }
}
