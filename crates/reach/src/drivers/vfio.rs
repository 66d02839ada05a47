//! Devices that vfio gives to programs and virtual machines: windows as dma-bufs.

use peerlane_fabric::FunctionKind;

use super::ends::DriverEnds;
use super::rdma::{self, Pinning};
use super::{DriverAnswer, DriverRule};

const DRIVER: &str = "vfio-pci";
const EXPORT: &str = "Linux 7.2, drivers/vfio/pci/vfio_pci_dmabuf.c; \
                      cloud-hypervisor/cloud-hypervisor #8895";
const IMPORT: &str = "Linux 7.2, drivers/iommu/iommufd (IOMMU_IOAS_MAP_FILE); xnvme/xnvme #770";

/// The rule for a window of a device that vfio holds.
pub(super) fn lends(ends: &DriverEnds<'_>) -> DriverRule {
    if ends.is_initiator_held_by_vfio() {
        return both(ends);
    }
    let initiator = ends.initiator();
    let asks = Some(true);
    let mechanism = "dma-buf";
    let taker = match initiator.kind {
        FunctionKind::Nic => rdma::importer(initiator),
        _ => None,
    };
    let verdict = match (ends.is_kernel_at_least(6, 19), taker) {
        (Some(false), _) => (DriverAnswer::Refused, too_old()),
        (_, Some(Pinning::Moves | Pinning::Revocable)) => {
            let answer = match ends.is_kernel_at_least(6, 19) {
                Some(_) => DriverAnswer::Possible,
                None => DriverAnswer::Conditional,
            };
            let reason = format!(
                "since Linux 6.19 vfio-pci exports windows to importers that it can revoke; {}",
                ends.in_words()
            );
            (answer, reason)
        }
        (_, Some(Pinning::Fixed)) => {
            let reason =
                "this importer pins memory for good, and vfio-pci must be able to revoke it";
            (DriverAnswer::Refused, reason.to_owned())
        }
        (_, None) => {
            let reason = format!(
                "vfio-pci exports windows only to importers that it can revoke, and the driver of {} \
                 is none that is known",
                ends.word(initiator)
            );
            (DriverAnswer::NotKnown, reason)
        }
    };
    DriverRule::new(DRIVER, mechanism, asks, verdict, EXPORT)
}

/// The rule for two devices that vfio holds.
fn both(ends: &DriverEnds<'_>) -> DriverRule {
    let (mechanism, verdict) = match ends.is_kernel_at_least(6, 19) {
        Some(true) => {
            let reason = "iommufd maps the window of one device for the other and asks for no route: \
                          prove that data arrives";
            ("dma-buf by iommufd", (DriverAnswer::Possible, reason.to_owned()))
        }
        Some(false) => {
            let reason = "before Linux 6.19 iommufd maps no windows; the older container of vfio does \
                          (VFIO_IOMMU_MAP_DMA)";
            ("vfio container", (DriverAnswer::Conditional, reason.to_owned()))
        }
        None => {
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
