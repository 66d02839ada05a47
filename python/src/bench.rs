//! `peerlane.bench`: a workload measured on this machine.
//!
//! The workload runs on a thread of its own: the calling thread can look for signals and call
//! `progress` at any time.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use peerlane::machines::{self, LookDepth, MachineSource};
use peerlane::{Fabric, MonotonicClock, Nanos, Phase, Watch, Workload};
use peerlane_bench::length::{self, LengthError};
use peerlane_bench::run::{self, Conditions, Consent, RunError, WorkloadProgress};
use peerlane_bench::workload::{self, TextError, WrittenWorkload};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::NamedArguments;
use crate::error::{ErrorDetails, ExceptionKind};
use crate::machine::{json, workload_text};
use crate::watch::PyWatch;

/// Between two looks for signals.
const PAUSE: Duration = Duration::from_millis(50);

/// Measures a workload, which comes as the path of a TOML file or as JSON; the record as JSON.
#[pyfunction]
pub(crate) fn bench(
    py: Python<'_>,
    arguments: Bound<'_, PyDict>,
    workload_json: Option<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let named = NamedArguments(arguments);
    let file = named.text("workload")?.map(std::path::PathBuf::from);
    let consent = Consent { scratch: named.words("scratch")?, force: named.is_set("force")? };
    let deadline = Nanos::seconds(named.timeout()?);
    let mut watch = PyWatch::new(progress, None);
    let result = py.detach(|| {
        let text = workload_text(workload_json, file.as_deref())?;
        let fabric = machines::read(MachineSource::Here, LookDepth::Quiet)?;
        let workload = build(&fabric, &text)?;
        measure(&fabric, &workload, &consent, deadline, &mut watch)
    });
    watch.end(result)
}

/// Names every transfer; a short form without a length gets that of the program.
fn build(fabric: &Fabric, text: &str) -> Result<Workload, ErrorDetails> {
    let tried = |error: &TextError| {
        ErrorDetails::tried(ExceptionKind::BadInput, "read the workload", error)
    };
    let written = match workload::read(text).map_err(|error| tried(&error))? {
        WrittenWorkload::Brief(brief) => {
            WrittenWorkload::Brief(Box::new(length::within(fabric, *brief)?))
        }
        full @ WrittenWorkload::Full(_) => full,
    };
    written.build().map_err(|error| tried(&error))
}

fn measure(
    fabric: &Fabric,
    workload: &Workload,
    consent: &Consent,
    deadline: Nanos,
    watch: &mut PyWatch,
) -> Result<String, ErrorDetails> {
    let (_, warnings) = run::of_machine(fabric);
    let stop = AtomicBool::new(false);
    let conditions = Conditions {
        fabric,
        consent,
        clock: MonotonicClock::start(),
        stop: &stop,
        trace: None,
        deadline,
        started_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()),
        warnings: &warnings,
    };
    let (tell, told) = channel();
    let result = thread::scope(|scope| {
        let runner = scope.spawn(|| run::run(workload, None, &conditions, &mut Teller(tell)));
        listen(&told, &stop, watch);
        runner.join()
    });
    match result {
        Ok(result) => json(&result?),
        Err(_) => Err(ErrorDetails::new(
            ExceptionKind::Failed,
            "the benchmark ended by a fault of Peerlane",
        )),
    }
}

/// Passes on how far the workload is until it ends, and asks for its end where Python wants that.
fn listen(told: &Receiver<Next>, stop: &AtomicBool, watch: &mut PyWatch) {
    loop {
        match told.recv_timeout(PAUSE) {
            Ok(next) => watch.next_run(&next.case, next.done, next.most),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if watch.stop_requested() {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// The next run of a workload.
struct Next {
    case: String,
    done: u32,
    most: u32,
}

/// Sends the next run to the thread that called.
struct Teller(Sender<Next>);

impl WorkloadProgress for Teller {
    fn phase(&mut self, _: Phase) {}

    fn fills(&mut self, _: &str, _: Range<u64>) {}

    fn overwrites(&mut self, _: &str, _: Range<u64>) {}

    fn removes(&mut self, _: &str) {}

    fn next(&mut self, done: u32, most: u32, case: &str) {
        // The receiver is gone only after the call has ended.
        let _ = self.0.send(Next { case: case.to_owned(), done, most });
    }

    fn keep(
        &mut self,
        _: &peerlane_bench::run::BenchRecord,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

impl From<LengthError> for ErrorDetails {
    fn from(error: LengthError) -> Self {
        Self::from_error(ExceptionKind::BadInput, &error).hint(error.hint())
    }
}

impl From<RunError> for ErrorDetails {
    fn from(error: RunError) -> Self {
        let kind = match &error {
            RunError::Interrupted(_) => ExceptionKind::Interrupted,
            RunError::Workload(_) => ExceptionKind::BadInput,
            error if error.is_refused() => ExceptionKind::Refused,
            error if error.is_not_possible() => ExceptionKind::NotPossible,
            error if error.is_difference() => ExceptionKind::DataDiffers,
            _ => ExceptionKind::Failed,
        };
        Self::from_error(kind, &error).hint(error.hint())
    }
}
