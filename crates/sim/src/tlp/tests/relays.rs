use super::*;

#[test]
fn one_slot_moves_as_fast_as_both_legs_one_after_the_other() {
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
fn many_slots_move_as_fast_as_the_slower_leg() {
    let (t, nodes, host) = devices(2, "8GT/s x4");
    let relay = FlowSpec::relay("s", nodes[0], host, nodes[1]);
    let outcome = simulated(&t, &[relay], &window(5_000, 16));
    let expected = gb(speed("8GT/s x4").read_ceiling(Bytes(64)));
    assert_near(rates(&outcome)[0], expected, 1.0, "pipelined");
}

#[test]
fn a_bounce_goes_through_host_memory_twice_and_a_relay_never() {
    let (t, nodes, host) = devices(2, "8GT/s x4");
    let bounce =
        simulated(&t, &[FlowSpec::relay("b", nodes[0], host, nodes[1])], &window(5_000, 16));
    let memory = bounce.memories[host.0 as usize];
    let moved = bounce.flows[0].bytes.0 as f64;
    assert_near(memory.written.0 as f64 / moved, 1.0, 1.0, "written");
    assert_near(memory.read.0 as f64 / moved, 1.0, 1.0, "read");

    // The target lends the slots, so its own reads of them stay inside it.
    let direct = simulated(&t, &[FlowSpec::write("p", nodes[0], nodes[1])], &window(1_000, 16));
    assert_eq!(direct.memories[host.0 as usize], MemoryOutcome::default());
}

#[test]
fn a_relay_through_a_third_device_takes_both_its_directions() {
    let (t, nodes, _) = devices(3, "8GT/s x4");
    let relay = FlowSpec::relay("b", nodes[0], nodes[2], nodes[1]);
    let outcome = simulated(&t, &[relay], &window(5_000, 16));
    let link = t.link_above(nodes[2]).unwrap();
    let [up, down] = outcome.links[link.0 as usize];
    let moved = outcome.flows[0].bytes.0 as f64;
    assert_near(up.payload.0 as f64 / moved, 1.0, 2.0, "up");
    assert_near(down.payload.0 as f64 / moved, 1.0, 2.0, "down");
    assert!(up.busy > 0.5 && up.busy <= 1.0 && down.busy > 0.5 && down.busy <= 1.0);
}

/// A write and a read of one memory, which writes and reads so many GB/s: what both get.
fn beside_each_other(rates_of: [u64; 2], bound: Option<u64>) -> Vec<f64> {
    let (mut t, nodes, _) = devices(3, "8GT/s x4");
    let [write, read] = rates_of.map(|rate| Some(ByteRate(rate)));
    let memory = Memory { write, read, ..Memory::default() };
    t.node_mut(nodes[2]).kind = NodeKind::Endpoint(Endpoint { memory, ..Endpoint::default() });
    let mut writes = FlowSpec::write("w", nodes[0], nodes[2]);
    writes.first.bound = bound.map(ByteRate);
    let flows = [writes, FlowSpec::read("r", nodes[1], nodes[2])];
    rates(&simulated(&t, &flows, &window(2_000, 16)))
}

#[test]
fn reads_and_writes_of_a_memory_take_turns_of_equal_bytes() {
    // In order of arrival 256 requests of 512 bytes were ahead of every 16 KiB of writes.
    for rate in beside_each_other([2_000_000_000; 2], None) {
        assert_near(rate, 1.0, 1.0, "half of the time");
    }
    for rate in beside_each_other([2_000_000_000, 4_000_000_000], None) {
        assert_near(
            rate,
            1.0 / (1.0 / 2.0 + 1.0 / 4.0),
            1.0,
            "as many bytes in two thirds and in one",
        );
    }
    let found = beside_each_other([2_000_000_000; 2], Some(300_000_000));
    assert_near(found[0], 0.3, 1.0, "less than its turns");
    assert_near(found[1], 1.7, 1.0, "what that leaves");
}
