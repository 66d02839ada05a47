//! Progress of the search of one image, and its cancellation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Work on one image after the other, seen from outside while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    stop: Arc<AtomicBool>,
    /// Multiplications done and foreseen in the current image.
    done: AtomicU64,
    whole: AtomicU64,
    image: Mutex<Option<(String, Instant)>>,
}

/// An image that is being searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Underway {
    /// Path, or `ARCHIVE:MEMBER`.
    pub image: String,
    /// The part of the search that is done, from 0 to 1; `None` while the image is decoded.
    pub share: Option<f32>,
}

impl Effort {
    /// Work that ends early once `stop` is set.
    pub(crate) fn until(stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..Self::default() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, image: &str) {
        self.done.store(0, Ordering::Relaxed);
        self.whole.store(0, Ordering::Relaxed);
        *self.image() = Some((image.to_owned(), Instant::now()));
    }

    pub(crate) fn end(&self) {
        *self.image() = None;
    }

    pub(crate) fn foresee(&self, work: u64) {
        self.whole.fetch_add(work, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, work: u64) {
        self.done.fetch_add(work, Ordering::Relaxed);
    }

    /// The image that has taken longest of all that are underway.
    pub(crate) fn longest(all: &[Arc<Self>]) -> Option<Underway> {
        let begun = |effort: &Arc<Self>| effort.image().as_ref().map(|(_, begin)| *begin);
        let (_, effort) = all
            .iter()
            .filter_map(|one| Some((begun(one)?, one)))
            .min_by_key(|(begin, _)| *begin)?;
        let (image, _) = effort.image().clone()?;
        let (done, whole) =
            (effort.done.load(Ordering::Relaxed), effort.whole.load(Ordering::Relaxed));
        let share = (whole > 0).then(|| (done as f32 / whole as f32).min(1.0));
        Some(Underway { image, share })
    }

    fn image(&self) -> std::sync::MutexGuard<'_, Option<(String, Instant)>> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
