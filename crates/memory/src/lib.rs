//! Memory for payload between a read and a write: of the host or of PCIe devices.
//!
//! A [`Region`] is made by [`host::allocate`], [`p2pmem::allocate`], [`xrt::Card::allocate`] or [`lent::region`] and
//! released when dropped. It moves nothing; the engine hands its address to the kernel.
//!
//! Device memory is never seen as a slice: the kernel forbids CPU access to P2P maps such as memcpy
//! (`Documentation/driver-api/pci/p2pdma.rst`), since it corrupts or crashes on some machines. The only
//! way to its content is DMA through host memory.
#![deny(unsafe_code)]

pub mod blkid;
pub mod cuda;
pub mod cufile;
pub mod host;
pub mod lent;
mod library;
#[allow(unsafe_code)]
mod map;
pub mod mapped;
pub mod nvrtc;
pub mod p2pmem;
pub mod page_cache;
pub mod perf;
pub mod physical;
pub mod provider;
mod region;
pub mod xrt;

pub use host::MemoryError;
pub use library::LibraryError;
pub use map::Lent;
pub use p2pmem::P2pRefusal;
pub use region::{Region, RegionKind};
pub use xrt::XrtRefusal;
