//! Counts of outcomes, and the file that keeps them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::case::{KillCase, KillKind, KillOutcome};

/// Outcomes of cases of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct KillCounts {
    runs: u64,
    completed: u64,
    wrong: u64,
    resumed: u64,
    strikes: u64,
}

/// Outcomes of all cases.
#[derive(Debug, Default)]
pub(crate) struct KillTally {
    counts: BTreeMap<KillKind, KillCounts>,
    broken: Vec<String>,
}

impl KillTally {
    pub(crate) fn add(&mut self, case: &KillCase, outcome: Result<KillOutcome, String>) {
        let count = self.counts.entry(case.kind).or_default();
        count.runs += 1;
        match outcome {
            Ok(outcome) => {
                count.completed += 1;
                count.resumed += u64::from(outcome.resumed);
                count.strikes += outcome.strikes;
            }
            Err(reason) => {
                count.wrong += 1;
                self.broken.push(format!("seed {}, {}: {reason}", case.seed, case.kind.name()));
            }
        }
    }

    fn strikes(&self) -> u64 {
        self.counts.values().map(|count| count.strikes).sum()
    }

    pub(crate) fn write(&self, path: &Path, cases: u64) {
        // The test runs in the folder of its package.
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
        let rows: Vec<_> = KillKind::ALL
            .iter()
            .filter_map(|kind| Some((kind, self.counts.get(kind)?)))
            .map(|(kind, count)| {
                json!({
                    "name": kind.name(),
                    "runs": count.runs,
                    "completed": count.completed,
                    "refused_clearly": 0,
                    "wrong": count.wrong,
                })
            })
            .collect();
        let resumed: u64 = self.counts.values().map(|count| count.resumed).sum();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let report = json!({
            "suite": "killed processes",
            "what": format!(
                "The program is ended by a signal at a random moment of a copy of a real file, and goes \
                 on as it advises itself: the target's name shows the old content or all of the new, \
                 every byte is equal in the end, nothing is left next to it. {} signals found it \
                 running; {resumed} copies went on by a journal",
                self.strikes()
            ),
            "command": format!(
                "PEERLANE_KILLS={cases} PEERLANE_KILLS_REPORT=docs/reliability/process-kills.json \
                 cargo test -p peerlane-cli --test suite kills"
            ),
            "on": format!("Linux {}, {cores} cores, real files", release.trim()),
            "cases": rows,
        });
        let text = serde_json::to_string_pretty(&report).expect("a report");
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text + "\n").expect("room for the report");
    }

    /// Fails with the broken cases, and if a kind was not tried.
    pub(crate) fn check(&self, cases: u64) {
        assert!(self.broken.is_empty(), "{}", self.broken.join("\n"));
        let runs: u64 = self.counts.values().map(|count| count.runs).sum();
        assert_eq!(runs, cases);
        assert!(self.strikes() >= cases, "every case has a signal that found the program running");
        if cases >= 20 {
            assert_eq!(self.counts.len(), KillKind::ALL.len());
            assert!(
                self.counts.values().any(|count| count.resumed > 0),
                "none went on by a journal"
            );
        }
    }
}
