//! The ring of a copy: that of the kernel, or one with memory of a GPU at its other end.

use std::fs::File;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::{fmt, io};

use peerlane_memory::Region;
use peerlane_units::Nanos;

use super::{
    Around as _, Completion, FileId, GpuRing, Operation, PassthroughFile, PushError, RegionId,
    Ring, Staged, Uring,
};

/// Takes passthrough nodes as well as files.
pub(crate) trait Nodes: Ring<File = File> {
    /// Takes a node with its namespace.
    ///
    /// # Errors
    /// The system's answer, or that this ring takes none.
    fn attach_node(&mut self, node: PassthroughFile) -> io::Result<FileId>;
}

impl Nodes for Uring {
    fn attach_node(&mut self, node: PassthroughFile) -> io::Result<FileId> {
        self.attach_passthrough(node)
    }
}

impl Nodes for AnyRing {
    fn attach_node(&mut self, node: PassthroughFile) -> io::Result<FileId> {
        match self {
            Self::Kernel(ring) => ring.attach_passthrough(node),
            _ => Err(io::Error::other("a passthrough node reaches no GPU")),
        }
    }
}

impl<R: Nodes> Nodes for Staged<R> {
    fn attach_node(&mut self, node: PassthroughFile) -> io::Result<FileId> {
        self.inner_mut().attach_node(node)
    }
}

/// One of the two.
pub(crate) enum AnyRing {
    /// Between files and memory that has addresses.
    Kernel(Box<Uring>),
    /// Between files and memory of a GPU.
    Gpu(Box<GpuRing>),
    /// Between simulated drives and memory.
    #[cfg(any(test, feature = "simulation"))]
    Simulated(Box<dyn Ring<File = File, Region = Region>>),
}

impl AnyRing {
    /// Words of the GPU or cuFile for the first operation that failed, beyond its errno.
    pub(crate) fn said(&self) -> Option<&str> {
        match self {
            Self::Gpu(ring) => ring.failure(),
            _ => None,
        }
    }

    /// Copies that a GPU has not finished.
    pub(crate) fn copies(&self) -> usize {
        match self {
            Self::Gpu(ring) => ring.copies(),
            _ => 0,
        }
    }
}

impl fmt::Debug for AnyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(ring) => ring.fmt(f),
            ring => {
                f.debug_struct("Ring").field("in_flight", &ring.in_flight()).finish_non_exhaustive()
            }
        }
    }
}

/// Hands a call on to whichever ring it is.
macro_rules! either {
    ($self:expr, $ring:ident => $call:expr) => {
        match $self {
            AnyRing::Kernel($ring) => $call,
            AnyRing::Gpu($ring) => $call,
            #[cfg(any(test, feature = "simulation"))]
            AnyRing::Simulated($ring) => $call,
        }
    };
}

impl Ring for AnyRing {
    type File = File;
    type Region = Region;

    fn attach_file(&mut self, file: File) -> io::Result<FileId> {
        either!(self, ring => ring.attach_file(file))
    }

    fn attach_region(&mut self, region: Region) -> RegionId {
        either!(self, ring => ring.attach_region(region))
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        either!(self, ring => ring.region_length(region))
    }

    fn space(&self) -> u32 {
        either!(self, ring => ring.space())
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        either!(self, ring => ring.push(operation))
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        either!(self, ring => ring.submit(wait, timeout))
    }

    fn pop(&mut self) -> Option<Completion> {
        either!(self, ring => ring.pop())
    }

    fn in_flight(&self) -> u32 {
        either!(self, ring => ring.in_flight())
    }

    fn host_range(&mut self, region: RegionId, range: Range<u64>) -> Option<&mut [u8]> {
        either!(self, ring => ring.host_range(region, range))
    }

    fn watch(&mut self, descriptor: BorrowedFd<'_>) -> bool {
        either!(self, ring => ring.watch(descriptor))
    }
}
