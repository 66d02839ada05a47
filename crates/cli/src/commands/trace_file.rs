//! The file of `--trace`. Its place is checked before the copy begins, and the file is made after
//! the copy: an interrupted copy leaves nothing.

use std::path::Path;

use peerlane_engine::trace::{ROOM, Tracer};
use peerlane_engine::{CopyOptions, MonotonicClock};
use peerlane_results::Asked;

use crate::args::CopyArgs;
use crate::error::Failure;
use crate::output_file::{OutputFile, OutputKind};
use crate::printer::Printer;

/// A trace under way. A copy that fails leaves one, too: it shows the requests before the failure.
pub(super) struct TraceFile {
    tracer: Tracer,
    output: OutputFile,
}

impl TraceFile {
    /// Looks at the place, for so many copies at a time; the clock is theirs.
    ///
    /// # Errors
    /// When there is a file of that name, none can be made there, or it is `-`.
    pub(super) fn begin(path: &Path, clock: MonotonicClock, at_once: u16) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            let hint = "name a file, such as run.pftrace; `./-` is one of that name";
            let error = "a trace goes into a file: `-` would be a pipe";
            return Err(Failure::new(error).hint(hint.to_owned()));
        }
        let output = OutputFile::at(path, OutputKind::New)?;
        Ok(Self { tracer: Tracer::new(clock, ROOM, usize::from(at_once)), output })
    }

    /// Tracer for the copies.
    pub(super) fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Writes the trace, warns where it is not whole, and names the file.
    ///
    /// # Errors
    /// When it cannot be written, or a file of that name has come meanwhile.
    pub(super) fn finish(mut self, printer: Printer) -> Result<(), Failure> {
        let path = self.output.path().to_owned();
        let traces = self.tracer.finish();
        let filled = self.output.fill(|mut out| peerlane_report::trace::write(&traces, &mut out));
        filled.map_err(|error| error.on(&path))?;
        let left_out: u64 = traces.iter().map(|trace| trace.left_out).sum();
        if left_out > 0 {
            printer.warning(&format!(
                "{left_out} requests are not in {}: there is room for {ROOM} notes, two or three a \
                 request",
                path.display()
            ));
        }
        printer.note(&format!("trace in {}: open it at https://ui.perfetto.dev", path.display()));
        Ok(())
    }
}

/// The trace that was asked for, if one was, of copies to these targets.
///
/// # Errors
/// As [`TraceFile::begin`], and when a target or the journal would have its name.
pub(super) fn begin<'a>(
    args: &'a CopyArgs,
    targets: impl IntoIterator<Item = &'a Asked>,
    clock: MonotonicClock,
) -> Result<Option<TraceFile>, Failure> {
    let Some(path) = &args.trace else { return Ok(None) };
    let trace = TraceFile::begin(path, clock, args.jobs)?;
    let targets = targets.into_iter().map(|asked| Path::new(&asked.target));
    trace.output.apart_from(targets.chain(args.journal.as_deref()))?;
    Ok(Some(trace))
}

/// The options with where the copy is written down.
pub(super) fn for_copy(options: CopyOptions, trace: Option<&TraceFile>) -> CopyOptions {
    CopyOptions { trace: trace.map(TraceFile::tracer), ..options }
}

/// Writes the trace that was asked for, if one was. Where the copy failed, that counts for more.
///
/// # Errors
/// That of the copy, or else that of the trace.
pub(super) fn finish<T>(
    trace: Option<TraceFile>,
    result: Result<T, Failure>,
    printer: Printer,
) -> Result<T, Failure> {
    let written = trace.map_or(Ok(()), |trace| trace.finish(printer));
    match (result, written) {
        (Ok(done), Ok(())) => Ok(done),
        (Ok(_), Err(failure)) => Err(failure),
        (Err(failure), written) => {
            written.unwrap_or_else(|second| printer.failure(&second));
            Err(failure)
        }
    }
}
