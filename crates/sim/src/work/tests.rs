//! Processors and host memory that transfers share, by arithmetic and by the engines.

use peerlane_units::{ByteRate, Bytes};

use crate::closed::{By, Closed, demand};
use crate::flow::tests::compare;
use crate::flow::{FlowRates, SolverSettings};
use crate::model::tests::{GEN4_X4, star};
use crate::model::{
    FlowSpec, HostMemory, ModelEndpoint, NodeIndex, Picos, ProcessorWork, ResourceOrigin,
    TargetMemory, Topology, Wire,
};

/// Drives of 3 GB/s and host memory of some GB/s next to some processors, below one root complex.
fn machine(drives: usize, memory: u64, cores: u32) -> (Topology, Vec<NodeIndex>, NodeIndex) {
    let rate = Some(ByteRate(memory * 1_000_000_000));
    let memory = TargetMemory { write: rate, read: rate, ..HostMemory::default().memory };
    let rate = Some(ByteRate(3_000_000_000));
    let drive = ModelEndpoint { posts: rate, fetches: rate, ..ModelEndpoint::default() };
    let wire = Wire::pcie(GEN4_X4, Bytes(256));
    star(drives, &drive, HostMemory { memory, cores: Some(cores) }, wire)
}

/// Copies from the first half of the drives to the second by one slot of host memory, with processor picoseconds and
/// host-memory bytes for each byte.
fn copies(
    drives: &[NodeIndex],
    host: NodeIndex,
    picos: impl Fn(usize) -> u64,
    memory: u64,
) -> Vec<FlowSpec> {
    let (sources, targets) = drives.split_at(drives.len() / 2);
    let request = Bytes::kib(256);
    let copy = |(at, (&from, &to))| {
        let (copy, traffic) = (Picos(picos(at) * request.0), Bytes(memory * request.0));
        let work = ProcessorWork { at: host, submit: Picos::micros(2), copy, traffic };
        let flow = FlowSpec::relay("copied", from, host, to).with(request, 1);
        FlowSpec { work: Some(Box::new(work)), ..flow }
    };
    sources.iter().zip(targets).enumerate().map(copy).collect()
}

/// Rates by the flow engine, which the TLP engine confirms within a tolerance.
#[track_caller]
fn rates(topology: &Topology, flows: &[FlowSpec], tolerance: f64) -> Vec<f64> {
    let compared = compare(topology, flows);
    assert!(compared.is_settled && compared.worst() < tolerance, "{compared:?}");
    compared.flow
}

/// Rates by the flow engine, which alone shares processors.
fn by_flows(topology: &Topology, flows: &[FlowSpec]) -> Vec<f64> {
    FlowRates::new(topology, flows, SolverSettings::default()).expect("rates").rates
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.01
}

/// Processor nanoseconds for each byte.
fn cost(flow: &FlowSpec) -> f64 {
    flow.work.as_ref().map_or(0.0, |work| work.per_byte(flow.request))
}

/// Utilisation of the processors by each flow.
fn utilisation(rates: &[f64], flows: &[FlowSpec]) -> Vec<f64> {
    rates.iter().zip(flows).map(|(rate, flow)| rate * cost(flow)).collect()
}

#[test]
fn copies_saturate_the_processors() {
    for cores in [1, 2, 4] {
        let (topology, drives, host) = machine(12, 1000, cores);
        let flows = copies(&drives, host, |_| 400, 6);
        let found = by_flows(&topology, &flows);
        let busy: f64 = utilisation(&found, &flows).iter().sum();
        let alone = demand(&topology, &flows[0]).expect("a path") * cost(&flows[0]) * 6.0;
        assert!(is_near(busy, f64::from(cores).min(alone)), "{cores}: {busy} {alone}");
    }
}

#[test]
fn threads_share_processors_in_equal_time() {
    let (topology, drives, host) = machine(8, 1000, 1);
    let mut flows = copies(&drives, host, |at| [300, 400, 800, 1600][at], 0);
    let busy = utilisation(&by_flows(&topology, &flows), &flows);
    assert!(busy.iter().all(|&busy| is_near(busy, 0.25)), "{busy:?}");
    // A flow that needs less leaves its time to the others.
    flows[3].first.bound = Some(ByteRate(50_000_000));
    let busy = utilisation(&by_flows(&topology, &flows), &flows);
    assert!(busy[3] < 0.1 && is_near(busy[0], busy[1]) && is_near(busy[1], busy[2]), "{busy:?}");
    assert!(is_near(busy.iter().sum(), 1.0), "{busy:?}");
}

#[test]
fn submission_uses_processors() {
    let (topology, drives, host) = machine(3, 1000, 1);
    let work = ProcessorWork {
        at: host,
        submit: Picos::micros(3),
        copy: Picos::ZERO,
        traffic: Bytes::ZERO,
    };
    let flow = |&drive: &NodeIndex| {
        let mut flow = FlowSpec::write("small", drive, host).with(Bytes::kib(4), 32);
        flow.work = Some(Box::new(work.clone()));
        // The limit of its own thread.
        flow.first.bound = Some(ByteRate(4096 * 1_000_000 / 3));
        flow
    };
    let flows: Vec<FlowSpec> = drives.iter().map(flow).collect();
    let found = by_flows(&topology, &flows);
    assert!(found.iter().all(|&rate| is_near(rate, 4096.0 / 3000.0 / 3.0)), "{found:?}");
    assert!(is_near(rates(&topology, &flows[..1], 0.02)[0], 4096.0 / 3000.0));
}

#[test]
fn copies_share_host_memory() {
    for (count, memory) in [(12, 60), (6, 20)] {
        let (topology, drives, host) = machine(2 * count + 2, memory, 64);
        let (direct, copied) = drives.split_at(2);
        let mut flows = copies(copied, host, |_| 200, 6);
        flows.extend(direct.iter().map(|&drive| FlowSpec::write("direct", drive, host)));
        let found = rates(&topology, &flows, 0.06);
        // Devices write and read 2 bytes, copies 6.
        let all = found[..count].iter().sum::<f64>() * 8.0 + found[count] + found[count + 1];
        #[expect(clippy::cast_precision_loss, reason = "tens")]
        let expected = memory as f64;
        assert!(is_near(all, expected), "{count} {memory}: {all}");
        let both = FlowRates::new(&topology, &flows, SolverSettings::default()).expect("rates");
        assert_eq!(both.limit(0), Some(ResourceOrigin::Memory(host, None)));
    }
}

#[test]
fn copies_overlap_with_transfers() {
    let (topology, drives, host) = machine(2, 1000, 1);
    let [flow] = &copies(&drives, host, |_| 1000, 6)[..] else { panic!("one copy") };
    let at = |depth| FlowSpec { depth, ..flow.clone() };
    let [serial, two, many] = [1, 2, 8].map(|depth| rates(&topology, &[at(depth)], 0.02)[0]);
    assert!(serial < 0.65 && two > 0.9 && is_near(many, 1.0 / cost(flow)), "{serial} {two} {many}");
    let closed = Closed::for_flow(&topology, &at(8)).expect("a path");
    assert_eq!(closed.bounds[0].by, By::Thread);
}
