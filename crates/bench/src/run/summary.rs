//! All counted runs of a case in one line.

use std::collections::HashMap;

use hdrhistogram::Histogram;
use peerlane_results::{BenchRecord, CaseRecord, RouteVerdict, Summary, Workload};

use crate::statistics::{percentiles, spread};

/// Block latencies of the runs of this process, by case; those of an earlier one are in its runs only.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    blocks: HashMap<String, Histogram<u64>>,
}

impl Summaries {
    /// Adds a run's latencies.
    pub(super) fn add(&mut self, case: String, blocks: Vec<Histogram<u64>>) {
        for block in blocks {
            match self.blocks.entry(case.clone()) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(block);
                }
                std::collections::hash_map::Entry::Occupied(mut entry) => {
                    // All have the same bounds.
                    let _ = entry.get_mut().add(&block);
                }
            }
        }
    }

    /// One for each case that ran, in the order of the workload.
    pub(super) fn all(&self, workload: &Workload, cases: &[CaseRecord]) -> Vec<Summary> {
        let one = |name: &str| {
            let runs: Vec<&CaseRecord> =
                cases.iter().filter(|case| case.asked.name == name).collect();
            let rates: Vec<f64> =
                runs.iter().filter_map(|run| run.rate()).map(|rate| rate.0 as f64).collect();
            Some(Summary {
                case: name.to_owned(),
                rate: spread(&rates)?,
                block: percentiles(self.blocks.get(name)),
                host_bytes_per_byte: host_bytes(&runs),
                cpu_s_per_gib: cpu(&runs),
                verdict: least_certain(&runs),
            })
        };
        workload.cases.iter().filter_map(|case| one(&case.name)).collect()
    }
}

/// The summaries of a record, made from its runs; latencies are those that it has, which no run gives back.
pub(crate) fn summaries(record: &BenchRecord) -> Vec<Summary> {
    let mut all = Summaries::default().all(&record.asked, &record.cases);
    for summary in &mut all {
        let kept = record.summaries.iter().find(|one| one.case == summary.case);
        if let Some(kept) = kept {
            summary.block = kept.block.clone();
        }
    }
    all
}

fn host_bytes(runs: &[&CaseRecord]) -> Option<f64> {
    let counted: Option<Vec<u64>> =
        runs.iter().map(|run| run.host_memory.bytes.map(|bytes| bytes.0)).collect();
    let payload: u64 = runs.iter().map(|run| run.bytes.0).fold(0, u64::saturating_add);
    let counted: u64 = counted?.into_iter().fold(0, u64::saturating_add);
    (payload > 0).then(|| counted as f64 / payload as f64)
}

fn cpu(runs: &[&CaseRecord]) -> f64 {
    let spent: u64 = runs
        .iter()
        .map(|run| {
            let cpu = &run.cpu;
            let workers = cpu.workers_ns.unwrap_or_default().0;
            cpu.user_ns.0.saturating_add(cpu.system_ns.0).saturating_add(workers)
        })
        .fold(0, u64::saturating_add);
    let payload: u64 = runs.iter().map(|run| run.bytes.0).fold(0, u64::saturating_add);
    let gib = payload as f64 / f64::from(1 << 30);
    if gib > 0.0 { spent as f64 / 1e9 / gib } else { 0.0 }
}

/// Silence counts for less than anything that was seen.
fn least_certain(runs: &[&CaseRecord]) -> RouteVerdict {
    runs.iter().map(|run| run.verdict).min().unwrap_or(RouteVerdict::NotKnown)
}
