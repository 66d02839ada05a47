//! Records of benchmarks in booted machines, checked against the recorder of every DMA.

use std::path::PathBuf;

use peerlane_results::{BENCH_SCHEMA, Basis, BenchRecord, CaseRecord, RouteVerdict};

use crate::lab::LabRun;

/// The record of a benchmark that has to be done; kept where `PEERLANE_BENCH_RECORDS` says.
pub(crate) fn record(lab: &LabRun, name: &str) -> BenchRecord {
    assert_eq!(lab.status(name), 0, "{name}: {}", lab.stderr(name));
    let text = lab.text(&format!("{name}.json"));
    let record: BenchRecord = serde_json::from_str(&text).expect("a record");
    assert_eq!((record.schema.as_str(), record.basis), (BENCH_SCHEMA, Basis::Emulated));
    assert_eq!(record.summaries.len(), record.asked.cases.len(), "{name}: every case is summed up");
    for run in &record.cases {
        let is_fitting = matches!(run.verdict, RouteVerdict::Shown | RouteVerdict::Consistent);
        assert!(is_fitting, "{name}: {:?}: {:?}", run.verdict, run.evidence);
        assert!(run.bytes.0 > 0 && run.elapsed_ns.0 > 0, "{name}: {}", run.asked.name);
        assert!(run.verification.is_none_or(|checked| checked.mismatches == 0), "{name}");
    }
    keep(name, &text);
    record
}

fn keep(name: &str, text: &str) {
    let Some(folder) = std::env::var_os("PEERLANE_BENCH_RECORDS").map(PathBuf::from) else {
        return;
    };
    std::fs::create_dir_all(&folder).expect("a folder of records");
    let text = format!("{}\n", text.trim_end());
    std::fs::write(folder.join(format!("{name}.json")), text).expect("a record to keep");
}

/// Records of everything that ran in this boot, by one route, which the recorder has to show.
pub(crate) fn shown<const N: usize>(lab: &LabRun, names: [&str; N]) -> [BenchRecord; N] {
    lab.attach(&names);
    names.map(|name| {
        let record = record(lab, name);
        let is_shown = |run: &CaseRecord| run.verdict == RouteVerdict::Shown;
        assert!(record.cases.iter().all(is_shown), "{name}: {:?}", record.cases[0].evidence);
        record
    })
}

/// Payload of all runs, in bytes.
pub(crate) fn payload(record: &BenchRecord) -> u64 {
    record.cases.iter().map(|run| run.bytes.0).sum()
}
