//! Memory of a device taken for a transfer, by the way that its name says: the kernel's pool for `cmb:`
//! and `p2pmem:`, the maker's library for `fpga:`.

use std::path::{Path, PathBuf};

use peerlane_memory::xrt::Xrt;
use peerlane_memory::{P2pRefusal, Region, XrtRefusal, p2pmem};
use peerlane_results::MemoryFacts;
use peerlane_units::Bytes;

/// What names of memory begin with that XRT hands out.
pub(crate) const CARD: &str = "fpga:";
/// Environment variable that names the image whose memory groups are taken.
const XCLBIN: &str = "PEERLANE_XCLBIN";

/// Why there is no memory of a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceRefusal {
    /// The kernel's pool does not give it.
    #[error(transparent)]
    P2pmem(#[from] P2pRefusal),
    /// XRT does not give it.
    #[error(transparent)]
    Card(#[from] XrtRefusal),
}

impl DeviceRefusal {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::P2pmem(refusal) => refusal.hint(),
            Self::Card(refusal) => refusal.hint(),
        }
    }

    /// Whether less memory may be had where this much is not.
    pub(crate) fn is_for_want_of_room(&self) -> bool {
        match self {
            Self::P2pmem(refusal) => matches!(refusal, P2pRefusal::Exhausted { .. }),
            Self::Card(refusal) => refusal.is_for_want_of_room(),
        }
    }
}

/// Takes memory of the device at a PCI address.
pub(crate) fn allocate(
    memory: &MemoryFacts,
    address: &str,
    length: Bytes,
) -> Result<Region, DeviceRefusal> {
    if memory.name.starts_with(CARD) {
        let mut card = Xrt::load()?.open(Path::new("/"), address)?;
        if let Some(image) = std::env::var_os(XCLBIN).filter(|image| !image.is_empty()) {
            card.load(Path::new(&image))?;
        }
        return Ok(card.allocate(length)?);
    }
    let folder = PathBuf::from(format!("/sys/bus/pci/devices/{address}/p2pmem"));
    Ok(p2pmem::allocate(&folder, length)?)
}
