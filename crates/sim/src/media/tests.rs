//! One medium that is read and written, by hand and on both engines.

use peerlane_units::{ByteRate, Bytes};

use crate::closed::{By, Closed};
use crate::flow::build::{Built, What};
use crate::flow::compare::compare;
use crate::generate::scenarios::{Family, Scenario, scenario};
use crate::media::Mixed;
use crate::model::{
    Endpoint, FlowSpec, HostMemory, Leg, Memory, NodeIndex, NodeKind, Op, RootComplex, Store,
    Topology, Wire,
};
use crate::tlp::{self, simulate};

const READ: f64 = 3.3;
const WRITE: f64 = 2.0;

/// Drives that read 3.3 GB/s and write 2.0 below one root complex, and host memory, which is faster than all.
fn drives(count: usize, mixed: f64) -> (Topology, Vec<NodeIndex>, NodeIndex) {
    let mut topology = Topology::new();
    let root = topology.add("root", NodeKind::RootComplex(RootComplex::default()));
    let on_chip = Wire::bare(ByteRate(1_000_000_000_000), crate::model::Picos::ZERO);
    let host = NodeKind::HostMemory(HostMemory::default());
    let host = topology.add_below(root, "host", host, on_chip);
    let wire = Wire::pcie("16GT/s x4".parse().expect("a link"), Bytes(256));
    let drive = Endpoint {
        posts: Some(ByteRate(3_300_000_000)),
        fetches: Some(ByteRate(2_000_000_000)),
        mixed,
        ..Endpoint::default()
    };
    let drive = NodeKind::Endpoint(drive);
    let mut add = |number| topology.add_below(root, format!("d{number}"), drive.clone(), wire);
    let drives = (0..count).map(&mut add).collect();
    (topology, drives, host)
}

/// Rates by the TLP engine and by the flow engine, which agree within 1 %.
#[track_caller]
fn rates(topology: Topology, flows: Vec<FlowSpec>) -> Vec<f64> {
    let case = Scenario { family: Family::Tree, topology, flows };
    let compared = compare(&case).expect("both have a result");
    assert!(compared.is_sound, "{compared:?}");
    let errors = compared.errors(&compared.flow);
    assert!(errors.iter().all(|&error| error < 0.01), "{compared:?}");
    compared.flow
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{found} is not {expected}");
}

/// A read and a write of one drive at once.
fn both(mixed: f64, change: impl FnOnce(&mut [FlowSpec])) -> Vec<f64> {
    let (topology, drives, host) = drives(1, mixed);
    let mut flows =
        vec![FlowSpec::write("read", drives[0], host), FlowSpec::read("write", drives[0], host)];
    change(&mut flows);
    rates(topology, flows)
}

#[test]
fn a_drive_that_is_read_and_written_does_one_thing_after_the_other() {
    let found = both(1.0, |_| ());
    assert_near(found[0] / READ + found[1] / WRITE, 1.0);
    assert_near(found[0], found[1]);
    // What is read needs less than its turns.
    let found = both(1.0, |flows| flows[0].first.bound = Some(ByteRate(500_000_000)));
    assert_near(found[0], 0.5);
    assert_near(found[1], WRITE * (1.0 - 0.5 / READ));
}

#[test]
fn commands_that_are_small_take_as_many_bytes_in_turn_as_large_ones() {
    for (read, write) in [(4, 128), (128, 4), (4, 4)] {
        let sizes = |flows: &mut [FlowSpec]| {
            for (flow, kib) in flows.iter_mut().zip([read, write]) {
                let depth = 2048 / u32::try_from(kib).expect("few");
                *flow = flow.clone().with(Bytes::kib(kib), depth);
            }
        };
        let found = both(1.0, sizes);
        assert_near(found[0], found[1]);
        assert_near(found[0] / READ + found[1] / WRITE, 1.0);
    }
}

#[test]
fn what_drives_reach_together_differs() {
    let changing = both(0.5, |_| ());
    assert_near(changing[0] / READ + changing[1] / WRITE, 0.5);
    let cached = both(1.7, |_| ());
    assert_near(cached[1], WRITE);
    assert_near(cached[0], READ * 0.7);
    let apart = both(2.0, |_| ());
    assert_near(apart[0], READ);
    assert_near(apart[1], WRITE);
}

#[test]
fn slow_commands_take_the_time_that_they_need_of_the_medium() {
    // Writes of which the drive does 1 GB/s alone: a fifth of them leaves four fifths to reads.
    let found = both(1.0, |flows| {
        flows[1].first.commands = Some(ByteRate(1_000_000_000));
        flows[1].first.bound = Some(ByteRate(200_000_000));
    });
    assert_near(found[1], 0.2);
    assert_near(found[0], READ * 0.8);
}

#[test]
fn commands_of_a_drive_are_shared_whether_or_not_others_use_it_the_other_way() {
    let slow = Some(ByteRate(1_000_000_000));
    for mixed in [1.0, 1.5, 2.0] {
        let (topology, drives, host) = drives(1, mixed);
        let write = |commands| {
            let mut flow = FlowSpec::read("write", drives[0], host);
            flow.first.commands = commands;
            flow.first.bound = commands;
            flow
        };
        let found = rates(topology.clone(), vec![write(slow), write(slow)]);
        assert_near(found[0] + found[1], 1.0);
        assert_near(found[0], found[1]);
        // Beside commands that are no limit, in turns of equal bytes.
        let found = rates(topology.clone(), vec![write(slow), write(None)]);
        assert_near(found[0] + found[1] / WRITE, 1.0);
        assert_near(found[0], found[1]);
        // A few reads take a share of the time, where both have one, and change no law.
        let mut few = FlowSpec::write("read", drives[0], host);
        few.first.bound = Some(ByteRate(330_000_000));
        let found = rates(topology.clone(), vec![write(slow), write(slow), few]);
        assert_near(found[2], 0.33);
        assert_near(found[0] + found[1], if mixed > 1.0 { 1.0 } else { 0.9 });
        assert_near(rates(topology, vec![write(slow)])[0], 1.0);
    }
}

#[test]
fn all_to_all_reads_and_writes_every_drive() {
    let (topology, drives, host) = drives(3, 1.0);
    let pairs = drives.iter().flat_map(|&a| drives.iter().map(move |&b| (a, b)));
    let flows: Vec<FlowSpec> = pairs
        .filter(|(a, b)| a != b)
        .map(|(a, b)| FlowSpec::relay("copy", a, host, b).with(Bytes::kib(128), 8))
        .collect();
    let found = rates(topology, flows);
    for rate in found {
        // Each drive is read by two and written by two.
        assert_near(2.0 * rate * (1.0 / READ + 1.0 / WRITE), 1.0);
    }
}

#[test]
fn a_drive_that_lends_its_memory_moves_what_is_in_it() {
    let (topology, drives, host) = drives(2, 1.0);
    // Into the memory of the second, which writes it and is read by the host at the same time.
    let copy = FlowSpec::relay("copy", drives[0], drives[1], drives[1]);
    let read = FlowSpec::write("read", drives[1], host);
    let found = rates(topology.clone(), vec![copy.clone(), read]);
    assert_near(found[0] / WRITE + found[1] / READ, 1.0);
    assert_near(found[0], found[1]);
    // Out of the memory of the second, which reads it and is written at the same time.
    let copy = FlowSpec::relay("copy", drives[1], drives[1], drives[0]);
    let write = FlowSpec::read("write", drives[1], host);
    let found = rates(topology, vec![copy, write]);
    assert_near(found[0] / READ + found[1] / WRITE, 1.0);
}

#[test]
fn one_slot_in_a_drives_own_memory_is_filled_and_emptied_one_after_the_other() {
    let (topology, drives, _) = drives(2, 2.0);
    for memory in drives.clone() {
        let copy = |depth| {
            let flow = FlowSpec::relay("copy", drives[0], memory, drives[1]);
            flow.with(Bytes::mib(1), depth)
        };
        let serial = 1.0 / (1.0 / READ + 1.0 / WRITE);
        let alone = Closed::of(&topology, &copy(1)).expect("there is a path").rate();
        assert!((alone / serial - 1.0).abs() < 0.01, "{alone} is not {serial}");
        assert_near(rates(topology.clone(), vec![copy(1)])[0], serial);
        assert_near(rates(topology.clone(), vec![copy(8)])[0], WRITE);
    }
}

#[test]
fn a_copy_within_a_drive_by_its_own_memory_crosses_no_link() {
    let (topology, drives, _) = drives(1, 1.0);
    let copy = FlowSpec::relay("copy", drives[0], drives[0], drives[0]);
    let built =
        Built::of(&topology, std::slice::from_ref(&copy), &[9.0.into()]).expect("nothing to cross");
    assert!(built.what.iter().all(|what| matches!(what, What::Medium(..))), "{:?}", built.what);
    assert_near(rates(topology, vec![copy])[0], 1.0 / (1.0 / READ + 1.0 / WRITE));
}

#[test]
fn a_device_that_moves_what_is_in_its_memory_nowhere_takes_no_time_for_it() {
    let (mut topology, drives, _) = drives(2, 1.0);
    if let NodeKind::Endpoint(endpoint) = &mut topology.node_mut(drives[1]).kind {
        endpoint.fetches = None;
    }
    let copy = FlowSpec::relay("copy", drives[0], drives[1], drives[1]);
    assert_near(rates(topology, vec![copy])[0], READ);
}

#[test]
fn a_medium_gives_as_many_bytes_to_slots_of_its_drive_as_to_smaller_packets() {
    let (mut topology, drives, host) = drives(2, 2.0);
    if let NodeKind::Endpoint(endpoint) = &mut topology.node_mut(drives[1]).kind {
        endpoint.mps = Bytes(1024);
    }
    let copy = FlowSpec::relay("copy", drives[1], drives[1], drives[0]);
    let mut read = FlowSpec::write("read", drives[1], host);
    let found = rates(topology.clone(), vec![copy.clone(), read.clone()]);
    assert_near(found[0], READ / 2.0);
    assert_near(found[1], READ / 2.0);
    read.first.bound = Some(ByteRate(1_500_000_000));
    assert_near(rates(topology, vec![copy, read])[0], READ - 1.5);
}

#[test]
fn what_comes_by_its_own_memory_and_by_others_is_written_by_one_medium() {
    let (topology, drives, host) = drives(2, 0.5);
    let copy = FlowSpec::relay("copy", drives[0], drives[1], drives[1]);
    let write = FlowSpec::read("write", drives[1], host);
    let flows = vec![copy, write];
    // It is that of writes, and nothing is read.
    let built = Built::of(&topology, &flows, &[9.0.into(), 9.0.into()]).expect("there are paths");
    assert!(built.find(What::Medium(drives[1], Some(Op::Read))).is_some());
    assert!(built.find(What::Medium(drives[1], None)).is_none());
    let found = rates(topology, flows);
    assert_near(found[0], WRITE / 2.0);
    assert_near(found[1], WRITE / 2.0);
}

#[test]
fn each_direction_keeps_to_its_rate_in_whatever_ways_both_are_used() {
    // At 2, both directions together are no limit at all.
    for mixed in [1.5, 2.0] {
        let (topology, drives, host) = drives(2, mixed);
        let mut written = FlowSpec::relay("copy in", drives[0], drives[1], drives[1]);
        let read = FlowSpec::relay("copy out", drives[1], drives[1], drives[0]);
        let slow = |flow: FlowSpec| {
            let first = Leg { bound: Some(ByteRate(300_000_000)), ..flow.first };
            FlowSpec { first, ..flow }
        };
        // Written by its own memory and by requests, and read a little.
        let by_requests = FlowSpec::read("write", drives[1], host);
        let little = slow(FlowSpec::write("read", drives[1], host));
        let found = rates(topology.clone(), vec![written.clone(), by_requests.clone(), little]);
        assert_near(found[0] + found[1], WRITE);
        assert_near(found[0], found[1]);
        assert_near(found[2], 0.3);
        // Read by both, and written a little.
        let by_requests = FlowSpec::write("read", drives[1], host);
        let little = slow(FlowSpec::read("write", drives[1], host));
        let found = rates(topology.clone(), vec![read, by_requests, little]);
        assert_near(found[0] + found[1], READ);
        assert_near(found[2], 0.3);
        // Commands of which the drive does half as many bytes take twice the time.
        written.second.as_mut().expect("two").commands = Some(ByteRate(1_000_000_000));
        let by_requests = FlowSpec::read("write", drives[1], host);
        let little = slow(FlowSpec::write("read", drives[1], host));
        let found = rates(topology, vec![written, by_requests, little]);
        assert_near(found[0] + found[1] / WRITE, 1.0);
        assert_near(found[0], found[1]);
    }
}

#[test]
fn a_copy_within_a_drive_is_bounded_by_both_of_its_rates() {
    let (topology, drives, host) = drives(1, 1.0);
    let copy = FlowSpec::relay("copy", drives[0], host, drives[0]);
    let closed = Closed::of(&topology, &copy).expect("there is a path");
    let by = By::Resource(What::Medium(drives[0], None));
    assert_eq!(closed.bounds[0].by, by);
    assert_near(closed.rate(), 1.0 / (1.0 / READ + 1.0 / WRITE));
    assert_near(rates(topology, vec![copy])[0], closed.rate());
}

#[test]
fn a_drive_that_is_only_read_or_only_written_has_no_such_law() {
    for op in [Op::Write, Op::Read] {
        let network = |mixed| {
            let (topology, drives, host) = drives(1, mixed);
            let flow = |name| match op {
                Op::Write => FlowSpec::write(name, drives[0], host),
                Op::Read => FlowSpec::read(name, drives[0], host),
            };
            let flows = [flow("a"), flow("b")];
            let built =
                Built::of(&topology, &flows, &[9.0.into(), 9.0.into()]).expect("there are paths");
            let outcome = simulate(&topology, &flows, &tlp::Settings::default());
            (built, format!("{:?}", outcome.expect("it runs")), drives[0])
        };
        let (built, outcome, drive) = network(0.5);
        assert!(built.find(What::Medium(drive, Some(op))).is_some());
        assert!(built.find(What::Medium(drive, None)).is_none());
        let (other, same, _) = network(2.0);
        assert_eq!((&built, &outcome), (&other, &same));
    }
}

#[test]
fn a_device_without_a_medium_has_no_such_law() {
    let (mut topology, drives, host) = drives(1, 1.0);
    if let NodeKind::Endpoint(endpoint) = &mut topology.node_mut(drives[0]).kind {
        endpoint.fetches = None;
    }
    let flows = [FlowSpec::write("out", drives[0], host), FlowSpec::read("in", drives[0], host)];
    let built = Built::of(&topology, &flows, &[9.0.into(), 9.0.into()]).expect("there are paths");
    assert!(built.find(What::Medium(drives[0], None)).is_none());
}

/// A device that others reach at 2 GB/s written and 1.5 read, beside the drives, in whose place it fetches and posts.
fn with_memory(is_shared: bool) -> (Topology, Vec<NodeIndex>, NodeIndex) {
    let (mut topology, mut drives, host) = drives(2, 1.0);
    let [write, read] = [2_000_000_000, 1_500_000_000].map(|rate| Some(ByteRate(rate)));
    let memory = Memory { write, read, is_shared, ..Memory::default() };
    let card = NodeKind::Endpoint(Endpoint { memory, ..Endpoint::default() });
    let wire = Wire::pcie("16GT/s x16".parse().expect("a link"), Bytes(256));
    let root = topology.find("root").expect("it is there");
    drives.push(topology.add_below(root, "card", card, wire));
    (topology, drives, host)
}

fn of_memory(mut flow: FlowSpec) -> FlowSpec {
    flow.legs_mut().for_each(|leg| leg.store = Store::Memory);
    flow
}

#[test]
fn what_a_device_moves_out_of_its_memory_and_into_it_takes_from_what_others_do_there() {
    for is_shared in [false, true] {
        let (topology, ends, host) = with_memory(is_shared);
        let card = ends[2];
        let into = || of_memory(FlowSpec::read("in", card, host));
        let out = || of_memory(FlowSpec::write("out", card, host));
        let written = |drive: usize| FlowSpec::write("written", ends[drive], card);
        let found = |flows| rates(topology.clone(), flows);
        assert_near(found(vec![into()])[0], 2.0);
        assert_near(found(vec![out()])[0], 1.5);
        // Equal bytes for what others bring and what the device does itself, however many flows that is.
        let both = found(vec![into(), written(0)]);
        assert_near(both[0], 1.0);
        assert_near(both[1], 1.0);
        let many = found(vec![into(), into(), written(0), written(1)]);
        many.iter().for_each(|&rate| assert_near(rate, 0.5));
        // What is read beside that takes its time only where both share it.
        let apart = found(vec![out(), written(0)]);
        if is_shared {
            assert_near(apart[0] / 1.5 + apart[1] / 2.0, 1.0);
            assert_near(apart[0], apart[1]);
        } else {
            assert_near(apart[0], 1.5);
            assert_near(apart[1], 2.0);
        }
    }
}

#[test]
fn a_bounce_ends_in_the_memory_of_its_target_and_begins_in_that_of_its_source() {
    let (topology, ends, host) = with_memory(true);
    let relay = |source, target, is_source: bool| {
        let mut flow = FlowSpec::relay("bounce", source, host, target);
        let leg = flow.legs_mut().nth(usize::from(!is_source)).expect("two");
        leg.store = Store::Memory;
        flow
    };
    let memory = What::Memory(ends[2], None);
    for (flow, expected) in
        [(relay(ends[0], ends[2], false), 2.0), (relay(ends[2], ends[0], true), 1.5)]
    {
        let closed = Closed::of(&topology, &flow).expect("there is a path");
        assert!(closed.bounds.iter().any(|bound| bound.by == By::Resource(memory)), "{closed:?}");
        assert_near(closed.rate(), expected);
        assert_near(rates(topology.clone(), vec![flow])[0], expected);
    }
    // Drives that have no memory of their own here are as fast as before.
    let usual = FlowSpec::relay("bounce", ends[0], host, ends[1]);
    assert_near(rates(topology, vec![usual])[0], WRITE);
}

#[test]
fn cases_of_media_have_drives_that_are_read_and_written() {
    let mixed = (0..12).filter(|&seed| {
        let Scenario { topology, flows, .. } = scenario(Family::Media, seed);
        Mixed::of(&topology, &flows) != Mixed::default()
    });
    assert!(mixed.count() >= 8);
}

#[test]
fn fluids_and_packets_agree_on_drives_that_are_read_and_written() {
    for seed in [1, 2, 7, 8] {
        let compared = compare(&scenario(Family::Media, seed)).expect("both have a result");
        assert!(compared.sum_error() < 0.005, "{seed} {compared:?}");
        let errors = compared.errors(&compared.flow);
        assert!(errors.iter().all(|&error| error < 0.02), "{seed} {errors:?}");
    }
}
