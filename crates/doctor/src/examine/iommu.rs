//! Cost of an IOMMU that translates.

use peerlane_fabric::{Fabric, Function, FunctionKind, IommuMode, gpu};
use peerlane_reach::Use;
use peerlane_results::{Cost, FindingKind};

use super::{BearsOn, Examination, amd_peers, finding, kernel_parameter, saw};

/// Uses with drives.
pub(super) const OF_DRIVES: [Use; 4] =
    [Use::StorageToGpu, Use::DriveToDrive, Use::NetworkToDrive, Use::StorageToFpga];
/// Uses of memory of GPUs by others than drives.
const OF_GPUS: [Use; 2] = [Use::NetworkToGpu, Use::GpuToGpu];

pub(super) fn examine(on: &mut Examination<'_>) {
    if on.judged.is_empty() {
        return;
    }
    match on.fabric.iommu {
        IommuMode::Off | IommuMode::Passthrough => {}
        IommuMode::Unknown => on.unknown(
            "whether an IOMMU translates the addresses that devices use",
            "`cat /sys/kernel/iommu_groups/*/type`",
        ),
        IommuMode::Translating => translating(on),
    }
}

fn translating(on: &mut Examination<'_>) {
    let is_nvidia =
        |one: &Function| one.kind == FunctionKind::Gpu && one.vendor == Some(gpu::VENDOR_NVIDIA);
    let loses_writes = on.has_use(&OF_GPUS) && on.fabric.functions.iter().any(is_nvidia);
    let mut costs = Vec::new();
    if on.has_use(&OF_DRIVES) {
        // The optimum of the DMA layer: drivers/nvme/host/pci.c takes dma_opt_mapping_size(),
        // which is 128 KiB with a translating IOMMU; seen as max_hw_sectors_kb 128.
        costs.push("a request of a drive is limited to 128 KiB");
    }
    if loses_writes {
        // CUDA C++ Programming Guide 12, "IOMMU on Linux"; NVIDIA/open-gpu-kernel-modules #1324.
        costs.push(
            "in this mode NVIDIA does not support peer access over PCIe, and writes of peers into its GPUs may be \
             lost without an error",
        );
    }
    let mut costs = if costs.is_empty() { "which costs time".to_owned() } else { costs.join("; ") };
    let against = amd_peers::against_passthrough(on.fabric);
    if let Some(against) = &against {
        costs = format!("{costs}; {against}");
    }
    let cost = if loses_writes { Cost::Routes } else { Cost::Speed };
    let found = finding(
        FindingKind::IommuTranslates,
        cost,
        "the IOMMU",
        format!("the IOMMU translates every address: {costs}"),
    );
    let evidence = vec![saw("/sys/kernel/iommu_groups/*/type", "DMA or DMA-FQ")];
    let fix = kernel_parameter(
        on.fabric,
        "Put the IOMMU into passthrough mode",
        passthrough(on.fabric),
        Some("a device, or its firmware, can then reach all of memory by DMA"),
    );
    let fix = against.is_none().then_some(fix);
    let found = peerlane_results::Finding { evidence, fix, ..found };
    on.add(found, BearsOn::everything());
}

/// The parameter that this kernel reads: `iommu=` is for x86 alone (arch/x86/kernel/pci-dma.c, and
/// drivers/iommu/iommu.c for the other).
fn passthrough(fabric: &Fabric) -> &'static str {
    if fabric.cpu.is_arm() { "iommu.passthrough=1" } else { "iommu=pt" }
}
