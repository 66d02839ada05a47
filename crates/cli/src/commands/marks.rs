//! Marks of phases for the lab's recorder, which stands outside the guest and tells payload from checks by
//! them.

use peerlane_engine::Phase;

use crate::printer::Printer;

/// Marks phases until one does not reach the recorder.
pub(super) struct Marks {
    printer: Printer,
    is_on: bool,
}

impl Marks {
    /// Marks that are set from now on.
    pub(super) fn new(printer: Printer) -> Self {
        Self { printer, is_on: true }
    }

    /// Marks that a phase begins.
    pub(super) fn phase(&mut self, phase: Phase) {
        let phase = match phase {
            Phase::Check | Phase::Verify => peerlane_lab::MarkPhase::Check,
            Phase::Move => peerlane_lab::MarkPhase::Move,
        };
        if let (true, Err(error)) = (self.is_on, peerlane_lab::mark(phase)) {
            self.is_on = false;
            self.printer.warning(&format!("cannot mark phases for the DMA recorder: {error}"));
        }
    }
}
