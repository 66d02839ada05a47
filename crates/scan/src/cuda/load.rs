//! Loads ranges of files into the memory of a batch.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use peerlane_engine::load::{
    LoadError, LoadFile, LoadPart, LoadSettings, Loaded, Loader, PinnedPool, ReadTools,
};
use peerlane_engine::{MonotonicClock, Watch};
use peerlane_memory::cuda::{DeviceMemory, GpuTarget};
use peerlane_units::Nanos;

use super::{GpuScanError, GpuSearch};

/// A range of a file, and its destination.
pub(super) struct FramePart {
    pub(super) file: File,
    pub(super) range: Range<u64>,
    pub(super) memory: Arc<DeviceMemory>,
    /// Offset of the first byte in the memory.
    pub(super) offset: u64,
}

/// Loads the parts of one batch after the other.
pub(super) struct FrameLoader<'a> {
    loader: Loader<'a>,
    clock: MonotonicClock,
    deadline: Nanos,
}

impl<'a> FrameLoader<'a> {
    pub(super) fn new(search: &'a GpuSearch<'_>) -> Result<Self, GpuScanError> {
        let (pool, settings) = (PinnedPool::of_process(), LoadSettings::here(None)?);
        let loader = Loader::new(&search.gpu, &search.ways, &pool, settings).for_many();
        let (clock, deadline) = (MonotonicClock::start(), search.options.deadline);
        Ok(Self { loader, clock, deadline })
    }

    /// Loads all parts of a batch. Answers are in the order of the parts.
    pub(super) fn load(
        &mut self,
        parts: Vec<FramePart>,
        is_enough: &dyn Fn() -> bool,
    ) -> Result<Vec<Result<Loaded, LoadError>>, LoadError> {
        let part = |FramePart { file, range, memory, offset }| LoadPart {
            file: LoadFile::new(file),
            range,
            memory: GpuTarget::Own(memory),
            offset,
        };
        let parts: Vec<LoadPart> = parts.into_iter().map(part).collect();
        let (clock, deadline) = (&self.clock, self.deadline);
        let watch = &mut UntilEnough(is_enough);
        self.loader.load(&parts, &mut ReadTools { clock, watch, deadline })
    }
}

/// Stops a load when the scan has enough.
struct UntilEnough<'a>(&'a dyn Fn() -> bool);

impl Watch for UntilEnough<'_> {
    fn stop_requested(&self) -> bool {
        (self.0)()
    }
}
