//! Errors of loading.

use std::io;
use std::sync::Arc;

use peerlane_memory::cuda::CudaError;
use peerlane_memory::cufile::{FellBack, NoCounter};
use peerlane_units::Bytes;

use crate::failure::RequestError;
use crate::ring::UringError;

/// Reason why a range of a file did not get into memory of a GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no io_uring.
    #[error(transparent)]
    Uring(#[from] UringError),
    /// The GPU, or host memory for it.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// Something on the file failed.
    #[error("cannot {action} it")]
    File {
        /// The failed operation, as a verb.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// It does not go directly, and nothing else was allowed.
    #[error("not possible without host memory: {reason}")]
    NotDirect {
        /// Reason.
        reason: Arc<str>,
    },
    /// The memory is too small.
    #[error("{needed} do not fit a memory of {size}")]
    Room {
        /// Bytes that are needed.
        needed: Bytes,
        /// Bytes that there are.
        size: Bytes,
    },
    /// A request failed.
    #[error("{}", .said.as_deref().unwrap_or("it cannot be read"))]
    Request {
        /// Words of the GPU or of cuFile.
        said: Option<String>,
        /// The request, and the answer.
        source: RequestError,
    },
    /// cuFile fell back although that was switched off.
    #[error(transparent)]
    FellBack(#[from] FellBack),
    /// Nothing shows which route bytes take, and no other was allowed.
    #[error("cannot show that bytes go directly: {0}")]
    RouteNotKnown(NoCounter),
}

impl LoadError {
    pub(super) fn file(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, source }
    }

    pub(super) fn not_direct(reason: &str) -> Self {
        Self::NotDirect { reason: reason.into() }
    }

    /// True when it is of one file only, so that others may still be loaded.
    pub fn is_of_one_file(&self) -> bool {
        match self {
            Self::File { .. } | Self::NotDirect { .. } | Self::Room { .. } => true,
            Self::Request { said, source } => {
                said.is_none() && matches!(source, RequestError::Failed(_))
            }
            Self::Uring(_) | Self::Cuda(_) | Self::FellBack(_) | Self::RouteNotKnown(_) => false,
        }
    }

    /// True when the machine lacks something.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Uring(error) => !matches!(error, UringError::Other { .. }),
            Self::Cuda(error) => error.is_missing(),
            Self::RouteNotKnown(_) => true,
            _ => false,
        }
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Uring(error) => error.hint(),
            Self::Cuda(error) => error.hint(),
            Self::RouteNotKnown(none) => Some(none.hint()),
            Self::NotDirect { .. } => Some("`--route auto` or `--route host` takes host memory"),
            _ => None,
        }
    }
}
