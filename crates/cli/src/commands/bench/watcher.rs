//! What becomes of what a workload tells while it runs.

use std::error::Error;
use std::path::{Path, PathBuf};

use peerlane_bench::run::Progress;
use peerlane_engine::Phase;
use peerlane_results::BenchRecord;

use super::keep;
use crate::printer::{Printer, Runs};

/// Shows how far it is, marks phases for the lab's recorder, keeps the record.
pub(super) struct Watcher {
    printer: Printer,
    runs: Runs,
    output: Option<PathBuf>,
    /// Whether marks reach the recorder.
    marks: bool,
}

impl Watcher {
    /// A watcher that keeps the record in this file.
    pub(super) fn new(printer: Printer, output: Option<&Path>) -> Self {
        let output = output.map(Path::to_owned);
        Self { printer, runs: Runs::new(printer), output, marks: true }
    }

    /// Shows no more.
    pub(super) fn finish(&mut self) {
        self.runs.finish();
    }
}

impl Progress for Watcher {
    fn phase(&mut self, phase: Phase) {
        let phase = match phase {
            Phase::Check | Phase::Verify => peerlane_lab::Phase::Check,
            Phase::Move => peerlane_lab::Phase::Move,
        };
        if let (true, Err(error)) = (self.marks, peerlane_lab::mark(phase)) {
            self.marks = false;
            self.printer.warning(&format!("cannot mark phases for the DMA recorder: {error}"));
        }
    }

    fn next(&mut self, done: u32, most: u32, case: &str) {
        self.runs.next(done, most, case);
    }

    fn keep(&mut self, record: &BenchRecord) -> Result<(), Box<dyn Error + Send + Sync>> {
        match &self.output {
            Some(output) => keep::write(output, record),
            None => Ok(()),
        }
    }
}
