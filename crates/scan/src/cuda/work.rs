//! Work of a search on a GPU, and the time of its kernels.

use std::ops::AddAssign;
use std::sync::Arc;

use peerlane_memory::cufile::{Counted, Mode};
use peerlane_units::{Bytes, Nanos};

/// A part of the work of the GPU. Kernels of several images run side by side; their times may add
/// up to more than the time that passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkPart {
    /// Time of its kernels, by events of the GPU.
    pub time: Nanos,
    /// Bytes of pixels read, or operations done.
    pub amount: u64,
}

impl WorkPart {
    /// Bytes, or operations, a second.
    pub fn rate(&self) -> f64 {
        self.amount as f64 / (self.time.0 as f64 / 1e9).max(1e-9)
    }
}

impl AddAssign for WorkPart {
    fn add_assign(&mut self, other: Self) {
        self.time.0 = self.time.0.saturating_add(other.time.0);
        self.amount = self.amount.saturating_add(other.amount);
    }
}

/// Work done on a GPU, and the routes of images to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuWork {
    /// Means of squares of whole images: bytes of pixels, each read once.
    pub means: WorkPart,
    /// Correlation with whole images: single multiplications and additions.
    pub correlate: WorkPart,
    /// All other kernels; the amount is the number of waits for them.
    pub other: WorkPart,
    /// Images that came without host memory, and their bytes.
    pub direct: (u64, Bytes),
    /// Images that came as they are through pinned host memory, and their bytes.
    pub through_host: (u64, Bytes),
    /// Of those, images that came out of the page cache.
    pub page_cache: u64,
    /// Images that the CPU decoded and copied up, and bytes of their pixels.
    pub decoded: (u64, Bytes),
    /// JPEG images that the CPU ruled out by the means of their blocks.
    pub by_means: u64,
    /// Images that the requested route does not take.
    pub refused: u64,
    /// Reason why the first image through host memory did not go directly, unless direct reads were
    /// ruled out.
    pub reason: Option<Arc<str>>,
    /// The mode of cuFile, if it served.
    pub mode: Option<Mode>,
    /// Direct paths that cuFile has enabled, if it served and tells.
    pub flags: Option<String>,
    /// Requests as cuFile counted them, or why the route is unknown; `None` if it did not serve.
    pub counts: Option<Counted>,
}

impl AddAssign for GpuWork {
    fn add_assign(&mut self, other: Self) {
        let add = |one: &mut (u64, Bytes), more: (u64, Bytes)| {
            one.0 += more.0;
            one.1 = Bytes(one.1.0.saturating_add(more.1.0));
        };
        self.means += other.means;
        self.correlate += other.correlate;
        self.other += other.other;
        add(&mut self.direct, other.direct);
        add(&mut self.through_host, other.through_host);
        add(&mut self.decoded, other.decoded);
        self.page_cache += other.page_cache;
        self.by_means += other.by_means;
        self.refused += other.refused;
        self.reason = self.reason.take().or(other.reason);
        self.mode = self.mode.or(other.mode);
        self.flags = self.flags.take().or(other.flags);
        self.counts = self.counts.or(other.counts);
    }
}
