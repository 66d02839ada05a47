//! Ranges of files into memory of a GPU: the one way, for all that load.
//!
//! A [`Loader`] takes any number of [`LoadPart`]s and cuts them into pieces, those of the longest parts first. Threads
//! take piece after piece: each reads one into a slot of pinned host memory (out of the page cache as far as it lies
//! there, else from the drive by direct I/O), and the copy engine sends it straight to its place while the thread reads
//! the next. With few processors the copy engine reads the page cache itself ([`LoadSettings`]).
//!
//! By [`RouteChoice::P2p`] every part goes by cuFile, direct by P2PDMA or else by nvidia-fs, or is refused; by
//! [`RouteChoice::Host`] through pinned host memory; by [`RouteChoice::Auto`] directly if the
//! machine has a direct way at all and nothing refuses, else through host memory, with the reason.
//! cuFile is not opened on a machine that has none.
//!
//! [`LoadRoutes::judge`] has the last word. What cuFile counted as moved through host memory
//! although it was to go directly is an error. Without counters [`RouteChoice::P2p`] is refused,
//! and by [`RouteChoice::Auto`] the route of what cuFile moved is unknown.

mod direct;
mod direct_support;
mod error;
mod file;
mod job;
mod piece;
mod pool;
mod settings;
mod ways;
mod worker;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use peerlane_memory::cuda::{Gpu, GpuTarget, StreamMark};
use peerlane_results::RouteChoice;
use peerlane_units::{Bytes, Nanos};

pub use error::{LoadError, PartError};
pub use file::LoadFile;
pub use pool::PinnedPool;
pub use settings::{LoadSettings, PINNED_VARIABLE};
pub use ways::LoadRoutes;

pub use crate::endpoints::find_gpu;
pub use crate::io::watch::ReadTools;

use crate::io::clock::Clock;
use crate::io::failure::{Cause, RequestFailure, Role, Stuck};
use crate::io::ring::Action;
use direct::DirectLoader;
use job::LoadJob;
use pool::{NoSlots, SlotPair, TakenPairs};
use worker::Worker;

/// Unit of offsets and lengths of direct I/O: no drive or file system in use asks for more.
const BLOCK: u64 = 4096;
/// Interval between two checks for a stop request.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Interval between two reads of the load average.
const LOAD_POLL: Duration = Duration::from_secs(1);
/// Wait for workers after a stop or failure.
const END_WAIT: Duration = Duration::from_millis(150);
/// Longest counted gap between two polls, since a stopped process must not time out when it resumes.
const MAX_POLL_GAP: Nanos = Nanos::seconds(1);

/// A range of a file, and its place in memory of the loader's GPU.
#[derive(Debug, Clone)]
pub struct LoadPart {
    /// The file.
    pub file: LoadFile,
    /// Bytes of it.
    pub range: Range<u64>,
    /// The memory.
    pub memory: GpuTarget,
    /// Offset in it of the first byte.
    pub offset: u64,
}

/// Consequence of a failure that is of one part only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// All parts fail: [`LoadError::Part`].
    Stop,
    /// The others go on.
    GoOn,
}

/// Loaded bytes of a part, by route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Total.
    pub bytes: Bytes,
    /// Drive to GPU without host memory; zero unless cuFile's counters show it.
    pub direct: Bytes,
    /// From the drive through pinned host memory.
    pub through_host: Bytes,
    /// From the page cache.
    pub page_cache: Bytes,
    /// Reason against a direct route that the machine has.
    pub reason: Option<Arc<str>>,
}

/// Loads into memory of one GPU.
#[derive(Debug)]
pub struct Loader<'a> {
    gpu: Arc<Gpu>,
    ways: &'a LoadRoutes,
    pool: Arc<PinnedPool>,
    settings: LoadSettings,
    on_failure: OnFailure,
    keeps: bool,
    direct: DirectLoader,
}

/// Offset of the block that contains a byte.
fn first_block(offset: u64) -> u64 {
    offset / BLOCK * BLOCK
}

impl<'a> Loader<'a> {
    /// A loader with pairs of a pool; nothing is taken before it is needed.
    pub fn new(
        gpu: &Arc<Gpu>,
        ways: &'a LoadRoutes,
        pool: &Arc<PinnedPool>,
        settings: LoadSettings,
    ) -> Self {
        let (gpu, pool, direct) = (Arc::clone(gpu), Arc::clone(pool), DirectLoader::default());
        Self { gpu, ways, pool, settings, on_failure: OnFailure::Stop, keeps: false, direct }
    }

    /// The same, for many loads: a failure of one part leaves the others alone, and slots are cleared and given back when
    /// this is dropped, not after each load.
    #[must_use]
    pub fn for_many(mut self) -> Self {
        (self.on_failure, self.keeps) = (OnFailure::GoOn, true);
        self
    }

    /// Loads parts of files. On return their bytes are visible to all later work of the GPU. After an error the content
    /// of that part's memory is undefined.
    ///
    /// # Errors
    /// The outer [`LoadError`] ends all parts; the inner one concerns a single file, such as one that ends too early.
    pub fn load(
        &mut self,
        parts: &[LoadPart],
        tools: &mut ReadTools<'_>,
    ) -> Result<Vec<Result<Loaded, LoadError>>, LoadError> {
        // Dropped last: the caller's thread has its own GPU again.
        let _kept = self.gpu.keep_context()?;
        let mut results: Vec<Option<Result<Loaded, LoadError>>> = Vec::new();
        let mut reasons = Vec::new();
        for part in parts {
            let (result, reason) = match self.by_direct_way(part, tools) {
                Some(Err(LoadError::NotDirect { reason })) if self.goes_by_host() => {
                    (None, Some(reason))
                }
                tried => (tried, None),
            };
            results.push(result);
            reasons.push(reason);
        }
        self.stop_at_first(&mut results)?;
        let by_host: Vec<usize> = (0..parts.len()).filter(|&at| results[at].is_none()).collect();
        if !by_host.is_empty() {
            let mut loaded = self.by_host(parts, &by_host, tools)?;
            for &at in &by_host {
                let part = std::mem::replace(&mut loaded[at], Ok(Loaded::default()));
                let reason = reasons[at].take();
                results[at] = Some(part.map(|loaded| Loaded { reason, ..loaded }));
            }
        }
        self.stop_at_first(&mut results)?;
        Ok(results.into_iter().flatten().collect())
    }

    fn goes_by_host(&self) -> bool {
        self.ways.choice() == RouteChoice::Auto
    }

    /// Returns the first error that ends all parts.
    fn stop_at_first(
        &self,
        results: &mut [Option<Result<Loaded, LoadError>>],
    ) -> Result<(), LoadError> {
        let is_end =
            |error: &LoadError| self.on_failure == OnFailure::Stop || !error.is_of_one_file();
        for (number, result) in results.iter_mut().enumerate() {
            if let Some(Err(error)) = result.take_if(|one| one.as_ref().is_err_and(is_end)) {
                return Err(LoadError::Part(PartError { number, error: Box::new(error) }));
            }
        }
        Ok(())
    }

    /// Result of a part that needs no host memory; `None` for all others.
    fn by_direct_way(
        &mut self,
        part: &LoadPart,
        tools: &mut ReadTools<'_>,
    ) -> Option<Result<Loaded, LoadError>> {
        let length = part.range.end.saturating_sub(part.range.start);
        if i64::try_from(part.range.end).is_err() {
            let source = std::io::ErrorKind::InvalidInput.into();
            return Some(Err(LoadError::File { action: "read so far into", source }));
        }
        if length == 0 {
            return Some(Ok(Loaded::default()));
        }
        let room = Bytes(part.memory.length().0.saturating_sub(part.offset));
        if room.0 < length {
            return Some(Err(LoadError::Room { needed: Bytes(length), size: room }));
        }
        let choice = self.ways.choice();
        if choice == RouteChoice::Host {
            return None;
        }
        match self.ways.check_direct(part.file.cached()) {
            Ok(()) => Some(self.direct.load(self.ways, part, tools)),
            Err(reason) if choice == RouteChoice::P2p => Some(Err(LoadError::NotDirect { reason })),
            Err(_) => None,
        }
    }

    fn by_host(
        &self,
        parts: &[LoadPart],
        wanted: &[usize],
        tools: &mut ReadTools<'_>,
    ) -> Result<Vec<Result<Loaded, LoadError>>, LoadError> {
        let lengths = wanted.iter().map(|&at| parts[at].range.end - parts[at].range.start);
        let (total, most) = (lengths.sum::<u64>(), self.settings.allowed());
        let pieces = usize::try_from(total.div_ceil(pool::SLOT_BYTES)).unwrap_or(usize::MAX);
        let marks = marks(wanted.iter().map(|&at| &parts[at]))?;
        let taken = self.take_pairs(most.min(pieces.max(1)), tools)?;
        if let Some(shortage) = &taken.shortage {
            tools.watch.notice(shortage);
        }
        let job = LoadJob::new(parts, wanted, self.on_failure, marks, taken.pairs.len());
        let job = Arc::new(job);
        let pairs = taken.pairs.into_iter().enumerate();
        let threads: Vec<_> = pairs.map(|(number, pair)| self.begin(&job, number, pair)).collect();
        self.watch(&job, Bytes(total), tools);
        if job.wait(Duration::ZERO) {
            // Workers hold the caller's memory until they have ended.
            threads.into_iter().flatten().for_each(|thread| drop(thread.join()));
        }
        let mut results = job.results()?;
        for &at in wanted {
            check_end(&parts[at], &mut results[at]);
        }
        Ok(results)
    }

    fn take_pairs(
        &self,
        wanted: usize,
        tools: &mut ReadTools<'_>,
    ) -> Result<TakenPairs, LoadError> {
        let mut standstill = Standstill::new(self.pool.steps(), tools.clock);
        let mut is_late = false;
        let mut stops = || {
            is_late = standstill.look(self.pool.steps(), tools.clock) >= tools.deadline;
            is_late || tools.watch.stop_requested()
        };
        let taken = self.pool.take(&self.gpu, wanted, self.settings.pinned, &mut stops);
        taken.map_err(|none| match none {
            NoSlots::Cuda(error) => error.into(),
            NoSlots::Stopped if is_late => LoadError::NoSlots { pinned: self.settings.pinned },
            NoSlots::Stopped => LoadError::Stopped { done: Bytes::ZERO },
        })
    }

    /// Starts a worker thread. If the system refuses one, the pair is released with the worker.
    fn begin(&self, job: &Arc<LoadJob>, number: usize, pair: SlotPair) -> Option<JoinHandle<()>> {
        let (registers, keeps) = (self.settings.registers, self.keeps);
        let (own, pool) = (Arc::clone(job), Arc::clone(&self.pool));
        let sent = [const { None }; pool::SLOTS];
        let worker = Worker { job: own, pool, pair, number, registers, keeps, sent };
        let thread = thread::Builder::new().name(format!("load-{number}"));
        match thread.spawn(move || worker.run()) {
            Ok(thread) => Some(thread),
            Err(error) => {
                job.fail(None, LoadError::file("start a thread for")(error));
                job.leave();
                None
            }
        }
    }

    /// Waits for the workers until a stop request or the deadline.
    fn watch(&self, job: &LoadJob, total: Bytes, tools: &mut ReadTools<'_>) {
        let mut standstill = Standstill::new(job.steps(), tools.clock);
        let mut looked = Instant::now();
        while !job.wait(STOP_POLL) {
            tools.watch.progress(job.arrived(), total);
            if tools.watch.stop_requested() {
                job.stop();
                job.wait(END_WAIT);
                break;
            }
            let age = standstill.look(job.steps(), tools.clock);
            if age >= tools.deadline {
                job.fail(None, stuck(job, age));
                job.wait(END_WAIT);
                break;
            }
            if looked.elapsed() >= LOAD_POLL {
                looked = Instant::now();
                job.allow(self.settings.allowed());
            }
        }
        tools.watch.progress(job.arrived(), total);
    }
}

impl Drop for Loader<'_> {
    fn drop(&mut self) {
        if self.keeps {
            self.pool.release(&self.gpu);
        }
    }
}

/// Time without progress, summed over polls.
struct Standstill {
    steps: u64,
    last: Nanos,
    age: Nanos,
}

impl Standstill {
    fn new(steps: u64, clock: &dyn Clock) -> Self {
        Self { steps, last: clock.now(), age: Nanos(0) }
    }

    fn look(&mut self, steps: u64, clock: &dyn Clock) -> Nanos {
        let now = clock.now();
        self.age = Nanos(self.age.0.saturating_add(now.since(self.last).0.min(MAX_POLL_GAP.0)));
        self.last = now;
        if steps != self.steps {
            (self.steps, self.age) = (steps, Nanos(0));
        }
        self.age
    }
}

/// Marks behind pending work of the memory's owners, one for each stream.
fn marks<'a>(parts: impl Iterator<Item = &'a LoadPart>) -> Result<Vec<StreamMark>, LoadError> {
    let foreign = parts.filter_map(|part| match &part.memory {
        GpuTarget::Foreign(memory) => Some(memory),
        GpuTarget::Own(_) => None,
    });
    let (mut marks, mut seen) = (Vec::new(), HashSet::new());
    for memory in foreign {
        if seen.insert(memory.work()) {
            marks.extend(memory.mark()?);
        }
    }
    Ok(marks)
}

fn stuck(job: &LoadJob, age: Nanos) -> LoadError {
    if job.is_copying() {
        return LoadError::GpuStuck { age };
    }
    let (role, action, offset) = (Role::Source, Action::Read, job.next_offset());
    let source = Stuck { role, action, offset, age }.into();
    LoadError::Request { said: None, source }
}

/// Fails a part whose file was truncated during the load, since lost pages may have arrived as zeroes.
fn check_end(part: &LoadPart, result: &mut Result<Loaded, LoadError>) {
    if result.is_err() {
        return;
    }
    match part.file.ends_before(part.range.end) {
        Ok(false) => {}
        Err(error) => *result = Err(error),
        Ok(true) => {
            let (offset, length) = (part.range.start, part.range.end - part.range.start);
            let (role, action, cause) = (Role::Source, Action::Read, Cause::EndedEarly);
            *result = Err(RequestFailure { role, action, offset, length, cause }.into());
        }
    }
}
