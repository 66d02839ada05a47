//! The host bridges that Linux trusts to forward peer-to-peer transactions.
//!
//! The list is the kernel's (`drivers/pci/p2pdma.c`, `pci_p2pdma_whitelist`), not a statement about
//! the hardware: an absent host bridge may work and is still refused. AMD CPUs are not in it
//! because the kernel judges them by family.

use peerlane_fabric::gpu::{VENDOR_INTEL, VENDOR_NVIDIA};

/// The kernel's trust in a host bridge, by its allow list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Trusted, also towards another listed host bridge.
    Listed,
    /// Trusted only between functions below the same host bridge (`REQ_SAME_HOST_BRIDGE`).
    SameBridgeOnly,
    /// Not trusted.
    NotListed,
}

/// `PCI_VENDOR_ID_GOOGLE`; every device of it is listed (`PCI_ANY_ID`).
const GOOGLE: u16 = 0x1ae0;

/// Xeon E5 and Core i7 (3c00, 3c01), Xeon E7 v3 and E5 v3 (2f00, 2f01).
const INTEL_SAME_BRIDGE: [u16; 4] = [0x3c00, 0x3c01, 0x2f00, 0x2f01];

/// Device identifiers as `include/linux/pci_ids.h` has them: Skylake-E.
const INTEL_ANY_BRIDGE: [u16; 5] = [0x2030, 0x2031, 0x2032, 0x2033, 0x2020];

/// Ice Lake and later Xeons, listed from Linux 5.18 on (commit feaea1fe8b36).
const INTEL_SINCE_5_18: u16 = 0x09a2;

/// Accelerators that come first on a root bus of their own; not yet in Linux 6.12, in 7.2.
const INTEL_ACCELERATORS: [u16; 10] = [
    0x0b25, // DSA of Sapphire Rapids
    0x0cfe, // IAX of Sapphire Rapids
    0x11fb, // DSA of Granite Rapids D
    0x1212, // DSA of Diamond Rapids
    0x1216, // IAA of Diamond Rapids
    0x4940, // QAT 4xxx
    0x4942, // QAT 401xx
    0x4944, // QAT 402xx
    0x4946, // QAT 420xx
    0x4948, // QAT 6xxx
];

/// NVIDIA CPUs, listed from Linux 7.3 on.
const NVIDIA_SINCE_7_3: [u16; 4] = [0x2f95, 0x2f96, 0x2f97, 0x2f98];

/// Kernel whose list is taken where the version is unknown: the newest one known here.
pub const NEWEST_LIST: (u32, u32) = (7, 3);

/// Looks up the test device of a host bridge; `kernel` is major and minor, [`NEWEST_LIST`] when unknown.
pub(crate) fn look_up(vendor: u16, device: u16, kernel: Option<(u32, u32)>) -> Listing {
    let kernel = kernel.unwrap_or(NEWEST_LIST);
    let listed = match vendor {
        VENDOR_INTEL if INTEL_SAME_BRIDGE.contains(&device) => return Listing::SameBridgeOnly,
        VENDOR_INTEL if INTEL_ACCELERATORS.contains(&device) => kernel > (6, 12),
        VENDOR_INTEL if device == INTEL_SINCE_5_18 => kernel >= (5, 18),
        VENDOR_INTEL => INTEL_ANY_BRIDGE.contains(&device),
        GOOGLE => true,
        VENDOR_NVIDIA => kernel >= (7, 3) && NVIDIA_SINCE_7_3.contains(&device),
        _ => false,
    };
    if listed { Listing::Listed } else { Listing::NotListed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvidia_cpus_need_linux_7_3() {
        assert_eq!(look_up(VENDOR_NVIDIA, 0x2f95, None), Listing::Listed);
        assert_eq!(look_up(VENDOR_NVIDIA, 0x2f95, Some((7, 2))), Listing::NotListed);
        assert_eq!(look_up(VENDOR_NVIDIA, 0x2f95, Some((7, 3))), Listing::Listed);
    }

    #[test]
    fn older_kernels_do_not_list_accelerators() {
        assert_eq!(look_up(VENDOR_INTEL, 0x0b25, Some((6, 12))), Listing::NotListed);
        assert_eq!(look_up(VENDOR_INTEL, 0x0b25, Some((7, 2))), Listing::Listed);
        assert_eq!(look_up(VENDOR_INTEL, 0x09a2, Some((6, 8))), Listing::Listed);
        assert_eq!(look_up(VENDOR_INTEL, 0x09a2, Some((5, 15))), Listing::NotListed);
    }

    #[test]
    fn emulated_q35_bridge_is_not_listed() {
        assert_eq!(look_up(VENDOR_INTEL, 0x29c0, Some((7, 2))), Listing::NotListed);
    }
}
