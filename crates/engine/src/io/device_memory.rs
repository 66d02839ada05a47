//! Memory for a transfer, from the provider that its name belongs to.

use std::path::Path;

use peerlane_memory::Region;
pub use peerlane_memory::provider::ProviderRefusal as DeviceRefusal;
use peerlane_memory::provider::{PROVIDERS, ProviderKind};
use peerlane_memory::xrt::Xrt;
use peerlane_results::{MemoryFacts, MemoryKind};
use peerlane_units::Bytes;

/// Takes memory of the device at a PCI address.
pub(crate) fn allocate(
    memory: &MemoryFacts,
    address: &str,
    length: Bytes,
) -> Result<Region, DeviceRefusal> {
    PROVIDERS.allocate(&memory.name, (Path::new("/"), address), length)
}

/// Takes memory of the card at a PCI address that a kernel of an image reaches; the image is loaded.
pub(crate) fn of_kernel(
    address: &str,
    (image, kernel): (&Path, &str),
    length: Bytes,
) -> Result<Region, DeviceRefusal> {
    let mut card = Xrt::load()?.open(Path::new("/"), address)?;
    card.load(image)?;
    let kernel = card.kernel(kernel)?;
    Ok(card.allocate_for(&kernel, length)?)
}

/// The kind of memory as records have it.
pub(crate) fn recorded(kind: ProviderKind) -> MemoryKind {
    match kind {
        ProviderKind::Host => MemoryKind::Host,
        ProviderKind::Pool | ProviderKind::Card => MemoryKind::P2pmem,
        ProviderKind::Gpu => MemoryKind::Gpu,
    }
}
