//! What an IOMMU costs.

use peerlane_fabric::{Fabric, IommuMode};
use peerlane_results::{Cost, Finding, FindingKind};

use super::{Chart, drives, kernel_parameters, saw};

pub(super) fn examine(fabric: &Fabric, chart: &mut Chart) {
    if drives(fabric).is_empty() {
        return;
    }
    match fabric.iommu {
        IommuMode::Off | IommuMode::Passthrough => {}
        IommuMode::Unknown => chart.unknown(
            "whether an IOMMU translates the addresses that drives use",
            "the types of the IOMMU groups: `cat /sys/kernel/iommu_groups/*/type`",
        ),
        IommuMode::Translating => chart.findings.push(Finding {
            kind: FindingKind::IommuTranslates,
            cost: Cost::Speed,
            object: "the IOMMU".to_owned(),
            // The optimum of the DMA layer: drivers/nvme/host/pci.c takes dma_opt_mapping_size(),
            // which is 128 KiB with a translating IOMMU; seen as max_hw_sectors_kb 128.
            what: "an IOMMU translates every address, which limits a request to 128 KiB".to_owned(),
            evidence: vec![saw("/sys/kernel/iommu_groups/*/type", "DMA or DMA-FQ")],
            fix: Some(kernel_parameters(
                "pass addresses through",
                "iommu=pt",
                Some("a device, or its firmware, can then reach all of memory by DMA"),
            )),
        }),
    }
}
