//! A region of memory that payload may rest in.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use peerlane_units::Bytes;
use rustix::io::Errno;

use crate::map::Map;

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
    /// Host memory of another owner, who may look at it meanwhile.
    Lent,
}

impl RegionKind {
    /// Returns whether the memory is that of a device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::P2pmem | Self::Card)
    }
}

/// An object that keeps memory mapped, shared with its other users.
pub(crate) trait MapKeeper: Any + fmt::Debug + Send + Sync {
    /// Address of the map.
    fn address(&self) -> NonNull<c_void>;

    /// The object as one of any type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

#[derive(Debug)]
enum RegionMap {
    /// A map of our own.
    Own(Map),
    /// The map of a library.
    Kept(Arc<dyn MapKeeper>),
}

/// A mapped region of memory; released when dropped.
///
/// The owner must keep it until every request on its address is over; a ring does.
#[derive(Debug)]
pub struct Region {
    map: RegionMap,
    length: Bytes,
    kind: RegionKind,
}

impl Region {
    /// A region over the first `length` bytes of a map.
    pub(crate) fn new(map: Map, length: Bytes, kind: RegionKind) -> Self {
        Self { map: RegionMap::Own(map), length, kind }
    }

    /// A region over the first `length` bytes that an object keeps mapped.
    pub(crate) fn kept(keeper: Arc<dyn MapKeeper>, length: Bytes, kind: RegionKind) -> Self {
        Self { map: RegionMap::Kept(keeper), length, kind }
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
        match &self.map {
            RegionMap::Own(map) => map.address(),
            RegionMap::Kept(keeper) => keeper.address(),
        }
    }

    /// The object that keeps it mapped; `None` where that is a map of our own, or of another type.
    pub(crate) fn keeper<T: MapKeeper>(&self) -> Option<Arc<T>> {
        match &self.map {
            RegionMap::Own(_) => None,
            RegionMap::Kept(keeper) => Arc::clone(keeper).into_any().downcast().ok(),
        }
    }

    /// The map of host memory; `None` for any other.
    pub(crate) fn into_host_map(self) -> Option<Map> {
        match (self.kind, self.map) {
            (RegionKind::Host, RegionMap::Own(map)) => Some(map),
            _ => None,
        }
    }

    /// Has the kernel map a range of a mapped file, as its faults on a first use would; nothing is read here.
    ///
    /// # Errors
    /// `EINVAL` where this is not a mapped file, and as [`Map::fault_in`] has them.
    pub(crate) fn fault_in(&mut self, offset: usize, length: usize) -> Result<(), Errno> {
        match (self.kind, &mut self.map) {
            (RegionKind::MappedFile, RegionMap::Own(map)) => map.fault_in(offset, length),
            _ => Err(Errno::INVAL),
        }
    }

    /// The bytes of host memory. `None` for device memory, which the CPU never touches, and for a
    /// mapped file, which others may cut. `None` also for lent memory, which others may be reading,
    /// and for memory that a copy engine may be using.
    pub fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        match (self.kind, &mut self.map) {
            (RegionKind::Host, RegionMap::Own(map)) => {
                let length = usize::try_from(self.length.0).ok()?;
                map.bytes_mut().get_mut(..length)
            }
            _ => None,
        }
    }
}
