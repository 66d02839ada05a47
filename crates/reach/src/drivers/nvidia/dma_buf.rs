//! dma-bufs of an NVIDIA GPU: exported by the open kernel modules, imported by the driver of the other end.
//!
//! Follows `nv_dma_buf_attach` and `nv_grdma_pci_topology_supported` of the open kernel modules.

use peerlane_fabric::gpu::{self, Generation};

use super::{DRIVER, kept_from_gpudirect, listed, topology_refusal};
use crate::MapType;
use crate::drivers::ends::DriverEnds;
use crate::drivers::{DriverAnswer, DriverRule, rdma};

const SOURCE: &str = "open-gpu-kernel-modules 595.45.04, nv-dmabuf.c, nv-pci.c, osinit.c and #1324";
const SUPERCHIP: &str = "open-gpu-kernel-modules 595.45.04, nv-dmabuf.c, nv-pci.c; NVIDIA/nccl #1579; \
                         meta-pytorch/torchcomms #3014 and #3104";

/// The rule for a network controller that imports it.
pub(super) fn rdma(ends: &DriverEnds<'_>) -> DriverRule {
    let source = if gpu::has_c2c(ends.provider()) { SUPERCHIP } else { SOURCE };
    DriverRule::new(DRIVER, "GPUDirect RDMA by dma-buf", Some(false), verdict(ends), source)
}

/// The rule for any other function, whose driver may import it.
pub(super) fn other(ends: &DriverEnds<'_>) -> DriverRule {
    let (mut answer, mut reason) = verdict(ends);
    if answer != DriverAnswer::Refused {
        answer = DriverAnswer::NotKnown;
        reason +=
            &format!("; nothing public says whether {} imports it", ends.word(ends.initiator()));
    }
    DriverRule::new(DRIVER, "dma-buf", Some(false), (answer, reason), SOURCE)
}

fn verdict(ends: &DriverEnds<'_>) -> (DriverAnswer, String) {
    if let Some(reason) = refusal(ends) {
        return (DriverAnswer::Refused, reason);
    }
    if ends.is_translated() {
        let reason = "the IOMMU translates, and the driver was seen to hand out raw BAR1 addresses, so \
                      that every write is lost without an error: boot with iommu=pt and prove the route";
        return (DriverAnswer::Conditional, reason.to_owned());
    }
    let needs = needs(ends);
    let (place, is_allowed) = place(ends);
    if !needs.is_empty() {
        return (DriverAnswer::Conditional, format!("it needs {}; {place}", listed(&needs)));
    }
    let (route, is_open) = route(ends);
    let importer = ends.initiator().driver.name().unwrap_or_default();
    let reason = format!(
        "NVIDIA's open kernel modules export it and {importer} imports it; {place}; {route}"
    );
    (if is_allowed && is_open { DriverAnswer::Possible } else { DriverAnswer::Conditional }, reason)
}

fn refusal(ends: &DriverEnds<'_>) -> Option<String> {
    let provider = ends.provider();
    if let Some(reason) = kept_from_gpudirect(ends) {
        return Some(reason);
    }
    if let Some(old) =
        Generation::from_function(provider).filter(|&found| found < Generation::Turing)
    {
        return Some(format!(
            "dma-buf needs NVIDIA's open kernel modules, which run on Turing and later, and {} is {old}",
            ends.word(provider)
        ));
    }
    if ends.has_open_nvidia() == Some(false) {
        let reason = "NVIDIA's proprietary kernel modules are loaded, and only its open ones export \
                      dma-bufs: install those (`head -1 /proc/driver/nvidia/version` names them)";
        return Some(reason.to_owned());
    }
    if ends.is_kernel_at_least(5, 12) == Some(false) {
        return Some("RDMA drivers import dma-bufs of devices since Linux 5.12".to_owned());
    }
    topology_refusal(ends)
}

/// The conditions that are unknown to hold.
fn needs(ends: &DriverEnds<'_>) -> Vec<&'static str> {
    let initiator = ends.initiator();
    let conditions = [
        (ends.has_open_nvidia() == Some(true), "NVIDIA's open kernel modules"),
        (Generation::from_function(ends.provider()).is_some(), "a GPU of Turing or later"),
        (ends.is_kernel_at_least(5, 12) == Some(true), "Linux 5.12 or later"),
        (rdma::importer(initiator).is_some(), "an importer that takes peer memory"),
        (ends.translates() == Some(false), "an IOMMU that does not translate"),
    ];
    conditions.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
}

/// The part that the place of both ends has, and whether it settles that the driver allows them
/// (`nv_grdma_pci_topology_supported`). Any bridge above both counts.
pub(super) fn place(ends: &DriverEnds<'_>) -> (String, bool) {
    let of_chipset = "on Grace, Ampere Altra and AmpereOne, from 580 on";
    if gpu::has_c2c(ends.provider()) {
        return (on_superchip(ends), false);
    }
    let (place, is_allowed) = if ends.fabric.environment.hypervisor.is_some() {
        ("in a virtual machine the driver checks no topology".to_owned(), false)
    } else if ends.nvidia_parameter(super::TOPOLOGY_CHECK) == Some("1") {
        ("NVreg_GrdmaPciTopoCheckOverride=1 makes the driver allow every place".to_owned(), true)
    } else if ends.is_below_one_switch() {
        ("both are below one switch, where the driver allows it on every chipset".to_owned(), true)
    } else if ends.fabric.cpu.vendor.is_some() && !ends.fabric.cpu.is_arm() {
        (format!("they share no switch, which the driver refuses only {of_chipset}"), true)
    } else {
        (format!("they share no switch, which the driver refuses {of_chipset}"), false)
    };
    (place, is_allowed)
}

/// The place on a superchip: network controllers reach memory through the processor, by C2C. Data Direct
/// goes by PCIe and needs one IOMMU group (`nv_pci_is_valid_topology_for_direct_pci`).
fn on_superchip(ends: &DriverEnds<'_>) -> String {
    let groups = (ends.provider().iommu_group, ends.initiator().iommu_group);
    let direct = match groups {
        (Some(one), Some(other)) if one == other => {
            format!("for Data Direct both are in one IOMMU group ({one})")
        }
        (Some(one), Some(other)) => {
            format!("Data Direct needs both in one IOMMU group, and they are in {one} and {other}")
        }
        _ => "Data Direct needs both in one IOMMU group".to_owned(),
    };
    format!(
        "on a superchip the driver checks no topology; NCCL uses it with NCCL_NET_GDR_C2C=1 or \
         NCCL_NET_GDR_LEVEL=SYS; {direct}"
    )
}

/// The route of the requests, and whether they are known to arrive: the driver does not ask.
pub(super) fn route(ends: &DriverEnds<'_>) -> (String, bool) {
    let decision = ends.decision;
    let ports: Vec<&str> =
        decision.redirecting.iter().map(|&id| ends.fabric.function(id).name.as_str()).collect();
    let way = match ports.as_slice() {
        [] if ends.is_below_one_switch() => "no port on the path redirects".to_owned(),
        [] => "requests go through the root complex".to_owned(),
        [port] => format!("{port} redirects requests, so that they go up to the root complex"),
        ports => format!(
            "{} redirect requests, so that they go up to the root complex",
            ports.join(" and ")
        ),
    };
    match decision.map {
        MapType::BusAddress => (way, true),
        MapType::ThroughHostBridge => (format!("{way}, which forwards them"), true),
        MapType::NotSupported => (
            format!("{way}, which the kernel does not know to forward them: prove the route"),
            false,
        ),
        MapType::Unknown if ports.is_empty() && ends.is_below_one_switch() => {
            ("whether ports on the path redirect is unknown".to_owned(), false)
        }
        MapType::Conditional | MapType::Unknown => {
            (format!("{way}, and whether it forwards them is unknown: prove the route"), false)
        }
    }
}
