//! Addresses that an AMD GPU can send: windows of peers above its DMA mask are out of reach unless an IOMMU maps them.

use peerlane_fabric::{Bar, Fabric, Function, FunctionId, FunctionKind, gpu};

use super::VRAM_BAR;
use crate::drivers::ends::DriverEnds;
use crate::{MapType, decide};

/// The first kernel that lets an IOMMU make up for a narrow mask ("drm/amdgpu: Take IOMMU remapping into account for
/// p2p checks").
const REMAPPED_SINCE: (u32, u32) = (6, 12);
/// The narrowest DMA mask of any GPU that amdgpu serves (gmc_v8_0.c).
const LEAST_BITS: u8 = 40;
/// PCI devices of Vega, MI100 and Navi, whose mask has 44 bits (gmc_v9_0.c, gmc_v10_0.c, gmc_v11_0.c, gmc_v12_0.c).
const MASK_44: [(u16, u16); 6] = [
    (0x66a0, 0x66af),
    (0x6860, 0x687f),
    (0x69a0, 0x69af),
    (0x7310, 0x73ff),
    (0x7420, 0x749f),
    (0x7550, 0x759f),
];
/// PCI devices of MI200 and MI300, whose mask has 48 bits (gmc_v9_0.c, from GC 9.4.2 on).
const MASK_48: [(u16, u16); 3] = [(0x7408, 0x7410), (0x74a0, 0x74bf), (0x75a0, 0x75bf)];

/// Reach of a window's addresses from a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WindowReach {
    /// All of them are below the mask, or an IOMMU maps them there.
    Inside,
    /// Some are above it.
    Outside(String),
    /// A fact that is named decides.
    Open(String),
}

/// Number of address bits of a GPU's DMA mask; `None` where it is not known.
fn mask_bits(function: &Function) -> Option<u8> {
    let device = function.device?;
    let is_in = |ranges: &[(u16, u16)]| {
        ranges.iter().any(|&(first, last)| (first..=last).contains(&device))
    };
    match (is_in(&MASK_44), is_in(&MASK_48)) {
        (true, _) => Some(44),
        (_, true) => Some(48),
        _ => None,
    }
}

fn window(function: &Function) -> Option<&Bar> {
    function.bars.iter().find(|bar| bar.index == VRAM_BAR)
}

/// The reach of the owner's window from the other GPU, as `amdgpu_device_is_peer_accessible` has it.
pub(super) fn window_reach(ends: &DriverEnds<'_>) -> WindowReach {
    let (owner, peer) = (ends.word(ends.provider()), ends.word(ends.initiator()));
    let Some(bits) = window(ends.provider()).and_then(|bar| bar.address_bits) else {
        return WindowReach::Open(format!(
            "the address of BAR {VRAM_BAR} of {owner} is unknown, and it must be below 16 TiB (44 bits) unless an \
             IOMMU translates: `lspci -vv | grep 'Region 0'`"
        ));
    };
    let mask = mask_bits(ends.initiator());
    if bits <= mask.unwrap_or(LEAST_BITS) {
        return WindowReach::Inside;
    }
    let above = match mask {
        Some(mask) => format!(
            "BAR {VRAM_BAR} of {owner} reaches up to {bits} address bits, and {peer} sends {mask} (its DMA mask)"
        ),
        None => format!(
            "BAR {VRAM_BAR} of {owner} reaches up to {bits} address bits, and how many {peer} sends is unknown"
        ),
    };
    let (major, minor) = REMAPPED_SINCE;
    let translates = ends.translates().or_else(|| passes_by_parameter(ends.fabric));
    match (translates, ends.is_kernel_at_least(major, minor)) {
        (Some(true), Some(true)) => WindowReach::Inside,
        (Some(true), None) => WindowReach::Open(format!(
            "{above}: translation by an IOMMU makes up for it since Linux {major}.{minor}, and the kernel's \
             version is unknown: `uname -r`"
        )),
        (None, Some(true) | None) => WindowReach::Open(format!(
            "{above}: only an IOMMU that translates makes up for it, and whether it does is unknown: \
             `cat /sys/kernel/iommu_groups/*/type`"
        )),
        _ if mask.is_none() => WindowReach::Open(above),
        (_, Some(false)) => WindowReach::Outside(format!(
            "{above}: before Linux {major}.{minor} not even an IOMMU makes up for it"
        )),
        (Some(false), _) => WindowReach::Outside(format!(
            "{above}: an IOMMU that translates maps it below, so boot without `iommu=pt` and with the IOMMU on, or have \
             the firmware place windows below 16 TiB"
        )),
    }
}

/// Returns `Some(false)` where a parameter rules translation out, whether or not there is an IOMMU
/// (drivers/iommu/iommu.c).
fn passes_by_parameter(fabric: &Fabric) -> Option<bool> {
    const PASSTHROUGH: [&str; 2] = ["iommu=pt", "iommu.passthrough=1"];
    let parameters = fabric.kernel.parameters.as_ref()?;
    let has_it = parameters.iter().any(|one| PASSTHROUGH.contains(&one.as_str()));
    has_it.then_some(false)
}

/// Returns a pair of AMD GPUs, owner and peer, that reach each other only while an IOMMU translates: in passthrough the
/// owner's window lies above the peer's DMA mask.
pub fn needs_translation(fabric: &Fabric) -> Option<(FunctionId, FunctionId)> {
    let is_amd = |function: &Function| {
        function.kind == FunctionKind::Gpu
            && function.vendor == Some(gpu::VENDOR_AMD)
            && DriverEnds::may_be(function, super::DRIVER)
    };
    if fabric.kernel.version().is_some_and(|version| version < REMAPPED_SINCE) {
        return None;
    }
    let gpus = || fabric.iter().filter(|(_, function)| is_amd(function));
    gpus().find_map(|(owner, function)| {
        let bits = window(function)?.address_bits?;
        let is_too_narrow = |peer: &Function| mask_bits(peer).is_some_and(|mask| bits > mask);
        let is_permitted = |peer| decide(fabric, owner, peer).map != MapType::NotSupported;
        let mut peers = gpus().filter(|&(id, _)| id != owner && is_permitted(id));
        let (peer, _) = peers.find(|(_, peer)| is_too_narrow(peer))?;
        Some((owner, peer))
    })
}
