//! The long form of the fault suite: copies on simulated drives, with faults at every operation.
//!
//! `cargo run --release -p peerlane-engine --features simulation --example faults -- --runs 100000`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use peerlane_engine::faults::{FaultKind, FaultTally, results, run_batch};

const COMMAND: &str =
    "cargo run --release -p peerlane-engine --features simulation --example faults --";

/// Arguments of the program.
struct FaultsArgs {
    runs: usize,
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
        match flag.as_str() {
            "--runs" => wanted.runs = number(&value)?,
            "--seed" => wanted.seed = number(&value)?,
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

fn number<N: std::str::FromStr>(value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("{value} is not a number"))
}

/// The copies, kind by kind for each seed.
fn cases(wanted: &FaultsArgs) -> Vec<(FaultKind, u64)> {
    let seeds = wanted.seed..;
    let cases = seeds.flat_map(|seed| wanted.kinds.iter().map(move |&kind| (kind, seed)));
    cases.take(wanted.runs).collect()
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
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for (kind, seed, outcome) in run_batch(cases(&wanted), threads) {
        match outcome {
            Ok(outcome) => tally.add(kind, outcome),
            Err(untrue) => {
                eprintln!("error: {untrue}");
                eprintln!("replay: {COMMAND} --runs 1 --seed {seed} --fault {}", kind.name());
                return ExitCode::FAILURE;
            }
        }
    }
    if tally.cases() != wanted.runs as u64 {
        eprintln!("error: {} copies of {} ended", tally.cases(), wanted.runs);
        return ExitCode::FAILURE;
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
