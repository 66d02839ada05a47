//! AMD's driver: dma-bufs, peer access between GPUs, XGMI, and hipFile.

mod address;

use peerlane_fabric::{Bar, FunctionKind, gpu};

use super::ends::DriverEnds;
use super::gpu_link::{GpuLinkState, gpu_link};
use super::nvidia::{NVIDIA_IMPORT, NVIDIA_IMPORTS_NOTHING};
use super::rdma::{self, Pinning};
use super::{DriverAnswer, DriverRule};

pub use address::needs_translation;
use address::{WindowReach, window_reach};

const DRIVER: &str = "amdgpu";
const DMA_BUF: &str = "Linux 6.19 and 7.2, drivers/gpu/drm/amd/amdgpu/amdgpu_dma_buf.c, amdgpu_dma_buf_pin; \
                       drivers/dma-buf/dma-buf.c";
const PEER: &str = "Linux 6.12 to 7.2, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, \
                    amdgpu_device_is_peer_accessible; ROCm/ROCR-Runtime #355";
/// Linux 6.15: "drm/amdgpu: allow pinning DMA-bufs into VRAM if all importers can do P2P".
const PINS_OWN_MEMORY_SINCE: (u32, u32) = (6, 15);
/// The command that shows the options of the kernel's configuration.
const OPTIONS: &str =
    "`zgrep -E 'HSA_AMD_P2P|MOVE_NOTIFY' /proc/config.gz /boot/config-$(uname -r)`";
const XGMI: &str = "Linux 7.2, amdgpu_dma_buf.c, amdgpu_dmabuf_is_xgmi_accessible";
const HIPFILE: &str = "AMD, hipFile 0.4 documentation; amdgpu-dkms, kfd_ais_rw_file";
/// The window of an AMD GPU's memory.
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
        FunctionKind::Nvme => {
            [Some(storage(ends)), imported_by_drives(ends)].into_iter().flatten().collect()
        }
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
    let (answer, reason) = peer_verdict(ends);
    DriverRule::new(DRIVER, "peer access", Some(true), (answer, reason), PEER)
}

fn peer_verdict(ends: &DriverEnds<'_>) -> (DriverAnswer, String) {
    if let Some(reason) = small_window(ends) {
        return (DriverAnswer::Refused, reason);
    }
    let option = match is_of_dkms(ends) {
        true => None,
        false => ends.fabric.kernel.has_amd_p2p,
    };
    let reach = window_reach(ends);
    match (option, reach) {
        (Some(false), _) => {
            let reason = "the kernel is built without CONFIG_HSA_AMD_P2P, so amdgpu gives no GPU access to another";
            (DriverAnswer::Refused, reason.to_owned())
        }
        (_, WindowReach::Outside(reason)) => (DriverAnswer::Refused, reason),
        (_, WindowReach::Open(reason)) => (DriverAnswer::Conditional, reason),
        (None, WindowReach::Inside) => (DriverAnswer::Conditional, option_unknown(ends)),
        (Some(true), WindowReach::Inside) if shows_all_memory(ends) => {
            (DriverAnswer::Possible, format!("amdgpu gives access; {}", ends.in_words()))
        }
        (Some(true), WindowReach::Inside) => {
            let reason = format!(
                "unless the window is smaller than the memory \
                 (`grep . /sys/class/drm/card*/device/mem_info_*vram_total`): {}",
                ends.in_words()
            );
            (DriverAnswer::Expected, reason)
        }
    }
}

/// The reason where it is not shown whether amdgpu is built for peer access.
fn option_unknown(ends: &DriverEnds<'_>) -> String {
    if is_of_dkms(ends) {
        return format!(
            "amdgpu-dkms decides at its build whether GPUs have access to each other (ROCm/amdgpu #210); then {}",
            ends.in_words()
        );
    }
    format!(
        "it needs CONFIG_HSA_AMD_P2P, which Debian's kernels lack, and amdgpu.pcie_p2p=1: {OPTIONS}; then {}",
        ends.in_words()
    )
}

/// Returns whether the driver is AMD's own build: that of the kernel states no version.
fn is_of_dkms(ends: &DriverEnds<'_>) -> bool {
    let kernel = &ends.fabric.kernel;
    let mut modules = kernel.modules.iter().flatten().chain(&kernel.seen_modules);
    modules.any(|module| module.name == DRIVER && module.version.is_some())
}

/// Returns whether the window is known to show all of the memory.
fn shows_all_memory(ends: &DriverEnds<'_>) -> bool {
    let provider = ends.provider();
    let is_whole = |bar: &&Bar| {
        bar.index == VRAM_BAR
            && (bar.largest == Some(bar.size)
                || provider.memory_size.is_some_and(|memory| memory <= bar.size))
    };
    provider.bars.iter().any(|bar| is_whole(&bar))
}

fn dma_buf(ends: &DriverEnds<'_>, pinning: Pinning) -> DriverRule {
    let (major, minor) = PINS_OWN_MEMORY_SINCE;
    let is_too_old = ends.is_kernel_at_least(major, minor) == Some(false) && !is_of_dkms(ends);
    let verdict = match (ends.notifies_moves(), pinning) {
        (Err(verdict), _) => verdict,
        (Ok(()), Pinning::Moves) => {
            let reason = format!(
                "amdgpu exports its memory where the kernel permits the pair, and otherwise moves the \
                 buffer to host memory without an error; {}",
                ends.in_words()
            );
            (DriverAnswer::Possible, reason)
        }
        (Ok(()), _) if is_too_old => {
            let reason = format!(
                "this importer pins memory, and before Linux {major}.{minor} amdgpu moves a pinned buffer to \
                 host memory without an error"
            );
            (DriverAnswer::Refused, reason)
        }
        (Ok(()), _) => {
            let reason = "this importer pins memory, and amdgpu moves a pinned buffer to host memory without an \
                          error where one of its importers has no route: prove the route";
            (DriverAnswer::Conditional, reason.to_owned())
        }
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

/// The rule for modules that hand a drive addresses of a dma-buf, if those are known to be of host
/// memory.
fn imported_by_drives(ends: &DriverEnds<'_>) -> Option<DriverRule> {
    let refused = ends.notifies_moves().err();
    let verdict = refused.filter(|(answer, _)| *answer == DriverAnswer::Refused)?;
    let source = "ROCm/rocm-xio #181, #201; Linux 6.19, amdgpu_dma_buf.c, amdgpu_dma_buf_pin";
    Some(DriverRule::new("rocm-xio", "dma-buf", Some(true), verdict, source))
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
