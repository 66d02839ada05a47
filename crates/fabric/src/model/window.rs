//! Memory windows of a function: its base address registers (BARs).

use peerlane_units::Bytes;

/// A memory window of a function (`resource` in sysfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Number of the base address register, 0 to 5.
    pub index: u8,
    /// Its size.
    pub size: Bytes,
    /// Set when reading has no side effects (`IORESOURCE_PREFETCH`).
    pub is_prefetchable: bool,
    /// The largest size that it can be given (`resourceN_resize`); `None` where it has one size.
    pub largest: Option<Bytes>,
    /// Number of bits of its highest address: 44 up to 16 TiB; `None` where no address is shown.
    pub address_bits: Option<u8>,
}

/// Number of bits of an address; `None` for address 0.
pub(crate) fn bits_of(address: u64) -> Option<u8> {
    address.checked_ilog2().and_then(|top| u8::try_from(top + 1).ok())
}

/// A memory window without address space from firmware or kernel: nothing reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnassignedBar {
    /// Number of the base address register, 0 to 5.
    pub index: u8,
    /// Its size, if the kernel keeps it.
    pub size: Option<Bytes>,
}
