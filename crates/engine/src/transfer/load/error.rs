//! Errors of loading.

use std::fmt;
use std::io;
use std::sync::Arc;

use peerlane_memory::cuda::CudaError;
use peerlane_memory::cufile::{FellBack, NoCounter};
use peerlane_units::{Bytes, Nanos};

use crate::io::failure::{RequestError, RequestFailure};
use crate::io::ring::UringError;

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
    /// One of several parts failed, and all with it.
    #[error(transparent)]
    Part(PartError),
    /// The limit of pinned memory is not a size.
    #[error("{}={text} is not a size", super::PINNED_VARIABLE)]
    Setting {
        /// The value.
        text: String,
    },
    /// Other loads of this process hold all pinned memory.
    #[error("no pinned host memory within {pinned}: other loads of this process have it")]
    NoSlots {
        /// The limit.
        pinned: Bytes,
    },
    /// No copy ended within the deadline.
    #[error(
        "the GPU copied nothing for {age}: it hangs, or earlier work on the stream of the memory's owner is not over"
    )]
    GpuStuck {
        /// Time without progress.
        age: Nanos,
    },
    /// The load was interrupted.
    #[error("interrupted after {done}")]
    Stopped {
        /// Bytes already loaded, in no particular order.
        done: Bytes,
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

/// The error of one of several parts.
#[derive(Debug)]
pub struct PartError {
    /// Its place among them, from 0.
    pub number: usize,
    /// The error.
    pub error: Box<LoadError>,
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for PartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<RequestFailure> for LoadError {
    fn from(failure: RequestFailure) -> Self {
        Self::Request { said: None, source: failure.into() }
    }
}

impl LoadError {
    pub(super) fn file(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, source }
    }

    pub(super) fn not_direct(reason: &str) -> Self {
        Self::NotDirect { reason: reason.into() }
    }

    /// True when it is of one file only: others may still be loaded.
    pub fn is_of_one_file(&self) -> bool {
        match self {
            Self::File { .. } | Self::NotDirect { .. } | Self::Room { .. } => true,
            Self::Request { said, source } => {
                said.is_none() && matches!(source, RequestError::Failed(_))
            }
            Self::Part(part) => part.error.is_of_one_file(),
            Self::Uring(_)
            | Self::Cuda(_)
            | Self::Setting { .. }
            | Self::NoSlots { .. }
            | Self::GpuStuck { .. }
            | Self::Stopped { .. }
            | Self::FellBack(_)
            | Self::RouteNotKnown(_) => false,
        }
    }

    /// True when the machine lacks something.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Uring(error) => !matches!(error, UringError::Other { .. }),
            Self::Cuda(error) => error.is_missing(),
            Self::RouteNotKnown(_) => true,
            Self::Part(part) => part.error.is_missing(),
            _ => false,
        }
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Uring(error) => error.hint(),
            Self::Cuda(error) => error.hint(),
            Self::RouteNotKnown(none) => Some(none.hint()),
            Self::Part(part) => part.error.hint(),
            Self::Setting { .. } => Some("a number with K, M or G: PEERLANE_PINNED=128M"),
            Self::NoSlots { .. } => Some("raise the bound: PEERLANE_PINNED=256M, or `pinned=`"),
            Self::GpuStuck { .. } => {
                Some("`nvidia-smi -q` and `sudo dmesg | grep -i xid` say how the GPU is")
            }
            Self::NotDirect { .. } => Some("`--route auto` or `--route host` takes host memory"),
            _ => None,
        }
    }
}
