//! The search on a GPU: hit for hit that of the CPU.
//!
//! Images whose pixels lie in the file as they are go from storage into memory of the GPU, without host memory where
//! the route allows it; others are decoded by the CPU and copied up. The GPU computes means, scores and peaks
//! (`kernels.cu`); which areas it is asked for is decided by the code that decides it for a CPU (`follow`), so
//! that few numbers come back: how many places of the coarse level are worth a look, and the scores around those.
//!
//! The interface: [`GpuSearch::open`] compiles the kernels for the GPU and puts the picture there; [`scan_on_gpu`]
//! searches many images, each thread with memory and a queue of its own, so that the next image is read while the last
//! is searched.
//!
//! The one thing to know: sums are made in the same order as on a CPU, without fused operations, so that scores are
//! the same bit for bit.

mod error;
mod layers;
mod pipeline;
mod round;
mod slot;
mod work;

use std::sync::Arc;

use peerlane_engine::endpoint::GpuName;
use peerlane_engine::load::{LoadRings, find_gpu};
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

/// Memory that the areas of one round take at most, where one area does not take more.
const MOST_ROUND: Bytes = Bytes::mib(256);

/// Options of a search on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuOptions {
    /// The GPU.
    pub gpu: GpuName,
    /// Route of images to it.
    pub route: RouteChoice,
    /// Images that are on it at a time.
    pub slots: usize,
    /// The longest wait for the GPU, or for a request to a drive.
    pub deadline: Nanos,
}

/// A picture on a GPU, ready to be looked for.
pub struct GpuSearch<'a> {
    searcher: &'a Searcher,
    options: GpuOptions,
    gpu: Arc<Gpu>,
    limits: Limits,
    ways: LoadRings,
    kernels: Kernels,
    layers: Layers,
    /// Bytes that the areas of a round may take.
    room: u64,
}

/// The kernels by what they do.
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
    /// [`GpuScanError`] by what is missing.
    pub fn open(searcher: &'a Searcher, options: GpuOptions) -> Result<Self, GpuScanError> {
        has_kernels(searcher)?;
        let (cuda, facts) = find_gpu(options.gpu)?;
        let nvrtc = Nvrtc::load(cuda.version()?)?;
        Self::on(searcher, options, (&cuda, &facts), &nvrtc)
    }

    /// The same with a GPU and a compiler that are open.
    ///
    /// # Errors
    /// [`GpuScanError`] by what is missing.
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
        let share = gpu.free()?.0 / 4 / (options.slots.max(1) as u64);
        Ok(Self {
            searcher,
            options,
            limits: gpu.limits()?,
            ways: LoadRings::new(options.route),
            kernels,
            layers,
            room: share.min(MOST_ROUND.0),
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
