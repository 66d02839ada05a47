//! A queue of reads and writes between files and regions of memory.
//!
//! [`Ring`] is the seam under the engine: the io_uring of the running kernel is one implementation,
//! a seeded simulation another. A ring owns the files and regions given to it, so neither can go
//! away while the kernel works on them.

mod any;
#[allow(unsafe_code)]
pub(crate) mod apart;
mod around;
#[allow(unsafe_code)]
pub(crate) mod fabrics;
#[allow(unsafe_code)]
mod gpu;
#[allow(unsafe_code)]
mod identify;
mod passthrough;
mod queue;
#[allow(unsafe_code)]
mod queues;
#[allow(unsafe_code)]
mod sharing;
#[cfg(any(test, feature = "simulation"))]
pub mod sim;
mod staged;
mod status;
#[allow(unsafe_code)]
mod uring;
#[allow(unsafe_code)]
mod worker;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use peerlane_units::Nanos;
use rustix::io::Errno;

pub(crate) use any::{AnyRing, Nodes};
pub use around::Around;
pub(crate) use gpu::open_cufile;
pub use gpu::{AttachError, GpuRing};
pub(crate) use identify::identify_controller;
pub use passthrough::{PassthroughFile, PassthroughNamespace};
pub use peerlane_results::Action;
#[cfg(test)]
pub(crate) use sharing::Reservation;
pub(crate) use sharing::{Sharing, is_no_answer, sharing};
pub use staged::Staged;
pub(crate) use status::NvmeStatus;
pub use uring::{Uring, UringError};

/// A file that a ring owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// A region of memory that a ring owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionId(pub u32);

/// One request; at most as long as one request of the device may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Read, write or flush.
    pub action: Action,
    /// The file.
    pub file: FileId,
    /// Offset in the file, in bytes.
    pub file_offset: u64,
    /// The region.
    pub region: RegionId,
    /// Offset in the region, in bytes.
    pub region_offset: u64,
    /// Bytes to move.
    pub length: u32,
    /// Comes back with the completion.
    pub tag: u64,
}

/// The end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The operation's tag.
    pub tag: u64,
    /// Bytes moved, or the system's answer.
    pub result: Result<u32, Errno>,
}

/// Reason why an operation was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The queue has no room now.
    #[error("cannot queue a request: {space} entries free")]
    Full {
        /// Free entries, as [`Ring::space`] has them.
        space: u32,
    },
    /// The ring owns no such file.
    #[error("cannot queue a request: file {} is not attached", file.0)]
    UnknownFile {
        /// The file asked for.
        file: FileId,
    },
    /// The ring owns no such region.
    #[error("cannot queue a request: region {} is not attached", region.0)]
    UnknownRegion {
        /// The region asked for.
        region: RegionId,
    },
    /// The ring has no such stage.
    #[error("cannot queue work of a stage: there is none of number {}", stage.0)]
    UnknownStage {
        /// The stage asked for.
        stage: FileId,
    },
    /// The request reaches beyond its region.
    #[error("cannot queue a request of {length} bytes at {offset} of a region of {region_length}")]
    OutOfRegion {
        /// Offset in the region asked for, in bytes.
        offset: u64,
        /// Bytes asked for.
        length: u32,
        /// Length of the region, in bytes.
        region_length: u64,
    },
    /// A passthrough node takes whole blocks only.
    #[error("cannot queue a command of {length} bytes at {offset}: those are not whole blocks")]
    NotInBlocks {
        /// Offset in the namespace asked for, in bytes.
        offset: u64,
        /// Bytes asked for.
        length: u32,
    },
    /// Memory of a command that the kernel would copy instead of using it.
    #[error("cannot queue a command: the kernel would copy memory at {offset} of its region")]
    Misaligned {
        /// Offset in the region asked for, in bytes.
        offset: u64,
    },
    /// A command that is not split is longer than the drive takes.
    #[error(
        "cannot queue a command of {length} bytes: the drive takes {most}, and nothing splits it"
    )]
    TooLong {
        /// Bytes asked for.
        length: u32,
        /// Most bytes of a command on whole pages.
        most: u64,
    },
}

/// A queue of reads and writes; bounded, used by one thread.
pub trait Ring {
    /// An object that can be read and written.
    type File;
    /// Memory that payload rests in.
    type Region;

    /// Takes a file; it is closed when the ring is dropped.
    ///
    /// # Errors
    /// The system's answer when the file cannot be registered.
    fn attach_file(&mut self, file: Self::File) -> io::Result<FileId>;

    /// Takes a region; it is released when the ring is dropped and nothing is in flight.
    fn attach_region(&mut self, region: Self::Region) -> RegionId;

    /// Length of a region in bytes; `None` if there is no such region.
    fn region_length(&self, region: RegionId) -> Option<u64>;

    /// Operations that can be pushed now.
    fn space(&self) -> u32;

    /// Queues an operation for the next [`Ring::submit`].
    ///
    /// # Errors
    /// [`PushError`]; nothing was queued.
    fn push(&mut self, operation: Operation) -> Result<(), PushError>;

    /// Hands queued requests to the kernel, and waits for `wait` completions at most `timeout`.
    /// Returns also when the time has passed or a signal came; neither is an error. With nothing in
    /// flight that is a sleep of `timeout`.
    ///
    /// # Errors
    /// The system's answer when the ring itself fails.
    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()>;

    /// The next completion, if there is one.
    fn pop(&mut self) -> Option<Completion>;

    /// Operations submitted or queued whose completion has not been popped.
    fn in_flight(&self) -> u32;

    /// Bytes of a range of a region of host memory; `None` for device memory, which the CPU never
    /// touches, beyond the region, and while an operation on a part of this range is in flight.
    fn host_range(&mut self, region: RegionId, range: Range<u64>) -> Option<&mut [u8]>;

    /// All bytes of a region of host memory, as [`Ring::host_range`].
    fn host_bytes(&mut self, region: RegionId) -> Option<&mut [u8]> {
        let length = self.region_length(region)?;
        self.host_range(region, 0..length)
    }

    /// Has the next wait end also once a descriptor is readable. Returns false if the ring cannot:
    /// the caller has to look again by itself.
    fn watch(&mut self, descriptor: BorrowedFd<'_>) -> bool {
        let _ = descriptor;
        false
    }
}
