//! Many images on a GPU: a thread walks the inputs, and each of several others has one image at a time.
//!
//! The one thing to know: what is wrong with an image is an answer, and what is wrong with the GPU ends the scan.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use peerlane_engine::MonotonicClock;
use peerlane_engine::load::{
    LoadError, LoadFile, LoadPart, LoadSettings, Loader, PinnedPool, ReadTools,
};
use peerlane_memory::cuda::GpuTarget;
use peerlane_results::RouteChoice;
use peerlane_units::Bytes;
use rustix::fs::{Advice, fadvise};

use super::round::{Round, RoundGoal};
use super::slot::{Frame, ImageSlot};
use super::{GpuScanError, GpuSearch, GpuWork, is_for_want_of_room};
use crate::effort::Effort;
use crate::follow::Trail;
use crate::formats::{
    FileExcerpts, FilePage, PlainPixels, RowOrder, check_known, decode, each_page, find,
};
use crate::inputs::{FoundInput, InputError, check_size, file, limited, regular};
use crate::pipeline::{
    Busy, Clocks, Crops, ImageAnswer, Looked, ScanError, ScanEvent, crops_of, hear, timed,
    told_by_means,
};
use crate::reduce::PixelArea;
use crate::search::best_of_each;
use crate::waiting::{WaitingImage, WaitingImages, walk};
use crate::{Gray, Hit};

/// Areas of one round at most.
const MOST_AREAS: usize = 4096;

/// An error, by its scope.
enum Trouble {
    /// With an image.
    Image(ScanError),
    /// With the GPU.
    Gpu(GpuScanError),
}

impl<E: Into<ScanError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        match error.into() {
            ScanError::Load(error) if !error.is_of_one_file() => Self::Gpu(error.into()),
            error => Self::Image(error),
        }
    }
}

impl From<GpuScanError> for Trouble {
    fn from(error: GpuScanError) -> Self {
        match error {
            GpuScanError::Cuda(error) if is_for_want_of_room(&error) => {
                Self::Image(ScanError::Room(error))
            }
            error => Self::Gpu(error),
        }
    }
}

/// State that the threads share.
struct SharedSearch<'a> {
    search: &'a GpuSearch<'a>,
    crops: Crops,
    clocks: Clocks,
    enough: Arc<AtomicBool>,
    failed: Mutex<Option<GpuScanError>>,
    work: Mutex<GpuWork>,
}

impl SharedSearch<'_> {
    fn fail(&self, error: GpuScanError) {
        self.enough.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
    }

    fn is_enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }
}

/// Searches everything that is found, until all is done or `tell` says that it is enough by `false`. Every event and
/// the time that the stages were busy so far go to `tell`, one after the other.
///
/// # Errors
/// [`GpuScanError`] where the GPU or the way to it failed; images that cannot be searched are answers.
pub fn scan_on_gpu(
    found: impl Iterator<Item = FoundInput> + Send,
    search: &GpuSearch<'_>,
    crops: Crops,
    tell: impl FnMut(ScanEvent, Busy) -> bool,
) -> Result<GpuWork, GpuScanError> {
    let slots = search.options.slots.max(1);
    let (walked, to_search) = WaitingImages::with_sender(slots);
    let (searched, answers) = sync_channel::<ImageAnswer>(slots);
    let shared = SharedSearch {
        search,
        crops,
        clocks: Clocks::default(),
        enough: Arc::default(),
        failed: Mutex::default(),
        work: Mutex::default(),
    };
    let efforts: Vec<Arc<Effort>> =
        (0..slots).map(|_| Arc::new(Effort::until(&shared.enough))).collect();
    thread::scope(|scope| {
        let (shared, to_search) = (&shared, &to_search);
        scope.spawn(move || walk(found, &walked, &shared.clocks.load, &shared.enough));
        for effort in &efforts {
            let searched = searched.clone();
            scope.spawn(move || {
                if let Err(error) = take(to_search, searched, shared, effort) {
                    shared.fail(error);
                    // What waits is thrown away, so that nobody waits for room.
                    while to_search.next().is_some() {}
                }
            });
        }
        drop(searched);
        // Memory of the GPU is cleared before the end: all threads are waited for.
        hear(&answers, &efforts, &shared.enough, &shared.clocks, Duration::MAX, tell);
    });
    let failed = shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failed {
        return Err(error);
    }
    let mut work = shared.work.into_inner().unwrap_or_else(PoisonError::into_inner);
    work.counts = search.ways.judge()?;
    work.mode = search.ways.mode();
    work.flags = search.ways.flags();
    Ok(work)
}

/// Searches one image after the other.
fn take(
    to_search: &WaitingImages,
    searched: SyncSender<ImageAnswer>,
    shared: &SharedSearch<'_>,
    effort: &Effort,
) -> Result<(), GpuScanError> {
    let search = shared.search;
    let loader = Loader::new(
        &search.gpu,
        &search.ways,
        &PinnedPool::of_process(),
        LoadSettings::here(None)?,
    )
    .for_many();
    let mut thread = GpuThread { shared, effort, loader, slot: ImageSlot::new(search)? };
    while let Some(work) = to_search.next() {
        if shared.is_enough() {
            continue;
        }
        let (image, origin) = (work.name(), work.origin());
        effort.begin(&image);
        let done = match work {
            WaitingImage::File(path, _) => thread.file(&path),
            WaitingImage::Read(input) => {
                input.bytes.map_err(Trouble::from).and_then(|bytes| thread.bytes(bytes))
            }
        };
        effort.end();
        let (found, crops, left_out) = match done {
            Ok(looked) => (Ok((looked.pixels, looked.hits)), looked.crops, looked.left_out),
            Err(Trouble::Image(error)) => {
                let is_refused = matches!(
                    error,
                    ScanError::Encoded | ScanError::Load(LoadError::NotDirect { .. })
                );
                thread.slot.work.refused += u64::from(is_refused);
                (Err(error), Vec::new(), Vec::new())
            }
            Err(Trouble::Gpu(error)) => return Err(error),
        };
        if searched.send(ImageAnswer { image, origin, found, left_out, crops }).is_err() {
            break;
        }
    }
    thread.slot.end()?;
    *shared.work.lock().unwrap_or_else(PoisonError::into_inner) += thread.slot.work;
    Ok(())
}

/// Result of decoding an image on the CPU.
enum Decoded {
    /// The means of its blocks are enough to say no; its pixels.
    Told(u64),
    Whole(Gray),
}

/// State of one thread.
struct GpuThread<'a> {
    shared: &'a SharedSearch<'a>,
    effort: &'a Effort,
    loader: Loader<'a>,
    slot: ImageSlot<'a>,
}

/// Pixels of a page, hits and their crops.
type PageLooked = (u64, Vec<Hit>, Vec<Gray>);

impl GpuThread<'_> {
    fn file(&mut self, path: &Path) -> Result<Looked, Trouble> {
        let (file, size) = regular(path).map_err(InputError::from)?;
        check_size(size)?;
        // Nothing is read ahead of a header whose pixels may never see host memory; it is only advice.
        let _ = fadvise(&file, 0, None, Advice::Random);
        match find(&FileExcerpts::new(&file, size))? {
            Some(pixels) => {
                let (height, width) = (pixels.height, pixels.width);
                let frame = self.load(file, &pixels)?;
                let hits = self.search(&frame)?;
                let crops = self.crops(&hits, || again(path));
                let mut looked = Looked::default();
                looked.add(None, Ok((width as u64 * height as u64, hits, crops)));
                Ok(looked)
            }
            None => {
                let _ = fadvise(&file, 0, None, Advice::Sequential);
                self.bytes(limited(file, size)?)
            }
        }
    }

    /// Loads pixels that lie in a file as they are.
    fn load(&mut self, file: File, pixels: &PlainPixels) -> Result<Frame, Trouble> {
        let begin = pixels.begin as u64;
        let range = begin..begin + (pixels.stride * pixels.height) as u64;
        let Self { shared, loader, slot, .. } = self;
        let offset = begin % 4096;
        let memory =
            slot.frame(Bytes((offset + range.end - begin).next_multiple_of(4096)), || {})?;
        let part =
            LoadPart { file: LoadFile::new(file), range, memory: GpuTarget::Own(memory), offset };
        let clock = MonotonicClock::start();
        let mut tools =
            ReadTools { clock: &clock, watch: &mut (), deadline: shared.search.options.deadline };
        let loaded = timed(&shared.clocks.load, || loader.load(&[part], &mut tools))?;
        let loaded = loaded.into_iter().next().unwrap_or_else(|| Ok(Default::default()))?;
        let way = if loaded.direct == loaded.bytes {
            &mut slot.work.direct
        } else {
            &mut slot.work.through_host
        };
        *way = (way.0 + 1, Bytes(way.1.0.saturating_add(loaded.bytes.0)));
        slot.work.page_cache += u64::from(loaded.page_cache == loaded.bytes);
        if slot.work.reason.is_none() {
            slot.work.reason = loaded.reason;
        }
        Ok(frame_of(pixels, offset))
    }

    /// A file whose bytes the CPU has.
    fn bytes(&mut self, bytes: Vec<u8>) -> Result<Looked, Trouble> {
        if self.shared.search.options.route == RouteChoice::P2p {
            check_known(&bytes)?;
            return Err(Trouble::Image(ScanError::Encoded));
        }
        let (mut looked, mut failed) = (Looked::default(), None);
        each_page(bytes, &mut |page| {
            if failed.is_some() || self.effort.is_over() {
                return;
            }
            let number = page.number;
            match self.page(page) {
                Err(Trouble::Gpu(error)) => failed = Some(error),
                Err(Trouble::Image(error)) => looked.add(number, Err(error)),
                Ok(done) => looked.add(number, Ok(done)),
            }
        })?;
        match failed {
            Some(error) => Err(Trouble::Gpu(error)),
            None => Ok(looked.finish()?),
        }
    }

    fn page(&mut self, page: FilePage<'_>) -> Result<PageLooked, Trouble> {
        let SharedSearch { search, clocks, .. } = self.shared;
        let effort = self.effort;
        // Decoders read what anybody may have written: one that panics costs its image, not the scan.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            let told =
                page.jpeg.and_then(|bytes| told_by_means(bytes, search.searcher, clocks, effort));
            match told {
                Some(pixels) => Ok(Decoded::Told(pixels)),
                None => timed(&clocks.decode, page.decode).map(Decoded::Whole),
            }
        }));
        let gray = match decoded.map_err(|_| ScanError::Failed)?? {
            Decoded::Told(pixels) => {
                self.slot.work.by_means += 1;
                return Ok((pixels, Vec::new(), Vec::new()));
            }
            Decoded::Whole(gray) => gray,
        };
        let (width, height) = (gray.width(), gray.height());
        let pixels = width as u64 * height as u64;
        let Self { slot, .. } = self;
        timed(&clocks.load, || slot.copy_up(gray.pixels(), || {}))?;
        let (images, bytes) = slot.work.decoded;
        slot.work.decoded = (images + 1, Bytes(bytes.0.saturating_add(pixels)));
        let stride = i64::try_from(width).unwrap_or(i64::MAX);
        let hits = self.search(&Frame { width, height, begin: 0, stride })?;
        let crops = self.crops(&hits, || Some(gray));
        Ok((pixels, hits, crops))
    }

    /// Every place of an image where the picture is.
    fn search(&mut self, frame: &Frame) -> Result<Vec<Hit>, GpuScanError> {
        let (shared, slot) = (self.shared, &mut self.slot);
        timed(&shared.clocks.search, || search(shared.search, slot, frame, self.effort))
    }

    fn crops(&self, hits: &[Hit], image: impl FnOnce() -> Option<Gray>) -> Vec<Gray> {
        if self.shared.crops == Crops::Dropped || hits.is_empty() {
            return Vec::new();
        }
        let Some(image) = image() else { return Vec::new() };
        crops_of(&image, hits)
    }
}

/// The image once more, for who wants to see it; nothing where it has gone since.
fn again(path: &Path) -> Option<Gray> {
    decode(file(path).ok()?).ok()
}

/// Returns the position of pixels in memory that has them from `begin` on.
fn frame_of(pixels: &PlainPixels, begin: u64) -> Frame {
    let signed = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let PlainPixels { width, height, stride, rows, .. } = *pixels;
    let (begin, stride) = (i64::try_from(begin).unwrap_or(i64::MAX), signed(stride));
    let last = begin + stride * signed(height.saturating_sub(1));
    match rows {
        RowOrder::TopFirst => Frame { width, height, begin, stride },
        RowOrder::BottomFirst => Frame { width, height, begin: last, stride: -stride },
    }
}

fn search<'a>(
    search: &'a GpuSearch<'a>,
    slot: &mut ImageSlot<'a>,
    frame: &Frame,
    effort: &Effort,
) -> Result<Vec<Hit>, GpuScanError> {
    let mut trails = coarse(search, slot, frame, effort)?;
    let mut hits: Vec<Option<Hit>> = vec![None; trails.len()];
    let mut on_the_way: Vec<usize> = (0..trails.len()).collect();
    while !on_the_way.is_empty() {
        let mut left = Vec::new();
        let mut queue = on_the_way.into_iter().peekable();
        while queue.peek().is_some() && !effort.is_over() {
            let mut round = Round::new(RoundGoal::Scores);
            let mut members = Vec::new();
            while let Some(&index) = queue.peek() {
                if !round.is_empty() && (round.cost() > search.room || members.len() >= MOST_AREAS)
                {
                    break;
                }
                queue.next();
                let (trail, picture) = &trails[index];
                let Some((layer, area)) = trail.wants() else { continue };
                let Some(at) = search.layers.place(*picture, layer.level) else { continue };
                round.area(area, layer.level);
                if round.layer(layer, at, 0.0) {
                    members.push((index, area, search.searcher.enough(layer)));
                }
            }
            if round.is_empty() {
                continue;
            }
            for ((index, area, enough), map) in members.into_iter().zip(slot.scores(frame, &round)?)
            {
                match trails[index].0.take(area, &map, enough) {
                    None => left.push(index),
                    Some(end) => hits[index] = end,
                }
            }
        }
        on_the_way = left;
    }
    Ok(best_of_each(hits.into_iter().flatten().collect()))
}

/// The places of the coarse levels that are worth a closer look, with the number of their picture.
fn coarse<'a>(
    search: &'a GpuSearch<'a>,
    slot: &mut ImageSlot<'a>,
    frame: &Frame,
    effort: &Effort,
) -> Result<Vec<(Trail<'a>, usize)>, GpuScanError> {
    let size = (frame.width, frame.height);
    let all = PixelArea { x: 0, y: 0, width: frame.width, height: frame.height };
    let pictures = search.searcher.pictures();
    // Poses of one level share their plane.
    let mut order: Vec<usize> = (0..pictures.len()).collect();
    order.sort_by_key(|index| pictures[*index].coarsest());
    let mut places: Vec<Vec<(usize, usize)>> = vec![Vec::new(); pictures.len()];
    let mut queue = order.into_iter().peekable();
    while queue.peek().is_some() && !effort.is_over() {
        let mut round = Round::new(RoundGoal::Peaks);
        let mut members = Vec::new();
        while let Some(&index) = queue.peek() {
            if !round.is_empty() && (round.cost() > search.room || members.len() >= MOST_AREAS) {
                break;
            }
            queue.next();
            let layer = pictures[index].coarse();
            let Some(at) = search.layers.place(index, layer.level) else { continue };
            round.area(all, layer.level);
            if round.layer(layer, at, search.searcher.enough(layer)) {
                members.push(index);
            }
        }
        if round.is_empty() {
            continue;
        }
        for (index, found) in members.into_iter().zip(slot.peaks(frame, &round)?) {
            places[index] = found;
        }
    }
    let trails =
        places.into_iter().zip(pictures).enumerate().flat_map(|(index, (found, picture))| {
            found.into_iter().map(move |place| (Trail::new(picture, place, size), index))
        });
    Ok(trails.collect())
}
