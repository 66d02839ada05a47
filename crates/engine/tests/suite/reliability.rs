//! The results of the copies on simulated drives count enough of them, and have the required text.

#![allow(clippy::unwrap_used, reason = "a failure in a test is a panic")]

use serde_json::Value;

/// Copies that the results must count.
const COPIES_MIN: u64 = 100_000;

fn results() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reliability/simulated-drives.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn count(case: &Value, column: usize) -> u64 {
    case["counts"][column][1].as_u64().unwrap()
}

#[test]
fn results_count_enough_unbroken_copies() {
    let results = results();
    let cases = results["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 31, "one for each fault");
    let mut copies = 0;
    for case in cases {
        let runs = case["runs"].as_u64().unwrap();
        let endings: u64 = (0..7).map(|column| count(case, column)).sum();
        assert_eq!(runs, endings, "every copy ends in one way: {case}");
        assert!(count(case, 7) >= runs, "every copy takes a run at least: {case}");
        assert_eq!(case["completed"], runs, "{case}");
        copies += runs;
    }
    assert!(copies >= COPIES_MIN, "{copies} copies");
}

#[test]
fn results_name_their_command() {
    let command =
        "cargo run --release -p peerlane-engine --features simulation --example faults -- --runs ";
    let results = results();
    let named = results["command"].as_str().unwrap();
    assert!(named.starts_with(command), "{named}");
    assert!(named.ends_with(" --write docs/reliability/simulated-drives.json"), "{named}");
}
