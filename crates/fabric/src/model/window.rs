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
}

/// A memory window for which neither firmware nor kernel found address space: nothing reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnassignedBar {
    /// Number of the base address register, 0 to 5.
    pub index: u8,
    /// Its size, where the kernel keeps it.
    pub size: Option<Bytes>,
}
