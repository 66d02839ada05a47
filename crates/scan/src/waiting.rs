//! Images that wait for a thread: files by their names, and images that only one thread can read.
//!
//! A thread reads its own files, so that no reader limits the others; members of an archive follow
//! one another, and are read by the thread that walks.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::inputs::{FoundInput, Input, InputOrigin};

/// An image that waits for a thread.
pub(crate) enum WaitingImage {
    /// A file of its own.
    File(PathBuf, InputOrigin),
    /// Bytes that were read, or the reason why there are none.
    Read(Input),
}

impl WaitingImage {
    /// Path, or `ARCHIVE:MEMBER`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path, _) => path.display().to_string(),
            Self::Read(input) => input.name.clone(),
        }
    }

    /// Origin of the file.
    pub(crate) fn origin(&self) -> InputOrigin {
        match self {
            Self::File(_, origin) => *origin,
            Self::Read(input) => input.origin,
        }
    }
}

/// A queue between the thread that walks and those that search.
pub(crate) struct WaitingImages(Mutex<Receiver<WaitingImage>>);

impl WaitingImages {
    /// The queue and its other end: as many images wait as there are threads.
    pub(crate) fn with_sender(threads: usize) -> (SyncSender<WaitingImage>, Self) {
        let (walked, waiting) = sync_channel(threads);
        (walked, Self(Mutex::new(waiting)))
    }

    /// The next image; `None` when all were walked.
    pub(crate) fn next(&self) -> Option<WaitingImage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

/// Walks the inputs until it is enough; reads members of archives and counts the time for them.
pub(crate) fn walk(
    found: impl Iterator<Item = FoundInput>,
    walked: &SyncSender<WaitingImage>,
    clock: &AtomicU64,
    enough: &AtomicBool,
) {
    let send = |work| !enough.load(Ordering::Relaxed) && walked.send(work).is_ok();
    for next in found {
        let is_wanted = match next {
            FoundInput::File(path, origin) => send(WaitingImage::File(path, origin)),
            other => {
                let mut begin = Instant::now();
                other.read(|input| {
                    let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    clock.fetch_add(nanos, Ordering::Relaxed);
                    let is_wanted = send(WaitingImage::Read(input));
                    begin = Instant::now();
                    is_wanted
                })
            }
        };
        if !is_wanted {
            return;
        }
    }
}
