//! Handles the events of the engine while it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use peerlane_engine::{Phase, Watch};
use peerlane_results::Route;
use peerlane_units::Bytes;

use super::marks::Marks;
use crate::args::ProgressFor;
use crate::error::Failure;
use crate::printer::{Printer, ProgressPrinter};
use crate::signals;

/// Tells a person and the lab's recorder the actions of the engine.
pub(super) struct TerminalWatch {
    printer: Printer,
    /// `None` before there is a route.
    progress: Option<ProgressPrinter>,
    stop: Arc<AtomicBool>,
    marks: Marks,
}

impl TerminalWatch {
    /// A watch that shows no progress yet.
    ///
    /// # Errors
    /// When signals cannot be caught.
    pub(super) fn new(printer: Printer) -> Result<Self, Failure> {
        let marks = Marks::new(printer);
        Ok(Self { printer, progress: None, stop: signals::stop_flag()?, marks })
    }

    /// Shows progress from now on; without a route where nothing is moved.
    pub(super) fn show(&mut self, route: Option<Route>, readers: ProgressFor) {
        self.progress = Some(ProgressPrinter::new(self.printer, route, readers));
    }

    /// Shows no more progress.
    pub(super) fn finish(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
    }
}

impl Watch for TerminalWatch {
    fn phase(&mut self, phase: Phase) {
        if let Some(progress) = &mut self.progress {
            progress.begin(phase);
        }
        self.marks.phase(phase);
    }

    fn begin(&mut self, done: Bytes, total: Bytes) {
        self.progress(done, total);
    }

    fn compared(&mut self, done: Bytes, total: Bytes) {
        self.progress(done, total);
    }

    fn progress(&mut self, done: Bytes, total: Bytes) {
        if let Some(progress) = &mut self.progress {
            progress.set(done, total);
        }
    }

    fn notice(&mut self, text: &str) {
        let Some(progress) = &mut self.progress else { return self.printer.warning(text) };
        progress.aside(|| self.printer.warning(text));
        // A notice is a fall-back, and there is only one route to fall back to.
        progress.set_route(Route::Host);
    }

    fn caution(&mut self, text: &str) {
        match &mut self.progress {
            Some(progress) => progress.aside(|| self.printer.warning(text)),
            None => self.printer.warning(text),
        }
    }

    fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
