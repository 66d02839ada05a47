//! Progress and notices of a running copy, and requests to stop it.

use peerlane_units::{Bytes, Nanos};

use crate::io::clock::Clock;

/// Activity of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Planning, or proving the route: host memory is used on purpose.
    Check,
    /// Moving payload.
    Move,
    /// Verifying content at the target, by host memory on purpose.
    Verify,
}

/// Receives progress and notices, and may ask for an end. Called on the engine's thread; must not
/// block.
pub trait Watch {
    /// Called before each phase begins, when nothing is in flight.
    fn phase(&mut self, phase: Phase) {
        let _ = phase;
    }

    /// Called when a phase that moves or compares bytes begins, with the bytes done already.
    fn begin(&mut self, done: Bytes, total: Bytes) {
        let _ = (done, total);
    }

    /// Called when payload has been written; `done` only grows and ends at `total`.
    fn progress(&mut self, done: Bytes, total: Bytes) {
        let _ = (done, total);
    }

    /// Called when content has been compared; `done` only grows and ends at `total`.
    fn compared(&mut self, done: Bytes, total: Bytes) {
        let _ = (done, total);
    }

    /// Called with something a person should hear at once: a fall-back and its reason.
    fn notice(&mut self, text: &str) {
        let _ = text;
    }

    /// Called with something that a person should know although the copy goes on as it was.
    fn caution(&mut self, text: &str) {
        let _ = text;
    }

    /// Asked between completions; true drains requests in flight and ends the copy as interrupted.
    fn stop_requested(&self) -> bool {
        false
    }
}

/// Hears nothing and never stops.
impl Watch for () {}

/// Clock, watch and deadline of a read.
pub struct ReadTools<'a> {
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Is told what happens, and may ask for an end.
    pub watch: &'a mut dyn Watch,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}
