//! Handles the events of a running workload.

use std::error::Error;
use std::ops::Range;

use peerlane_bench::run::WorkloadProgress;
use peerlane_engine::Phase;
use peerlane_results::BenchRecord;
use peerlane_units::Bytes;

use super::super::marks::Marks;
use super::keep;
use crate::output_file::OutputFile;
use crate::printer::{BenchProgress, Printer};
use crate::render::OverwrittenRanges;

/// Shows how far it is, marks phases for the lab's recorder, keeps the record.
pub(super) struct Watcher {
    printer: Printer,
    progress: BenchProgress,
    output: Option<OutputFile>,
    overwritten: OverwrittenRanges,
    /// Files that were made for nothing.
    removed: Vec<String>,
    marks: Marks,
}

impl Watcher {
    /// A watcher that keeps the record in this file.
    pub(super) fn new(printer: Printer, output: Option<OutputFile>) -> Self {
        Self {
            printer,
            progress: BenchProgress::new(printer),
            output,
            overwritten: OverwrittenRanges::default(),
            removed: Vec::new(),
            marks: Marks::new(printer),
        }
    }

    /// Shows no more.
    pub(super) fn finish(&mut self) {
        self.progress.finish();
    }

    /// Ranges overwritten until now.
    pub(super) fn overwritten(self) -> OverwrittenRanges {
        self.overwritten
    }

    /// Tells of content overwritten and files removed by an unfinished workload, also with `-q`:
    /// nothing is put back.
    pub(super) fn tell_what_is_left(&self) {
        for line in self.overwritten.lines() {
            self.printer.warning(&line);
        }
        for name in &self.removed {
            self.printer.note(&format!("removed {name}, which this command had made"));
        }
    }
}

impl WorkloadProgress for Watcher {
    fn phase(&mut self, phase: Phase) {
        self.marks.phase(phase);
    }

    fn fills(&mut self, source: &str, range: Range<u64>) {
        let bytes = Bytes(range.end - range.start);
        self.printer.note(&format!("{source} gets a pattern: {bytes} from byte {}", range.start));
        self.overwritten.add(source, range);
    }

    fn overwrites(&mut self, target: &str, range: Range<u64>) {
        self.overwritten.add(target, range);
    }

    fn removes(&mut self, target: &str) {
        self.overwritten.remove(target);
        self.removed.push(target.to_owned());
    }

    fn next(&mut self, done: u32, most: u32, case: &str) {
        self.progress.next(done, most, case);
    }

    fn keep(&mut self, record: &BenchRecord) -> Result<(), Box<dyn Error + Send + Sync>> {
        match &mut self.output {
            Some(output) => Ok(keep::write(output, record)?),
            None => Ok(()),
        }
    }
}
