//! NVIDIA's driver: peer access between GPUs, GPUDirect RDMA, GPUDirect Storage.
//!
//! Peer access follows `p2pGetCapsStatus` of the open kernel modules. Over PCIe the firmware of the
//! GPU has the last word; its table of chipsets is not public.

mod dma_buf;
mod peer_access;
mod storage;

use peerlane_fabric::gpu::ConsumerLine;
use peerlane_fabric::{FunctionKind, gpu};

pub use storage::{
    missing_registry_keys, multipath_refuses, nvidia_fs_question, nvidia_fs_refusal, udev_refusal,
};

use super::ends::DriverEnds;
use super::{DriverAnswer, DriverRule, rdma};

const DRIVER: &str = "nvidia";
/// Reason why memory of other makers reaches no GPU of NVIDIA by dma-buf.
pub(super) const NVIDIA_IMPORTS_NOTHING: &str =
    "NVIDIA's driver imports no memory of other devices for its GPUs";
/// Source of that reason.
pub(super) const NVIDIA_IMPORT: &str = "NVIDIA/open-gpu-kernel-modules #175 (open)";
const PEERMEM: &str = "open-gpu-kernel-modules 595.45.04, kernel-open/nvidia-peermem; NVIDIA, \
                       GPUDirect RDMA documentation 12.4";

/// The rules for memory of an NVIDIA GPU.
pub(super) fn rules(ends: &DriverEnds<'_>) -> Vec<DriverRule> {
    let (provider, initiator) = (ends.provider(), ends.initiator());
    if let Some(driver @ ("nouveau" | "nova" | "nova_core" | "nova-core")) = provider.driver.name()
    {
        return vec![in_tree(driver)];
    }
    if !DriverEnds::may_be(provider, DRIVER) {
        return vec![ends.not_known()];
    }
    match initiator.kind {
        FunctionKind::Gpu if initiator.vendor == Some(gpu::VENDOR_NVIDIA) => {
            vec![peer_access::rule(ends)]
        }
        FunctionKind::Nic => match rdma::refusal(initiator) {
            Some(refused) => vec![refused],
            None => {
                let mut rules = vec![peermem(ends), dma_buf::rdma(ends)];
                rules.extend(rdma::translated(ends));
                rules
            }
        },
        FunctionKind::Nvme => vec![storage::by_p2pdma(ends), storage::by_nvidia_fs(ends)],
        _ => vec![dma_buf::other(ends)],
    }
}

/// The drivers of the kernel itself, which lend no memory of a GPU.
fn in_tree(driver: &str) -> DriverRule {
    let verdict = match driver {
        "nouveau" => (
            DriverAnswer::Refused,
            "nouveau moves every buffer that it exports to host memory (nouveau_gem_prime_pin)"
                .to_owned(),
        ),
        _ => (DriverAnswer::NotKnown, format!("nothing public says whether {driver} lends memory")),
    };
    let source = "Linux 7.2, drivers/gpu/drm/nouveau/nouveau_prime.c";
    DriverRule::new(driver, "dma-buf", Some(false), verdict, source)
}

/// A product line that NVIDIA keeps from GPUDirect, in words.
fn kept_from_gpudirect(ends: &DriverEnds<'_>) -> Option<String> {
    let line = ConsumerLine::from_function(ends.provider())?;
    Some(format!(
        "{} is a {line}, and NVIDIA offers GPUDirect only on data-centre and workstation GPUs",
        ends.word(ends.provider())
    ))
}

/// Parameter of the driver that overrides its check of who is where (`nv-reg.h`): 1 allows, 2 denies.
const TOPOLOGY_CHECK: &str = "GrdmaPciTopoCheckOverride";

/// A parameter by which the driver refuses every peer, in words.
fn topology_refusal(ends: &DriverEnds<'_>) -> Option<String> {
    (ends.nvidia_parameter(TOPOLOGY_CHECK) == Some("2")).then(|| {
        "NVreg_GrdmaPciTopoCheckOverride=2 makes the driver refuse every peer: leave it at 0"
            .to_owned()
    })
}

fn peermem(ends: &DriverEnds<'_>) -> DriverRule {
    let refusal = kept_from_gpudirect(ends).or_else(|| topology_refusal(ends));
    let verdict = if let Some(reason) = refusal {
        (DriverAnswer::Refused, reason)
    } else if ends.is_loaded("nvidia_peermem") == Some(false) {
        let reason = "the module nvidia_peermem is not loaded: `sudo modprobe nvidia-peermem`, which \
                      needs the ib_core of DOCA-OFED";
        (DriverAnswer::Refused, reason.to_owned())
    } else {
        let (place, is_allowed) = dma_buf::place(ends);
        if is_allowed && !ends.is_translated() {
            let reason = format!(
                "{place}; expected unless nvidia_peermem cannot be loaded, which needs the ib_core of \
                 DOCA-OFED (check: `lsmod | grep nvidia_peermem`)"
            );
            (DriverAnswer::Expected, reason)
        } else {
            let needs = "nvidia_peermem needs the ib_core of DOCA-OFED, and maps BAR1 without asking the \
                         kernel";
            (DriverAnswer::Conditional, format!("{needs}; {place}"))
        }
    };
    let mechanism = "GPUDirect RDMA by nvidia-peermem";
    DriverRule::new("nvidia-peermem", mechanism, Some(false), verdict, PEERMEM)
}
