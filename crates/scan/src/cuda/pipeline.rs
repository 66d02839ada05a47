//! Many images on a GPU: one thread walks the inputs, several prepare images, one fills batches, and one searches them.
//!
//! An error of an image is an answer, and an error of the GPU ends the scan.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::answers::PageAnswer;
use super::batch::{BatchSearch, ImageHits};
use super::crops::crops_of;
use super::fill::{BatchFiller, ImageBatch, LoadedImage};
use super::frames::{Frame, FrameMemory};
use super::launch::RoundRunner;
use super::prepare::Preparer;
use super::{GpuScanError, GpuSearch, GpuWork, direct};
use crate::effort::Effort;
use crate::inputs::FoundInput;
use crate::pipeline::{Busy, Clocks, Crops, ImageAnswer, ScanError, ScanEvent, hear, timed};
use crate::waiting::{WaitingImages, walk};

/// State that the threads share.
pub(super) struct SharedScan<'a> {
    pub(super) search: &'a GpuSearch<'a>,
    pub(super) clocks: Clocks,
    enough: Arc<AtomicBool>,
    failed: Mutex<Option<GpuScanError>>,
    work: Mutex<GpuWork>,
}

impl<'a> SharedScan<'a> {
    fn new(search: &'a GpuSearch<'a>) -> Self {
        let (clocks, enough) = (Clocks::default(), Arc::default());
        Self { search, clocks, enough, failed: Mutex::default(), work: Mutex::default() }
    }

    /// Runs the work of a thread, whose error ends the scan.
    fn run(&self, work: impl FnOnce() -> Result<(), GpuScanError>) {
        if let Err(error) = work() {
            self.enough.store(true, Ordering::Relaxed);
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
        }
    }

    pub(super) fn is_enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Adds the work of a thread.
    pub(super) fn add(&self, work: GpuWork) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) += work;
    }
}

/// Searches everything that is found, until all is done or `tell` says that it is enough by `false`. Every event and
/// the time that the stages were busy so far go to `tell`, one after the other.
///
/// # Errors
/// [`GpuScanError`] where the GPU or the way to it failed; images that cannot be searched are answers.
pub fn scan_on_gpu(
    mut found: impl Iterator<Item = FoundInput> + Send,
    search: &GpuSearch<'_>,
    crops: Crops,
    tell: impl FnMut(ScanEvent, Busy) -> bool,
) -> Result<GpuWork, GpuScanError> {
    let found = direct::ask(&mut found, search)?.into_iter().chain(found);
    let threads = search.options.threads.max(1);
    let (walked, waiting) = WaitingImages::with_sender(threads);
    let (ready, prepared) = sync_channel(threads);
    let (filled, batches) = sync_channel(1);
    let (used, free) = sync_channel(2);
    let (searched, answers) = sync_channel::<ImageAnswer>(threads);
    let shared = SharedScan::new(search);
    // One of each thread that prepares, and that of the thread that searches.
    let efforts: Vec<Arc<Effort>> =
        (0..=threads).map(|_| Arc::new(Effort::until(&shared.enough))).collect();
    thread::scope(|scope| {
        let (shared, waiting) = (&shared, &waiting);
        scope.spawn(move || walk(found, &walked, &shared.clocks.load, &shared.enough));
        for effort in &efforts[1..] {
            let (ready, searched) = (ready.clone(), searched.clone());
            let work = GpuWork::default();
            let preparer = Preparer { shared, effort, ready, searched, work };
            scope.spawn(move || preparer.run(waiting));
        }
        let (effort, told) = (&efforts[0], searched.clone());
        scope.spawn(move || {
            shared.run(|| BatchFiller::new(shared, prepared, told)?.run(filled, &free));
        });
        scope.spawn(move || {
            let work = SearchThread { shared, crops, effort, searched, used };
            shared.run(|| work.run(&batches));
        });
        drop(ready);
        // Threads clear their memory of the GPU as they end: wait for all of them.
        hear(&answers, &efforts, &shared.enough, &shared.clocks, Duration::MAX, tell);
    });
    finish(shared)
}

/// The work of all threads, or the first error.
fn finish(shared: SharedScan<'_>) -> Result<GpuWork, GpuScanError> {
    let SharedScan { search, failed, work, .. } = shared;
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
    work.counts = search.ways.judge()?;
    work.mode = search.ways.mode();
    work.flags = search.ways.flags();
    Ok(work)
}

/// The thread that searches batches.
struct SearchThread<'a> {
    shared: &'a SharedScan<'a>,
    crops: Crops,
    effort: &'a Effort,
    searched: SyncSender<ImageAnswer>,
    used: SyncSender<FrameMemory>,
}

impl<'a> SearchThread<'a> {
    fn run(self, batches: &Receiver<ImageBatch>) -> Result<(), GpuScanError> {
        let mut runner = RoundRunner::new(self.shared.search)?;
        for ImageBatch { frames, images } in batches {
            if let (Some(first), false) = (images.first(), self.shared.is_enough()) {
                self.effort.begin(first.answer.image());
                self.batch(&frames, &images, &mut runner)?;
                self.effort.end();
            }
            // The thread that fills batches ends first only after an error.
            let _ = self.used.send(frames);
        }
        runner.end()?;
        self.shared.add(runner.work);
        Ok(())
    }

    fn batch(
        &self,
        frames: &FrameMemory,
        images: &[LoadedImage],
        runner: &mut RoundRunner<'a>,
    ) -> Result<(), GpuScanError> {
        let SharedScan { search, clocks, .. } = self.shared;
        let places: Vec<Frame> = images.iter().map(|image| image.frame).collect();
        let memory = frames.memory();
        let found = timed(&clocks.search, || {
            BatchSearch::new(search, runner, memory, &places, self.effort).run()
        })?;
        for (image, found) in images.iter().zip(found) {
            if self.shared.is_enough() {
                break;
            }
            let answer = self.answer(frames, image, found, runner)?;
            if let Some(answer) = image.answer.settle(image.page, answer) {
                let _ = self.searched.send(answer);
            }
        }
        Ok(())
    }

    fn answer(
        &self,
        frames: &FrameMemory,
        image: &LoadedImage,
        found: ImageHits,
        runner: &mut RoundRunner<'_>,
    ) -> Result<PageAnswer, GpuScanError> {
        let hits = match found {
            Ok(hits) => hits,
            Err(error) => return Ok(Err(ScanError::Room(error))),
        };
        let crops = match self.crops {
            Crops::Kept => crops_of(&mut runner.staging, frames.memory(), &image.frame, &hits)?,
            Crops::Dropped => Vec::new(),
        };
        let pixels = image.frame.width as u64 * image.frame.height as u64;
        Ok(Ok((pixels, hits, crops)))
    }
}
