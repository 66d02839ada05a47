//! Batches filled with images, while the GPU searches the batch before.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use peerlane_engine::load::{LoadError, Loaded};
use peerlane_units::Bytes;

use super::answers::OpenAnswer;
use super::frames::{Frame, FrameMemory};
use super::load::{FrameLoader, FramePart};
use super::pipeline::SharedScan;
use super::prepare::{ReadyImage, ReadyPixels};
use super::staging::Staging;
use super::{GpuScanError, GpuWork, is_for_want_of_room};
use crate::formats::PlainPixels;
use crate::pipeline::{ImageAnswer, ScanError, timed};

/// Images of a batch at most: their files are open until they are loaded.
const MOST_IMAGES: usize = 128;
/// Time that a batch waits for more images.
const PATIENCE: Duration = Duration::from_millis(250);

/// An image on the GPU.
pub(super) struct LoadedImage {
    pub(super) frame: Frame,
    pub(super) answer: Arc<OpenAnswer>,
    pub(super) page: usize,
}

/// Images on the GPU, and the memory that they lie in.
pub(super) struct ImageBatch {
    pub(super) frames: FrameMemory,
    pub(super) images: Vec<LoadedImage>,
}

/// The thread that fills batches.
pub(super) struct BatchFiller<'a> {
    shared: &'a SharedScan<'a>,
    ready: Receiver<ReadyImage>,
    searched: SyncSender<ImageAnswer>,
    staging: Staging,
    /// The image that the last batch had no room for.
    next: Option<ReadyImage>,
    work: GpuWork,
}

impl<'a> BatchFiller<'a> {
    pub(super) fn new(
        shared: &'a SharedScan<'a>,
        ready: Receiver<ReadyImage>,
        searched: SyncSender<ImageAnswer>,
    ) -> Result<Self, GpuScanError> {
        let staging = Staging::new(&shared.search.gpu, shared.search.options.deadline)?;
        Ok(Self { shared, ready, searched, staging, next: None, work: GpuWork::default() })
    }

    /// Fills one of two batches while the other one is searched, until there are no more images or it is enough. Image
    /// data are overwritten at the end.
    pub(super) fn run(
        mut self,
        filled: SyncSender<ImageBatch>,
        free: &Receiver<FrameMemory>,
    ) -> Result<(), GpuScanError> {
        let mut loader = FrameLoader::new(self.shared.search)?;
        let most = self.shared.search.rooms.batch;
        let mut spare = Vec::new();
        for _ in 0..2 {
            spare.push(FrameMemory::new(&self.shared.search.gpu, most, &mut self.staging)?);
        }
        let mut in_use = 0;
        while let Some(first) = self.first() {
            // The search gives frames back until it fails.
            let next = spare.pop().or_else(|| free.recv().ok().inspect(|_| in_use -= 1));
            let Some(frames) = next else { return Ok(()) };
            let batch = self.fill(frames, first, &mut loader)?;
            if filled.send(batch).is_err() {
                return Ok(());
            }
            in_use += 1;
        }
        drop(filled);
        spare.extend((0..in_use).map_while(|_| free.recv().ok()));
        for frames in &spare {
            self.staging.clear(frames.memory())?;
        }
        self.shared.add(self.work);
        Ok(())
    }

    /// The first image of a batch.
    fn first(&mut self) -> Option<ReadyImage> {
        let next = self.next.take().or_else(|| self.ready.recv().ok());
        next.filter(|_| !self.shared.is_enough())
    }

    fn fill(
        &mut self,
        frames: FrameMemory,
        first: ReadyImage,
        loader: &mut FrameLoader<'_>,
    ) -> Result<ImageBatch, GpuScanError> {
        let until = Instant::now() + PATIENCE;
        let mut batch = ImageBatch { frames, images: Vec::new() };
        batch.frames.reset();
        let mut plain = Vec::new();
        let mut next = Some(first);
        while let Some(image) = next {
            self.next = self.add(image, &mut batch, &mut plain)?;
            let count = batch.images.len() + plain.len();
            if self.next.is_some() || count >= MOST_IMAGES || self.shared.is_enough() {
                break;
            }
            next = match self.ready.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) if count == 0 => self.ready.recv().ok(),
                received => received.ok(),
            };
        }
        self.load(plain, &mut batch, loader)?;
        Ok(batch)
    }

    /// Adds an image to a batch; returns the batch if it is full. Copies decoded pixels up at once
    /// to keep few of them in host memory.
    fn add(
        &mut self,
        image: ReadyImage,
        batch: &mut ImageBatch,
        plain: &mut Vec<PlainImage>,
    ) -> Result<Option<ReadyImage>, GpuScanError> {
        let range = match &image.pixels {
            ReadyPixels::Plain(_, pixels) => pixels.range(),
            ReadyPixels::Decoded(gray) => 0..gray.pixels().len() as u64,
        };
        let offset = match batch.frames.reserve(&range, &mut self.staging) {
            Ok(Some(offset)) => offset,
            Ok(None) => return Ok(Some(image)),
            Err(GpuScanError::Cuda(error)) if is_for_want_of_room(&error) => {
                self.settle(&image.answer, image.page, ScanError::Room(error));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let ReadyImage { answer, page, pixels } = image;
        match pixels {
            ReadyPixels::Plain(file, pixels) => {
                let image = LoadedImage { frame: Frame::from_file(&pixels, offset), answer, page };
                plain.push(PlainImage { file, pixels, offset, image });
            }
            ReadyPixels::Decoded(gray) => {
                let (clocks, memory) = (&self.shared.clocks, batch.frames.memory());
                timed(&clocks.load, || self.staging.copy_up(gray.pixels(), memory, offset))?;
                add_one(&mut self.work.decoded, Bytes(gray.pixels().len() as u64));
                let frame = Frame::from_decoded(gray.width(), gray.height(), offset);
                batch.images.push(LoadedImage { frame, answer, page });
            }
        }
        Ok(None)
    }

    /// Loads the plain images of a batch.
    fn load(
        &mut self,
        plain: Vec<PlainImage>,
        batch: &mut ImageBatch,
        loader: &mut FrameLoader<'_>,
    ) -> Result<(), GpuScanError> {
        if self.shared.is_enough() {
            return Ok(());
        }
        let (images, parts): (Vec<_>, Vec<_>) =
            plain.into_iter().map(|image| image.split(&batch.frames)).unzip();
        let is_enough = || self.shared.is_enough();
        let loaded = timed(&self.shared.clocks.load, || loader.load(parts, &is_enough));
        let loaded = match loaded {
            Err(LoadError::Stopped { .. }) => return Ok(()),
            loaded => loaded?,
        };
        for (image, loaded) in images.into_iter().zip(loaded) {
            match loaded {
                Ok(loaded) => {
                    self.note(loaded);
                    batch.images.push(image);
                }
                Err(error) if error.is_of_one_file() => {
                    let is_refused = matches!(error, LoadError::NotDirect { .. });
                    self.work.refused += u64::from(is_refused);
                    self.settle(&image.answer, image.page, error.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn note(&mut self, loaded: Loaded) {
        let is_direct = loaded.direct == loaded.bytes;
        let way = if is_direct { &mut self.work.direct } else { &mut self.work.through_host };
        add_one(way, loaded.bytes);
        self.work.page_cache += u64::from(loaded.page_cache == loaded.bytes);
        if self.work.reason.is_none() {
            self.work.reason = loaded.reason;
        }
    }

    fn settle(&self, answer: &OpenAnswer, page: usize, error: ScanError) {
        if let Some(answer) = answer.settle(page, Err(error)) {
            let _ = self.searched.send(answer);
        }
    }
}

/// An image whose pixels are still in its file.
struct PlainImage {
    file: File,
    pixels: PlainPixels,
    offset: u64,
    image: LoadedImage,
}

impl PlainImage {
    /// Splits into the image as it will be and the part of its file to load.
    fn split(self, frames: &FrameMemory) -> (LoadedImage, FramePart) {
        let Self { file, pixels, offset, image } = self;
        let (range, memory) = (pixels.range(), Arc::clone(frames.memory()));
        (image, FramePart { file, range, memory, offset })
    }
}

fn add_one((images, all): &mut (u64, Bytes), bytes: Bytes) {
    *images += 1;
    *all = Bytes(all.0.saturating_add(bytes.0));
}
