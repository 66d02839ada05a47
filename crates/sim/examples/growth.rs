//! How cost grows with the number of flows, over four decades: the table of `docs/model/flow.md`. Times are
//! of one processor, which other programs lengthen less than what a clock shows.
#![allow(clippy::print_stdout)]

use peerlane_sim::flow::rates::build;
use peerlane_sim::flow::settle::settle;
use peerlane_sim::flow::solve::Settings;
use peerlane_sim::generate::{Machine, servers, tree};
use rustix::time::{ClockId, clock_gettime};

const SETTINGS: Settings = Settings { tolerance: 1e-3, rounds: 400 };

fn main() {
    println!(
        "| machine | devices | flows | network, ms | rates, ms | us a flow | rounds | residual |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for flows in [10, 100, 1_000, 10_000, 100_000] {
        let devices = (flows / 10).clamp(16, 10_000);
        row("one fabric", &tree(devices), flows);
        row("servers", &servers(devices / 16), flows);
    }
}

/// Time that this process has spent on processors.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of an afternoon")]
fn processor_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn row(name: &str, machine: &Machine, count: usize) {
    let flows = machine.writes(count);
    let begin = processor_ms();
    let built = build(&machine.topology, &flows).expect("pairs have paths");
    let building = processor_ms() - begin;
    // The quickest of some: other programs only add to it.
    let repeats = if count > 10_000 { 3 } else { 10 };
    let mut quickest = f64::INFINITY;
    let mut found = None;
    for _ in 0..repeats {
        let begin = processor_ms();
        let solution = settle(&built.network, SETTINGS).expect("in order");
        quickest = quickest.min(processor_ms() - begin);
        found = Some(solution);
    }
    let (rounds, residual) = found.map_or((0, 0.0), |found| (found.rounds, found.residual));
    let devices: usize = machine.groups.iter().map(Vec::len).sum();
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let each = quickest * 1e3 / count as f64;
    println!(
        "| {name} | {devices} | {count} | {building:.2} | {quickest:.3} | {each:.2} | {rounds} | {residual:.1e} |"
    );
}
