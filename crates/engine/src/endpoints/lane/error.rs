//! Errors of opening a lane.

use std::io;
use std::path::PathBuf;

use peerlane_memory::MemoryError;
use peerlane_memory::cuda::CudaError;
use peerlane_memory::cufile::CuFileError;

use crate::io::device_memory::DeviceRefusal;
use crate::io::ring::UringError;

/// Reason why a lane is not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// No io_uring.
    #[error(transparent)]
    Ring(#[from] UringError),
    /// No host memory.
    #[error(transparent)]
    Host(#[from] MemoryError),
    /// No device memory.
    #[error("cannot take device memory")]
    Device(#[from] DeviceRefusal),
    /// No GPU, or not by CUDA.
    #[error("cannot use {gpu}")]
    Gpu {
        /// Name of the GPU.
        gpu: String,
        /// Cause.
        source: CudaError,
    },
    /// cuFile does not serve.
    #[error("cannot reach {gpu} by cuFile")]
    CuFile {
        /// Name of the GPU.
        gpu: String,
        /// Cause.
        source: CuFileError,
    },
    /// A file could not be opened, made or attached.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl LaneError {
    /// Returns a constructor of the error for a refused action on a file.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// Returns a constructor of the error for a GPU.
    pub(crate) fn gpu(name: &str) -> impl FnOnce(CudaError) -> Self {
        move |source| Self::Gpu { gpu: name.to_owned(), source }
    }

    /// Returns a constructor of the error for a GPU that cuFile does not reach.
    pub(crate) fn cufile(name: &str) -> impl FnOnce(CuFileError) -> Self {
        move |source| Self::CuFile { gpu: name.to_owned(), source }
    }

    /// Returns true when this machine cannot do it; nothing was changed.
    pub fn is_not_possible(&self) -> bool {
        match self {
            Self::Device(_) | Self::CuFile { .. } => true,
            Self::Gpu { source, .. } => source.is_missing(),
            Self::Ring(_) | Self::Host(_) | Self::File { .. } => false,
        }
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Device(source) => source.hint(),
            Self::Ring(source) => source.hint().map(str::to_owned),
            Self::Host(source) => source.hint().map(str::to_owned),
            Self::Gpu { source, .. } => source.hint().map(str::to_owned),
            Self::CuFile { source, .. } => source.hint().map(str::to_owned),
            Self::File { .. } => None,
        }
    }
}
