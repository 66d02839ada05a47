//! The count of what became of many copies, and the page that shows it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Ending, Kind, Outcome};

/// Outcomes of many copies.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    rows: BTreeMap<Kind, Row>,
}

#[derive(Debug, Clone, Default)]
struct Row {
    cases: u64,
    endings: BTreeMap<Ending, u64>,
    runs: u64,
    resumed: u64,
    operations: u64,
}

impl Tally {
    /// Counts a copy.
    pub fn add(&mut self, kind: Kind, outcome: Outcome) {
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

    /// How many copies with this fault had this ending in their first run.
    pub fn count(&self, kind: Kind, ending: Ending) -> u64 {
        self.rows.get(&kind).and_then(|row| row.endings.get(&ending)).copied().unwrap_or(0)
    }

    /// Runs that went on by a journal.
    pub fn resumed(&self) -> u64 {
        self.rows.values().map(|row| row.resumed).sum()
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| Fault | Copies | Complete by P2P | Complete by host memory | Error names the cause | \
             Reported stuck | Reported different | Stopped | Power lost | Runs | Runs that went on by a \
             journal | Requests | Untrue |\n\
             | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n",
        );
        for (kind, row) in &self.rows {
            let count = |ending| row.endings.get(&ending).copied().unwrap_or(0);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | 0 |",
                kind.words(),
                row.cases,
                count(Ending::Peer),
                count(Ending::FellBack),
                count(Ending::Failed),
                count(Ending::Stuck),
                count(Ending::Differs),
                count(Ending::Stopped),
                count(Ending::PowerLost),
                row.runs,
                row.resumed,
                row.operations,
            );
        }
        text
    }
}

/// The page of the repository that shows a tally, with the command that made it.
pub fn page(tally: &Tally, command: &str) -> String {
    format!(
        "# Reliability\n\n\
         What becomes of a copy when something goes wrong. This page is written by the command below; \
         its test is in `crates/engine/tests/reliability.rs`.\n\n\
         ## On simulated drives\n\n    {command}\n\n\
         Each copy has sizes, blocks, depth, holes and content of its own, drawn from a seed, on drives \
         that end requests in any order and keep over a loss of power only what a flush vouched for. The \
         fault strikes at any operation. The columns count how the **first** run ended; then what was \
         broken is repaired, the copy goes on by its journal, and in the end every byte is equal. After \
         every run these are asked: nothing beside the copy changed; the journal claims only what is on \
         stable storage; what is counted is written, once; what is reported complete is complete and on \
         stable storage; a route that loses data is not taken; the error names the cause; nothing is left \
         in flight. An answer of no ends the command with the seed that replays it, so that the last \
         column can only hold zero.\n\n{}\n\
         {} copies, {} of their runs went on by a journal, no promise broken.\n",
        tally.table(),
        tally.cases(),
        tally.resumed(),
    )
}
