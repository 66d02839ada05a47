//! Processors and host memory that copies of several transfers share, by hand and on both engines.

use peerlane_units::{ByteRate, Bytes};

use crate::closed::{By, Closed, demand};
use crate::flow::build::{Built, What};
use crate::flow::compare::compare;
use crate::flow::rates::{Rates, build};
use crate::flow::solve::Settings;
use crate::generate::scenarios::{Family, Scenario};
use crate::model::{
    Endpoint, FlowSpec, HostMemory, Memory, NodeIndex, NodeKind, Picos, RootComplex, Topology,
    Wire, Work,
};

/// Drives of 3 GB/s below one root complex, and host memory of so many gigabytes a second beside so many processors.
fn machine(drives: usize, memory: u64, cores: u32) -> (Topology, Vec<NodeIndex>, NodeIndex) {
    let mut topology = Topology::new();
    let root = topology.add("root", NodeKind::RootComplex(RootComplex::default()));
    let on_chip = Wire::bare(ByteRate(1_000_000_000_000), Picos::ZERO);
    let rate = Some(ByteRate(memory * 1_000_000_000));
    let memory = Memory { write: rate, read: rate, ..HostMemory::default().memory };
    let host = NodeKind::HostMemory(HostMemory { memory, cores: Some(cores) });
    let host = topology.add_below(root, "host", host, on_chip);
    let wire = Wire::pcie("16GT/s x4".parse().expect("a link"), Bytes(256));
    let rate = Some(ByteRate(3_000_000_000));
    let drive = NodeKind::Endpoint(Endpoint { posts: rate, fetches: rate, ..Endpoint::default() });
    let mut add = |number| topology.add_below(root, format!("d{number}"), drive.clone(), wire);
    let drives = (0..drives).map(&mut add).collect();
    (topology, drives, host)
}

/// From one drive to another by one slot of host memory, with so many picoseconds of a processor for each byte that is
/// copied, and so many bytes of memory.
fn copied([from, host, to]: [NodeIndex; 3], picos_of_byte: u64, bytes_of_memory: u64) -> FlowSpec {
    let request = Bytes::kib(256);
    let work = Work {
        at: host,
        submit: Picos::micros(2),
        copy: Picos(picos_of_byte * request.0),
        traffic: Bytes(bytes_of_memory * request.0),
    };
    FlowSpec {
        work: Some(Box::new(work)),
        ..FlowSpec::relay("copied", from, host, to).with(request, 1)
    }
}

/// Rates by the flow engine, and by how much packets differ from any of them at most.
#[track_caller]
fn rates(topology: &Topology, flows: &[FlowSpec]) -> (Vec<f64>, f64) {
    let case = Scenario { family: Family::Tree, topology: topology.clone(), flows: flows.to_vec() };
    let compared = compare(&case).expect("both have a result");
    assert!(compared.is_sound, "{compared:?}");
    let error = compared.errors(&compared.flow).into_iter().fold(0.0, f64::max);
    (compared.flow, error)
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.01
}

/// Nanoseconds of a processor for each byte.
fn cost(flow: &FlowSpec) -> f64 {
    flow.work.as_ref().map_or(0.0, |work| work.per_byte(flow.request))
}

#[test]
fn copies_of_many_transfers_are_no_more_than_processors_can_do() {
    // Where processors are nearly used up, packets find them idle now and then, since blocks are few.
    for (cores, most) in [(1, 0.02), (2, 0.1), (4, 0.02)] {
        let (topology, drives, host) = machine(12, 1000, cores);
        let flows: Vec<FlowSpec> =
            (0..6).map(|at| copied([drives[at], host, drives[at + 6]], 400, 6)).collect();
        let (found, error) = rates(&topology, &flows);
        let all: f64 = found.iter().zip(&flows).map(|(rate, flow)| rate * cost(flow)).sum();
        let alone = demand(&topology, &flows[0]).expect("a way") * cost(&flows[0]) * 6.0;
        assert!(is_near(all, f64::from(cores).min(alone)), "{cores}: {all} {alone}");
        assert!(error < most, "{cores}: {error}");
    }
}

#[test]
fn threads_have_processors_for_equal_time() {
    let (topology, drives, host) = machine(8, 1000, 1);
    let per_byte = [300, 400, 800, 1600];
    let flow = |at: usize| copied([drives[at], host, drives[at + 4]], per_byte[at], 0);
    let flows: Vec<FlowSpec> = (0..4).map(flow).collect();
    let (found, error) = rates(&topology, &flows);
    for (rate, flow) in found.iter().zip(&flows) {
        assert!(is_near(rate * cost(flow), 0.25), "{found:?}");
    }
    assert!(error < 0.1, "{error}");
}

#[test]
fn a_transfer_that_needs_less_leaves_its_processor_to_others() {
    let (topology, drives, host) = machine(6, 1000, 1);
    let mut flows: Vec<FlowSpec> =
        (0..3).map(|at| copied([drives[at], host, drives[at + 3]], 2000, 0)).collect();
    flows[0].first.bound = Some(ByteRate(50_000_000));
    let (found, error) = rates(&topology, &flows);
    let busy: Vec<f64> = found.iter().zip(&flows).map(|(rate, flow)| rate * cost(flow)).collect();
    assert!(busy[0] < 0.2 && is_near(busy[1], busy[2]), "{busy:?}");
    assert!(is_near(busy.iter().sum(), 1.0), "{busy:?}");
    // Packets make good for what they were held up within one command, so that the first is faster than its bound.
    assert!(error < 0.15, "{error}");
}

#[test]
fn submission_of_small_commands_is_work_too() {
    let (topology, drives, host) = machine(3, 1000, 1);
    let work = Work { at: host, submit: Picos::micros(3), copy: Picos::ZERO, traffic: Bytes::ZERO };
    let flow = |&drive: &NodeIndex| {
        let mut flow = FlowSpec::write("small", drive, host).with(Bytes::kib(4), 32);
        flow.work = Some(Box::new(work.clone()));
        // Its own thread submits no more.
        flow.first.bound = Some(ByteRate(4096 * 1_000_000 / 3));
        flow
    };
    let flows: Vec<FlowSpec> = drives.iter().map(flow).collect();
    let (found, error) = rates(&topology, &flows);
    assert!(found.iter().all(|&rate| is_near(rate, 4096.0 / 3000.0 / 3.0)), "{found:?}");
    assert!(error < 0.02, "{error}");
    let (alone, error) = rates(&topology, &flows[..1]);
    assert!(is_near(alone[0], 4096.0 / 3000.0) && error < 0.02, "{alone:?} {error}");
}

#[test]
fn copies_take_host_memory_from_whoever_else_uses_it() {
    for (count, memory) in [(12, 60), (12, 40), (6, 20)] {
        let (topology, drives, host) = machine(26, memory, 64);
        let mut flows: Vec<FlowSpec> =
            (0..count).map(|at| copied([drives[at], host, drives[at + 12]], 200, 6)).collect();
        let direct =
            |at: usize| FlowSpec::write("direct", drives[at], host).with(Bytes::kib(128), 16);
        flows.extend([direct(24), direct(25)]);
        let (found, error) = rates(&topology, &flows);
        // What devices write and read, and what copies do: 8 bytes for each.
        let all = found[..count].iter().sum::<f64>() * 8.0 + found[count] + found[count + 1];
        #[expect(clippy::cast_precision_loss, reason = "tens")]
        let expected = memory as f64;
        assert!(is_near(all, expected), "{count} {memory}: {all}");
        assert!(error < 0.06, "{count} {memory}: {error}");
        // What is left over without copies is more.
        let both = Rates::of(&topology, &flows, Settings::default()).expect("rates");
        assert_eq!(both.limit(0), Some(What::Memory(host, None)));
    }
}

#[test]
fn blocks_under_way_are_copied_while_devices_move_others() {
    let (topology, drives, host) = machine(2, 1000, 1);
    let one = copied([drives[0], host, drives[1]], 1000, 6);
    let of = |depth| {
        let flow = FlowSpec { depth, ..one.clone() };
        let (found, error) = rates(&topology, &[flow]);
        assert!(error < 0.02, "{depth}: {error}");
        found[0]
    };
    assert!(of(1) < 0.65 && of(2) > 0.9, "{} {}", of(1), of(2));
    // No thread copies faster than that.
    let closed = Closed::of(&topology, &FlowSpec { depth: 8, ..one.clone() }).expect("a way");
    assert_eq!(closed.bounds[0].by, By::Thread);
    assert!(is_near(of(8), 1.0 / cost(&one)));
}

#[test]
fn processors_that_nobody_could_use_up_are_no_resource() {
    let has = |cores, count: usize| {
        let (topology, drives, host) = machine(12, 1000, cores);
        let flow = |at: usize| copied([drives[at], host, drives[at + 6]], 400, 6);
        let flows: Vec<FlowSpec> = (0..count).map(flow).collect();
        let built: Built = build(&topology, &flows).expect("ways");
        built.find(What::Processors(host)).is_some()
    };
    assert!(has(1, 6) && has(2, 6) && !has(6, 6) && !has(1, 1));
}
