//! cuFile (GPUDirect Storage), opened when the program runs: files to GPU memory and back.
//!
//! The interface: [`open`] gives a [`CuFileSession`] in one [`Mode`]; [`CuFileSession::file`] registers an open file and
//! [`CuFileSession::memory`] memory of a GPU; [`CuFileSession::read`] and [`CuFileSession::write`] move bytes between the two and
//! return when they have. A registration holds all that it needs, and dropping undoes registrations
//! in the order that the library wants.
//!
//! Left alone, cuFile falls back to host memory without a word. A direct mode switches every
//! [`Fallback`] off before the driver is opened and reads them back afterwards, since before that
//! the answer may be a default that is not applied. [`CuFileSession::since`] returns which way
//! requests took, or [`NoCounter`] where that is unknown: the layout of the counters follows from
//! the version of the library, and only known ones are read.
//!
//! The settings are the whole process's, so all sessions at a time are of one mode.

mod abi;
mod counts;
mod error;
mod fallback;
#[allow(unsafe_code)]
mod ffi;
#[cfg(test)]
mod headers;
mod p2p;
mod table;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

pub use counts::{Counted, CounterMark, Counts, FellBack, NoCounter, Version};
pub use error::{CuFileError, IoFailure};
pub use fallback::Fallback;
pub use ffi::{CuFileSession, OpenFile, Properties, RegisteredMemory};
pub use p2p::{P2pFlags, Storage};

/// The library of GPUDirect Storage.
const LIBRARY: &str = "libcufile.so.0";

/// The only way that cuFile may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Between drive and GPU by the kernel's P2PDMA.
    P2pdma,
    /// Between drive and GPU by the module nvidia-fs.
    NvidiaFs,
    /// Its compatibility mode: through host memory.
    Compatible,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::P2pdma => "cuFile, direct by P2PDMA",
            Self::NvidiaFs => "cuFile, direct by nvidia-fs",
            Self::Compatible => "cuFile in compatibility mode, through host memory",
        })
    }
}

/// Opens cuFile of this machine.
///
/// # Errors
/// [`CuFileError`]: something is missing, or cuFile is open in another mode.
pub fn open(mode: Mode) -> Result<Arc<CuFileSession>, CuFileError> {
    CuFileSession::open(OsStr::new(LIBRARY), mode)
}

/// The same with a library that stands for it.
///
/// # Errors
/// As [`open`].
pub fn open_from(library: &Path, mode: Mode) -> Result<Arc<CuFileSession>, CuFileError> {
    CuFileSession::open(library.as_os_str(), mode)
}

/// A range of a file and a range of registered memory of the same length.
#[derive(Debug)]
pub struct TransferSpan<'a> {
    /// The file.
    pub file: &'a OpenFile,
    /// Offset in the file, in bytes.
    pub file_offset: u64,
    /// The memory.
    pub memory: &'a RegisteredMemory,
    /// Offset in the memory, in bytes.
    pub memory_offset: u64,
    /// Bytes.
    pub length: u64,
}

impl TransferSpan<'_> {
    /// Refuses a range that reaches beyond the memory, or that no call can name.
    fn check(&self) -> Result<(), IoFailure> {
        let end = self.memory_offset.checked_add(self.length);
        let file_end = self.file_offset.checked_add(self.length);
        let fits = end.is_some_and(|end| end <= self.memory.length().0)
            && file_end.is_some_and(|end| i64::try_from(end).is_ok());
        if fits { Ok(()) } else { Err(IoFailure::Range) }
    }
}

impl CuFileSession {
    /// Registers a file, opened with `O_DIRECT`; it is closed when the registration is gone.
    ///
    /// # Errors
    /// [`CuFileError::Call`] where this mode cannot serve it.
    pub fn file(self: &Arc<Self>, file: File) -> Result<OpenFile, CuFileError> {
        OpenFile::register(self, file)
    }
}
