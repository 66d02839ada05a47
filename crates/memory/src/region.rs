//! A region of memory that payload may rest in.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use peerlane_units::Bytes;
use rustix::io::Errno;

use crate::cuda::Pinned;
use crate::map::Map;
use crate::xrt::CardBuffer;
use crate::xrt::ffi::Buffer;

/// Kind of a region, by the owner of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionKind {
    /// Host memory: a bounce buffer.
    Host,
    /// Memory of a PCIe function, published to the kernel's P2PDMA layer.
    P2pmem,
    /// Memory of a card, mapped by its maker's library.
    Card,
    /// The page cache of a file, mapped.
    MappedFile,
    /// Host memory that a GPU's copy engine reaches, too.
    Pinned,
    /// Host memory of somebody else, who may look at it meanwhile.
    Lent,
}

impl RegionKind {
    /// Returns whether the memory is that of a device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::P2pmem | Self::Card)
    }
}

/// The object that keeps a region mapped.
#[derive(Debug)]
pub(crate) enum MapKeeper {
    /// A map of our own.
    Map(Map),
    /// A buffer of XRT, which maps and unmaps it; shared with kernels that work on it.
    Card(Arc<Buffer>),
    /// Memory that is registered with a GPU, and shared with its lanes.
    Pinned(Arc<Pinned>),
}

impl From<Map> for MapKeeper {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<Arc<Buffer>> for MapKeeper {
    fn from(buffer: Arc<Buffer>) -> Self {
        Self::Card(buffer)
    }
}

/// A mapped region of memory; released when dropped.
///
/// The owner must keep it until every request on its address is over; a ring does.
#[derive(Debug)]
pub struct Region {
    keeper: MapKeeper,
    length: Bytes,
    kind: RegionKind,
}

impl Region {
    /// A region over the first `length` bytes of a map.
    pub(crate) fn new(keeper: impl Into<MapKeeper>, length: Bytes, kind: RegionKind) -> Self {
        Self { keeper: keeper.into(), length, kind }
    }

    /// A region over memory that is registered with a GPU.
    pub(crate) fn pinned(pinned: Arc<Pinned>) -> Self {
        let length = pinned.length();
        Self { keeper: MapKeeper::Pinned(pinned), length, kind: RegionKind::Pinned }
    }

    /// Size in bytes, as it was asked for.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// The kind of its memory.
    pub fn kind(&self) -> RegionKind {
        self.kind
    }

    /// Address of the map, page aligned unless the memory was lent. For the kernel only: never load
    /// from it or store to it.
    pub fn address(&self) -> NonNull<c_void> {
        match &self.keeper {
            MapKeeper::Map(map) => map.address(),
            MapKeeper::Card(buffer) => buffer.address(),
            MapKeeper::Pinned(pinned) => pinned.address(),
        }
    }

    /// A hold on the buffer of a card, for its kernels; `None` for other memory. The buffer is freed when the region and
    /// all holds are gone.
    pub fn card_buffer(&self) -> Option<CardBuffer> {
        match &self.keeper {
            MapKeeper::Card(buffer) => Some(CardBuffer::new(buffer, self.length)),
            MapKeeper::Map(_) | MapKeeper::Pinned(_) => None,
        }
    }

    /// Has the kernel map a range of a mapped file, as its faults on a first use would; nothing is read here.
    ///
    /// # Errors
    /// `EINVAL` where this is not a mapped file, and as [`Map::fault_in`] has them.
    pub(crate) fn fault_in(&mut self, offset: usize, length: usize) -> Result<(), Errno> {
        match (self.kind, &mut self.keeper) {
            (RegionKind::MappedFile, MapKeeper::Map(map)) => map.fault_in(offset, length),
            _ => Err(Errno::INVAL),
        }
    }

    /// The bytes of host memory. `None` for device memory, which the CPU never touches, and for a
    /// mapped file, which others may cut. `None` also for lent memory, which others may be reading,
    /// and for memory that a copy engine may be using.
    pub fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        match (self.kind, &mut self.keeper) {
            (RegionKind::Host, MapKeeper::Map(map)) => {
                let length = usize::try_from(self.length.0).ok()?;
                map.bytes_mut().get_mut(..length)
            }
            _ => None,
        }
    }
}
