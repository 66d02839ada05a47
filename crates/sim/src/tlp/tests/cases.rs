use super::*;
use crate::flow::rates::Rates;

/// `behind` drives behind a switch and one beside it, all writing into one x4 sink.
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
fn a_direct_device_gets_as_much_as_a_switch_full_of_them() {
    for (behind, expected) in [(3, 0.60), (7, 0.26)] {
        let (t, flows) = parking_lot(behind);
        let found = rates(&simulated(&t, &flows, &window(8_000, 16)));
        for rate in &found[..behind] {
            assert_near(*rate, expected, 1.5, &format!("one of {behind} behind the switch"));
        }
        assert_near(found[behind], 1.80, 1.0, "the direct one");
    }
}

/// Four drives into a hot sink, one into an idle sink, over one x16 uplink.
fn victim(hol: Coupling) -> Vec<f64> {
    let mut t = Topology::new();
    let complex = RootComplex { hol, ..RootComplex::default() };
    let top = t.add("root", NodeKind::RootComplex(complex));
    let kind = NodeKind::Switch(Switch { hol, ..Switch::default() });
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
fn a_victim_of_a_shared_queue_gets_no_more_than_those_who_fill_it() {
    for rate in victim(Coupling::SHARED) {
        assert_near(rate, 0.90, 1.5, "each of five");
    }
}

#[test]
fn a_victim_with_a_queue_of_its_own_is_none() {
    let found = victim(Coupling::ISOLATED);
    for rate in &found[..4] {
        assert_near(*rate, 0.90, 1.5, "each of four");
    }
    assert_near(found[4], 3.59, 1.0, "the fifth");
}

/// What is shared less holds up less, from all of it to nothing.
#[test]
fn a_victim_gains_with_every_bit_of_coupling_less() {
    let shares = [1.0, 0.75, 0.5, 0.25, 0.0];
    let found = shares.map(|share| victim(Coupling::new(share)));
    for (two, share) in found.windows(2).zip(&shares[1..]) {
        assert!(two[1][4] > two[0][4] * 1.03, "{share}: {found:?}");
    }
    let hot: Vec<f64> = found.iter().map(|rates| rates[..4].iter().sum()).collect();
    assert!(hot.iter().all(|&rate| rate < 3.62), "the hot link carries no more: {hot:?}");
}

#[test]
fn weights_give_an_input_turns_in_a_row() {
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
fn the_root_complex_limits_peers_and_not_host_memory() {
    let (mut t, nodes, host) = devices(4, "8GT/s x4");
    let top = t.find("root").unwrap();
    let capped = RootComplex {
        p2p_write: Some(ByteRate(5_000_000_000)),
        p2p_read: Some(ByteRate(2_000_000_000)),
        ..RootComplex::default()
    };
    t.node_mut(top).kind = NodeKind::RootComplex(capped);
    let writes =
        [FlowSpec::write("p", nodes[0], nodes[2]), FlowSpec::write("q", nodes[1], nodes[3])];
    let found = rates(&simulated(&t, &writes, &window(1_000, 16)));
    assert_near(found.iter().sum(), 5.0, 1.0, "writes between peers");
    let reads = [FlowSpec::read("p", nodes[0], nodes[2]), FlowSpec::read("q", nodes[1], nodes[3])];
    let found = rates(&simulated(&t, &reads, &window(1_000, 16)));
    assert_near(found.iter().sum(), 2.0, 1.0, "reads between peers");
    let host = [FlowSpec::write("p", nodes[0], host), FlowSpec::write("q", nodes[1], host)];
    let found = rates(&simulated(&t, &host, &window(1_000, 16)));
    assert_near(found.iter().sum(), 2.0 * 3.59, 1.0, "writes to host memory");
}

#[test]
fn a_root_complex_that_passes_no_reads_is_an_error() {
    let (mut t, nodes, host) = devices(2, "8GT/s x4");
    let top = t.find("root").unwrap();
    let writes_only = RootComplex { forwards_reads: false, ..RootComplex::default() };
    t.node_mut(top).kind = NodeKind::RootComplex(writes_only);
    let refused = simulate(&t, &[FlowSpec::read("r", nodes[0], nodes[1])], &window(10, 1));
    let source = PathError::ReadsNotForwarded("root".into());
    assert_eq!(refused.unwrap_err(), TlpError::Path { flow: "r".into(), source });
    simulated(&t, &[FlowSpec::read("r", nodes[0], host)], &window(100, 1));
}

#[test]
fn flows_that_cannot_be_are_errors() {
    let (t, nodes, host) = devices(2, "8GT/s x4");
    let top = t.find("root").unwrap();
    let error = |flow| simulate(&t, &[flow], &window(10, 1)).unwrap_err();
    assert!(matches!(error(FlowSpec::write("w", nodes[0], top)), TlpError::NoMemory { .. }));
    assert!(matches!(error(FlowSpec::write("w", host, nodes[0])), TlpError::NoInitiator { .. }));
    let empty = FlowSpec::write("w", nodes[0], nodes[1]).with(Bytes::ZERO, 1);
    assert_eq!(error(empty), TlpError::Commands("w".into()));
    assert!(matches!(error(FlowSpec::write("w", nodes[0], nodes[0])), TlpError::Path { .. }));
}

#[test]
fn answers_in_a_row_keep_no_other_output_idle() {
    // Who reads 512 bytes gets them in a row of 8, 4, 2 or 1, which the egress buffer of its output holds; without one, all but
    // the last of k would stand in front of what is for the other: k / (k - 1) of one output for both. So do trains.
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
        let flows: Vec<FlowSpec> = (0..8 / width)
            .map(|number| {
                let kind = Endpoint { mrrs: Bytes(request), ..Endpoint::default() };
                let kind = NodeKind::Endpoint(kind);
                let device = t.add_below(below, number.to_string(), kind, wire(&lanes));
                FlowSpec::read(number.to_string(), device, host)
            })
            .collect();
        let all: f64 = rates(&simulated(&t, &flows, &window(2_000, train))).iter().sum();
        let link = gb(speed("8GT/s x8").read_ceiling(Bytes(completion)));
        assert_near(all, link, 1.5, "all");
    }
}

#[test]
fn a_link_is_busy_for_as_long_as_what_it_carries_takes() {
    // Bursts of a whole command wait in the egress buffer of the slower link, which is half full in the mean.
    let (mut t, top) = (Topology::new(), "root");
    let top = t.add(top, root());
    let from = t.add_below(top, "from", endpoint(), wire("8GT/s x8"));
    let to = t.add_below(top, "to", endpoint(), wire("8GT/s x4"));
    let mut flow = FlowSpec::write("w", from, to);
    (flow.request, flow.depth) = (Bytes::kib(64), 1);
    flow.first.latency = Picos::micros(18);
    let outcome = simulated(&t, &[flow], &window(4_000, 1));
    let seconds = outcome.measured.0 as f64 * 1e-12;
    for (link, lanes) in t.links().iter().zip(&outcome.links) {
        for sent in lanes {
            let bytes = (sent.wire.0 + sent.dllp.0) as f64 * link.wire.picos_per_kib as f64;
            let time = bytes / 1024.0 * 1e-12;
            assert!(sent.busy < 0.8, "{sent:?}");
            assert!(
                sent.wire.0 == 0 || (sent.busy * seconds / time - 1.0).abs() < 0.01,
                "{sent:?}"
            );
        }
    }
}

/// A reader of two lenders with 16 tags behind an x2 link. One lender is beside it, and one below a switch, by whose up-link
/// a stranger reads, too.
fn reader_and_stranger(tags: u32) -> (Topology, Vec<FlowSpec>) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let with = |tags| NodeKind::Endpoint(Endpoint { tags, ..Endpoint::default() });
    let reader = t.add_below(top, "reader", with(16), wire("8GT/s x2"));
    let beside = t.add_below(top, "beside", endpoint(), wire("8GT/s x4"));
    let hub = t.add_below(top, "switch", switch(), wire("8GT/s x4"));
    let below = t.add_below(hub, "below", endpoint(), wire("8GT/s x4"));
    let other = t.add_below(hub, "other", endpoint(), wire("8GT/s x4"));
    let stranger = t.add_below(top, "stranger", with(tags), wire("8GT/s x4"));
    let flows = [(reader, beside), (reader, below), (stranger, other)];
    (t, flows.map(|(by, of)| FlowSpec::read("r", by, of)).to_vec())
}

/// How long the stranger waits is how many of the reader's tags wait by that link: about half, which fluids had nothing to
/// tell by, so that the stranger got up to 39 % more than on packets.
#[test]
fn tags_wait_as_long_in_each_queue_of_one_full_output() {
    for tags in [2, 4, 8, 16] {
        let (t, flows) = reader_and_stranger(tags);
        let found = rates(&simulated(&t, &flows, &window(2_000, 1)));
        let fluid = Rates::of(&t, &flows, Default::default()).unwrap().solution.rates;
        for (position, percent) in [(0, 0.1), (1, 0.1), (2, 13.0)] {
            let what = format!("{tags} tags, {}", ["beside", "below", "stranger"][position]);
            assert_near(fluid[position], found[position], percent, &what);
        }
    }
}

/// Readers behind one link with as many tags between them, who all read from a device beside that link and one below a switch,
/// where a stranger reads, too. The last rate is the stranger's.
fn readers_and_stranger(count: u32) -> (Topology, Vec<FlowSpec>) {
    let mut t = Topology::new();
    let top = t.add("root", root());
    let with = |tags| NodeKind::Endpoint(Endpoint { tags, ..Endpoint::default() });
    let hub = t.add_below(top, "hub", switch(), wire("8GT/s x4"));
    let reader = |i| t.add_below(hub, format!("r{i}"), with(48 / count), wire("8GT/s x4"));
    let readers: Vec<NodeIndex> = (0..count).map(reader).collect();
    let near = t.add_below(top, "near", endpoint(), wire("8GT/s x4"));
    let next = t.add_below(top, "next", switch(), wire("8GT/s x4"));
    let far = t.add_below(next, "far", endpoint(), wire("8GT/s x4"));
    let other = t.add_below(next, "other", endpoint(), wire("8GT/s x4"));
    let stranger = t.add_below(top, "stranger", with(4), wire("8GT/s x4"));
    let pairs = readers.iter().flat_map(|&by| [(by, near), (by, far)]).chain([(stranger, other)]);
    let flows = pairs.map(|(by, of)| FlowSpec::read("r", by, of)).collect();
    (t, flows)
}

/// However many readers would make these queues as long as each other, they do it once between them. With four tags each
/// packets find a pattern that keeps one of both queues short.
#[test]
fn many_readers_wait_as_long_in_two_queues_as_one() {
    let mut alone = None;
    for count in [1, 2, 3, 6, 12, 24] {
        let (t, flows) = readers_and_stranger(count);
        let fluid = Rates::of(&t, &flows, Default::default()).unwrap().solution.rates;
        let stranger = fluid[flows.len() - 1];
        assert_near(stranger, *alone.get_or_insert(stranger), 2.0, &format!("{count} readers"));
        if count <= 6 {
            let found = rates(&simulated(&t, &flows, &window(2_000, 1)));
            assert_near(fluid[0], found[0], 0.1, &format!("one of {count} readers"));
            let what = format!("the stranger beside {count} readers");
            assert_near(stranger, found[flows.len() - 1], 8.0, &what);
        }
    }
}

/// More strangers, with a tag each: they leave both queues as long as the reader makes them, until there are so many that the
/// link between them is full, behind which no queue grows.
#[test]
fn strangers_leave_a_queue_as_long_as_a_reader_makes_it_until_its_link_is_full() {
    for more in [1, 6, 10, 20] {
        let (mut t, mut flows) = readers_and_stranger(1);
        let (first, other) = (flows.len() - 1, flows[flows.len() - 1].memory);
        let one = NodeKind::Endpoint(Endpoint { tags: 1, ..Endpoint::default() });
        for number in 0..more {
            let by = t.add_below(NodeIndex(0), format!("s{number}"), one.clone(), wire("8GT/s x4"));
            flows.push(FlowSpec::read("r", by, other));
        }
        let found = rates(&simulated(&t, &flows, &window(2_000, 1)));
        let fluid = Rates::of(&t, &flows, Default::default()).unwrap().solution.rates;
        assert_near(fluid[first], found[first], 4.0, &format!("{more} more strangers"));
    }
}
