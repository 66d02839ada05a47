//! The count of what became of many copies, and the results that hold it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

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

const WHAT: &str = "Each copy has sizes, blocks, depth, holes and content of its own, drawn from a seed, on drives \
    that end requests in any order and keep over a loss of power only what a flush vouched for. Two of four go to \
    one drive, one to a file, and one to several drives, 16 at most, each with a journal of its own. All are the \
    product's own copy from its journals to its end, on a machine that is passed to it. The fault strikes at any \
    operation, one of a target at one of them. The further columns count how the **first** run ended for that \
    target; then what was broken is repaired, the copy goes on by its journals, and in the end every byte is equal. \
    After every run these are asked: nothing beside the copy changed; the name of a file shows all of the copy, \
    flushed, or what it showed before; targets and journals are changed under the lock only; the journal claims \
    only what is on stable storage, in the moment when it is put in place, too; what is counted adds up; what is \
    reported complete is complete, on stable storage, and without a journal, lock or unfinished file; memory goes \
    back without payload; a route that loses data is not taken; the error names the cause, and only targets fail \
    whose fault it is; the source is read once for all of them; nothing is left in flight. An answer of no ends the \
    command with the seed that replays it.";

/// The results of the repository that hold a tally (form: `docs/reliability/README.md`), with the
/// command that made it.
///
/// [`super::run`] returns no outcome for a copy that did not end with every byte equal, so that all
/// that was counted is complete.
pub fn results(tally: &FaultTally, command: &str) -> String {
    let results = json!({
        "suite": "simulated drives",
        "what": WHAT,
        "command": command,
        "on": "drives and memory simulated in one process, without a kernel's part",
        "cases": tally.cases_as_json(),
    });
    format!("{results:#}\n")
}
