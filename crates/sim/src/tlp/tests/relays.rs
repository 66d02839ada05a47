//! Relays: two legs joined by slots of a memory.

use super::*;

#[test]
fn one_slot_serialises_legs() {
    let (t, nodes, host) = devices(2, "8GT/s x4");
    let alone = |flow: FlowSpec| {
        let outcome = simulated(&t, &[flow.with(Bytes::mib(1), 1)], &window(20_000, 16));
        rates(&outcome)[0]
    };
    let write = alone(FlowSpec::write("w", nodes[0], host));
    let read = alone(FlowSpec::read("r", nodes[1], host));
    let serial = alone(FlowSpec::relay("s", nodes[0], host, nodes[1]));
    assert_near(serial, 1.0 / (1.0 / write + 1.0 / read), 1.0, "serial");
}

#[test]
fn many_slots_overlap_legs() {
    let (t, nodes, host) = devices(2, "8GT/s x4");
    let relay = FlowSpec::relay("s", nodes[0], host, nodes[1]);
    let expected = gb(speed("8GT/s x4").read_ceiling(Bytes(64)));
    let found = rates(&simulated(&t, &[relay], &window(5_000, 16)));
    assert_near(found[0], expected, 1.0, "as fast as the slower leg");
}

/// Rates of a write and a read of one memory with these rates.
fn sharing(rates_of: [u64; 2], bound: Option<u64>) -> Vec<f64> {
    let (mut t, nodes, _) = devices(3, "8GT/s x4");
    let [write, read] = rates_of.map(|rate| Some(ByteRate(rate)));
    let memory = TargetMemory { write, read, ..TargetMemory::default() };
    t.node_mut(nodes[2]).kind =
        NodeKind::Endpoint(ModelEndpoint { memory, ..ModelEndpoint::default() });
    let mut writes = FlowSpec::write("w", nodes[0], nodes[2]);
    writes.first.bound = bound.map(ByteRate);
    let flows = [writes, FlowSpec::read("r", nodes[1], nodes[2])];
    rates(&simulated(&t, &flows, &window(2_000, 16)))
}

#[test]
fn memory_turns_are_equal_bytes() {
    // In order of arrival 256 requests of 512 bytes would be ahead of every 16 KiB of writes.
    for rate in sharing([2_000_000_000; 2], None) {
        assert_near(rate, 1.0, 1.0, "half of the time");
    }
    for rate in sharing([2_000_000_000, 4_000_000_000], None) {
        assert_near(rate, 1.0 / (1.0 / 2.0 + 1.0 / 4.0), 1.0, "two thirds and one third");
    }
    let found = sharing([2_000_000_000; 2], Some(300_000_000));
    assert_near(found[0], 0.3, 1.0, "less than its turns");
    assert_near(found[1], 1.7, 1.0, "the rest");
}
