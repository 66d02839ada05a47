//! How much memory an engine takes for a device: the table of `docs/model.md`. One case in one process, since
//! the peak of a process only rises: `-- flow|tlp write|relay DEVICES FLOWS`.
#![allow(clippy::print_stdout)]

use peerlane_sim::flow::rates::build;
use peerlane_sim::flow::settle::settle;
use peerlane_sim::flow::solve::Settings;
use peerlane_sim::generate::{Draws, tree};
use peerlane_sim::model::Picos;
use peerlane_sim::tlp::{self, Extent, Train, simulate};

/// A fluid takes no memory for a round, so that few of them show the peak.
const SETTINGS: Settings = Settings { tolerance: 1e-3, rounds: 20 };

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [engine, kind, devices, flows] = words.as_slice() else {
        return println!("flow|tlp write|relay DEVICES FLOWS");
    };
    let (Ok(devices), Ok(flows)) = (devices.parse(), flows.parse()) else {
        return println!("DEVICES and FLOWS are numbers");
    };
    let before = peak();
    let machine = tree(devices);
    let flows = if kind == "relay" {
        machine.relays(flows, &mut Draws::new(1))
    } else {
        machine.writes(flows)
    };
    match engine.as_str() {
        "flow" => {
            let built = build(&machine.topology, &flows).expect("pairs have paths");
            let solution = settle(&built.network, SETTINGS).expect("in order");
            assert_eq!(solution.rates.len(), flows.len());
        }
        _ => {
            let extent = Extent::Steady { window: Picos::micros(50), most: Picos::micros(50) };
            let train = Train::Fixed(16);
            let settings = tlp::Settings { extent, train, ..tlp::Settings::default() };
            simulate(&machine.topology, &flows, &settings).expect("pairs have paths");
        }
    }
    let each = (peak() - before) / devices as u64;
    println!("| {engine} | {kind} | {devices} | {} | {each} |", flows.len());
}

/// Bytes of memory that this process had at most (`VmHWM` of proc_pid_status(5)).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}
