//! What both engines cost over four decades of flows: `cargo run --release -p peerlane-sim --example cost --
//! "MACHINE, LOAD" > docs/model/data/cost.csv`. The text says what it ran on; the day is that of the clock.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use peerlane_sim::flow::rates::build;
use peerlane_sim::flow::settle::settle;
use peerlane_sim::flow::solve;
use peerlane_sim::generate::{Machine, servers};
use peerlane_sim::model::{FlowSpec, Picos};
use peerlane_sim::tlp::{self, Extent, Train, simulate};
use rustix::time::{ClockId, clock_gettime};

/// Flows, and simulated microseconds that give enough events to time.
const CASES: [(usize, u64); 5] =
    [(10, 20_000), (100, 2_000), (1_000, 400), (10_000, 100), (100_000, 0)];
/// The quickest of some: other programs only add to it.
const REPEATS: usize = 3;

fn main() {
    let machine =
        std::env::args().nth(1).unwrap_or_else(|| "a machine that was not named".to_owned());
    println!("# Measured on {} on {machine}", date());
    println!("engine,flows,devices,value,unit");
    for (count, micros) in CASES {
        // Ten flows for each device, as a crowd has; never fewer devices than a server holds.
        let machine = servers((count / 160).max(1));
        let devices: usize = machine.groups.iter().map(Vec::len).sum();
        let flows = machine.writes(count);
        println!("flow,{count},{devices},{:.3},ms", rates(&machine, &flows));
        if micros > 0 {
            println!(
                "tlp,{count},{devices},{:.2},million events/s",
                events(&machine, &flows, micros)
            );
        }
    }
}

/// Milliseconds for the rates of all flows.
fn rates(machine: &Machine, flows: &[FlowSpec]) -> f64 {
    let built = build(&machine.topology, flows).expect("pairs have paths");
    let settings = solve::Settings { tolerance: 1e-3, rounds: 400 };
    let mut quickest = f64::INFINITY;
    for _ in 0..REPEATS {
        let begin = Instant::now();
        settle(&built.network, settings).expect("in order");
        quickest = quickest.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    quickest
}

/// Millions of events for each second of the processor.
fn events(machine: &Machine, flows: &[FlowSpec], micros: u64) -> f64 {
    let settings = tlp::Settings {
        extent: Extent::Steady { window: Picos::micros(micros), most: Picos::ZERO },
        train: Train::Fixed(16),
        ..tlp::Settings::default()
    };
    let mut most = 0.0_f64;
    for _ in 0..REPEATS {
        let begin = processor_time();
        let outcome = simulate(&machine.topology, flows, &settings).expect("pairs have paths");
        let time = processor_time().saturating_sub(begin).as_secs_f64();
        most = most.max(outcome.events as f64 / 1e6 / time.max(1e-9));
    }
    most
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// The day of the clock as a date (Hinnant, "chrono-compatible low-level date algorithms").
fn date() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let days = since.as_secs() / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{}-{month:02}-{day:02}", era * 400 + year + u64::from(month <= 2))
}
