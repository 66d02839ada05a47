//! Looks for cases in which flow and TLP engine differ: `cargo run --release -p peerlane-sim --example
//! invalidate -- [SEEDS [FIRST]]`. Writes the tables of `docs/model/flow.md`; with `--csv`, every flow as the
//! data of the plot in `docs/model.md`:
//! `cargo run --release -p peerlane-sim --example invalidate -- --csv 12 > docs/model/data/engines.csv`.
//! With `--rotating` the first seed comes from the commit, so that every version is tried on cases that it was not
//! written beside. With `--coupled` the cases are those of nodes that couple a share of the commands; with
//! `--dense` they are many writes between few drives, with `--media` drives that are read and written at once, with `--sockets`
//! two sockets, with `--shared` copies through memories that many share, with `--shallow` flows of one command to four; with `--commands KIB` every command has that
//! size, and as many bytes are under way as before.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use std::collections::BTreeMap;

use peerlane_sim::flow::compare::{Compared, Spread, compare};
use peerlane_sim::generate::scenarios::{FAMILIES, Family, Scenario, scenario};
use peerlane_units::Bytes;
use rayon::prelude::*;

/// What the two engines said of one case.
struct Case {
    family: Family,
    seed: u64,
    compared: Compared,
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let commands = args.iter().position(|text| text == "--commands").and_then(|at| {
        let value = args.drain(at..(at + 2).min(args.len())).nth(1)?;
        value.parse::<u64>().ok()
    });
    let has = |name: &str| args.iter().any(|text| text == name);
    let mut numbers = args.iter().filter_map(|text| text.parse::<u64>().ok());
    let count = numbers.next().unwrap_or(50);
    let first = match numbers.next() {
        Some(first) => first,
        None if has("--rotating") => rotating(),
        None => 0,
    };
    let is_csv = has("--csv");
    let apart = [
        Family::Coupled,
        Family::Dense,
        Family::Media,
        Family::Sockets,
        Family::Shared,
        Family::Shallow,
    ];
    let families = match apart.iter().find(|family| has(&format!("--{family}"))) {
        Some(&family) => vec![family],
        None => FAMILIES.to_vec(),
    };
    let cases: Vec<Case> = families
        .into_par_iter()
        .flat_map(|family| (first..first + count).into_par_iter().map(move |seed| (family, seed)))
        .filter_map(|(family, seed)| match compare(&case(family, seed, commands)) {
            Ok(compared) => Some(Case { family, seed, compared }),
            Err(error) => {
                eprintln!("{family} {seed}: {error}");
                None
            }
        })
        .collect();
    if is_csv {
        csv(&cases, first..first + count);
    } else {
        println!("Seeds {first} to {}.\n", first + count - 1);
        table(&cases);
        worst(&cases);
    }
}

/// A case with commands of so many KiB in place of its own.
fn case(family: Family, seed: u64, commands: Option<u64>) -> Scenario {
    let mut case = scenario(family, seed);
    if let Some(kib) = commands {
        for flow in &mut case.flows {
            let under_way = flow.request.0 * u64::from(flow.depth);
            flow.request = Bytes::kib(kib);
            flow.depth = (under_way / flow.request.0).max(1) as u32;
        }
    }
    case
}

/// Every flow: GB/s by either engine.
fn csv(cases: &[Case], seeds: std::ops::Range<u64>) {
    println!("# Seeds {} to {} of each family", seeds.start, seeds.end.saturating_sub(1));
    println!("family,seed,flow,tlp_gb_s,flow_gb_s");
    for case in cases {
        let rates = case.compared.tlp.iter().zip(&case.compared.flow);
        for (index, (tlp, flow)) in rates.enumerate() {
            println!("{},{},{index},{tlp:.4},{flow:.4}", case.family, case.seed);
        }
    }
}

/// The first seed that belongs to the commit that is checked out.
fn rotating() -> u64 {
    let commit = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let digits = commit.as_deref().ok().and_then(|id| id.get(..12));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).expect("git names a commit")
}

/// Mean, 95th percentile and highest of some errors, in percent.
fn summary(errors: impl IntoIterator<Item = f64>) -> String {
    let Spread { mean, p95, most, .. } = Spread::of(errors);
    format!("{:.2} | {:.2} | {:.1}", mean * 100.0, p95 * 100.0, most * 100.0)
}

fn table(cases: &[Case]) {
    let mut rows: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        rows.entry(case.family.to_string()).or_default().push(case);
        rows.entry("all".to_owned()).or_default().push(case);
    }
    println!(
        "| family | cases | flows | sum: mean % | p95 | max | flow: mean % | p95 | max | max-min, flow: mean % | p95 | max | rounds, most |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, cases) in rows {
        let of_flows = |rates: fn(&Compared) -> Vec<f64>| {
            summary(cases.iter().flat_map(|case| rates(&case.compared)))
        };
        let flows: usize = cases.iter().map(|case| case.compared.tlp.len()).sum();
        println!(
            "| {name} | {} | {flows} | {} | {} | {} |",
            cases.len(),
            summary(cases.iter().map(|case| case.compared.sum_error())),
            of_flows(|compared| compared.errors(&compared.flow)),
            cases.iter().map(|case| case.compared.rounds).max().unwrap_or(0),
        );
    }
}

fn worst(cases: &[Case]) {
    let worst =
        |case: &Case| case.compared.errors(&case.compared.flow).into_iter().fold(0.0, f64::max);
    let mut order: Vec<&Case> = cases.iter().collect();
    order.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    println!(
        "\n| worst | seed | flow % | sum % | TLP, GB/s | flow, GB/s |\n|---|---|---|---|---|---|"
    );
    for case in order.into_iter().take(12) {
        let rates = |rates: &[f64]| {
            rates.iter().map(|rate| format!("{rate:.2}")).collect::<Vec<_>>().join(" ")
        };
        println!(
            "| {} | {} | {:.1} | {:.1} | {} | {} |",
            case.family,
            case.seed,
            worst(case) * 100.0,
            case.compared.sum_error() * 100.0,
            rates(&case.compared.tlp),
            rates(&case.compared.flow),
        );
    }
}
