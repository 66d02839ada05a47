//! Devices that vfio gives to programs and virtual machines: windows as dma-bufs.

use peerlane_fabric::{FunctionKind, Kernel};

use super::ends::DriverEnds;
use super::rdma::{self, Pinning};
use super::{DriverAnswer, DriverRule};

const DRIVER: &str = "vfio-pci";
const EXPORT: &str = "Linux 6.19 to 7.2, drivers/vfio/pci/vfio_pci_dmabuf.c; NVIDIA/NV-Kernels #583; \
                      cloud-hypervisor/cloud-hypervisor #8895";
/// The first kernel that exports windows.
const EXPORTS_SINCE: (u32, u32) = (6, 19);
/// The first kernel with all of the fixes that are known.
const FIXED_SINCE: (u32, u32) = (7, 1);
const IMPORT: &str = "Linux 7.2, drivers/iommu/iommufd (IOMMU_IOAS_MAP_FILE); xnvme/xnvme #770";

/// Whether and how a kernel exports windows of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Export {
    /// Not at all.
    TooOld,
    /// Without fixes that later releases have, which the text names.
    Unfixed(String),
    /// With all of those that are known.
    Fixed,
    /// Its version is unknown.
    Unknown,
}

impl Export {
    /// The state by release; distributions may have taken single fixes, so only a release is proof.
    ///
    /// 6.19 has 61ceaf236115 (tag vfio-v6.19-rc8), 7.0.11 has 702809dabdec (CVE-2026-64042), and 7.1 has all:
    /// 1a8a5227f229 came with "dma-buf: Rename dma_buf_move_notify()", c64a647c84f3 with 7.1-rc4.
    fn new(kernel: &Kernel) -> Self {
        const UNRESERVED: &str =
            "windows that were never reserved are exported (702809dabdec, in 7.0.11)";
        const NO_WAIT: &str = "a revoked importer may still use the window (1a8a5227f229, in 7.1; in 7.0's stable releases not known)";
        match (kernel.version(), kernel.patch_level()) {
            (None, _) => Self::Unknown,
            (Some(version), _) if version < EXPORTS_SINCE => Self::TooOld,
            (Some((7, 0)), Some(patch)) if patch >= 11 => Self::Unfixed(NO_WAIT.to_owned()),
            (Some(version), _) if version < FIXED_SINCE => {
                Self::Unfixed(format!("{NO_WAIT}, and {UNRESERVED}"))
            }
            _ => Self::Fixed,
        }
    }
}

/// The rule for a window of a device that vfio holds.
pub(super) fn lends(ends: &DriverEnds<'_>) -> DriverRule {
    if ends.is_initiator_held_by_vfio() {
        return both(ends);
    }
    let initiator = ends.initiator();
    let taker = match initiator.kind {
        FunctionKind::Nic => rdma::importer(initiator),
        _ => None,
    };
    let export = Export::new(&ends.fabric.kernel);
    let verdict = match (&export, taker) {
        (Export::TooOld, _) => (DriverAnswer::Refused, too_old()),
        (_, Some(Pinning::Fixed)) => {
            let reason =
                "this importer pins memory for good, and vfio-pci must be able to revoke it";
            (DriverAnswer::Refused, reason.to_owned())
        }
        (Export::Unfixed(_), Some(Pinning::Revocable)) => {
            let reason =
                "this importer pins memory, and before Linux 7.1 vfio-pci keeps all of those out";
            (DriverAnswer::Refused, reason.to_owned())
        }
        (_, Some(Pinning::Moves | Pinning::Revocable)) => exported(ends, &export),
        (_, None) => {
            let reason = format!(
                "vfio-pci exports windows only to importers that it can revoke, and the driver of {} \
                 is none that is known",
                ends.word(initiator)
            );
            (DriverAnswer::NotKnown, reason)
        }
    };
    DriverRule::new(DRIVER, "dma-buf", Some(true), verdict, EXPORT)
}

/// The verdict for an importer that can be revoked.
fn exported(ends: &DriverEnds<'_>, export: &Export) -> (DriverAnswer, String) {
    let since = format!(
        "since Linux 6.19 vfio-pci exports windows to importers that it can revoke; {}",
        ends.in_words()
    );
    match export {
        Export::Fixed => (DriverAnswer::Possible, since),
        Export::Unfixed(faults) => (
            DriverAnswer::Conditional,
            format!("{since}; this kernel lacks fixes unless added: {faults}"),
        ),
        Export::TooOld | Export::Unknown => (DriverAnswer::Conditional, since),
    }
}

/// The rule for two devices that vfio holds.
fn both(ends: &DriverEnds<'_>) -> DriverRule {
    let maps = "iommufd maps the window of one device for the other and asks for no route: prove that data arrives";
    let (mechanism, verdict) = match Export::new(&ends.fabric.kernel) {
        Export::Fixed => ("dma-buf by iommufd", (DriverAnswer::Possible, maps.to_owned())),
        Export::Unfixed(faults) => {
            let reason = format!("{maps}; this kernel lacks fixes unless added: {faults}");
            ("dma-buf by iommufd", (DriverAnswer::Conditional, reason))
        }
        Export::TooOld => {
            let reason = "before Linux 6.19 iommufd maps no windows; the older container of vfio does \
                          (VFIO_IOMMU_MAP_DMA)";
            ("vfio container", (DriverAnswer::Conditional, reason.to_owned()))
        }
        Export::Unknown => {
            let reason = "iommufd maps windows since Linux 6.19, and the kernel's version is unknown: \
                          `uname -r`";
            ("dma-buf by iommufd", (DriverAnswer::Conditional, reason.to_owned()))
        }
    };
    DriverRule::new(DRIVER, mechanism, Some(false), verdict, EXPORT)
}

/// The rule for memory of a device that its own driver holds, and an initiator that vfio holds.
pub(super) fn takes(ends: &DriverEnds<'_>) -> DriverRule {
    let provider = ends.provider();
    let driver = provider.driver.name().unwrap_or("its driver");
    let reason = format!(
        "iommufd takes windows of devices that vfio holds, and {} is held by {driver}",
        ends.word(provider)
    );
    DriverRule::new(
        DRIVER,
        "dma-buf by iommufd",
        Some(false),
        (DriverAnswer::Refused, reason),
        IMPORT,
    )
}

fn too_old() -> String {
    "vfio-pci exports windows since Linux 6.19".to_owned()
}
