//! A region of memory that payload may rest in.

use std::ffi::c_void;
use std::ptr::NonNull;

use peerlane_units::Bytes;

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
    /// Host memory of somebody else, who may look at it meanwhile.
    Lent,
}

/// A mapped region of memory; released when dropped.
///
/// The owner must keep it until every request on its address is over; a ring does.
#[derive(Debug)]
pub struct Region {
    map: Map,
    length: Bytes,
    kind: RegionKind,
}

impl Region {
    /// A region over the first `length` bytes of a map.
    pub(crate) fn new(map: Map, length: Bytes, kind: RegionKind) -> Self {
        Self { map, length, kind }
    }

    /// Size in bytes, as asked for at its making.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// Whose memory it is.
    pub fn kind(&self) -> RegionKind {
        self.kind
    }

    /// Where it is mapped, page aligned unless it was lent: for handing to the kernel, never to load from or store to.
    pub fn address(&self) -> NonNull<c_void> {
        self.map.address()
    }

    /// The bytes of host memory; `None` for device memory, which the CPU never touches, for a mapped
    /// file, which others may cut, and for lent memory, which others may be reading.
    pub fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self.kind {
            RegionKind::Host => {
                let length = usize::try_from(self.length.0).ok()?;
                self.map.bytes_mut().get_mut(..length)
            }
            RegionKind::P2pmem | RegionKind::MappedFile | RegionKind::Lent => None,
        }
    }
}
