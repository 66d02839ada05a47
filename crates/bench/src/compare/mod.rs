//! Two runs of a workload beside each other: is it faster or slower, by how much, how sure.

use peerlane_results::{BenchRecord, COMPARE_SCHEMA, ComparedRun, Comparison};

/// How sure all verdicts of a comparison are together.
const CONFIDENCE: f64 = 0.95;

/// Compares `after` with `before`, case by case; `threshold` is by how much a case may be slower, as a
/// share: 0.05.
pub fn compare(before: &BenchRecord, after: &BenchRecord, threshold: f64) -> Comparison {
    Comparison {
        schema: COMPARE_SCHEMA.to_owned(),
        before: run(before),
        after: run(after),
        threshold,
        confidence: CONFIDENCE,
        method: String::new(),
        cases: Vec::new(),
        notes: Vec::new(),
        has_regressed: false,
    }
}

fn run(record: &BenchRecord) -> ComparedRun {
    ComparedRun {
        name: record.asked.name.clone(),
        machine: record.machine.clone(),
        basis: record.basis,
        started_s: record.started_s,
    }
}
