//! The search on a GPU: hit for hit that of the CPU.
//!
//! Images whose pixels lie in the file as they are go from storage into memory of the GPU, without host memory where
//! the route allows it; others are decoded by the CPU and copied up. The GPU computes means, scores and peaks
//! (`kernels.cu`). The code that chooses the areas for a CPU (`follow`) chooses them for the GPU
//! too, so few numbers come back: the places of the coarse level worth a look, and the scores
//! around those.
//!
//! Images are searched in batches. The pixels of a batch lie in one memory of the GPU (`frames`), and each kernel runs
//! once for all of them (`round`, `launch`), so a batch costs as many waits as its longest trail has steps
//! (`batch`). Threads find or decode the next images (`prepare`) and fill the next batch with them (`fill`) while the
//! GPU searches the last (`pipeline`).
//!
//! The interface: [`GpuSearch::open`] compiles the kernels for the GPU and puts the picture there; [`scan_on_gpu`]
//! searches many images.
//!
//! Sums are made in the same order as on a CPU, without fused operations, so that scores are the
//! same bit for bit.

mod answers;
mod batch;
mod crops;
mod direct;
mod error;
mod fill;
mod frames;
mod launch;
mod layers;
mod load;
mod pipeline;
mod prepare;
mod round;
mod staging;
mod work;

use std::sync::Arc;

use peerlane_engine::endpoints::GpuName;
use peerlane_engine::load::{LoadRoutes, find_gpu};
use peerlane_memory::cuda::{Cuda, CudaError, CudaKernel, Gpu, GpuFacts, Limits};
use peerlane_memory::nvrtc::Nvrtc;
use peerlane_results::RouteChoice;
use peerlane_units::{Bytes, Nanos};

use crate::Searcher;
pub use error::GpuScanError;
use layers::Layers;
pub use pipeline::scan_on_gpu;
pub use work::{GpuWork, WorkPart};

/// The kernels, compiled when the program runs.
pub const KERNELS: &str = include_str!("kernels.cu");

/// Memory that the areas of one round take at most, unless one area takes more.
const MOST_ROUND: Bytes = Bytes::mib(512);

/// Memory that the pixels of a batch take at most, unless one image takes more.
const MOST_BATCH: Bytes = Bytes::mib(1024);

/// Options of a search on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuOptions {
    /// The GPU.
    pub gpu: GpuName,
    /// Route of images to it.
    pub route: RouteChoice,
    /// Threads that read and decode images.
    pub threads: usize,
    /// The longest wait for the GPU, or for a request to a drive.
    pub deadline: Nanos,
}

/// A picture on a GPU, ready to be looked for.
pub struct GpuSearch<'a> {
    searcher: &'a Searcher,
    options: GpuOptions,
    gpu: Arc<Gpu>,
    limits: Limits,
    ways: LoadRoutes,
    kernels: Kernels,
    layers: Layers,
    rooms: Rooms,
}

/// Bytes of the GPU's memory that parts of a search may take.
#[derive(Debug, Clone, Copy)]
struct Rooms {
    /// Areas of a round.
    round: u64,
    /// Pixels of each of the two batches.
    batch: u64,
}

impl Rooms {
    /// Three eighths of the free memory at most, for a round and two batches.
    fn new(free: Bytes) -> Self {
        let share = |most: Bytes| (free.0 / 8).min(most.0).max(staging::LEAST);
        Self { round: share(MOST_ROUND), batch: share(MOST_BATCH) }
    }
}

/// The kernels by their task.
#[derive(Debug)]
struct Kernels {
    means: CudaKernel,
    sums_of_rows: CudaKernel,
    sums_of_columns: CudaKernel,
    correlate: CudaKernel,
    scores: CudaKernel,
    peaks: CudaKernel,
}

impl Kernels {
    fn load(gpu: &Arc<Gpu>, nvrtc: &Nvrtc) -> Result<Self, GpuScanError> {
        let image = nvrtc.compile(KERNELS, "kernels.cu", gpu.facts().compute)?;
        let module = gpu.module(&image)?;
        Ok(Self {
            means: module.kernel(c"means")?,
            sums_of_rows: module.kernel(c"sums_of_rows")?,
            sums_of_columns: module.kernel(c"sums_of_columns")?,
            correlate: module.kernel(c"correlate")?,
            scores: module.kernel(c"scores")?,
            peaks: module.kernel(c"peaks")?,
        })
    }
}

fn has_kernels(searcher: &Searcher) -> Result<(), GpuScanError> {
    if searcher.pictures().is_empty() { Err(GpuScanError::Method) } else { Ok(()) }
}

impl<'a> GpuSearch<'a> {
    /// Takes a GPU into use, compiles the kernels for it and copies the picture up.
    ///
    /// # Errors
    /// [`GpuScanError`] names the missing part.
    pub fn open(searcher: &'a Searcher, options: GpuOptions) -> Result<Self, GpuScanError> {
        has_kernels(searcher)?;
        let (cuda, facts) = find_gpu(options.gpu)?;
        let nvrtc = Nvrtc::load(cuda.version()?)?;
        Self::on(searcher, options, (&cuda, &facts), &nvrtc)
    }

    /// The same with a GPU and a compiler that are open.
    ///
    /// # Errors
    /// [`GpuScanError`] names the missing part.
    pub fn on(
        searcher: &'a Searcher,
        options: GpuOptions,
        (cuda, facts): (&Cuda, &GpuFacts),
        nvrtc: &Nvrtc,
    ) -> Result<Self, GpuScanError> {
        has_kernels(searcher)?;
        let gpu = cuda.open(facts)?;
        let kernels = Kernels::load(&gpu, nvrtc)?;
        let layers = Layers::copy_up(&gpu, searcher, options.deadline)?;
        Ok(Self {
            searcher,
            options,
            limits: gpu.limits()?,
            ways: LoadRoutes::new(options.route),
            kernels,
            layers,
            rooms: Rooms::new(gpu.free()?),
            gpu,
        })
    }

    /// Returns the driver's facts of the GPU.
    pub fn facts(&self) -> &GpuFacts {
        self.gpu.facts()
    }

    /// Returns the most that the GPU could do.
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

/// Tests whether the GPU has no room, which is the fault of one image and not of the GPU.
fn is_for_want_of_room(error: &CudaError) -> bool {
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    const NO_MEMORY: i32 = 2;
    matches!(error, CudaError::Call { code: NO_MEMORY, .. } | CudaError::Host(_))
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
