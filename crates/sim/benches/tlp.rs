//! Events a second of the packet simulation on one core: small cases, a thousand flows, and how the
//! time to simulate a window grows over four decades of flows.
//!
//! `cargo bench -p peerlane-sim --bench tlp`. The unit of throughput is one event; the time is that of the
//! processor, so that other programs on the machine count less.

#![expect(missing_docs, reason = "the macro of criterion makes a public function")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use peerlane_fabric::LinkSpeed;
use peerlane_sim::model::{
    Endpoint, FlowSpec, NodeIndex, NodeKind, Picos, RootComplex, Switch, Topology, Wire,
};
use peerlane_sim::tlp::{Extent, Queue, Settings, Train, simulate};
use peerlane_units::Bytes;
use rustix::time::{ClockId, clock_gettime};

const GEN3_X4: LinkSpeed = LinkSpeed { megatransfers: 8_000, width: 4 };
const GEN3_X16: LinkSpeed = LinkSpeed { megatransfers: 8_000, width: 16 };

/// Root complexes with eight switches of eight drives each; every drive writes into another one below
/// the same root complex.
fn pairs(flows: usize) -> (Topology, Vec<FlowSpec>) {
    let mut t = Topology::new();
    let mut drives: Vec<NodeIndex> = Vec::new();
    let (mut top, mut hub) = (None, None);
    for number in 0..flows {
        if number % 64 == 0 {
            top =
                Some(t.add(format!("root{number}"), NodeKind::RootComplex(RootComplex::default())));
        }
        if let (0, Some(top)) = (number % 8, top) {
            let kind = NodeKind::Switch(Switch::default());
            let wire = Wire::pcie(GEN3_X16, Bytes(256));
            hub = Some(t.add_below(top, format!("switch{number}"), kind, wire));
        }
        if let Some(hub) = hub {
            let kind = NodeKind::Endpoint(Endpoint::default());
            let wire = Wire::pcie(GEN3_X4, Bytes(256));
            drives.push(t.add_below(hub, format!("d{number}"), kind, wire));
        }
    }
    let other = |number: usize| {
        let tree = number / 64 * 64;
        let size = (flows - tree).min(64);
        tree + (number - tree + size / 2) % size
    };
    let flow = |number: usize| FlowSpec::write("w", drives[number], drives[other(number)]);
    let flows = (0..flows).map(flow).collect();
    (t, flows)
}

fn settings(micros: u64, packets: u32, queue: Queue) -> Settings {
    let whole = Extent::Steady { window: Picos::micros(micros), most: Picos::ZERO };
    Settings { extent: whole, train: Train::Fixed(packets), queue, ..Settings::default() }
}

/// Runs a case and names its throughput in events.
fn case(c: &mut Criterion, group: &str, flows: usize, settings: &Settings) {
    let (t, flows) = pairs(flows);
    let events = simulate(&t, &flows, settings).map_or(0, |outcome| outcome.events);
    let mut group = c.benchmark_group(group);
    group.sample_size(10).throughput(Throughput::Elements(events));
    group.bench_function(BenchmarkId::from_parameter(flows.len()), |bench| {
        bench.iter_custom(|times| {
            let start = processor_time();
            for _ in 0..times {
                let _ = black_box(simulate(&t, &flows, settings));
            }
            processor_time() - start
        });
    });
    group.finish();
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

fn benches(c: &mut Criterion) {
    case(c, "packets", 2, &settings(20_000, 1, Queue::Wheel));
    case(c, "packets", 10, &settings(5_000, 1, Queue::Wheel));
    case(c, "packets", 1000, &settings(200, 1, Queue::Wheel));
    case(c, "heap", 10, &settings(5_000, 1, Queue::Heap));
    case(c, "heap", 1000, &settings(200, 1, Queue::Heap));
    for (flows, micros) in [(1, 100_000), (10, 20_000), (100, 2_000), (1000, 400), (10_000, 100)] {
        case(c, "trains", flows.max(2), &settings(micros, 16, Queue::Wheel));
    }
}

criterion_group!(tlp, benches);
criterion_main!(tlp);
