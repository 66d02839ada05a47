//! Work on the data where it rests: on a chunk in its slot, between its read and its writes.
//!
//! A [`Stage`] is asked to start on a chunk and is polled for its end; a [`Staged`](crate::io::ring::Staged)
//! ring drives it like a device, with a deadline for each chunk. A stage keeps the length of a chunk. The
//! chunks of a copy lie on a grid that begins with the copy: each is as long as a request, the last one
//! may be shorter.

mod cuda;
mod digest;
mod name;
mod outside;
mod xrt;

use std::os::fd::BorrowedFd;

pub(crate) use cuda::{CudaDigest, CudaStage};
pub use digest::DigestStage;
pub(crate) use digest::chunk_digest;
pub use name::StageName;
pub(crate) use name::StageNameError;
pub(crate) use outside::OutsideProcess;
pub use xrt::CardStage;

/// A chunk in its slot. No request touches the slot until the stage is done with it.
#[derive(Debug)]
pub struct Chunk<'a> {
    /// Comes back with the end of the work.
    pub tag: u64,
    /// Offset of the chunk in the copy, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the memory of the slots, in bytes.
    pub memory_offset: u64,
    /// The bytes themselves; `None` for device memory, which the CPU never touches.
    pub content: Option<&'a mut [u8]>,
}

/// Reason why a stage failed on a chunk, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StageFault(pub String);

/// Work on chunks, several at a time.
pub trait Stage {
    /// Chunks that it takes now.
    fn room(&self) -> usize;

    /// Begins to work on a chunk; [`Stage::finished`] tells its end.
    ///
    /// # Errors
    /// When the work does not begin.
    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault>;

    /// The next chunk that it is done with, by its tag; never waits.
    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)>;

    /// A descriptor that can be read once a chunk may be done; without one it is asked again and again.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ends work under way, or gives it up after a bounded time. Returns true if nothing works on
    /// the memory any more, or only work that itself holds the memory and its registrations.
    fn cancel(&mut self) -> bool {
        true
    }
}
