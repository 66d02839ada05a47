//! Samples of every kind, made by hand in `fixtures/results/samples`.
//!
//! `UPDATE=1 cargo test -p peerlane-report --test fixtures` writes them as their records are written now.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use peerlane_report::Record;
use serde::Serialize;

/// A record as the program writes it.
fn written(record: &Record) -> String {
    fn text(record: &impl Serialize) -> String {
        serde_json::to_string_pretty(record).unwrap() + "\n"
    }
    match record {
        Record::Bench(record) => text(record),
        Record::Compare(record) => text(record),
        Record::Copy(record) => text(record),
        Record::FanOut(record) => text(record),
        Record::Batch(record) => text(record),
        Record::Verify(record) => text(record),
        Record::Doctor(record) => text(record),
        Record::Plan(record) => text(record),
        Record::FanOutPlan(record) => text(record),
        Record::BatchPlan(record) => text(record),
        Record::Nodes(record) => text(record),
        Record::CompareNodes(record) => text(record),
    }
}

#[test]
fn samples_of_every_kind_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/results/samples");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "json")) {
        let name = path.display();
        let kept = std::fs::read_to_string(&path).unwrap();
        let record = Record::from_json(kept.as_bytes());
        let sample = written(&record.unwrap_or_else(|error| panic!("{name}: {error}")));
        peerlane_testing::check_file(&path, &sample);
        count += 1;
    }
    assert_eq!(count, 14);
}
