//! AMD's driver: dma-bufs, peer access between GPUs, XGMI, and hipFile.

use peerlane_fabric::{Bar, FunctionKind, gpu};

use super::ends::DriverEnds;
use super::gpu_link::{GpuLinkState, gpu_link};
use super::nvidia::{NVIDIA_IMPORT, NVIDIA_IMPORTS_NOTHING};
use super::rdma::{self, Pinning};
use super::{DriverAnswer, DriverRule};

const DRIVER: &str = "amdgpu";
const DMA_BUF: &str = "Linux 7.2, drivers/gpu/drm/amd/amdgpu/amdgpu_dma_buf.c";
const PEER: &str =
    "Linux 7.2, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_is_peer_accessible";
const XGMI: &str = "Linux 7.2, amdgpu_dma_buf.c, amdgpu_dmabuf_is_xgmi_accessible";
const HIPFILE: &str = "AMD, hipFile 0.4 documentation; amdgpu-dkms, kfd_ais_rw_file";
/// The window through which GPUs of AMD show their memory.
const VRAM_BAR: u8 = 0;
/// The window that GPUs have before it is resized.
const SMALL_WINDOW: u64 = 256 << 20;

/// The rules for memory of an AMD GPU.
pub(super) fn rules(ends: &DriverEnds<'_>) -> Vec<DriverRule> {
    let (provider, initiator) = (ends.provider(), ends.initiator());
    if !DriverEnds::may_be(provider, DRIVER) {
        return vec![ends.not_known()];
    }
    match initiator.kind {
        FunctionKind::Gpu if initiator.vendor == Some(gpu::VENDOR_AMD) => {
            vec![peer_access(ends), dma_buf(ends, Pinning::Moves), xgmi(ends)]
        }
        FunctionKind::Gpu if DriverEnds::may_be(initiator, "xe") => {
            vec![dma_buf(ends, Pinning::Moves)]
        }
        FunctionKind::Gpu if initiator.vendor == Some(gpu::VENDOR_NVIDIA) => {
            vec![nvidia_imports_nothing()]
        }
        FunctionKind::Gpu => vec![not_imported(ends)],
        FunctionKind::Nic => match rdma::refusal(initiator) {
            Some(refused) => vec![refused],
            None => {
                let pinning = rdma::importer(initiator).unwrap_or(Pinning::Moves);
                vec![dma_buf(ends, pinning)]
            }
        },
        FunctionKind::Nvme => vec![storage(ends)],
        _ => vec![not_imported(ends)],
    }
}

/// A window that shows only part of the memory, in words.
fn small_window(ends: &DriverEnds<'_>) -> Option<String> {
    let provider = ends.provider();
    let is_small = |bar: &&Bar| {
        bar.index == VRAM_BAR
            && (bar.size.0 <= SMALL_WINDOW || bar.largest.is_some_and(|most| most > bar.size))
    };
    let bar = provider.bars.iter().find(is_small)?;
    Some(format!(
        "{} shows {} of its memory, and peers need all of it: enable resizable BAR",
        ends.word(provider),
        bar.size
    ))
}

fn peer_access(ends: &DriverEnds<'_>) -> DriverRule {
    let verdict = match small_window(ends) {
        Some(reason) => (DriverAnswer::Refused, reason),
        None => {
            let reason = format!(
                "it needs CONFIG_HSA_AMD_P2P, which Debian's kernels lack, and amdgpu.pcie_p2p=1; then {}",
                ends.in_words()
            );
            (DriverAnswer::Conditional, reason)
        }
    };
    DriverRule::new(DRIVER, "peer access", Some(true), verdict, PEER)
}

fn dma_buf(ends: &DriverEnds<'_>, pinning: Pinning) -> DriverRule {
    let verdict = if pinning == Pinning::Moves {
        let reason = format!(
            "amdgpu exports its memory where the kernel permits the pair, and otherwise moves the \
             buffer to host memory without an error; {}",
            ends.in_words()
        );
        (DriverAnswer::Possible, reason)
    } else {
        let reason = "this importer pins memory, and amdgpu may move a pinned buffer to host memory \
                      without an error: prove the route";
        (DriverAnswer::Conditional, reason.to_owned())
    };
    DriverRule::new(DRIVER, "dma-buf", Some(true), verdict, DMA_BUF)
}

fn xgmi(ends: &DriverEnds<'_>) -> DriverRule {
    let verdict = match gpu_link(ends.fabric, ends.provider, ends.initiator) {
        Some(state) if state.is_linked() => (
            DriverAnswer::Possible,
            format!("they are {state}, over which the driver does not ask the kernel"),
        ),
        Some(state @ GpuLinkState::NoLinks(_)) => {
            (DriverAnswer::Refused, format!("they are {state}"))
        }
        _ => {
            let reason = "XGMI unknown (not in this input), and over it the driver does not ask the kernel: \
                          `rocm-smi --showtopo`";
            (DriverAnswer::NotKnown, reason.to_owned())
        }
    };
    DriverRule::new(DRIVER, "XGMI", Some(false), verdict, XGMI)
}

fn storage(ends: &DriverEnds<'_>) -> DriverRule {
    let verdict = if ends.fabric.kernel.has_p2pdma == Some(false) {
        let reason = "the kernel is built without CONFIG_PCI_P2PDMA";
        (DriverAnswer::Refused, reason.to_owned())
    } else {
        let reason = format!(
            "the kernel's own amdgpu has no route to drives; hipFile has one by amdgpu-dkms, and \
             there {}",
            ends.in_words()
        );
        (DriverAnswer::Conditional, reason)
    };
    DriverRule::new("amdgpu-dkms", "hipFile", Some(true), verdict, HIPFILE)
}

fn nvidia_imports_nothing() -> DriverRule {
    let verdict = (DriverAnswer::Refused, NVIDIA_IMPORTS_NOTHING.to_owned());
    DriverRule::new(DRIVER, "dma-buf", Some(true), verdict, NVIDIA_IMPORT)
}

fn not_imported(ends: &DriverEnds<'_>) -> DriverRule {
    let reason = format!(
        "amdgpu moves a buffer to host memory for importers without peer memory, and nothing public \
         says that {} has it",
        ends.word(ends.initiator())
    );
    DriverRule::new(DRIVER, "dma-buf", Some(true), (DriverAnswer::NotKnown, reason), DMA_BUF)
}
