//! Ranges of files to their places in the memory of a batch.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use peerlane_engine::Clock;
use peerlane_engine::load::{LoadError, Loaded, Loader, room};
use peerlane_memory::cuda::{Argument, CudaError, CudaKernel, DeviceMemory};

use super::launch::grid;
use super::staging::{Growing, Staging};
use super::{GpuScanError, GpuSearch};

/// A range of a file, and its destination.
pub(super) struct FramePart<'a> {
    pub(super) file: &'a File,
    pub(super) range: Range<u64>,
    pub(super) memory: Arc<DeviceMemory>,
    /// Offset of the first byte in the memory.
    pub(super) offset: u64,
}

/// Loads the parts of a batch.
pub(super) struct FrameLoader<'a> {
    loader: Loader<'a>,
    scratch: Growing,
    staging: Staging,
    kernel: &'a CudaKernel,
}

impl<'a> FrameLoader<'a> {
    pub(super) fn new(
        search: &'a GpuSearch<'_>,
        clock: &'a dyn Clock,
    ) -> Result<Self, GpuScanError> {
        let (gpu, deadline) = (&search.gpu, search.options.deadline);
        Ok(Self {
            loader: Loader::new(gpu, &search.ways, clock, deadline),
            scratch: Growing::new(gpu)?,
            staging: Staging::new(gpu, deadline)?,
            kernel: &search.kernels.move_bytes,
        })
    }

    /// Overwrites image data outside the memory of the batch.
    pub(super) fn end(mut self) -> Result<(), GpuScanError> {
        self.loader.release();
        self.staging.clear(&self.scratch.memory)
    }

    fn load(&mut self, part: &FramePart<'_>) -> Result<Loaded, LoadError> {
        let needed = room(&part.range).0;
        if self.scratch.memory.length().0 < needed {
            self.loader.release();
            self.scratch.make_room(needed, &mut self.staging).map_err(as_load_error)?;
        }
        let loaded = self.loader.load(part.file, &part.range, &self.scratch.memory)?;
        self.place(part, loaded.begin).map_err(as_load_error)?;
        Ok(Loaded { begin: part.offset, ..loaded })
    }

    fn place(&mut self, part: &FramePart<'_>, begin: u64) -> Result<(), GpuScanError> {
        use Argument::{Memory, Whole};
        let length = part.range.end - part.range.start;
        let from = [Memory(&self.scratch.memory), Whole(begin), Whole(length)];
        let to = [Memory(&part.memory), Whole(part.offset)];
        let all = [&from[..], &to[..]].concat();
        self.staging.queue.launch(self.kernel, grid(length, 1, 1), &all)?;
        self.staging.wait()
    }
}

/// Loads all parts of a batch. Answers are in the order of the parts.
pub(super) fn load_frames(
    loader: &mut FrameLoader<'_>,
    parts: &[FramePart<'_>],
) -> Vec<Result<Loaded, LoadError>> {
    parts.iter().map(|part| loader.load(part)).collect()
}

fn as_load_error(error: GpuScanError) -> LoadError {
    /// `CUDA_ERROR_LAUNCH_TIMEOUT`.
    const TIMEOUT: i32 = 702;
    match error {
        GpuScanError::Cuda(error) => error.into(),
        GpuScanError::Load(error) => error,
        _ => CudaError::Call { call: "a copy within the GPU", code: TIMEOUT }.into(),
    }
}
