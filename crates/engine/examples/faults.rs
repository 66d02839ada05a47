//! The long form of the fault suite: copies on simulated drives, with faults at every operation.
//!
//! `cargo run --release -p peerlane-engine --features simulation --example faults -- --runs 100000`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use peerlane_engine::faults::{FaultKind, FaultTally, FaultedOutcome, Untrue, results, run};

const COMMAND: &str =
    "cargo run --release -p peerlane-engine --features simulation --example faults --";

/// Arguments of the program.
struct FaultsArgs {
    runs: u64,
    seed: u64,
    kinds: Vec<FaultKind>,
    results: Option<PathBuf>,
}

fn wanted() -> Result<FaultsArgs, String> {
    let mut wanted =
        FaultsArgs { runs: 100_000, seed: 0, kinds: FaultKind::ALL.to_vec(), results: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} wants a value"))?;
        let number = || value.parse().map_err(|_| format!("{flag} {value} is not a number"));
        match flag.as_str() {
            "--runs" => wanted.runs = number()?,
            "--seed" => wanted.seed = number()?,
            "--write" => wanted.results = Some(PathBuf::from(&value)),
            "--fault" => {
                wanted.kinds.retain(|kind| kind.name() == value);
                if wanted.kinds.is_empty() {
                    let known: Vec<_> = FaultKind::ALL.map(FaultKind::name).to_vec();
                    return Err(format!("no fault is called {value}: {}", known.join(", ")));
                }
            }
            _ => return Err(format!("no flag is called {flag}: --runs --seed --fault --write")),
        }
    }
    Ok(wanted)
}

/// Runs all of it on every core, and stops soon after the first promise that was broken. In order.
fn run_all(wanted: &FaultsArgs) -> Vec<(FaultKind, u64, Result<FaultedOutcome, Untrue>)> {
    let count = wanted.kinds.len() as u64;
    let case = |number: u64| {
        let kind = wanted.kinds[usize::try_from(number % count).unwrap_or(0)];
        (kind, wanted.seed + number / count)
    };
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        let mut done = Vec::new();
        while !is_over.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= wanted.runs {
                break;
            }
            let (kind, seed) = case(number);
            let outcome = run(kind, seed);
            is_over.fetch_or(outcome.is_err(), Relaxed);
            done.push((number, outcome));
        }
        done
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(u64, Result<FaultedOutcome, Untrue>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    });
    done.sort_by_key(|(number, _)| *number);
    let named = |(number, outcome)| {
        let (kind, seed) = case(number);
        (kind, seed, outcome)
    };
    done.into_iter().map(named).collect()
}

fn main() -> ExitCode {
    let wanted = match wanted() {
        Ok(wanted) => wanted,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let mut tally = FaultTally::default();
    for (kind, seed, outcome) in run_all(&wanted) {
        match outcome {
            Ok(outcome) => tally.add(kind, outcome),
            Err(untrue) => {
                eprintln!("error: {untrue}");
                eprintln!("replay: {COMMAND} --runs 1 --seed {seed} --fault {}", kind.name());
                return ExitCode::FAILURE;
            }
        }
    }
    eprintln!("{} copies in {:.1} s", tally.cases(), start.elapsed().as_secs_f64());
    let write = wanted.results.as_ref().map(|path| format!(" --write {}", path.display()));
    let command = format!(
        "{COMMAND} --runs {} --seed {}{}",
        wanted.runs,
        wanted.seed,
        write.unwrap_or_default()
    );
    let text = results(&tally, &command);
    match &wanted.results {
        None => print!("{text}"),
        Some(path) => {
            if let Err(error) = std::fs::write(path, text) {
                eprintln!("error: cannot write {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
