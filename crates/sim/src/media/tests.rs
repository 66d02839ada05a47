//! One medium that is read and written, by arithmetic and by both engines.

use peerlane_units::{ByteRate, Bytes};

use crate::closed::{By, Closed};
use crate::flow::build::{Built, What};
use crate::flow::compare::compare;
use crate::model::{
    Endpoint, FlowSpec, HostMemory, Memory, NodeIndex, NodeKind, Op, Picos, RootComplex, Store,
    Topology, Wire,
};

/// Gigabytes a second that a drive reads and writes.
const READ: f64 = 3.3;
const WRITE: f64 = 2.0;
/// Gigabytes a second of both, one after the other.
const SERIAL: f64 = 1.0 / (1.0 / READ + 1.0 / WRITE);

/// Drives and host memory below one root complex, which limits nothing.
fn drives<const COUNT: usize>(mixed: f64) -> (Topology, [NodeIndex; COUNT], NodeIndex) {
    let mut topology = Topology::new();
    let root = topology.add("root", NodeKind::RootComplex(RootComplex::default()));
    let on_chip = Wire::bare(ByteRate(1_000_000_000_000), Picos::ZERO);
    let host = NodeKind::HostMemory(HostMemory::default());
    let host = topology.add_below(root, "host", host, on_chip);
    let wire = Wire::pcie("16GT/s x4".parse().expect("a link"), Bytes(256));
    let [posts, fetches] = [rate(READ), rate(WRITE)];
    let drive = NodeKind::Endpoint(Endpoint { posts, fetches, mixed, ..Endpoint::default() });
    let add = |number| topology.add_below(root, format!("d{number}"), drive.clone(), wire);
    let drives = std::array::from_fn(add);
    (topology, drives, host)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
fn rate(gigabytes: f64) -> Option<ByteRate> {
    Some(ByteRate((gigabytes * 1e9) as u64))
}

fn endpoint(topology: &mut Topology, node: NodeIndex) -> &mut Endpoint {
    let NodeKind::Endpoint(endpoint) = &mut topology.node_mut(node).kind else {
        panic!("a device")
    };
    endpoint
}

/// A flow whose first leg is limited to a rate.
fn limited(mut flow: FlowSpec, gigabytes: f64) -> FlowSpec {
    flow.first.bound = rate(gigabytes);
    flow
}

/// A flow whose last leg has commands of which the medium does so much.
fn slow(mut flow: FlowSpec, gigabytes: f64) -> FlowSpec {
    flow.legs_mut().last().expect("a leg").commands = rate(gigabytes);
    flow
}

/// Rates by the flow engine, which the TLP engine confirms within 1 %.
#[track_caller]
fn rates<const COUNT: usize>(topology: &Topology, flows: [FlowSpec; COUNT]) -> [f64; COUNT] {
    let compared = compare(topology, &flows);
    assert!(compared.is_settled && compared.worst() < 0.01, "{compared:?}");
    compared.flow.try_into().expect("a rate for each flow")
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{found} is not {expected}");
}

/// A read and a write of one drive at once.
fn both(mixed: f64) -> (Topology, FlowSpec, FlowSpec) {
    let (topology, [drive], host) = drives(mixed);
    (topology, FlowSpec::write("read", drive, host), FlowSpec::read("write", drive, host))
}

fn built(topology: &Topology, flows: &[FlowSpec]) -> Built {
    let demands = vec![9.0; flows.len()];
    Built::of(topology, flows, &demands).expect("there are paths")
}

#[test]
fn reads_and_writes_take_turns_of_equal_bytes() {
    let (topology, read, write) = both(1.0);
    for (reads, writes) in [(128, 128), (4, 128), (128, 4), (4, 4)] {
        let depth = |kib: u32| (Bytes::kib(kib.into()), 2048 / kib);
        let [(read_size, read_depth), (write_size, write_depth)] = [depth(reads), depth(writes)];
        let flows =
            [read.clone().with(read_size, read_depth), write.clone().with(write_size, write_depth)];
        let found = rates(&topology, flows);
        assert_near(found[0] / READ + found[1] / WRITE, 1.0);
        assert_near(found[0], found[1]);
    }
    let found = rates(&topology, [limited(read, 0.5), write]);
    assert_near(found[0], 0.5);
    assert_near(found[1], WRITE * (1.0 - 0.5 / READ));
}

#[test]
fn mixed_limits_the_sum_of_shares() {
    for (mixed, expected) in
        [(0.5, [0.5 * SERIAL, 0.5 * SERIAL]), (1.7, [READ * 0.7, WRITE]), (2.0, [READ, WRITE])]
    {
        let (topology, read, write) = both(mixed);
        let found = rates(&topology, [read, write]);
        assert_near(found[0], expected[0]);
        assert_near(found[1], expected[1]);
    }
}

#[test]
fn slow_commands_take_more_time() {
    let (topology, read, write) = both(1.0);
    let found = rates(&topology, [read, limited(slow(write, 1.0), 0.2)]);
    assert_near(found[1], 0.2);
    assert_near(found[0], READ * 0.8);
}

#[test]
fn commands_of_one_direction_are_shared() {
    for mixed in [1.0, 1.5, 2.0] {
        let (topology, read, write) = both(mixed);
        let one = || limited(slow(write.clone(), 1.0), 1.0);
        assert_near(rates(&topology, [one()])[0], 1.0);
        let found = rates(&topology, [one(), one()]);
        assert_near(found[0] + found[1], 1.0);
        assert_near(found[0], found[1]);
        let found = rates(&topology, [one(), write.clone()]);
        assert_near(found[0] + found[1] / WRITE, 1.0);
        assert_near(found[0], found[1]);
        let found = rates(&topology, [one(), one(), limited(read, 0.33)]);
        assert_near(found[2], 0.33);
        assert_near(found[0] + found[1], if mixed > 1.0 { 1.0 } else { 0.9 });
    }
}

#[test]
fn all_to_all_shares_every_drive() {
    let (topology, [a, b, c], host) = drives(1.0);
    let copy = |(from, to)| FlowSpec::relay("copy", from, host, to).with(Bytes::kib(128), 8);
    let found = rates(&topology, [(a, b), (a, c), (b, a), (b, c), (c, a), (c, b)].map(copy));
    // Two flows read each drive, and two write it.
    found.into_iter().for_each(|rate| assert_near(rate, SERIAL / 2.0));
}

#[test]
fn relays_through_own_memory_use_the_medium() {
    let (mut topology, [a, b], host) = drives(1.0);
    let into = FlowSpec::relay("copy", a, b, b);
    let found = rates(&topology, [into.clone(), FlowSpec::write("read", b, host)]);
    assert_near(found[0] / WRITE + found[1] / READ, 1.0);
    assert_near(found[0], found[1]);
    let from = FlowSpec::relay("copy", b, b, a);
    let found = rates(&topology, [from, FlowSpec::read("write", b, host)]);
    assert_near(found[0] / READ + found[1] / WRITE, 1.0);
    assert_near(found[0], found[1]);
    // Without a medium, moving data to its memory is enough.
    endpoint(&mut topology, b).fetches = None;
    assert_near(rates(&topology, [into])[0], READ);
}

#[test]
fn one_slot_alternates_between_legs() {
    let (topology, [a, b], _) = drives(2.0);
    for memory in [a, b] {
        let copy = FlowSpec::relay("copy", a, memory, b).with(Bytes::mib(1), 1);
        assert_near(Closed::for_flow(&topology, &copy).expect("a path").rate(), SERIAL);
        assert_near(rates(&topology, [copy])[0], SERIAL);
    }
}

#[test]
fn copies_within_a_drive_take_both_rates() {
    let (topology, [drive], host) = drives(1.0);
    let own = FlowSpec::relay("copy", drive, drive, drive);
    let crossed = built(&topology, std::slice::from_ref(&own)).what;
    assert!(crossed.iter().all(|what| matches!(what, What::Medium(..))), "{crossed:?}");
    assert_near(rates(&topology, [own])[0], SERIAL);
    let copy = FlowSpec::relay("copy", drive, host, drive);
    let closed = Closed::for_flow(&topology, &copy).expect("a path");
    assert_eq!(closed.bounds[0].by, By::Resource(What::Medium(drive, None)));
    assert_near(closed.rate(), SERIAL);
    assert_near(rates(&topology, [copy])[0], SERIAL);
}

#[test]
fn slots_and_requests_share_one_direction() {
    // At 2, the sum of both directions is not a limit.
    for mixed in [0.5, 1.5, 2.0] {
        let (topology, [a, b], host) = drives(mixed);
        let (write, read) = (FlowSpec::read("write", b, host), FlowSpec::write("read", b, host));
        let written = FlowSpec::relay("copy in", a, b, b);
        let found = rates(&topology, [written.clone(), write.clone()]);
        assert_near(found[0], WRITE / 2.0);
        assert_near(found[1], WRITE / 2.0);
        if mixed < 1.0 {
            continue;
        }
        let found = rates(&topology, [written.clone(), write.clone(), limited(read.clone(), 0.3)]);
        assert_near(found[0] + found[1], WRITE);
        assert_near(found[2], 0.3);
        let from = FlowSpec::relay("copy out", b, b, a);
        let found = rates(&topology, [from, read.clone(), limited(write.clone(), 0.3)]);
        assert_near(found[0] + found[1], READ);
        let found = rates(&topology, [slow(written, 1.0), write, limited(read, 0.3)]);
        assert_near(found[0] + found[1] / WRITE, 1.0);
        assert_near(found[0], found[1]);
    }
}

#[test]
fn one_direction_alone_has_no_mixed_law() {
    for op in [Op::Write, Op::Read] {
        let (mut topology, read, write) = both(0.5);
        let flow = if op == Op::Write { read.clone() } else { write.clone() };
        let drive = flow.first.initiator;
        let alone = built(&topology, &[flow.clone(), flow]);
        assert!(alone.find(What::Medium(drive, Some(op))).is_some());
        assert!(alone.find(What::Medium(drive, None)).is_none());
        endpoint(&mut topology, drive).fetches = None;
        assert!(built(&topology, &[read, write]).find(What::Medium(drive, None)).is_none());
    }
}

/// Two drives, and a card whose memory is written at 2 GB/s and read at 1.5.
fn with_card(is_shared: bool) -> (Topology, [NodeIndex; 3], NodeIndex) {
    let (mut topology, [a, b], host) = drives(1.0);
    let memory = Memory { write: rate(2.0), read: rate(1.5), is_shared, ..Memory::default() };
    let card = NodeKind::Endpoint(Endpoint { memory, ..Endpoint::default() });
    let wire = Wire::pcie("16GT/s x16".parse().expect("a link"), Bytes(256));
    let root = topology.find("root").expect("it is there");
    let card = topology.add_below(root, "card", card, wire);
    (topology, [a, b, card], host)
}

#[test]
fn a_device_shares_its_memory_with_others() {
    for is_shared in [false, true] {
        let (topology, [a, b, card], host) = with_card(is_shared);
        let own = |mut flow: FlowSpec| {
            flow.first.store = Store::Memory;
            flow
        };
        let into = || own(FlowSpec::read("in", card, host));
        let out = || own(FlowSpec::write("out", card, host));
        let written = |drive| FlowSpec::write("written", drive, card);
        assert_near(rates(&topology, [into()])[0], 2.0);
        assert_near(rates(&topology, [out()])[0], 1.5);
        let found = rates(&topology, [into(), into(), written(a), written(b)]);
        found.into_iter().for_each(|rate| assert_near(rate, 0.5));
        let found = rates(&topology, [out(), written(a)]);
        let shared = 1.0 / (1.0 / 1.5 + 1.0 / 2.0);
        let expected = if is_shared { [shared, shared] } else { [1.5, 2.0] };
        assert_near(found[0], expected[0]);
        assert_near(found[1], expected[1]);
    }
}

#[test]
fn bounces_end_in_device_memory() {
    let (topology, [a, b, card], host) = with_card(true);
    let mut to = FlowSpec::relay("bounce", a, host, card);
    to.second.as_mut().expect("two legs").store = Store::Memory;
    let mut from = FlowSpec::relay("bounce", card, host, a);
    from.first.store = Store::Memory;
    for (flow, expected) in [(to, 2.0), (from, 1.5)] {
        let closed = Closed::for_flow(&topology, &flow).expect("a path");
        let by = By::Resource(What::Memory(card, None));
        assert!(closed.bounds.iter().any(|bound| bound.by == by), "{closed:?}");
        assert_near(closed.rate(), expected);
        assert_near(rates(&topology, [flow])[0], expected);
    }
    assert_near(rates(&topology, [FlowSpec::relay("bounce", a, host, b)])[0], WRITE);
}
