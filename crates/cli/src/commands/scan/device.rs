//! Runs a search on the processors or on a GPU, and reports on the GPU's work.

use std::thread::available_parallelism;

use peerlane_memory::cuda::Limits;
use peerlane_results::RouteChoice;
use peerlane_scan::cuda::{GpuOptions, GpuScanError, GpuSearch, GpuWork, WorkPart, scan_on_gpu};
use peerlane_scan::inputs::FoundInput;
use peerlane_scan::{Busy, Crops, ScanEvent, Searcher, scan};
use peerlane_units::Nanos;

use crate::args::{ScanArgs, ScanOn};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render::counted;

/// Time that a GPU or a drive may take, unless it is said.
const TIMEOUT: Nanos = Nanos::seconds(60);

/// Processors or GPU of a search.
pub(super) enum SearchDevice<'a> {
    Cpu { searcher: &'a Searcher, threads: usize },
    Gpu { search: Box<GpuSearch<'a>>, name: String },
}

impl<'a> SearchDevice<'a> {
    /// Makes ready the processors or the GPU that the arguments name.
    ///
    /// # Errors
    /// When there is no such GPU, or a part that it needs is missing: nothing falls back to the
    /// processors.
    pub(super) fn new(args: &ScanArgs, searcher: &'a Searcher) -> Result<Self, Failure> {
        let processors = available_parallelism().map_or(1, usize::from);
        let threads = args.threads.map_or(processors, usize::from);
        let ScanOn::Gpu(gpu) = args.on else {
            if args.route.is_some() || args.timeout.is_some() {
                let error = "`--route` and `--timeout` are of a GPU, and `--on cpu` has none";
                return Err(Failure::new(error).hint("`--on gpu`".to_owned()));
            }
            return Ok(Self::Cpu { searcher, threads });
        };
        let route = args.route.map_or(RouteChoice::Auto, RouteChoice::from);
        let deadline = args.timeout.unwrap_or(TIMEOUT);
        let options = GpuOptions { gpu, route, threads, deadline };
        let name = format!("gpu:{gpu}");
        let search = GpuSearch::open(searcher, options).map_err(|error| failed(&name, error))?;
        Ok(Self::Gpu { search: Box::new(search), name })
    }

    /// Searches all images found; returns the work of the GPU.
    pub(super) fn scan(
        &self,
        found: impl Iterator<Item = FoundInput> + Send + 'static,
        crops: Crops,
        tell: impl FnMut(ScanEvent, Busy) -> bool,
    ) -> Result<Option<GpuWork>, Failure> {
        match self {
            Self::Cpu { searcher, threads } => {
                scan(found, searcher, *threads, crops, tell);
                Ok(None)
            }
            Self::Gpu { search, name } => {
                let done = scan_on_gpu(found, search, crops, tell);
                done.map(Some).map_err(|error| failed(name, error))
            }
        }
    }

    /// Says how images came to a GPU, and how long its kernels took.
    pub(super) fn tell(&self, done: &Option<GpuWork>, printer: Printer) {
        let (Self::Gpu { search, name }, Some(work)) = (self, done) else { return };
        let facts = search.facts();
        printer.note(&format!("{name} ({}, {}): {}", facts.model, facts.address, ways(work)));
        if let Some(flags) = &work.flags {
            printer.note(flags);
        }
        match work.counts {
            Some(Ok(counts)) => printer.note(&format!("cuFile counted {counts}")),
            Some(Err(none)) => {
                printer.note(&format!("the route of these images is unknown: {none}"));
            }
            None => {}
        }
        if let (Some(reason), true) = (&work.reason, work.through_host.0 > 0) {
            printer.note(&format!("not directly: {reason}"));
        }
        printer.note(&kernels(work, search.limits()));
    }

    /// True when the route that was asked for took no image at all.
    pub(super) fn is_refused(&self, done: &Option<GpuWork>, searched: usize) -> bool {
        searched == 0 && done.as_ref().is_some_and(|work| work.refused > 0)
    }
}

fn failed(name: &str, error: GpuScanError) -> Failure {
    let hint = error.hint().map(str::to_owned);
    let exit = if error.is_missing() { Exit::NotPossible } else { Exit::Failed };
    Tried::to(format!("search on {name}"))(error).hint(hint).exit(exit)
}

/// Paths of images to the GPU, in words.
fn ways(work: &GpuWork) -> String {
    let mut ways = Vec::new();
    if let ((images @ 1.., bytes), Some(mode)) = (work.direct, work.mode) {
        let by = match work.counts {
            Some(Err(_)) => "cuFile, by a route that is unknown".to_owned(),
            _ => mode.to_string(),
        };
        ways.push(format!("{}, {bytes}, by {by}", counted(images, "image")));
    }
    if let (images @ 1.., bytes) = work.through_host {
        let cached = match work.page_cache {
            0 => String::new(),
            cached => format!(", {cached} of them out of the page cache"),
        };
        ways.push(format!(
            "{}, {bytes}, through pinned host memory{cached}",
            counted(images, "image")
        ));
    }
    if let (images @ 1.., bytes) = work.decoded {
        ways.push(format!(
            "{}, {bytes} of pixels, decoded and copied up",
            counted(images, "image")
        ));
    }
    if work.by_means > 0 {
        ways.push(format!(
            "{} looked at by their blocks on the processor",
            counted(work.by_means, "image")
        ));
    }
    if ways.is_empty() { "no images".to_owned() } else { ways.join("; ") }
}

/// Times and rates of the GPU's kernels, with the rates' shares of the GPU's limits.
fn kernels(work: &GpuWork, limits: Limits) -> String {
    let share = |part: WorkPart, most: u64| match most {
        0 => String::new(),
        most => {
            format!(" ({:.1} % of {:.0})", 100.0 * part.rate() / most as f64, most as f64 / 1e9)
        }
    };
    let milliseconds = |time: Nanos| time.0 as f64 / 1e6;
    let (means, correlate) = (work.means, work.correlate);
    format!(
        "kernels: means {:.3} ms, {:.2} GB/s{}; correlation {:.3} ms, {:.2} G operations/s{}; others {:.3} ms in {} waits",
        milliseconds(means.time),
        means.rate() / 1e9,
        share(means, limits.memory_rate),
        milliseconds(correlate.time),
        correlate.rate() / 1e9,
        share(correlate, limits.operation_rate),
        milliseconds(work.other.time),
        work.other.amount,
    )
}
