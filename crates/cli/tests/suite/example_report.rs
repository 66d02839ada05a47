//! The example of a report is that of the records next to it.
//!
//! `UPDATE=1` with this test writes it anew.

use std::fs;
use std::path::{Path, PathBuf};

use peerlane_results::{Basis, BenchRecord, RouteVerdict};
use peerlane_testing::Scratch;

use crate::program::{Exited, command};

/// In the order of the page.
const RECORDS: [&str; 9] =
    ["sweep", "sweep-host", "matrix", "crowd", "incast", "stream", "back", "roundtrip", "alone"];
const TITLE: &str = "Benchmarks in the lab: emulated machine, semantics not speed";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples")
}

fn record_path(name: &str) -> PathBuf {
    examples().join(format!("records/{name}.json"))
}

#[test]
fn example_matches_its_records() {
    let folder = Scratch::new();
    let page = folder.at("emulated.html");
    let verdicts = command(folder.path())
        .arg("report")
        .args(RECORDS.map(record_path))
        .args(["--title", TITLE, "-o"])
        .arg(&page)
        .output()
        .expect("the program starts")
        .exited(0)
        .text();
    assert_eq!(verdicts.lines().count(), 1 + RECORDS.len(), "the headline comes first");
    let is_marked = |line: &str| line.starts_with("Emulated machine: semantics, not speed.");
    assert!(verdicts.lines().all(is_marked), "{verdicts}");
    assert!(!verdicts.contains("B/s"), "no rate of an emulator is in a verdict: {verdicts}");
    let made = fs::read_to_string(page).expect("a page");
    let drawings = made.matches("computed from their rates and paths").count();
    assert!(drawings >= RECORDS.len(), "each record is drawn on its machine: {drawings}");
    peerlane_testing::check_file(examples().join("emulated.html"), &made);
}

#[test]
fn recorder_saw_every_example_run() {
    for name in RECORDS {
        let text = fs::read(record_path(name)).expect("a record");
        let record: BenchRecord = serde_json::from_slice(&text).expect("a record");
        assert_eq!(record.basis, Basis::Emulated, "{name}");
        for run in &record.cases {
            assert_eq!(run.verdict, RouteVerdict::Shown, "{name}: {}", run.asked.name);
            let is_recorded = run.evidence.iter().any(|one| {
                one.says == RouteVerdict::Shown
                    && one.evidence.looked_at
                        == "every DMA of the drives, recorded outside the guest"
            });
            assert!(is_recorded, "{name}: {}", run.asked.name);
        }
    }
}
