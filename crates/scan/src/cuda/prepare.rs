//! Files made ready for a batch: plain pixels found, others decoded, by several threads.
//!
//! An error of a file or a page is its answer here, and does not reach the GPU.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use peerlane_results::RouteChoice;
use rustix::fs::{Advice, fadvise};

use super::GpuWork;
use super::answers::{OpenAnswer, PageAnswer};
use super::pipeline::SharedScan;
use crate::Gray;
use crate::effort::Effort;
use crate::formats::{FileExcerpts, FilePage, PlainPixels, check_known, each_page, find};
use crate::inputs::{InputError, check_size, limited, regular};
use crate::pipeline::{ImageAnswer, ScanError, timed, told_by_means};
use crate::waiting::{WaitingImage, WaitingImages};

/// An image for the GPU.
pub(super) struct ReadyImage {
    pub(super) answer: Arc<OpenAnswer>,
    /// Its place among the pages of the answer.
    pub(super) page: usize,
    pub(super) pixels: ReadyPixels,
}

/// Pixels before they are on the GPU.
pub(super) enum ReadyPixels {
    /// As they lie in a file.
    Plain(File, PlainPixels),
    Decoded(Gray),
}

/// Result of decoding an image on the CPU.
enum Decoded {
    /// The means of its blocks are enough to say no; its pixels.
    Told(u64),
    Whole(Gray),
}

/// One thread that prepares.
pub(super) struct Preparer<'a> {
    pub(super) shared: &'a SharedScan<'a>,
    pub(super) effort: &'a Effort,
    pub(super) ready: SyncSender<ReadyImage>,
    pub(super) searched: SyncSender<ImageAnswer>,
    pub(super) work: GpuWork,
}

impl Preparer<'_> {
    /// Prepares one file after the other. A stopped scan throws the rest away, so no thread waits for room.
    pub(super) fn run(mut self, waiting: &WaitingImages) {
        while let Some(next) = waiting.next() {
            if self.shared.is_enough() {
                continue;
            }
            let answer = Arc::new(OpenAnswer::new(&next));
            self.effort.begin(answer.image());
            let done = match next {
                WaitingImage::File(path, _) => self.file(&path, &answer),
                WaitingImage::Read(input) => input
                    .bytes
                    .map_err(ScanError::from)
                    .and_then(|bytes| self.bytes(bytes, &answer)),
            };
            self.effort.end();
            self.work.refused += u64::from(matches!(done, Err(ScanError::Encoded)));
            self.tell(answer.end(done));
        }
        self.shared.add(self.work);
    }

    fn file(&mut self, path: &Path, answer: &Arc<OpenAnswer>) -> Result<(), ScanError> {
        let clock = &self.shared.clocks.load;
        let (file, size) = regular(path).map_err(InputError::from)?;
        check_size(size)?;
        // Nothing is read ahead of a header whose pixels may never see host memory; it is only advice.
        let _ = fadvise(&file, 0, None, Advice::Random);
        if let Some(pixels) = timed(clock, || find(&FileExcerpts::new(&file, size)))? {
            let page = answer.add_page(None);
            self.hand_on(answer, page, ReadyPixels::Plain(file, pixels));
            return Ok(());
        }
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        let bytes = timed(clock, || limited(file, size))?;
        self.bytes(bytes, answer)
    }

    /// A file whose bytes the CPU has.
    fn bytes(&mut self, bytes: Vec<u8>, answer: &Arc<OpenAnswer>) -> Result<(), ScanError> {
        if self.shared.search.options.route == RouteChoice::P2p {
            check_known(&bytes)?;
            return Err(ScanError::Encoded);
        }
        each_page(bytes, &mut |page| {
            if self.effort.is_over() {
                return;
            }
            let place = answer.add_page(page.number);
            match self.decode(page) {
                Ok(Decoded::Whole(gray)) => {
                    self.hand_on(answer, place, ReadyPixels::Decoded(gray));
                }
                Ok(Decoded::Told(pixels)) => {
                    self.work.by_means += 1;
                    self.settle(answer, place, Ok((pixels, Vec::new(), Vec::new())));
                }
                Err(error) => self.settle(answer, place, Err(error)),
            }
        })?;
        Ok(())
    }

    fn decode(&self, page: FilePage<'_>) -> Result<Decoded, ScanError> {
        let SharedScan { search, clocks, .. } = self.shared;
        // Decoders read what anybody may have written: one that panics costs its image, not the scan.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            let told = page
                .jpeg
                .and_then(|bytes| told_by_means(bytes, search.searcher, clocks, self.effort));
            match told {
                Some(pixels) => Ok(Decoded::Told(pixels)),
                None => timed(&clocks.decode, page.decode).map(Decoded::Whole),
            }
        }));
        Ok(decoded.map_err(|_| ScanError::Failed)??)
    }

    /// Sending fails only at the end of the scan.
    fn hand_on(&self, answer: &Arc<OpenAnswer>, page: usize, pixels: ReadyPixels) {
        let _ = self.ready.send(ReadyImage { answer: Arc::clone(answer), page, pixels });
    }

    fn settle(&self, answer: &OpenAnswer, page: usize, settled: PageAnswer) {
        self.tell(answer.settle(page, settled));
    }

    fn tell(&self, answer: Option<ImageAnswer>) {
        if let Some(answer) = answer {
            let _ = self.searched.send(answer);
        }
    }
}
