//! Network controllers as initiators: they reach memory of a device through a memory region that is
//! registered for it.

use peerlane_fabric::{Acs, Function};

use super::ends::{DriverEnds, is_held_by_vfio};
use super::{DriverAnswer, DriverRule};
use crate::MapType;

const SOURCE: &str = "Linux 7.2, drivers/infiniband (reg_user_mr_dmabuf)";
const TRANSLATED: &str = "NVIDIA AI Enterprise, Optimizing VM Configuration, Appendix (August 2026); \
                          linux-rdma/rdma-core #1644 and #1779 (rdma_topo)";

/// PCI drivers whose RDMA part imports memory of other devices, and whether it pins it.
const IMPORTERS: [(&str, Pinning); 7] = [
    ("mlx5_core", Pinning::Moves),
    ("ice", Pinning::Revocable),
    ("i40e", Pinning::Revocable),
    ("efa", Pinning::Fixed),
    ("bnxt_en", Pinning::Fixed),
    ("mana", Pinning::Fixed),
    ("ionic", Pinning::Fixed),
];

/// PCI drivers with an RDMA part that has reliable connections, which NVMe over RDMA needs (Linux 7.2,
/// drivers/infiniband/hw). That of `efa` has none.
const NVME_CARRIERS: [&str; 16] = [
    "be2net",
    "bnxt_en",
    "cxgb4",
    "erdma",
    "hfi1",
    "hns3",
    "i40e",
    "ib_mthca",
    "ice",
    "idpf",
    "ionic",
    "mana",
    "mlx4_core",
    "mlx5_core",
    "qede",
    "vmw_pvrdma",
];

/// An importer's hold on memory (`dma_buf_dynamic_attach`, `dma_buf_attach_revocable`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pinning {
    /// It follows memory that moves.
    Moves,
    /// It pins memory, and gives it back when it is revoked.
    Revocable,
    /// It pins memory for good.
    Fixed,
}

/// The hold of a network controller's driver on memory; `None` where it imports none, or is not
/// shown.
pub(super) fn importer(function: &Function) -> Option<Pinning> {
    let driver = function.driver.name()?;
    IMPORTERS.iter().find(|(name, _)| *name == driver).map(|(_, pinning)| *pinning)
}

/// Returns whether the RDMA part of a driver imports memory of other devices.
pub(crate) fn imports_memory(driver: &str) -> bool {
    IMPORTERS.iter().any(|(name, _)| *name == driver)
}

/// Returns whether a driver has an RDMA part that carries NVMe over Fabrics.
pub(crate) fn carries_nvme(driver: &str) -> bool {
    NVME_CARRIERS.contains(&driver)
}

/// The driver of a network controller that carries no NVMe over RDMA; `None` where it may.
pub(crate) fn without_rdma(nic: &Function) -> Option<&str> {
    nic.driver.name().filter(|driver| !carries_nvme(driver) && !is_held_by_vfio(nic))
}

/// The rule of a network controller whose driver imports no memory of other devices.
pub(super) fn refusal(function: &Function) -> Option<DriverRule> {
    let driver = function.driver.name()?;
    if importer(function).is_some() {
        return None;
    }
    let reason = format!(
        "a network controller needs a registered memory region, and {driver} registers none of other devices"
    );
    let mechanism = "RDMA memory region";
    Some(DriverRule::new(driver, mechanism, None, (DriverAnswer::Refused, reason), SOURCE))
}

/// The rule for requests that carry translated addresses past ports that redirect all others; `None`
/// where no port redirects, or the controller is not of mlx5.
pub(super) fn translated(ends: &DriverEnds<'_>) -> Option<DriverRule> {
    /// ACS Direct Translated P2P Enable (PCIe 6.0 section 7.7.11.3).
    const DIRECT_TRANSLATED: u16 = 0x40;
    if !ends.initiator().driver.is_named("mlx5_core") {
        return None;
    }
    let decision = ends.decision;
    let is_open = matches!(decision.map, MapType::Unknown);
    let ports: Vec<&Function> =
        decision.redirecting.iter().map(|&id| ends.fabric.function(id)).collect();
    if ports.is_empty() && !is_open {
        return None;
    }
    let without = ports.iter().find(
        |port| matches!(port.acs, Acs::Present { control } if control & DIRECT_TRANSLATED == 0),
    );
    let verdict = if !ends.is_below_one_switch() {
        let reason = "they share no switch that could forward translated requests";
        (DriverAnswer::Refused, reason.to_owned())
    } else if let Some(port) = without {
        let reason = format!(
            "{} redirects requests and has ACS Direct Translated P2P off, so those with translated \
             addresses are redirected, too",
            ends.word(port)
        );
        (DriverAnswer::Refused, reason)
    } else if ports.is_empty() {
        (DriverAnswer::NotKnown, "the ACS bits on the path are unknown".to_owned())
    } else {
        let reason = "ports redirect all but translated requests, so it needs ATS on in the controller: \
                      `mlxconfig -d DEVICE query ATS_ENABLED`";
        (DriverAnswer::Conditional, reason.to_owned())
    };
    let mechanism = "ATS with Direct Translated P2P";
    Some(DriverRule::new("mlx5_core", mechanism, Some(false), verdict, TRANSLATED))
}
