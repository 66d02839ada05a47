//! Intel's drivers: dma-bufs of xe, and i915, which exports host memory alone.

use peerlane_fabric::{Function, FunctionId, FunctionKind, gpu};

use super::ends::DriverEnds;
use super::nvidia::{NVIDIA_IMPORT, NVIDIA_IMPORTS_NOTHING};
use super::rdma::{self, Pinning};
use super::{DriverAnswer, DriverRule};
use crate::Fact;

const DRIVER: &str = "xe";
const XE: &str = "Linux 6.19 and 7.2, drivers/gpu/drm/xe/xe_dma_buf.c, xe_dma_buf_pin; \
                  intel/compute-runtime #921, #935, #942";
/// The first kernel with working peers of Battlemage, by reports (intel/compute-runtime #921).
const BATTLEMAGE_SINCE: (u32, u32) = (7, 1);
/// PCI devices of Battlemage (include/drm/intel/pciids.h, `INTEL_BMG_IDS`).
const BATTLEMAGE: [u16; 14] = [
    0xe202, 0xe209, 0xe20b, 0xe20c, 0xe20d, 0xe210, 0xe211, 0xe212, 0xe215, 0xe216, 0xe220, 0xe221,
    0xe222, 0xe223,
];
/// PCI devices of Broadcom's PEX880xx switches.
const PEX_880XX: [u16; 2] = [0xc010, 0xc012];
const VENDOR_BROADCOM: u16 = 0x1000;
/// Host bridge of Rocket Lake.
const ROCKET_LAKE: (u16, u16) = (0x8086, 0x4c43);
const I915: &str = "Linux 5.15 and later, drivers/gpu/drm/i915/gem/i915_gem_dmabuf.c";
const BLOCK: &str = "Linux 7.3, block and drivers/nvme (no importer of dma-bufs)";

/// The rules for memory of an Intel GPU.
pub(super) fn rules(ends: &DriverEnds<'_>) -> Vec<DriverRule> {
    let (provider, initiator) = (ends.provider(), ends.initiator());
    if provider.driver.is_named("i915") {
        let reason = "i915 moves every buffer that it exports to host memory";
        let verdict = (DriverAnswer::Refused, reason.to_owned());
        return vec![DriverRule::new("i915", "dma-buf", Some(false), verdict, I915)];
    }
    if !DriverEnds::may_be(provider, DRIVER) {
        return vec![ends.not_known()];
    }
    match initiator.kind {
        FunctionKind::Gpu if initiator.vendor == Some(gpu::VENDOR_NVIDIA) => {
            vec![refused(NVIDIA_IMPORTS_NOTHING, NVIDIA_IMPORT)]
        }
        FunctionKind::Gpu
            if DriverEnds::may_be(initiator, DRIVER) || DriverEnds::may_be(initiator, "amdgpu") =>
        {
            vec![dma_buf(ends, Pinning::Moves)]
        }
        FunctionKind::Nic => match rdma::refusal(initiator) {
            Some(refused) => vec![refused],
            None => vec![dma_buf(ends, rdma::importer(initiator).unwrap_or(Pinning::Moves))],
        },
        FunctionKind::Nvme => {
            vec![refused("drives import no dma-bufs, and xe lends memory only by them", BLOCK)]
        }
        _ => vec![ends.not_known()],
    }
}

fn dma_buf(ends: &DriverEnds<'_>, pinning: Pinning) -> DriverRule {
    let verdict = match (ends.notifies_moves(), pinning) {
        (Err(verdict), _) => verdict,
        (Ok(()), Pinning::Moves) => match reported_fault(ends) {
            Some(reason) => (DriverAnswer::Conditional, reason),
            None => {
                let reason = format!(
                    "xe exports its memory where the kernel permits the pair, and otherwise moves the buffer to \
                     host memory or refuses; {}{}",
                    ends.in_words(),
                    warning(ends)
                );
                (DriverAnswer::Possible, reason)
            }
        },
        (Ok(()), _) => {
            let reason = "this importer pins memory, and xe_dma_buf_pin moves a buffer to host memory first \
                          in all but new kernels: prove the route";
            (DriverAnswer::Conditional, reason.to_owned())
        }
    };
    DriverRule::new(DRIVER, "dma-buf", Some(true), verdict, XE)
}

/// A configuration that was reported to corrupt copies, though the driver permits them.
fn reported_fault(ends: &DriverEnds<'_>) -> Option<String> {
    let is_battlemage = |end: &&Function| {
        end.vendor == Some(gpu::VENDOR_INTEL)
            && end.device.is_some_and(|device| BATTLEMAGE.contains(&device))
    };
    let (major, minor) = BATTLEMAGE_SINCE;
    let battlemage = ends.both().into_iter().find(is_battlemage);
    if let (Some(gpu), Some(false)) = (battlemage, ends.is_kernel_at_least(major, minor)) {
        return Some(format!(
            "{} is of Battlemage, whose compressed buffers are reported to reach peers from Linux {major}.{minor} on \
             only: boot that, or prove the route",
            ends.word(gpu)
        ));
    }
    let is_switch = |port: FunctionId| {
        let port = ends.fabric.function(port);
        port.vendor == Some(VENDOR_BROADCOM)
            && port.device.is_some_and(|device| PEX_880XX.contains(&device))
    };
    let is_below = battlemage.is_some()
        && ends.is_below_one_switch()
        && ends.fabric.upward(ends.provider).any(is_switch);
    match (is_below, ends.translates()) {
        (true, Some(true)) => {
            let reason = "below PEX880xx switches copies between Battlemage GPUs arrive wrong while an IOMMU \
                          translates, and right with `iommu=pt`";
            Some(reason.to_owned())
        }
        (true, None) => {
            let reason = "below PEX880xx switches copies between Battlemage GPUs arrive wrong while an IOMMU \
                          translates, which is unknown: `cat /sys/kernel/iommu_groups/*/type`";
            Some(reason.to_owned())
        }
        _ => None,
    }
}

/// The warning against forcing a host bridge that is not on the kernel's list.
fn warning(ends: &DriverEnds<'_>) -> &'static str {
    let is_of_rocket_lake = |fact: &Fact| {
        matches!(fact, Fact::HostBridgeNotListed { vendor, device, .. }
            if (*vendor, *device) == ROCKET_LAKE)
    };
    if ends.decision.facts.iter().any(is_of_rocket_lake) {
        "; a kernel patched to permit this host bridge reports success and copies wrong data"
    } else {
        ""
    }
}

fn refused(reason: &str, source: &str) -> DriverRule {
    let verdict = (DriverAnswer::Refused, reason.to_owned());
    DriverRule::new(DRIVER, "dma-buf", Some(true), verdict, source)
}
