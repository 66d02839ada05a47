//! Speed of the engines: `cargo bench -p peerlane-sim`.
//!
//! Packets are counted in events a second. The flow engine is timed as `sim --engine flow` runs it.
#![expect(missing_docs, reason = "the macro of criterion makes a public function")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use peerlane_sim::generate::{Draws, LenderNames, fabric, workload};
use peerlane_sim::model::{FlowSpec, ModelParameters, Picos, Topology};
use peerlane_sim::predict::{Engine, parameters, run};
use peerlane_sim::tlp::{RunLength, Settings, TrainSizes, simulate};

/// 64 writes among 16 devices, packet by packet.
fn packets(criterion: &mut Criterion) {
    let fabric = fabric("tree:16").expect("notation").expect("a machine");
    let topology = Topology::from_fabric(&fabric, &ModelParameters::default()).expect("a topology");
    let (lenders, mut draws) = (LenderNames::from_fabric(&fabric), Draws::new(1));
    let mut write = || {
        let [from, to] = lenders.pair(&mut draws).map(|name| topology.find(name).expect("a drive"));
        FlowSpec::write("write", from, to)
    };
    let flows: Vec<FlowSpec> = (0..64).map(|_| write()).collect();
    let extent = RunLength::Steady { window: Picos::millis(1), most: Picos::ZERO };
    let settings = Settings { extent, train: TrainSizes::Fixed(1), ..Settings::default() };
    let events = simulate(&topology, &flows, &settings).expect("paths").events;
    let mut group = criterion.benchmark_group("packets");
    group.sample_size(10).throughput(Throughput::Elements(events));
    group.bench_function("64 writes", |bencher| {
        bencher.iter(|| simulate(black_box(&topology), &flows, &settings).expect("paths"));
    });
    group.finish();
}

fn flow(criterion: &mut Criterion) {
    let parameters = parameters(None).expect("the defaults");
    let mut group = criterion.benchmark_group("flow");
    group.sample_size(10);
    for (machine, transfers) in [("tree:4096", "random:10000"), ("tree:100", "random:1000")] {
        let fabric = fabric(machine).expect("notation").expect("a machine");
        let workload = workload(transfers, &fabric).expect("notation").expect("a workload");
        group.bench_function(format!("{machine} {transfers}"), |bencher| {
            bencher.iter(|| {
                run(black_box(&fabric), &parameters, &workload, Engine::Flow).expect("predicted")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, packets, flow);
criterion_main!(benches);
