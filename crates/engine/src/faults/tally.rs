//! Counts of the outcomes of many copies, and the results that hold them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check::{OF_MOMENTS, OF_RUNS, OF_TARGETS};
use super::{Ending, FaultKind, FaultedOutcome};

/// Outcomes of many copies.
#[derive(Debug, Clone, Default)]
pub struct FaultTally {
    rows: BTreeMap<FaultKind, TallyRow>,
}

#[derive(Debug, Clone, Default)]
struct TallyRow {
    cases: u64,
    endings: BTreeMap<Ending, u64>,
    runs: u64,
    resumed: u64,
    operations: u64,
}

impl FaultTally {
    /// Counts a copy.
    pub fn add(&mut self, kind: FaultKind, outcome: FaultedOutcome) {
        let row = self.rows.entry(kind).or_default();
        row.cases += 1;
        *row.endings.entry(outcome.first).or_default() += 1;
        row.runs += u64::from(outcome.runs);
        row.resumed += u64::from(outcome.resumed);
        row.operations += outcome.operations;
    }

    /// Copies counted.
    pub fn cases(&self) -> u64 {
        self.rows.values().map(|row| row.cases).sum()
    }

    /// Counts the copies with this fault that had this ending in their first run.
    pub fn count(&self, kind: FaultKind, ending: Ending) -> u64 {
        self.rows.get(&kind).and_then(|row| row.endings.get(&ending)).copied().unwrap_or(0)
    }

    /// Runs that went on by a journal.
    pub fn resumed(&self) -> u64 {
        self.rows.values().map(|row| row.resumed).sum()
    }

    fn cases_as_json(&self) -> Vec<Value> {
        let rows = self.rows.iter().map(|(kind, row)| {
            let count = |ending| row.endings.get(&ending).copied().unwrap_or(0);
            let counts: [(&str, u64); 10] = [
                ("first run: complete by P2P", count(Ending::Peer)),
                ("by host memory", count(Ending::FellBack)),
                ("error names the cause", count(Ending::Failed)),
                ("reported stuck", count(Ending::Stuck)),
                ("reported different", count(Ending::Differs)),
                ("stopped", count(Ending::Stopped)),
                ("power lost", count(Ending::PowerLost)),
                ("all runs", row.runs),
                ("of them by a journal", row.resumed),
                ("requests", row.operations),
            ];
            json!({
                "name": kind.words(),
                "runs": row.cases,
                "completed": row.cases,
                "refused_clearly": 0,
                "wrong": 0,
                "counts": counts,
            })
        });
        rows.collect()
    }
}

const WHAT: &str = "All are the product's own copy from its journals to its end, on a machine that is passed to it. The \
    fault strikes at any operation, one of a target at one of them. The further columns count how the **first** run \
    ended for that target; then what was broken is repaired, the copy goes on by its journals, and in the end every \
    byte is equal. An answer of no ends the command with the seed that replays it, and so do a panic and a run that \
    does not end.";

const SIMULATED: [(&str, &str); 9] = [
    (
        "targets",
        "two of four copies go to one drive, one to a file, one to several drives, 16 at most",
    ),
    (
        "sizes",
        "blocks of 512, 4096, 16 KiB and 64 KiB; length, offsets, depth and holes by the seed",
    ),
    ("requests", "end in any order, come back short or late, or are to be tried again"),
    ("caches", "a loss of power leaves any part of what no flush vouched for"),
    ("texts", "a loss of power leaves what was flushed, and of the rest a part, zeroes or nothing"),
    ("names", "a loss of power takes the last changes of each directory that was not flushed"),
    ("journals", "one for each target, in the directory of a target file or in another"),
    ("sets of ranges", "one of eight copies has sets of one to six ranges, which overflow"),
    (
        "persons",
        "say `--force` only where content was there before, no copy can go on, or a write was given up",
    ),
];

const NOT_SIMULATED: [(&str, &str); 7] = [
    ("io_uring, file systems, drivers", "booted machines"),
    ("a target file among several targets", "tests of the copy"),
    ("memory of a GPU, passthrough nodes, drives of other machines", "tests of these ends"),
    ("stages: only that a copy does not go on with others", "tests of the stages"),
    ("two copies at once with one journal", "tests of the journal's place"),
    ("permissions, owners and times of files", "tests of the copy"),
    ("a plan and guards, which end before a copy begins", "their tests"),
];

/// The code's own tables: the questions asked, the faults simulated, and those not simulated.
fn tables() -> Value {
    let rows = |rows: &[(&str, &str)]| -> Vec<Value> {
        rows.iter().map(|(one, other)| json!([one, other])).collect()
    };
    let asked = |questions: &mut dyn Iterator<Item = &'static str>, when: &str| -> Vec<Value> {
        questions.map(|question| json!([question, when])).collect()
    };
    let of_targets = asked(&mut OF_TARGETS.iter().map(|one| one.0), "of each target, after a run");
    let of_runs = asked(&mut OF_RUNS.iter().map(|one| one.0), "after a run");
    let of_moments = asked(&mut OF_MOMENTS.into_iter(), "at every operation");
    let asked = [of_targets, of_runs, of_moments].concat();
    let (simulated, not_simulated) = (rows(&SIMULATED), rows(&NOT_SIMULATED));
    json!([
        { "columns": ["asked", "when"], "rows": asked },
        { "columns": ["simulated", "how"], "rows": simulated },
        { "columns": ["not simulated", "held by"], "rows": not_simulated },
    ])
}

/// The results of the repository that hold a tally (form: `docs/reliability/README.md`), with the
/// command that made it.
///
/// [`super::run`] returns no outcome for a copy that did not end with every byte equal, so every
/// copy counted is complete.
pub fn results(tally: &FaultTally, command: &str) -> String {
    let results = json!({
        "suite": "simulated drives",
        "what": WHAT,
        "tables": tables(),
        "command": command,
        "on": "drives and memory simulated in one process, without a kernel's part",
        "cases": tally.cases_as_json(),
    });
    format!("{results:#}\n")
}
