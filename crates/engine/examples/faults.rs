//! The long form of the fault suite: copies on simulated drives, with faults at every operation.
//!
//! `cargo run --release -p peerlane-engine --features simulation --example faults -- --runs 100000`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use peerlane_engine::faults::{Kind, Tally, results, run};

const COMMAND: &str =
    "cargo run --release -p peerlane-engine --features simulation --example faults --";

/// What to do.
struct Wanted {
    runs: u64,
    seed: u64,
    kinds: Vec<Kind>,
    results: Option<PathBuf>,
}

fn wanted() -> Result<Wanted, String> {
    let mut wanted = Wanted { runs: 100_000, seed: 0, kinds: Kind::ALL.to_vec(), results: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} wants a value"))?;
        let number = || value.parse().map_err(|_| format!("{flag} {value} is no number"));
        match flag.as_str() {
            "--runs" => wanted.runs = number()?,
            "--seed" => wanted.seed = number()?,
            "--write" => wanted.results = Some(PathBuf::from(&value)),
            "--fault" => {
                wanted.kinds.retain(|kind| kind.name() == value);
                if wanted.kinds.is_empty() {
                    let known: Vec<_> = Kind::ALL.map(Kind::name).to_vec();
                    return Err(format!("no fault is called {value}: {}", known.join(", ")));
                }
            }
            _ => return Err(format!("no flag is called {flag}: --runs --seed --fault --write")),
        }
    }
    Ok(wanted)
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
    let mut tally = Tally::default();
    let cases = (wanted.seed..).flat_map(|seed| wanted.kinds.iter().map(move |kind| (*kind, seed)));
    for (kind, seed) in cases.take(usize::try_from(wanted.runs).unwrap_or(usize::MAX)) {
        match run(kind, seed) {
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
