//! A lane by memory of a GPU: its ring by cuFile or by pinned host memory, its files, and its slots.
//!
//! The order of calls is part of the contract: cuFile takes files before memory, and what a GPU has free is only known
//! when both have opened. A copy makes its ring before it opens cuFile and a benchmark after that, so that each reports
//! the refusal that it met first.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use peerlane_memory::cuda::{CudaError, DeviceMemory, Gpu};
use peerlane_memory::cufile::{CuFileError, CuFileSession, Mode};
use peerlane_results::Evidence;
use peerlane_units::Bytes;

use super::LaneError;
use crate::io::ring::{AttachError, FileId, GpuRing, RegionId, Uring, open_cufile};

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

/// A GPU, and the requests of a lane.
#[derive(Clone, Copy)]
pub(crate) struct GpuLaneSetup<'a> {
    pub(crate) gpu: &'a Arc<Gpu>,
    /// Name of its memory, for errors and evidence.
    pub(crate) name: &'a str,
    /// Path of the first file, for errors.
    pub(crate) path: &'a Path,
    /// Concurrent requests.
    pub(crate) requests: u32,
    /// Longest request through pinned memory.
    pub(crate) request: Bytes,
}

/// A ring whose other end is memory of a GPU.
pub(crate) struct GpuLane<'a> {
    setup: GpuLaneSetup<'a>,
    pub(crate) ring: GpuRing,
    /// Present where payload goes by cuFile.
    pub(crate) session: Option<Arc<CuFileSession>>,
}

/// Slots in memory of a GPU, attached to its ring.
pub(crate) struct GpuSlots {
    pub(crate) memory: Arc<DeviceMemory>,
    pub(crate) region: RegionId,
}

impl<'a> GpuLaneSetup<'a> {
    /// Opens cuFile where the way goes by it.
    ///
    /// # Errors
    /// [`LaneError::CuFile`].
    pub(crate) fn session(&self, way: GpuWay) -> Result<Option<Arc<CuFileSession>>, LaneError> {
        match way {
            GpuWay::CuFile(mode) => Ok(Some(open_cufile(mode).map_err(self.no_cufile())?)),
            GpuWay::Pinned => Ok(None),
        }
    }

    /// Puts the session behind a ring; without one, slots of pinned memory.
    ///
    /// # Errors
    /// [`LaneError::Gpu`], or [`LaneError::File`] where the system gives no thread.
    pub(crate) fn open(
        self,
        ring: Uring,
        session: Option<Arc<CuFileSession>>,
    ) -> Result<GpuLane<'a>, LaneError> {
        let ring = match &session {
            Some(session) => GpuRing::cufile(ring, session, self.requests)
                .map_err(LaneError::file("begin threads for", self.path))?,
            None => GpuRing::bounce(ring, self.gpu, self.requests, self.request)
                .map_err(self.no_gpu())?,
        };
        Ok(GpuLane { setup: self, ring, session })
    }

    fn no_gpu(&self) -> impl FnOnce(CudaError) -> LaneError {
        let gpu = self.name.to_owned();
        move |source| LaneError::Gpu { gpu, source }
    }

    fn no_cufile(&self) -> impl FnOnce(CuFileError) -> LaneError {
        let gpu = self.name.to_owned();
        move |source| LaneError::CuFile { gpu, source }
    }
}

impl GpuLane<'_> {
    /// Attaches a file.
    ///
    /// # Errors
    /// [`LaneError::File`] or [`LaneError::CuFile`].
    pub(crate) fn attach(&mut self, file: File, path: &Path) -> Result<FileId, LaneError> {
        self.ring.attach(file).map_err(|error| match error {
            AttachError::System(source) => LaneError::file("attach", path)(source),
            AttachError::CuFile(source) => self.setup.no_cufile()(source),
        })
    }

    /// Takes memory of the GPU and attaches it. The window of a GPU may be smaller than its memory, so that cuFile may
    /// refuse what CUDA allocated.
    ///
    /// # Errors
    /// [`LaneError::Gpu`] without memory, [`LaneError::CuFile`] where it is not registered.
    pub(crate) fn take(&mut self, length: Bytes) -> Result<GpuSlots, LaneError> {
        let memory = self.setup.gpu.allocate(length).map_err(self.setup.no_gpu())?;
        let attached = self.ring.attach_memory(Arc::clone(&memory));
        let region = attached.map_err(self.setup.no_cufile())?;
        Ok(GpuSlots { memory, region })
    }

    /// Names the way: the mode of cuFile, or words for another.
    pub(crate) fn evidence(&self, other: impl FnOnce() -> String) -> Evidence {
        let facts = self.setup.gpu.facts();
        let (model, address) = (&facts.model, &facts.address);
        Evidence {
            looked_at: format!("the path to {} ({model}, {address})", self.setup.name),
            showed: self.session.as_ref().map_or_else(other, |session| session.mode().to_string()),
        }
    }
}
