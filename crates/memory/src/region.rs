//! A region of memory that payload may rest in.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use peerlane_units::Bytes;

use crate::cuda::Pinned;
use crate::map::Map;

/// Whose memory a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionKind {
    /// Host memory: a bounce buffer.
    Host,
    /// Memory of a PCIe function, published to the kernel's P2PDMA layer.
    P2pmem,
    /// The page cache of a file, mapped.
    MappedFile,
    /// Host memory that a GPU's copy engine reaches, too.
    Pinned,
}

/// What a region lies in.
#[derive(Debug)]
enum Backing {
    /// A map of its own.
    Map(Map),
    /// Memory that is registered with a GPU, and shared with its lanes.
    Pinned(Arc<Pinned>),
}

/// A mapped region of memory; released when dropped.
///
/// The owner must keep it until every request on its address is over; a ring does.
#[derive(Debug)]
pub struct Region {
    backing: Backing,
    length: Bytes,
    kind: RegionKind,
}

impl Region {
    /// A region over the first `length` bytes of a map.
    pub(crate) fn new(map: Map, length: Bytes, kind: RegionKind) -> Self {
        Self { backing: Backing::Map(map), length, kind }
    }

    /// A region over memory that is registered with a GPU.
    pub(crate) fn pinned(pinned: Arc<Pinned>) -> Self {
        let length = pinned.length();
        Self { backing: Backing::Pinned(pinned), length, kind: RegionKind::Pinned }
    }

    /// Size in bytes, as asked for at its making.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// Whose memory it is.
    pub fn kind(&self) -> RegionKind {
        self.kind
    }

    /// Where it is mapped, page aligned: for handing to the kernel, never to load from or store to.
    pub fn address(&self) -> NonNull<c_void> {
        match &self.backing {
            Backing::Map(map) => map.address(),
            Backing::Pinned(pinned) => pinned.address(),
        }
    }

    /// The bytes of host memory; `None` for device memory, which the CPU never touches, for a mapped file,
    /// which others may cut, and for what a copy engine may be at work on.
    pub fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        match (&mut self.backing, self.kind) {
            (Backing::Map(map), RegionKind::Host) => {
                let length = usize::try_from(self.length.0).ok()?;
                map.bytes_mut().get_mut(..length)
            }
            _ => None,
        }
    }
}
