//! Errors of a read.

use std::io;
use std::path::PathBuf;

use peerlane_memory::MemoryError;
use peerlane_units::Bytes;

use crate::endpoints::EndError;
use crate::io::failure::{RequestError, hint_of_denial};
use crate::io::ring::UringError;
use crate::transfer::load::LoadError;

/// Reason why a read did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing to read from.
    #[error("cannot read")]
    End(#[from] EndError),
    /// The file could not be looked at or attached.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The failed operation, as a verb.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
    /// No host memory.
    #[error("cannot set up host memory")]
    Memory(#[from] MemoryError),
    /// No ring could be set up.
    #[error("cannot set up io_uring")]
    Ring(#[from] UringError),
    /// A request came to no good end.
    #[error("cannot read {}", path.display())]
    Request {
        /// The file.
        path: PathBuf,
        /// Failure of the request.
        source: RequestError,
    },
    /// It did not get into memory of a GPU.
    #[error("cannot read {} into memory of a GPU", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Failure of the load.
        source: LoadError,
    },
    /// Bytes read do not fit where they belong: a fault of this program.
    #[error("what was read does not fit where it belongs")]
    Misplaced,
    /// A wish to stop came from outside.
    #[error("interrupted after {done} of {total}")]
    Interrupted {
        /// Bytes from the beginning on that are in the memory.
        done: Bytes,
        /// Bytes that were to be read.
        total: Bytes,
    },
}

impl From<RequestError> for ReadError {
    fn from(source: RequestError) -> Self {
        Self::Request { path: PathBuf::new(), source }
    }
}

impl ReadError {
    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::End(error) => error.hint(),
            Self::File { path, source, .. } => hint_of_denial(path, source),
            Self::Memory(error) => error.hint().map(str::to_owned),
            Self::Ring(error) => error.hint().map(str::to_owned),
            Self::Load { source, .. } => source.hint().map(str::to_owned),
            Self::Request { source, .. } => source.hint().map(str::to_owned),
            _ => None,
        }
    }
}
