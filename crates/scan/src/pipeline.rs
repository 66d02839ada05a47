//! Images through load and search at the same time: threads, and bounded queues between them.
//!
//! Leaves out what becomes of the answers. At most twice as many images as threads are in memory,
//! and answers come in no order. Threads that are inside a decoder or a system call when the scan
//! is told to end are left to end by themselves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_engine::load::LoadError;
use peerlane_memory::cuda::CudaError;
use peerlane_units::Nanos;
use thiserror::Error;

use crate::effort::{Effort, Underway};
use crate::formats::{FormatError, each_page, means};
use crate::inputs::{FoundInput, InputError, InputOrigin, file};
use crate::reduce::MEANS_LEVEL;
use crate::waiting::{WaitingImage, WaitingImages, walk};
use crate::{Gray, Hit, Searcher};

/// Crops of one image at most.
pub(crate) const MOST_CROPS: usize = 16;

/// Results for one image.
#[derive(Debug)]
pub struct ImageAnswer {
    /// Path, or `ARCHIVE:MEMBER`.
    pub image: String,
    /// Origin of the file: named, or within something named.
    pub origin: InputOrigin,
    /// Pixels and hits, or the reason why the image could not be searched.
    pub found: Result<(u64, Vec<Hit>), ScanError>,
    /// Pages that could not be searched, from 1, of a file where others were.
    pub left_out: Vec<(u32, ScanError)>,
    /// Crops of the image at the hits, in their order, if requested.
    pub crops: Vec<Gray>,
}

impl ImageAnswer {
    /// Tests whether it is a file of a folder or archive that is not an image at all, and was not
    /// named as one.
    pub fn is_passed_over(&self) -> bool {
        let is_unknown = matches!(self.found, Err(ScanError::Format(FormatError::Unknown)));
        is_unknown && self.origin == InputOrigin::Within
    }
}

/// Reasons why an image could not be searched.
#[derive(Debug, Error)]
pub enum ScanError {
    /// Its bytes could not be had.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Its bytes are not an accepted image.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Its pixels cannot go directly into memory of a GPU, and nothing else was allowed.
    #[error("its pixels have to be decoded, which takes host memory")]
    Encoded,
    /// It did not get into memory of a GPU.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The GPU has no room for it.
    #[error("there is no room for it on the GPU")]
    Room(#[source] CudaError),
    /// A decoder stopped in a way that it should not.
    #[error("the decoder failed on this image")]
    Failed,
}

/// Time that the threads of each stage were busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Busy {
    /// Threads that read.
    pub load: Nanos,
    /// Decoding.
    pub decode: Nanos,
    /// Searching.
    pub search: Nanos,
}

impl Busy {
    /// The stage that took longest; the same threads do all of them.
    pub fn limit(&self) -> &'static str {
        let Self { load, decode, search } = *self;
        let all = [(search, "search"), (decode, "decode"), (load, "load")];
        all.into_iter().max_by_key(|(time, _)| *time).map_or("load", |(_, name)| name)
    }
}

#[derive(Default)]
pub(crate) struct Clocks {
    pub(crate) load: AtomicU64,
    pub(crate) decode: AtomicU64,
    pub(crate) search: AtomicU64,
}

impl Clocks {
    pub(crate) fn busy(&self) -> Busy {
        let read = |clock: &AtomicU64| Nanos(clock.load(Ordering::Relaxed));
        Busy { load: read(&self.load), decode: read(&self.decode), search: read(&self.search) }
    }
}

pub(crate) fn timed<T>(clock: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let out = work();
    let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    clock.fetch_add(nanos, Ordering::Relaxed);
    out
}

/// Choice of crops in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crops {
    /// The first few of an image.
    Kept,
    /// None.
    Dropped,
}

/// News of a scan.
#[derive(Debug)]
pub enum ScanEvent {
    /// An image was searched, or could not be.
    Answer(ImageAnswer),
    /// No answer came for a while; the image that has taken longest so far.
    Underway(Underway),
}

/// Longest time without an event while an image is searched.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Time that threads get to end by themselves.
const GRACE: Duration = Duration::from_millis(500);

/// Searches everything that is found, on so many threads (one at least) next to one that walks, until
/// all is done or `tell` says that it is enough by `false`. Every event and the time that the stages
/// were busy so far go to `tell`, one after the other.
pub fn scan(
    found: impl Iterator<Item = FoundInput> + Send + 'static,
    searcher: &Searcher,
    threads: usize,
    crops: Crops,
    tell: impl FnMut(ScanEvent, Busy) -> bool,
) {
    let threads = threads.max(1);
    let (walked, to_search) = WaitingImages::with_sender(threads);
    let (searched, answers) = sync_channel::<ImageAnswer>(threads);
    let to_search = Arc::new(to_search);
    let clocks = Arc::new(Clocks::default());
    let enough = Arc::new(AtomicBool::new(false));
    let (walk_clocks, walk_enough) = (Arc::clone(&clocks), Arc::clone(&enough));
    thread::spawn(move || walk(found, &walked, &walk_clocks.load, &walk_enough));
    let efforts: Vec<Arc<Effort>> =
        (0..threads).map(|_| Arc::new(Effort::until(&enough))).collect();
    for effort in &efforts {
        let (to_search, searched, clocks) =
            (Arc::clone(&to_search), searched.clone(), Arc::clone(&clocks));
        let (searcher, effort) = (searcher.clone(), Arc::clone(effort));
        thread::spawn(move || search(&to_search, searched, &searcher, crops, &clocks, &effort));
    }
    drop(searched);
    hear(&answers, &efforts, &enough, &clocks, GRACE, tell);
}

/// Hands events on until there are no more, or `grace` after `tell` has had enough, which drops it.
pub(crate) fn hear(
    answers: &Receiver<ImageAnswer>,
    efforts: &[Arc<Effort>],
    enough: &AtomicBool,
    clocks: &Clocks,
    grace: Duration,
    tell: impl FnMut(ScanEvent, Busy) -> bool,
) {
    let (mut tell, mut ended) = (Some(tell), None);
    loop {
        let event = match answers.recv_timeout(TICK) {
            Ok(answer) => Some(ScanEvent::Answer(answer)),
            Err(RecvTimeoutError::Timeout) => Effort::longest(efforts).map(ScanEvent::Underway),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if ended.is_none() && enough.load(Ordering::Relaxed) {
            ended = Some(Instant::now());
        }
        match (ended, event) {
            (Some(ended), _) if ended.elapsed() >= grace => return,
            (None, Some(event)) => {
                let is_wanted = tell.as_mut().is_some_and(|tell| tell(event, clocks.busy()));
                if !is_wanted {
                    enough.store(true, Ordering::Relaxed);
                    tell = None;
                }
            }
            _ => {}
        }
    }
}

fn search(
    to_search: &WaitingImages,
    searched: SyncSender<ImageAnswer>,
    searcher: &Searcher,
    crops: Crops,
    clocks: &Clocks,
    effort: &Effort,
) {
    while let Some(waiting) = to_search.next() {
        let (image, origin) = (waiting.name(), waiting.origin());
        effort.begin(&image);
        let bytes = match waiting {
            WaitingImage::File(path, _) => timed(&clocks.load, || file(&path)),
            WaitingImage::Read(input) => input.bytes,
        };
        // Decoders read what anybody may have written: one that panics costs its image, not the scan.
        let done = catch_unwind(AssertUnwindSafe(|| one(bytes, searcher, crops, clocks, effort)));
        let (found, crops, left_out) = done.unwrap_or(Err(ScanError::Failed)).map_or_else(
            |error| (Err(error), Vec::new(), Vec::new()),
            |looked| (Ok((looked.pixels, looked.hits)), looked.crops, looked.left_out),
        );
        effort.end();
        if effort.is_over() {
            return;
        }
        if searched.send(ImageAnswer { image, origin, found, left_out, crops }).is_err() {
            return;
        }
    }
}

/// Searches all images in a file's bytes; their pixels, and where the picture is.
///
/// # Errors
/// [`ScanError::Format`] for unknown and refused formats.
pub fn look(bytes: Vec<u8>, searcher: &Searcher) -> Result<(u64, Vec<Hit>), ScanError> {
    let looked = one(Ok(bytes), searcher, Crops::Dropped, &Clocks::default(), &Effort::default())?;
    Ok((looked.pixels, looked.hits))
}

/// A file with at least one page searched.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    is_searched: bool,
    pub(crate) pixels: u64,
    pub(crate) hits: Vec<Hit>,
    pub(crate) crops: Vec<Gray>,
    pub(crate) left_out: Vec<(u32, ScanError)>,
}

impl Looked {
    /// Adds the pixels of a page, its hits and their crops.
    pub(crate) fn add(
        &mut self,
        page: Option<u32>,
        done: Result<(u64, Vec<Hit>, Vec<Gray>), ScanError>,
    ) {
        match done {
            Ok((pixels, hits, crops)) => {
                self.is_searched = true;
                self.pixels += pixels;
                // They stand in the order of hits: after one without, there are no more.
                if self.crops.len() == self.hits.len() {
                    self.crops.extend(crops);
                }
                self.hits.extend(hits.into_iter().map(|hit| Hit { page, ..hit }));
            }
            Err(error) => self.left_out.push((page.unwrap_or(1), error)),
        }
    }

    /// All of it, or the first error where no page was searched.
    pub(crate) fn finish(mut self) -> Result<Self, ScanError> {
        if self.is_searched || self.left_out.is_empty() {
            return Ok(self);
        }
        Err(self.left_out.swap_remove(0).1)
    }
}

/// Cuts out the crops at the first hits.
pub(crate) fn crops_of(image: &Gray, hits: &[Hit]) -> Vec<Gray> {
    let hits = hits.iter().take(MOST_CROPS);
    hits.map(|hit| image.part(hit.x, hit.y, hit.width, hit.height)).collect()
}

fn one(
    bytes: Result<Vec<u8>, InputError>,
    searcher: &Searcher,
    crops: Crops,
    clocks: &Clocks,
    effort: &Effort,
) -> Result<Looked, ScanError> {
    let mut looked = Looked::default();
    each_page(bytes?, &mut |page| {
        if effort.is_over() {
            return;
        }
        let told = page.jpeg.and_then(|bytes| told_by_means(bytes, searcher, clocks, effort));
        let done = match told {
            Some(pixels) => Ok((pixels, Vec::new(), Vec::new())),
            None => timed(&clocks.decode, page.decode).map_err(ScanError::from).map(|image| {
                let hits = timed(&clocks.search, || searcher.search_until(&image, effort));
                let kept = if crops == Crops::Kept { crops_of(&image, &hits) } else { Vec::new() };
                (image.width() as u64 * image.height() as u64, hits, kept)
            }),
        };
        looked.add(page.number, done);
    })?;
    looked.finish()
}

/// The pixels of a JPEG that the means of its blocks are enough to say no to.
pub(crate) fn told_by_means(
    bytes: &[u8],
    searcher: &Searcher,
    clocks: &Clocks,
    effort: &Effort,
) -> Option<u64> {
    if searcher.coarsest() < MEANS_LEVEL {
        return None;
    }
    let means = timed(&clocks.decode, || means(bytes))?;
    let is_worth = timed(&clocks.search, || searcher.is_worth_a_look(&means.plane, effort));
    (!is_worth).then_some(means.width as u64 * means.height as u64)
}
