//! One medium that is read and written, by arithmetic and by both engines.

use peerlane_units::{ByteRate, Bytes};

use crate::closed::{By, Closed};
use crate::flow::build::Built;
use crate::flow::tests::compare;
use crate::model::tests::{GEN4_X4, star};
use crate::model::{
    FlowSpec, HostMemory, ModelEndpoint, NodeIndex, NodeKind, Op, PayloadStore, ResourceOrigin,
    TargetMemory, Topology, Wire,
};

/// Gigabytes a second that a drive reads and writes.
const READ: f64 = 3.3;
const WRITE: f64 = 2.0;
/// Gigabytes a second of both, one after the other.
const SERIAL: f64 = 1.0 / (1.0 / READ + 1.0 / WRITE);

/// Drives and host memory below one root complex.
fn drives<const COUNT: usize>(mixed: f64) -> (Topology, [NodeIndex; COUNT], NodeIndex) {
    let [posts, fetches] = [rate(READ), rate(WRITE)];
    let drive = ModelEndpoint { posts, fetches, mixed, ..ModelEndpoint::default() };
    let wire = Wire::pcie(GEN4_X4, Bytes(256));
    let (topology, drives, host) = star(COUNT, &drive, HostMemory::default(), wire);
    (topology, drives.try_into().expect("all drives"), host)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
fn rate(gigabytes: f64) -> Option<ByteRate> {
    Some(ByteRate((gigabytes * 1e9) as u64))
}

/// A flow whose first leg is limited to a rate.
fn limited(mut flow: FlowSpec, gigabytes: f64) -> FlowSpec {
    flow.first.bound = rate(gigabytes);
    flow
}

/// A flow whose last leg has commands that the medium does so much of.
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

#[track_caller]
fn assert_rates<const COUNT: usize>(
    topology: &Topology,
    flows: [FlowSpec; COUNT],
    expected: [f64; COUNT],
) {
    for (found, expected) in rates(topology, flows).into_iter().zip(expected) {
        assert_near(found, expected);
    }
}

/// A read and a write of one drive at once.
fn both(mixed: f64) -> (Topology, FlowSpec, FlowSpec) {
    let (topology, [drive], host) = drives(mixed);
    (topology, FlowSpec::write("read", drive, host), FlowSpec::read("write", drive, host))
}

fn built(topology: &Topology, flows: &[FlowSpec]) -> Built {
    Built::new(topology, flows, &vec![9.0; flows.len()]).expect("there are paths")
}

#[test]
fn reads_and_writes_alternate_by_bytes() {
    let (topology, read, write) = both(1.0);
    for (reads, writes) in [(128, 128), (4, 128), (128, 4)] {
        let sized =
            |flow: &FlowSpec, kib: u32| flow.clone().with(Bytes::kib(kib.into()), 2048 / kib);
        assert_rates(&topology, [sized(&read, reads), sized(&write, writes)], [SERIAL; 2]);
    }
    let rest = WRITE * (1.0 - 0.5 / READ);
    assert_rates(&topology, [limited(read.clone(), 0.5), write.clone()], [0.5, rest]);
    assert_rates(&topology, [read, limited(slow(write, 1.0), 0.2)], [READ * 0.8, 0.2]);
}

#[test]
fn mixed_limits_the_sum_of_shares() {
    for (mixed, expected) in
        [(0.5, [0.5 * SERIAL, 0.5 * SERIAL]), (1.7, [READ * 0.7, WRITE]), (2.0, [READ, WRITE])]
    {
        let (topology, read, write) = both(mixed);
        assert_rates(&topology, [read, write], expected);
    }
    // One direction alone is limited by its rate.
    let (topology, read, _) = both(0.5);
    let alone = built(&topology, &[read.clone(), read.clone()]);
    let drive = read.first.initiator;
    assert!(alone.find(ResourceOrigin::Medium(drive, Some(Op::Write))).is_some());
    assert!(alone.find(ResourceOrigin::Medium(drive, None)).is_none());
}

#[test]
fn commands_of_one_direction_are_shared() {
    for mixed in [1.0, 2.0] {
        let (topology, read, write) = both(mixed);
        let one = || limited(slow(write.clone(), 1.0), 1.0);
        assert_rates(&topology, [one()], [1.0]);
        assert_rates(&topology, [one(), one()], [0.5; 2]);
        assert_rates(&topology, [one(), write.clone()], [WRITE / (WRITE + 1.0); 2]);
        let found = rates(&topology, [one(), one(), limited(read, 0.33)]);
        assert_near(found[2], 0.33);
        assert_near(found[0] + found[1], if mixed > 1.0 { 1.0 } else { 0.9 });
    }
}

#[test]
fn relays_through_own_memory_use_medium() {
    let (mut topology, [a, b], host) = drives(1.0);
    let into = FlowSpec::relay("copy", a, b, b);
    let read = FlowSpec::write("read", b, host);
    assert_rates(&topology, [into.clone(), read], [SERIAL; 2]);
    let from = FlowSpec::relay("copy", b, b, a);
    assert_rates(&topology, [from, FlowSpec::read("write", b, host)], [SERIAL; 2]);
    // Without a medium, moving data to its memory is enough.
    let NodeKind::Endpoint(card) = &mut topology.node_mut(b).kind else { panic!("a device") };
    card.fetches = None;
    assert_rates(&topology, [into], [READ]);
}

#[test]
fn copies_within_drive_take_both_rates() {
    let (topology, [a, b], host) = drives(1.0);
    let own = FlowSpec::relay("copy", a, a, a);
    let crossed = built(&topology, std::slice::from_ref(&own)).what;
    assert!(crossed.iter().all(|what| matches!(what, ResourceOrigin::Medium(..))), "{crossed:?}");
    let copy = FlowSpec::relay("copy", a, host, a);
    let closed = Closed::for_flow(&topology, &copy).expect("a path");
    assert_eq!(closed.bounds[0].by, By::Resource(ResourceOrigin::Medium(a, None)));
    // One slot alternates between the legs.
    let slots = [a, b].map(|memory| FlowSpec::relay("copy", a, memory, b).with(Bytes::mib(1), 1));
    for flow in [own, copy].into_iter().chain(slots) {
        assert_near(Closed::for_flow(&topology, &flow).expect("a path").rate(), SERIAL);
        assert_rates(&topology, [flow], [SERIAL]);
    }
}

#[test]
fn slots_and_requests_share_one_direction() {
    // At 2, the sum of both directions is not a limit.
    for mixed in [1.5, 2.0] {
        let (topology, [a, b], host) = drives(mixed);
        let (write, read) = (FlowSpec::read("write", b, host), FlowSpec::write("read", b, host));
        let written = FlowSpec::relay("copy in", a, b, b);
        assert_rates(&topology, [written.clone(), write.clone()], [WRITE / 2.0; 2]);
        let from = FlowSpec::relay("copy out", b, b, a);
        let found = rates(&topology, [from, read.clone(), limited(write.clone(), 0.3)]);
        assert_near(found[0] + found[1], READ);
        let share = WRITE / (WRITE + 1.0);
        let flows = [slow(written, 1.0), write, limited(read, 0.3)];
        assert_rates(&topology, flows, [share, share, 0.3]);
    }
}

/// Two drives, and a card whose memory is written at 2 GB/s and read at 1.5.
fn with_card(is_shared: bool) -> (Topology, [NodeIndex; 3], NodeIndex) {
    let (mut topology, [a, b], host) = drives(1.0);
    let memory =
        TargetMemory { write: rate(2.0), read: rate(1.5), is_shared, ..TargetMemory::default() };
    let card = NodeKind::Endpoint(ModelEndpoint { memory, ..ModelEndpoint::default() });
    let wire = Wire::pcie("16GT/s x16".parse().expect("a link"), Bytes(256));
    let root = topology.find("root").expect("a root");
    let card = topology.add_below(root, "card", card, wire);
    (topology, [a, b, card], host)
}

#[test]
fn device_shares_memory_with_others() {
    for is_shared in [false, true] {
        let (topology, [a, b, card], host) = with_card(is_shared);
        let own = |mut flow: FlowSpec| {
            flow.first.store = PayloadStore::Memory;
            flow
        };
        let into = || own(FlowSpec::read("in", card, host));
        let out = || own(FlowSpec::write("out", card, host));
        let written = |drive| FlowSpec::write("written", drive, card);
        assert_rates(&topology, [into()], [2.0]);
        assert_rates(&topology, [out()], [1.5]);
        assert_rates(&topology, [into(), into(), written(a), written(b)], [0.5; 4]);
        let shared = 1.0 / (1.0 / 1.5 + 1.0 / 2.0);
        let expected = if is_shared { [shared, shared] } else { [1.5, 2.0] };
        assert_rates(&topology, [out(), written(a)], expected);
    }
}
