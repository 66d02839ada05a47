//! NVIDIA's driver: peer access between GPUs, GPUDirect RDMA, GPUDirect Storage.
//!
//! Peer access follows `p2pGetCapsStatus` of the open kernel modules. The last word over PCIe has the
//! firmware of the GPU, whose table of chipsets is not public.

mod peer_access;

use peerlane_fabric::gpu::{ConsumerLine, Generation};
use peerlane_fabric::{Kind, gpu};

use super::ends::Ends;
use super::{Answer, DriverRule, rdma};

const DRIVER: &str = "nvidia";
/// Reason why memory of other makers reaches no GPU of NVIDIA by dma-buf.
pub(super) const NVIDIA_IMPORTS_NOTHING: &str =
    "NVIDIA's driver imports no memory of other devices for its GPUs";
/// Source of that reason.
pub(super) const NVIDIA_IMPORT: &str = "NVIDIA/open-gpu-kernel-modules #175 (open)";
const DMA_BUF: &str = "open-gpu-kernel-modules 595.45.04, kernel-open/nvidia/nv-dmabuf.c and #1324";
const PEERMEM: &str = "open-gpu-kernel-modules 595.45.04, kernel-open/nvidia-peermem; NVIDIA, \
                       GPUDirect RDMA documentation 12.4";
const P2PDMA: &str =
    "open-gpu-kernel-modules 595.45.04, uvm_pmm_gpu.c; docs.nvidia.com/deploy/gds-support-for-nvme";
const NVIDIA_FS: &str =
    "gds-nvidia-fs 2.30, README; NVIDIA, GPUDirect Storage Troubleshooting Guide 1.18";

/// The rules for memory of an NVIDIA GPU.
pub(super) fn rules(ends: &Ends<'_>) -> Vec<DriverRule> {
    let (provider, initiator) = (ends.provider(), ends.initiator());
    if let Some(driver @ ("nouveau" | "nova" | "nova_core" | "nova-core")) = provider.driver.name()
    {
        return vec![in_tree(driver)];
    }
    if !Ends::may_be(provider, DRIVER) {
        return vec![ends.not_known()];
    }
    match initiator.kind {
        Kind::Gpu if initiator.vendor == Some(gpu::VENDOR_NVIDIA) => {
            vec![peer_access::rule(ends)]
        }
        Kind::Nic => match rdma::refusal(initiator) {
            Some(refused) => vec![refused],
            None => {
                let mut rules = vec![peermem(ends), rdma_by_dma_buf(ends)];
                rules.extend(rdma::translated(ends));
                rules
            }
        },
        Kind::Nvme => vec![storage_by_p2pdma(ends), storage_by_nvidia_fs(ends)],
        _ => vec![other_by_dma_buf(ends)],
    }
}

/// The drivers of the kernel itself, which lend no memory of a GPU.
fn in_tree(driver: &str) -> DriverRule {
    let verdict = match driver {
        "nouveau" => (
            Answer::Refused,
            "nouveau moves every buffer that it exports to host memory (nouveau_gem_prime_pin)"
                .to_owned(),
        ),
        _ => (Answer::NotKnown, format!("nothing public says whether {driver} lends memory")),
    };
    let source = "Linux 7.2, drivers/gpu/drm/nouveau/nouveau_prime.c";
    DriverRule::new(driver, "dma-buf", Some(false), verdict, source)
}

/// A product line that NVIDIA keeps from GPUDirect, in words.
fn kept_from_gpudirect(ends: &Ends<'_>) -> Option<String> {
    let line = ConsumerLine::from_function(ends.provider())?;
    Some(format!(
        "{} is a {line}, and NVIDIA keeps GPUDirect to GPUs of data centres and workstations",
        ends.word(ends.provider())
    ))
}

fn peermem(ends: &Ends<'_>) -> DriverRule {
    let verdict = if let Some(reason) = kept_from_gpudirect(ends) {
        (Answer::Refused, reason)
    } else if ends.is_loaded("nvidia_peermem") == Some(false) {
        let reason = "the module nvidia_peermem is not loaded: `sudo modprobe nvidia-peermem`, which \
                      needs the ib_core of DOCA-OFED";
        (Answer::Conditional, reason.to_owned())
    } else {
        let needs = "nvidia_peermem needs the ib_core of DOCA-OFED, and maps BAR1 without asking the \
                     kernel";
        (Answer::Conditional, format!("{needs}; {}", place(ends)))
    };
    let mechanism = "GPUDirect RDMA by nvidia-peermem";
    DriverRule::new("nvidia-peermem", mechanism, Some(false), verdict, PEERMEM)
}

fn rdma_by_dma_buf(ends: &Ends<'_>) -> DriverRule {
    let mechanism = "GPUDirect RDMA by dma-buf";
    DriverRule::new(DRIVER, mechanism, Some(false), dma_buf(ends), DMA_BUF)
}

fn other_by_dma_buf(ends: &Ends<'_>) -> DriverRule {
    let (mut answer, mut reason) = dma_buf(ends);
    if answer == Answer::Conditional {
        answer = Answer::NotKnown;
        reason +=
            &format!("; nothing public says whether {} imports it", ends.word(ends.initiator()));
    }
    DriverRule::new(DRIVER, "dma-buf", Some(false), (answer, reason), DMA_BUF)
}

/// The verdict over the export of a dma-buf (`nv_dma_buf_attach`).
fn dma_buf(ends: &Ends<'_>) -> (Answer, String) {
    let provider = ends.provider();
    if let Some(reason) = kept_from_gpudirect(ends) {
        return (Answer::Refused, reason);
    }
    if let Some(old) = Generation::of(provider).filter(|&found| found < Generation::Turing) {
        let reason = format!(
            "dma-buf needs NVIDIA's open kernel modules, which run on Turing and later, and {} is {old}",
            ends.word(provider)
        );
        return (Answer::Refused, reason);
    }
    if ends.is_kernel_at_least(5, 12) == Some(false) {
        let reason = "RDMA drivers import dma-bufs of devices since Linux 5.12";
        return (Answer::Refused, reason.to_owned());
    }
    if ends.is_translated() {
        let reason = "the IOMMU translates, and the driver was seen to hand out raw BAR1 addresses, so \
                      that every write is lost without an error: boot with iommu=pt and prove the route";
        return (Answer::Conditional, reason.to_owned());
    }
    let needs = "it needs NVIDIA's open kernel modules and an importer that takes peer memory";
    (Answer::Conditional, format!("{needs}; {}", place(ends)))
}

/// Returns the part that the place of both ends has (`nv_grdma_pci_topology_supported`).
fn place(ends: &Ends<'_>) -> &'static str {
    if ends.fabric.environment.hypervisor.is_some() {
        "in a virtual machine the driver checks no topology"
    } else if ends.is_below_one_switch() {
        "both are below one switch, where the driver allows it on every chipset"
    } else {
        "they share no switch, so the driver allows it on chipsets of its list only"
    }
}

fn storage_by_p2pdma(ends: &Ends<'_>) -> DriverRule {
    let provider = ends.provider();
    let old = Generation::of(provider).filter(|&found| found < Generation::Ampere);
    let verdict = if let Some(reason) = kept_from_gpudirect(ends) {
        (Answer::Refused, reason)
    } else if let Some(old) = old {
        (Answer::Refused, format!("{} is {old}; P2PDMA begins with Ampere", ends.word(provider)))
    } else if ends.is_kernel_at_least(6, 2) == Some(false) {
        (Answer::Refused, "programs get memory of P2PDMA since Linux 6.2".to_owned())
    } else if ends.fabric.kernel.has_p2pdma == Some(false) {
        (Answer::Refused, "the kernel is built without CONFIG_PCI_P2PDMA".to_owned())
    } else {
        let reason = format!(
            "the driver registers BAR1 only where it is static and not write-combined \
             (RmForceDisableIomapWC=1); then {}",
            ends.in_words()
        );
        (Answer::Conditional, reason)
    };
    DriverRule::new(DRIVER, "P2PDMA for GPUDirect Storage", Some(true), verdict, P2PDMA)
}

fn storage_by_nvidia_fs(ends: &Ends<'_>) -> DriverRule {
    let verdict = if let Some(reason) = kept_from_gpudirect(ends) {
        (Answer::Refused, reason)
    } else if ends.is_loaded("nvidia_fs") == Some(false) {
        let reason = "the module nvidia_fs is not loaded: `sudo modprobe nvidia_fs`";
        (Answer::Conditional, reason.to_owned())
    } else {
        let reason = "nvidia_fs maps by itself and wants the IOMMU off or passing through, and ACS \
                      redirection off";
        (Answer::Conditional, reason.to_owned())
    };
    DriverRule::new("nvidia-fs", "GPUDirect Storage", Some(false), verdict, NVIDIA_FS)
}
