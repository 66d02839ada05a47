//! Switches that NVIDIA's driver counts as one above two GPUs.
//!
//! Follows `clFindCommonDownstreamBR` (chipset_pcie.c) with `IS_SUPPORTED_PCIE_SWITCH`
//! (pcie_switch_ref.h) of the open kernel modules. For RDMA any bridge above both counts
//! (`nv_pci_has_common_pci_switch` in nv-pci.c).

use peerlane_fabric::{Function, FunctionKind, gpu};

use crate::Need;
use crate::drivers::ends::DriverEnds;

/// PCI vendors of listed switches, each with a mask and a value of the device number.
const LISTED: [(u16, u16, u16); 7] = [
    // NVIDIA BR03 and BR04.
    (gpu::VENDOR_NVIDIA, 0xffff, 0x01b3),
    (gpu::VENDOR_NVIDIA, 0xfff0, 0x05b0),
    // PLX.
    (0x10b5, 0xff00, 0x8700),
    (0x10b5, 0xff00, 0x9700),
    // PMC-Sierra, now Microchip.
    (0x11f8, 0xff00, 0x8500),
    (0x11f8, 0xff00, 0x4000),
    // The bridge in ConnectX-6.
    (0x15b3, 0xffff, 0x1976),
];

/// The switch above two GPUs, as the driver sees it.
#[derive(Debug, Clone, Copy)]
pub(super) enum CommonSwitch<'a> {
    /// It is on the driver's list.
    Listed,
    /// It is not, so the driver goes on as if there were none.
    NotListed(&'a Function),
    /// Its maker or number is unknown.
    Unknown(&'a Function),
    /// Bridges above an end are not in the input.
    Hidden,
    /// None is above both.
    Absent,
}

impl<'a> CommonSwitch<'a> {
    pub(super) fn new(ends: &DriverEnds<'a>) -> Self {
        let above: Vec<_> = ends.fabric.upward(ends.provider).skip(1).collect();
        let common = ends.fabric.upward(ends.initiator).skip(1).filter(|port| above.contains(port));
        let is_hidden = |need: &Need| matches!(need, Need::Bridges(_));
        let mut found =
            if ends.decision.needs.iter().any(is_hidden) { Self::Hidden } else { Self::Absent };
        for port in common.map(|id| ends.fabric.function(id)) {
            if !matches!(port.kind, FunctionKind::UpstreamPort | FunctionKind::OtherBridge) {
                continue;
            }
            found = match (is_listed(port), found) {
                (Some(true), _) => return Self::Listed,
                (None, _) => Self::Unknown(port),
                (Some(false), Self::Absent | Self::Hidden) => Self::NotListed(port),
                (Some(false), found) => found,
            };
        }
        found
    }
}

/// Returns whether a switch is on the list; `None` where its numbers are unknown.
fn is_listed(switch: &Function) -> Option<bool> {
    let (vendor, device) = (switch.vendor?, switch.device);
    let mut of_vendor = LISTED.iter().filter(|(listed, ..)| *listed == vendor).peekable();
    of_vendor
        .peek()
        .is_none()
        .then_some(false)
        .or_else(|| device.map(|device| of_vendor.any(|&(_, mask, value)| device & mask == value)))
}
