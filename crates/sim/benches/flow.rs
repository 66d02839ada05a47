//! How fast the flow engine finds rates: `cargo bench -p peerlane-sim --bench flow`.
//!
//! Solving only, on one core; `examples/growth.rs` also counts the building of the network.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use peerlane_sim::flow::network::Network;
use peerlane_sim::flow::rates::build;
use peerlane_sim::flow::run::{RunSettings, Transfer, run};
use peerlane_sim::flow::settle::settle;
use peerlane_sim::flow::solve::Settings;
use peerlane_sim::generate::{Machine, servers, tree};
use peerlane_sim::model::FlowSpec;

const SETTINGS: Settings = Settings { tolerance: 1e-3, rounds: 400 };

/// Writes between random pairs of a machine.
fn network(machine: &Machine, flows: usize) -> Network {
    build(&machine.topology, &machine.writes(flows)).expect("pairs have paths").network
}

fn solve(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("solve");
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(3));
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    for (name, machine, flows) in [
        ("100 flows, 16 devices", servers(1), 100),
        ("10,000 flows, 625 servers", servers(625), 10_000),
        ("10,000 flows, one fabric of 1,000 devices", tree(1_000), 10_000),
        ("100,000 flows, one fabric of 10,000 devices", tree(10_000), 100_000),
    ] {
        let network = network(&machine, flows);
        group.bench_function(name, |bencher| {
            one.install(|| {
                bencher.iter(|| settle(black_box(&network), SETTINGS).expect("in order"));
            });
        });
    }
    group.finish();
}

/// Ten by ten pairs of 100 GB each, all at once.
fn pairs(criterion: &mut Criterion) {
    let machine = tree(10);
    let devices = &machine.groups[0];
    let mut flows = Vec::new();
    for &source in devices {
        for &target in devices.iter().filter(|&&target| target != source) {
            flows.push(FlowSpec::write("flow", source, target));
        }
    }
    let network = build(&machine.topology, &flows).expect("pairs have paths").network;
    let transfers: Vec<Transfer> = (0..flows.len())
        .map(|class| Transfer { class, start: 0.0, bytes: 100e9, time: f64::INFINITY })
        .collect();
    let settings = RunSettings { solve: SETTINGS, quantum: 1_000.0, together: 0.0, ended: None };
    criterion.bench_function("90 pairs of 100 GB to their end", |bencher| {
        bencher.iter(|| run(black_box(&network), &transfers, settings).expect("in order"));
    });
}

criterion_group!(benches, solve, pairs);
criterion_main!(benches);
