//! A lane by memory of a GPU: its ring by cuFile or by pinned host memory, its files, and its slots.
//!
//! The order of calls matters: cuFile takes files before memory, and the free memory of a GPU is known only after cuFile
//! or the pinned slots are open. A copy makes its ring before it opens cuFile: without io_uring it ends. A benchmark makes
//! it after: without io_uring it reports the refusals of cuFile first.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use peerlane_memory::cuda::{Cuda, DeviceMemory, Gpu, GpuFacts};
use peerlane_memory::cufile::{CuFileSession, Mode};
use peerlane_results::Evidence;
use peerlane_units::Bytes;

use super::{GpuSide, LaneError};
use crate::io::desk::Desk;
use crate::io::ring::{AnyRing, AttachError, FileId, GpuRing, RegionId, Uring, open_cufile};

/// Way of bytes between a drive and memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuWay {
    /// By cuFile.
    CuFile(Mode),
    /// By pieces in pinned host memory, which the GPU's copy engine takes.
    Pinned,
}

impl fmt::Display for GpuWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CuFile(mode) => mode.fmt(f),
            Self::Pinned => f.pad("pinned host memory"),
        }
    }
}

/// A GPU that is open.
pub(crate) struct OpenGpu {
    pub(crate) gpu: Arc<Gpu>,
    /// CUDA version of its driver.
    driver: (i32, i32),
    /// Name of its memory, for errors and evidence.
    name: String,
}

/// Requests of a lane.
#[derive(Clone, Copy)]
pub(crate) struct LaneRequests<'a> {
    /// Path of the first file, for errors.
    pub(crate) path: &'a Path,
    /// Concurrent requests.
    pub(crate) count: u32,
    /// Longest request through pinned memory.
    pub(crate) length: Bytes,
}

/// A ring whose other end is memory of a GPU.
pub(crate) struct GpuLane<'a> {
    gpu: &'a OpenGpu,
    ring: GpuRing,
    /// Present if payload goes by cuFile.
    pub(crate) session: Option<Arc<CuFileSession>>,
}

/// Slots in memory of a GPU, attached to its ring.
pub(crate) struct GpuSlots {
    pub(crate) memory: Arc<DeviceMemory>,
    pub(crate) region: RegionId,
}

impl OpenGpu {
    /// Opens a GPU whose memory has a name.
    pub(crate) fn new(cuda: &Cuda, facts: &GpuFacts, name: &str) -> Result<Self, LaneError> {
        let gpu = cuda.open(facts).map_err(LaneError::gpu(name))?;
        let driver = cuda.version().map_err(LaneError::gpu(name))?;
        Ok(Self { gpu, driver, name: name.to_owned() })
    }

    /// Opens cuFile if the way goes by it.
    pub(crate) fn session(&self, way: GpuWay) -> Result<Option<Arc<CuFileSession>>, LaneError> {
        let GpuWay::CuFile(mode) = way else { return Ok(None) };
        open_cufile(mode).map(Some).map_err(LaneError::cufile(&self.name))
    }

    /// Puts the session behind a ring; without one, slots of pinned memory.
    pub(crate) fn lane(
        &self,
        ring: Uring,
        session: Option<Arc<CuFileSession>>,
        requests: LaneRequests<'_>,
    ) -> Result<GpuLane<'_>, LaneError> {
        let LaneRequests { path, count, length } = requests;
        let ring = match &session {
            Some(session) => GpuRing::cufile(ring, session, count)
                .map_err(LaneError::file("begin threads for", path))?,
            None => GpuRing::bounce(ring, &self.gpu, count, length)
                .map_err(LaneError::gpu(&self.name))?,
        };
        Ok(GpuLane { gpu: self, ring, session })
    }
}

impl GpuLane<'_> {
    /// Attaches a file.
    pub(crate) fn attach(&mut self, file: File, path: &Path) -> Result<FileId, LaneError> {
        self.ring.attach(file).map_err(|error| match error {
            AttachError::System(source) => LaneError::file("attach", path)(source),
            AttachError::CuFile(source) => LaneError::cufile(&self.gpu.name)(source),
        })
    }

    /// Takes memory of the GPU and attaches it. The window of a GPU may be smaller than its memory,
    /// so cuFile may refuse memory that CUDA allocated.
    ///
    /// # Errors
    /// [`LaneError::Gpu`] without memory, [`LaneError::CuFile`] if it is not registered.
    pub(crate) fn take(&mut self, length: Bytes) -> Result<GpuSlots, LaneError> {
        let name = &self.gpu.name;
        let memory = self.gpu.gpu.allocate(length).map_err(LaneError::gpu(name))?;
        let attached = self.ring.attach_memory(Arc::clone(&memory));
        Ok(GpuSlots { region: attached.map_err(LaneError::cufile(name))?, memory })
    }

    /// Names the way: the mode of cuFile, or words for another.
    pub(crate) fn evidence(&self, other: impl FnOnce() -> String) -> Evidence {
        let facts = self.gpu.gpu.facts();
        let (model, address) = (&facts.model, &facts.address);
        Evidence {
            looked_at: format!("the path to {} ({model}, {address})", self.gpu.name),
            showed: self.session.as_ref().map_or_else(other, |session| session.mode().to_string()),
        }
    }

    /// Parts the ring from the GPU; cuFile's requests count from here on.
    pub(crate) fn into_parts(self, memory: Arc<DeviceMemory>, desk: Desk) -> (AnyRing, GpuSide) {
        let Self { gpu: OpenGpu { gpu, driver, .. }, ring, session } = self;
        let side = GpuSide::new((Arc::clone(gpu), *driver), memory, desk, session);
        (AnyRing::Gpu(Box::new(ring)), side)
    }
}
