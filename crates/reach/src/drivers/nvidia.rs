//! NVIDIA's driver: peer access between GPUs, GPUDirect RDMA, GPUDirect Storage.
//!
//! Peer access follows `p2pGetCapsStatus` of the open kernel modules. Over PCIe the firmware of the
//! GPU has the last word. It knows chipsets by host bridge 00:00.0 and refuses unknown ones
//! (noonghunna/club-3090 #886); its table is not public.

mod bar1;
mod dma_buf;
mod peer_access;
mod storage;
mod switches;

use peerlane_fabric::gpu::{ConsumerLine, Generation};
use peerlane_fabric::{Function, FunctionKind, gpu, pci_names};

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
        FunctionKind::Nic => match rdma::refusal(initiator).or_else(|| of_cloud(ends)) {
            Some(decided) => vec![decided],
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

/// The chip without the letters of its variant, by the PCI ID repository: `GA102` of `GA102GL [RTX A6000]`.
fn chip(function: &Function) -> Option<&'static str> {
    let name = pci_names::device(function.vendor?, function.device?)?;
    Generation::from_function(function)?;
    let word = name.split([' ', '[']).next()?;
    if let Some(chip) = ["GB20B", "GB20C"].into_iter().find(|chip| word.starts_with(chip)) {
        return Some(chip);
    }
    let digits = word.find(|letter: char| letter.is_ascii_digit())?;
    let end = word[digits..].find(|letter: char| !letter.is_ascii_digit());
    Some(end.map_or(word, |end| &word[..digits + end]))
}

/// A list in words: "a", "a and b", "a, b and c".
fn listed(items: &[&str]) -> String {
    match items {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        items => items.join(""),
    }
}

/// A product that has no GPUDirect, in words.
///
/// GB10 has none: the processor and PCI Express devices cannot reach memory of `cudaMalloc` coherently (NVIDIA,
/// forum of DGX Spark, 348787; NVIDIA/daqiri #49).
fn kept_from_gpudirect(ends: &DriverEnds<'_>) -> Option<String> {
    if gpu::is_gb10(ends.provider()) {
        return Some(format!(
            "{} is GB10 (DGX Spark), which has no GPUDirect RDMA or Storage: use host memory (cudaHostAlloc), \
             which the GPU shares",
            ends.word(ends.provider())
        ));
    }
    let line = ConsumerLine::from_function(ends.provider())?;
    Some(format!(
        "{} is a {line}, and NVIDIA offers GPUDirect only on data-centre and workstation GPUs",
        ends.word(ends.provider())
    ))
}

/// The rule of a cloud's instances whose hardware has no GPUDirect RDMA: EC2's g6e with L40S.
fn of_cloud(ends: &DriverEnds<'_>) -> Option<DriverRule> {
    const L40S: u16 = 0x26b9;
    if !ends.initiator().driver.is_named("efa") || ends.provider().device != Some(L40S) {
        return None;
    }
    let verdict = match ends.fabric.product.as_deref() {
        Some(product) if product.contains("g6e.") => {
            let reason = format!(
                "{product} has no GPUDirect RDMA, although its GPUs would: use host memory"
            );
            (DriverAnswer::Refused, reason)
        }
        Some(_) => return None,
        None => {
            let reason = "EC2's g6e instances with L40S have no GPUDirect RDMA, and the instance is unknown \
                          (not in this input): `cat /sys/class/dmi/id/product_name`";
            (DriverAnswer::NotKnown, reason.to_owned())
        }
    };
    Some(DriverRule::new(DRIVER, "GPUDirect RDMA", Some(false), verdict, "aws/aws-ofi-nccl #547"))
}

/// Parameter of the driver that overrides its check of who is where (`nv-reg.h`): 1 allows, 2 denies.
const TOPOLOGY_CHECK: &str = "GrdmaPciTopoCheckOverride";

/// A parameter that makes the driver refuse every peer, in words.
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
        peermem_place(ends)
    };
    let mechanism = "GPUDirect RDMA by nvidia-peermem";
    DriverRule::new("nvidia-peermem", mechanism, Some(false), verdict, PEERMEM)
}

/// The verdict by the place of both ends, for a module that maps BAR1 without asking the kernel.
fn peermem_place(ends: &DriverEnds<'_>) -> (DriverAnswer, String) {
    let (place, is_allowed) = dma_buf::place(ends);
    let (route, arrives) = dma_buf::route(ends);
    let needs = "nvidia_peermem needs the ib_core of DOCA-OFED";
    if !is_allowed || ends.is_translated() {
        let reason = format!("{needs}, and maps BAR1 without asking the kernel; {place}");
        return (DriverAnswer::Conditional, reason);
    }
    if ends.decision.crosses_root_complex() && !arrives {
        return (DriverAnswer::Conditional, format!("{needs}; {place}; {route}"));
    }
    let reason = format!(
        "{place}; expected unless nvidia_peermem cannot be loaded, which needs the ib_core of DOCA-OFED \
         (check: `lsmod | grep nvidia_peermem`)"
    );
    (DriverAnswer::Expected, reason)
}
