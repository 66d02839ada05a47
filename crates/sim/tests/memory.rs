//! An engine takes at most 64 KiB for a device, the machine and ten flows a device included: bytes that are
//! allocated at the same time, at most. What a process takes beyond that is the allocator's, a few percent
//! (`examples/memory.rs`).

use std::alloc::System;

use peakmem_alloc::{INSTRUMENTED_SYSTEM, PeakMemAlloc, PeakMemAllocTrait};
use peerlane_sim::flow::rates::build;
use peerlane_sim::flow::settle::settle;
use peerlane_sim::flow::solve::Settings;
use peerlane_sim::generate::{Draws, Machine, tree};
use peerlane_sim::model::{FlowSpec, Picos};
use peerlane_sim::tlp::{self, Extent, Train, simulate};

#[global_allocator]
static COUNTED: &PeakMemAlloc<System> = &INSTRUMENTED_SYSTEM;

const DEVICES: usize = 10_000;
const FLOWS: usize = 100_000;
const MOST: usize = 64 << 10;

type Engine = fn(&Machine, &[FlowSpec]);
type Transfers = fn(&Machine, usize) -> Vec<FlowSpec>;

fn by_flow(machine: &Machine, flows: &[FlowSpec]) {
    let built = build(&machine.topology, flows).expect("pairs have paths");
    // Rounds take no memory.
    let solution = settle(&built.network, Settings { tolerance: 1e-3, rounds: 1 });
    assert_eq!(solution.expect("in order").rates.len(), FLOWS);
}

fn by_tlp(machine: &Machine, flows: &[FlowSpec]) {
    let extent = Extent::Steady { window: Picos::micros(50), most: Picos::micros(50) };
    let settings = tlp::Settings { extent, train: Train::Fixed(16), ..tlp::Settings::default() };
    let outcome = simulate(&machine.topology, flows, &settings).expect("pairs have paths");
    assert_eq!(outcome.flows.len(), FLOWS);
}

/// One test, since what others allocate meanwhile would count.
#[test]
fn a_device_takes_at_most_64_kib() {
    let engines: [(&str, Engine); 2] = [("flow", by_flow), ("TLP", by_tlp)];
    let all: [(&str, Transfers); 2] = [
        ("writes", Machine::writes),
        ("relays", |machine, count| machine.relays(count, &mut Draws::new(1))),
    ];
    for (name, engine) in engines {
        for (kind, transfers) in all {
            COUNTED.reset_peak_memory();
            let machine = tree(DEVICES);
            engine(&machine, &transfers(&machine, FLOWS));
            let each = COUNTED.get_peak_memory() / DEVICES;
            assert!((1_000..=MOST).contains(&each), "{name}, {kind}: {each} bytes for a device");
        }
    }
}
