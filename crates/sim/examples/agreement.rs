//! Prints how far the flow engine is from packets: the tables of `docs/model.md`.
//!
//! `cargo run --release -p peerlane-sim --example agreement`
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "figures for people"
)]

#[path = "../tests/agreement/cases.rs"]
mod cases;
#[path = "../tests/agreement/compare.rs"]
mod compare;

use cases::{FAMILIES, Family};
use compare::{AgreementRates, DEVELOPMENT, HOLD_OUT, compared, spreads};

fn main() {
    for (name, seeds, families) in [
        ("Development, seeds 0 to 11", DEVELOPMENT, &FAMILIES[..]),
        ("Hold-out, seeds 1000 to 1007", HOLD_OUT, &FAMILIES[..]),
        ("New, seeds 50000 to 50023", 50_000..50_024, &FAMILIES[..]),
        ("Dense, seeds 0 to 11", DEVELOPMENT, &[Family::Dense][..]),
    ] {
        print_table(name, &compared(&seeds, families));
    }
}

fn print_table(name: &str, cases: &[(Family, u64, AgreementRates)]) {
    println!("\n{name}\n\n| Family | Cases | Sums: mean, p95, worst % | Flows |");
    println!("| --- | --- | --- | --- |");
    let mut families: Vec<Family> = cases.iter().map(|&(family, ..)| family).collect();
    families.sort();
    families.dedup();
    for family in families.iter().map(Some).chain([None]) {
        let own = cases.iter().filter(|(of, ..)| family.is_none_or(|family| family == of));
        let own = own.map(|(.., compared)| compared);
        let errors = spreads(own.clone());
        let [sums, flows] =
            errors.map(|errors| errors.map(|error| format!("{:.2}", error * 100.0)));
        let name = family.map_or("all".to_owned(), |family| format!("{family:?}"));
        let [sums, flows] = [sums.join(", "), flows.join(", ")];
        println!("| {name} | {} | {sums} | {flows} |", own.count());
    }
    let worst = |case: &AgreementRates| case.errors().fold(0.0, f64::max);
    let furthest = cases.iter().max_by(|a, b| worst(&a.2).total_cmp(&worst(&b.2)));
    if let Some((family, seed, case)) = furthest {
        println!("\nFurthest: {family:?} {seed}: packets {:.2?}, flow {:.2?}", case.tlp, case.flow);
    }
}
