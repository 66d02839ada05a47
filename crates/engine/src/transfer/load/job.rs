//! One load under way: its pieces, and their outcomes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use peerlane_memory::cuda::{GpuTarget, StreamMark};
use peerlane_memory::{Region, mapped};
use peerlane_units::Bytes;

use super::file::LoadFile;
use super::piece::PieceBytes;
use super::{LoadError, LoadPart, Loaded, OnFailure, first_block};

/// State that workers and their caller share.
pub(super) struct LoadJob {
    parts: Vec<JobPart>,
    on_failure: OnFailure,
    /// Pending work of the memory's owners.
    pub(super) marks: Vec<StreamMark>,
    /// Part and offset of the next piece.
    next: Mutex<(usize, u64)>,
    state: Mutex<JobState>,
    changed: Condvar,
    /// Pieces read and pieces arrived.
    steps: AtomicU64,
    /// Copies under way.
    under_way: AtomicUsize,
    arrived: AtomicU64,
    is_over: AtomicBool,
    /// Number of workers that may continue.
    allowed: AtomicUsize,
}

/// A range on its way.
pub(super) struct JobPart {
    /// Index among the requested parts.
    number: usize,
    pub(super) file: LoadFile,
    range: Range<u64>,
    pub(super) memory: GpuTarget,
    offset: u64,
    has_failed: AtomicBool,
    mapped: OnceLock<Option<Arc<Region>>>,
}

#[derive(Default)]
struct JobState {
    running: usize,
    /// Error of the whole load.
    failed: Option<LoadError>,
    /// By index of the part.
    parts: Vec<PartState>,
}

#[derive(Default)]
struct PartState {
    loaded: Loaded,
    failed: Option<LoadError>,
}

/// The next piece of a part.
pub(super) struct Piece {
    /// Index among the parts of the job.
    pub(super) part: usize,
    pub(super) range: Range<u64>,
}

impl LoadJob {
    /// A job that hands out the longest parts first.
    pub(super) fn new(
        parts: &[LoadPart],
        wanted: &[usize],
        on_failure: OnFailure,
        marks: Vec<StreamMark>,
        workers: usize,
    ) -> Self {
        let mut order: Vec<JobPart> =
            wanted.iter().map(|&at| JobPart::new(at, &parts[at])).collect();
        order.sort_by_key(|part| std::cmp::Reverse(part.range.end - part.range.start));
        let first = order.first().map_or(0, |part| part.range.start);
        let states = parts.iter().map(|_| PartState::default()).collect();
        Self {
            parts: order,
            on_failure,
            marks,
            next: Mutex::new((0, first)),
            state: Mutex::new(JobState { running: workers, failed: None, parts: states }),
            changed: Condvar::new(),
            steps: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            arrived: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            allowed: AtomicUsize::new(workers),
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece; from the start of its first block it has at most `most` bytes.
    pub(super) fn next(&self, most: u64) -> Option<Piece> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (index, at) = *next;
            let part = self.parts.get(index)?;
            if at < part.range.end && !part.has_failed.load(Ordering::Relaxed) {
                let end = part.range.end.min(first_block(at).saturating_add(most));
                next.1 = end;
                return Some(Piece { part: index, range: at..end });
            }
            let start = self.parts.get(index + 1).map_or(0, |part| part.range.start);
            *next = (index + 1, start);
        }
    }

    pub(super) fn part(&self, piece: &Piece) -> &JobPart {
        &self.parts[piece.part]
    }

    /// Records progress.
    pub(super) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a piece whose copy has started.
    pub(super) fn send(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn is_copying(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Counts a piece whose copy has ended.
    pub(super) fn arrive(&self, part: usize, bytes: PieceBytes) {
        self.step();
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        let all = bytes.drive + bytes.page_cache;
        self.arrived.fetch_add(all, Ordering::Relaxed);
        let loaded = &mut self.lock().parts[self.parts[part].number].loaded;
        loaded.bytes.0 += all;
        loaded.page_cache.0 += bytes.page_cache;
        loaded.through_host.0 += bytes.drive;
    }

    /// Ends a part, or all of them, with an error.
    pub(super) fn fail(&self, part: Option<usize>, error: LoadError) {
        let mut state = self.lock();
        match part {
            Some(part) if self.on_failure == OnFailure::GoOn && error.is_of_one_file() => {
                self.parts[part].has_failed.store(true, Ordering::Relaxed);
                state.parts[self.parts[part].number].failed.get_or_insert(error);
            }
            Some(part) => {
                state.parts[self.parts[part].number].failed.get_or_insert(error);
                self.end();
            }
            None => {
                state.failed.get_or_insert(error);
                self.end();
            }
        }
    }

    /// Ends the load on request.
    pub(super) fn stop(&self) {
        self.fail(None, LoadError::Stopped { done: Bytes::ZERO });
    }

    /// Lets workers end after their current piece.
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn allow(&self, workers: usize) {
        self.allowed.store(workers, Ordering::Relaxed);
    }

    pub(super) fn allows(&self, worker: usize) -> bool {
        worker < self.allowed.load(Ordering::Relaxed)
    }

    /// Records that a worker has ended.
    pub(super) fn leave(&self) {
        self.lock().running -= 1;
        self.changed.notify_all();
    }

    /// Waits for all workers with a timeout; returns whether they have ended.
    pub(super) fn wait(&self, pause: Duration) -> bool {
        let state = self.lock();
        let ended = self.changed.wait_timeout_while(state, pause, |state| state.running > 0);
        ended.unwrap_or_else(PoisonError::into_inner).0.running == 0
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    pub(super) fn arrived(&self) -> Bytes {
        Bytes(self.arrived.load(Ordering::Relaxed))
    }

    /// File offset of the next piece, for errors without an offset of their own.
    pub(super) fn next_offset(&self) -> u64 {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Result of each part, by index.
    pub(super) fn results(&self) -> Result<Vec<Result<Loaded, LoadError>>, LoadError> {
        let mut state = self.lock();
        match state.failed.take() {
            Some(LoadError::Stopped { .. }) => {
                return Err(LoadError::Stopped { done: self.arrived() });
            }
            Some(error) => return Err(error),
            None => {}
        }
        let parts = std::mem::take(&mut state.parts);
        Ok(parts.into_iter().map(|part| part.failed.map_or(Ok(part.loaded), Err)).collect())
    }
}

impl JobPart {
    fn new(number: usize, part: &LoadPart) -> Self {
        Self {
            number,
            file: part.file.clone(),
            range: part.range.clone(),
            memory: part.memory.clone(),
            offset: part.offset,
            has_failed: AtomicBool::new(false),
            mapped: OnceLock::new(),
        }
    }

    /// Memory offset of a file offset.
    pub(super) fn place(&self, offset: u64) -> u64 {
        self.offset + (offset - self.range.start)
    }

    /// The file, mapped up to the end of the part; `None` if it cannot be mapped.
    pub(super) fn mapped(&self) -> Option<&Arc<Region>> {
        let map = || mapped::map(self.file.cached(), Bytes(self.range.end)).ok().map(Arc::new);
        self.mapped.get_or_init(map).as_ref()
    }
}
