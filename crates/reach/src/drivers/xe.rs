//! Intel's drivers: dma-bufs of xe, and i915, which exports host memory alone.

use peerlane_fabric::{FunctionKind, gpu};

use super::ends::DriverEnds;
use super::nvidia::{NVIDIA_IMPORT, NVIDIA_IMPORTS_NOTHING};
use super::rdma::{self, Pinning};
use super::{DriverAnswer, DriverRule};

const DRIVER: &str = "xe";
const XE: &str = "Linux 7.2, drivers/gpu/drm/xe/xe_dma_buf.c; intel/compute-runtime #935";
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
    let verdict = if pinning == Pinning::Moves {
        let reason = format!(
            "xe exports its memory where the kernel permits the pair, and otherwise moves the buffer to \
             host memory or refuses; {}",
            ends.in_words()
        );
        (DriverAnswer::Possible, reason)
    } else {
        let reason = "this importer pins memory, and xe_dma_buf_pin moves a buffer to host memory first \
                      in all but new kernels: prove the route";
        (DriverAnswer::Conditional, reason.to_owned())
    };
    DriverRule::new(DRIVER, "dma-buf", Some(true), verdict, XE)
}

fn refused(reason: &str, source: &str) -> DriverRule {
    let verdict = (DriverAnswer::Refused, reason.to_owned());
    DriverRule::new(DRIVER, "dma-buf", Some(true), verdict, source)
}
