//! Progress for Python while the library works, and Python's wish to stop.
//!
//! The GIL is taken for a moment at most every [`PAUSE`]: neither a callback nor the look for
//! signals slows requests down. An exception, that of Ctrl-C among them, becomes a wish to stop; it
//! is kept and raised when nothing is in flight any more.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use peerlane::{Bytes, Phase, Watch};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::error::{ErrorDetails, ExceptionKind};

/// Between two calls into Python.
const PAUSE: Duration = Duration::from_millis(50);

/// Tells Python of events.
pub(crate) struct PyWatch {
    /// Called with a phase, the bytes done and the bytes to do.
    progress: Option<Py<PyAny>>,
    /// Called with a sentence that a person should hear.
    warn: Option<Py<PyAny>>,
    phase: &'static str,
    told: Option<Instant>,
    looked: Cell<Option<Instant>>,
    raised: RefCell<Option<PyErr>>,
}

impl PyWatch {
    pub(crate) fn new(progress: Option<Py<PyAny>>, warn: Option<Py<PyAny>>) -> Self {
        let (looked, raised) = (Cell::new(None), RefCell::new(None));
        Self { progress, warn, phase: "check", told: None, looked, raised }
    }

    /// Returns the result of the watched work. An exception out of Python replaces the wish to stop
    /// that it became, with a note of the state left behind.
    pub(crate) fn end<T>(self, result: Result<T, ErrorDetails>) -> PyResult<T> {
        let Some(raised) = self.raised.into_inner() else { return Ok(result?) };
        let left = match result {
            Err(problem) => problem,
            Ok(_) => ErrorDetails::new(
                ExceptionKind::Interrupted,
                "it was complete when the wish to stop came",
            ),
        };
        Err(Python::attach(|py| {
            if raised.is_instance_of::<PyKeyboardInterrupt>(py)
                && left.kind == ExceptionKind::Interrupted
            {
                let error = PyErr::from(left);
                error.set_cause(py, Some(raised));
                return error;
            }
            match raised.value(py).call_method1("add_note", (left.line(),)) {
                Ok(_) => raised,
                Err(error) => error,
            }
        }))
    }

    /// Keeps the first exception.
    fn keep(&self, result: PyResult<Py<PyAny>>) {
        if let Err(error) = result {
            self.raised.borrow_mut().get_or_insert(error);
        }
    }

    fn tell(&mut self, done: Bytes, total: Bytes) {
        let Some(progress) = &self.progress else { return };
        let is_early = self.told.is_some_and(|told| told.elapsed() < PAUSE);
        let is_bound = done == total || done == Bytes::ZERO;
        if self.raised.borrow().is_some() || (is_early && !is_bound) {
            return;
        }
        self.told = Some(Instant::now());
        let call = |py: Python<'_>| progress.call1(py, (self.phase, done.0, total.0));
        self.keep(Python::attach(call));
    }

    /// Tells the next run of a workload, and how many are done of at most how many.
    pub(crate) fn next_run(&self, case: &str, done: u32, most: u32) {
        let Some(progress) = &self.progress else { return };
        if self.raised.borrow().is_none() {
            self.keep(Python::attach(|py| progress.call1(py, (case, done, most))));
        }
    }

    fn say(&self, text: &str) {
        if let Some(warn) = &self.warn {
            self.keep(Python::attach(|py| warn.call1(py, (text,))));
        }
    }
}

impl Watch for PyWatch {
    fn phase(&mut self, phase: Phase) {
        self.phase = match phase {
            Phase::Check => "check",
            Phase::Move => "move",
            Phase::Verify => "verify",
        };
    }

    /// After this the first block that is done is told, too, however early.
    fn begin(&mut self, done: Bytes, total: Bytes) {
        self.tell(done, total);
        self.told = None;
    }

    fn progress(&mut self, done: Bytes, total: Bytes) {
        self.tell(done, total);
    }

    fn compared(&mut self, done: Bytes, total: Bytes) {
        self.tell(done, total);
    }

    fn notice(&mut self, text: &str) {
        self.say(text);
    }

    fn caution(&mut self, text: &str) {
        self.say(text);
    }

    fn stop_requested(&self) -> bool {
        if self.looked.get().is_none_or(|looked| looked.elapsed() >= PAUSE) {
            self.looked.set(Some(Instant::now()));
            #[expect(
                clippy::redundant_closure_for_method_calls,
                reason = "the method is of one lifetime, and `attach` asks for any"
            )]
            let signals = Python::attach(|py| py.check_signals());
            if let Err(error) = signals {
                self.raised.borrow_mut().get_or_insert(error);
            }
        }
        self.raised.borrow().is_some()
    }
}
