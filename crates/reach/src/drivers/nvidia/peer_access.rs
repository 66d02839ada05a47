//! Peer access between two GPUs, in the order in which the driver looks (`p2pGetCapsStatus`).

use peerlane_fabric::gpu::{ConsumerLine, Generation};
use peerlane_fabric::{
    Function, FunctionId, FunctionKind, Parent, PeerAccess, PeerCapability, gpu, names,
};

use super::DRIVER;
use super::storage::dword;
use crate::drivers::ends::DriverEnds;
use crate::drivers::{DriverAnswer, DriverRule, GpuLinkState, gpu_link};

const RULES: &str =
    "open-gpu-kernel-modules 595.45.04, src/nvidia/src/kernel/platform/p2p/p2p_caps.c";
const ANSWERS: &str = "NVIDIA, nvidia-smi documentation, topo -p2p; nvmlDeviceGetP2PStatus";
const CLIQUES: &str = "open-gpu-kernel-modules 595.45.04, hypervisor.c, hypervisorPcieP2pDetection";
const VIRTUAL: &str = "open-gpu-kernel-modules 595.45.04, kern_gpu_ga100.c, gpuCheckIsP2PAllocated";
const IOMMU: &str = "NVIDIA, CUDA C++ Programming Guide 12, IOMMU on Linux";
const GEFORCE: &str = "aikitoria/open-gpu-kernel-modules #3 (RTX 3090), tinygrad/open-gpu-kernel-modules \
                       #21 (RTX 4090, driver 550) and #29 (RTX 5090)";

/// Registry key with two bits each for reads and writes over PCIe: 0 off, 1 on, 2 as the chipset allows
/// (`NV_REG_STR_CL_FORCE_P2P`).
const FORCE: &str = "ForceP2P";

/// Device numbers of GeForce from Ampere on with connectors for NVLink: RTX 3090 Ti and RTX 3090.
const WITH_CONNECTORS: [u16; 2] = [0x2203, 0x2204];

/// Root ports of Intel's I/O hubs, first and last device number: between two hubs nothing is forwarded.
const IO_HUBS: [(u16, u16); 6] = [
    (0x3408, 0x3411),
    (0x3420, 0x3421),
    (0x3c02, 0x3c0b),
    (0x0e02, 0x0e0b),
    (0x2f01, 0x2f0b),
    (0x6f01, 0x6f0b),
];

/// The rule for two NVIDIA GPUs.
pub(super) fn rule(ends: &DriverEnds<'_>) -> DriverRule {
    let (answer, reason, source) = stated(ends)
        .or_else(|| divided(ends))
        .or_else(|| by_nvlink(ends))
        .or_else(|| chips(ends))
        .or_else(|| switched_off(ends))
        .or_else(|| consumer(ends))
        .or_else(|| virtual_gpu(ends))
        .or_else(|| switched_on(ends))
        .or_else(|| in_guest(ends))
        .or_else(|| io_hubs(ends))
        .or_else(|| translated(ends))
        .unwrap_or_else(|| by_firmware(ends));
    let reason = match gpu_link(ends.fabric, ends.provider, ends.initiator) {
        Some(state @ GpuLinkState::NotSeen(_)) if answer != DriverAnswer::Possible => {
            format!("{reason}; {state}")
        }
        _ => reason,
    };
    DriverRule::new(DRIVER, "peer access", Some(false), (answer, reason), source)
}

type Verdict = Option<(DriverAnswer, String, &'static str)>;

/// The driver's own answer, where the text of `nvidia-smi topo -p2p` shows it: no rule here knows better.
fn stated(ends: &DriverEnds<'_>) -> Verdict {
    use peerlane_fabric::PeerCapability::{Pcie, Read, Unstated, Write};
    let gpus = (ends.initiator, ends.provider);
    let bears = |answer: &&PeerAccess| {
        answer.gpus == gpus && matches!(answer.capability, Read | Write | Pcie | Unstated)
    };
    let answers: Vec<&PeerAccess> = ends
        .fabric
        .peer_access
        .iter()
        .filter(bears)
        .filter(|answer| answer.status != "U")
        .collect();
    let first = answers.first()?;
    let Some(refused) = answers.iter().find(|answer| answer.status != "OK") else {
        let reason = format!(
            "the driver allows it ({}: OK), which is its word and no proof: compare data after a copy",
            command(first.capability)
        );
        return Some((DriverAnswer::Possible, reason, ANSWERS));
    };
    let why = match refused.status.as_str() {
        "CNS" => "chipset not supported",
        "GNS" => "GPU not supported",
        "TNS" => "topology not supported",
        "DR" => "disabled by a registry key",
        _ => "not supported",
    };
    let reason = format!(
        "the driver refuses it ({}: {}, {why})",
        command(refused.capability),
        refused.status
    );
    Some((DriverAnswer::Refused, reason, ANSWERS))
}

/// The command that shows a capability.
fn command(capability: PeerCapability) -> &'static str {
    match capability {
        PeerCapability::Read => "`nvidia-smi topo -p2p r`",
        PeerCapability::Write => "`nvidia-smi topo -p2p w`",
        PeerCapability::NvLink => "`nvidia-smi topo -p2p n`",
        PeerCapability::Atomics => "`nvidia-smi topo -p2p a`",
        PeerCapability::Pcie => "`nvidia-smi topo -p2p p`",
        PeerCapability::Unstated => "`nvidia-smi topo -p2p`",
    }
}

fn divided(ends: &DriverEnds<'_>) -> Verdict {
    let is_divided = |end: &&Function| end.mig_instances.is_some_and(|count| count > 0);
    let end = ends.both().into_iter().find(is_divided)?;
    let reason = format!("{} is divided by MIG, which stops peer access", ends.word(end));
    Some((DriverAnswer::Refused, reason, RULES))
}

fn by_nvlink(ends: &DriverEnds<'_>) -> Verdict {
    let state = gpu_link(ends.fabric, ends.provider, ends.initiator)?;
    state.is_linked().then(|| {
        let reason = format!("they are {state}, which the driver takes before PCIe");
        (DriverAnswer::Possible, reason, RULES)
    })
}

/// Over PCIe only GPUs of one chip are peers (`areGpusP2PCompatible`).
fn chips(ends: &DriverEnds<'_>) -> Verdict {
    let (provider, initiator) = (chip(ends.provider())?, chip(ends.initiator())?);
    (provider != initiator).then(|| {
        let reason = format!(
            "over PCIe only GPUs of one chip are peers, and these are {provider} and {initiator}"
        );
        (DriverAnswer::Refused, reason, RULES)
    })
}

/// The chip without the letters of its variant, by the PCI ID repository: `GA102` of `GA102GL [RTX A6000]`.
fn chip(function: &Function) -> Option<&'static str> {
    let name = names::device(function.vendor?, function.device?)?;
    Generation::from_function(function)?;
    let word = name.split(' ').next()?;
    let digits = word.find(|letter: char| letter.is_ascii_digit())?;
    let end = word[digits..].find(|letter: char| !letter.is_ascii_digit());
    Some(end.map_or(word, |end| &word[..digits + end]))
}

/// The settings of reads and writes in [`FORCE`]; `None` where it is not set.
fn forced(ends: &DriverEnds<'_>) -> Option<(u32, u32)> {
    let value = dword(ends.fabric.nvidia.as_ref()?, FORCE)?;
    Some((value & 3, value >> 4 & 3))
}

/// Peer access over PCIe that a registry key switches off (`_kp2pCapsCheckStatusOverridesForPcie`).
fn switched_off(ends: &DriverEnds<'_>) -> Verdict {
    (forced(ends)? == (0, 0)).then(|| {
        let reason = format!(
            "the driver's registry key {FORCE} disables peer access over PCIe; without the key the \
             chipset decides"
        );
        // NVLink does not depend on it.
        let is_seen = ends.fabric.nvlinks.is_some();
        (if is_seen { DriverAnswer::Refused } else { DriverAnswer::Conditional }, reason, RULES)
    })
}

/// Peer access that the key switches on whatever the chipset is, so that the driver's word says little.
fn switched_on(ends: &DriverEnds<'_>) -> Verdict {
    (forced(ends)? == (1, 1)).then(|| {
        let reason = format!(
            "the driver's registry key {FORCE} makes it allow peer access on every chipset, also where \
             requests do not arrive: compare data after a copy"
        );
        (DriverAnswer::Conditional, reason, RULES)
    })
}

/// GeForce from Ampere on has no peer access over PCIe.
fn consumer(ends: &DriverEnds<'_>) -> Verdict {
    let is_kept = |end: &&Function| {
        ConsumerLine::from_function(end) == Some(ConsumerLine::GeForce)
            && Generation::from_function(end).is_some_and(|found| found >= Generation::Ampere)
    };
    let end = ends.both().into_iter().find(is_kept)?;
    let has_connectors =
        |one: &&Function| one.device.is_some_and(|id| WITH_CONNECTORS.contains(&id));
    let is_seen = ends.fabric.nvlinks.is_some();
    if !is_seen && ends.both().iter().all(has_connectors) {
        let reason = "the driver disables peer access over PCIe on GeForce cards; these have it by an \
                      NVLink bridge only: `nvidia-smi topo -m` shows one";
        return Some((DriverAnswer::Conditional, reason.to_owned(), GEFORCE));
    }
    let reason = format!(
        "NVIDIA's driver disables peer access over PCIe on GeForce cards ({}); patched drivers exist",
        ends.word(end)
    );
    Some((DriverAnswer::Refused, reason, GEFORCE))
}

fn virtual_gpu(ends: &DriverEnds<'_>) -> Verdict {
    let end = ends.both().into_iter().find(|end| end.physical_function.is_some())?;
    let reason = format!(
        "{} is a vGPU, which has peer access only where its host allots it",
        ends.word(end)
    );
    Some((DriverAnswer::Conditional, reason, VIRTUAL))
}

fn in_guest(ends: &DriverEnds<'_>) -> Verdict {
    ends.fabric.environment.hypervisor.as_ref()?;
    let reason = "in a virtual machine GPUs are peers over PCIe where the hypervisor gave both one \
                  clique (x-nv-gpudirect-clique): `nvidia-smi topo -p2p r` shows it";
    Some((DriverAnswer::Conditional, reason.to_owned(), CLIQUES))
}

/// GPUs below different I/O hubs (`NV0000_P2P_CAPS_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED`).
fn io_hubs(ends: &DriverEnds<'_>) -> Verdict {
    let hub = |id: FunctionId| {
        let top = ends.fabric.upward(id).last()?;
        let port = ends.fabric.function(top);
        let is_hub = port.kind == FunctionKind::RootPort
            && port.vendor == Some(gpu::VENDOR_INTEL)
            && IO_HUBS.iter().any(|&(first, last)| {
                port.device.is_some_and(|device| (first..=last).contains(&device))
            });
        is_hub.then_some(port.parent)
    };
    let (provider, initiator) = (hub(ends.provider)?, hub(ends.initiator)?);
    let is_other =
        matches!((provider, initiator), (Parent::Bridge(one), Parent::Bridge(two)) if one != two);
    is_other.then(|| {
        let reason = "they are below two I/O hubs of Intel, which forward nothing to each other";
        (DriverAnswer::Refused, reason.to_owned(), RULES)
    })
}

fn translated(ends: &DriverEnds<'_>) -> Verdict {
    ends.is_translated().then(|| {
        let reason = "the IOMMU translates: in this mode NVIDIA does not support peer access over PCIe outside \
                      virtual machines, and data may be corrupt; boot with iommu=pt";
        (DriverAnswer::Conditional, reason.to_owned(), IOMMU)
    })
}

/// The firmware of the GPU knows chipsets; without it the driver says nothing.
fn by_firmware(ends: &DriverEnds<'_>) -> (DriverAnswer, String, &'static str) {
    let place = if ends.both().iter().all(|end| gpu::has_c2c(end)) {
        "both are on superchips, whose GPUs are usually connected by NVLink"
    } else if ends.is_below_one_switch() {
        "both are below one switch, which the driver tells its firmware"
    } else {
        "they share no switch, so the chipset counts"
    };
    let is_expected =
        ends.is_below_one_switch() && ends.both().into_iter().all(|end| chip(end).is_some());
    if is_expected {
        let reason = format!(
            "{place}; expected unless the firmware refuses (check: `nvidia-smi topo -p2p r`)"
        );
        return (DriverAnswer::Expected, reason, RULES);
    }
    let reason =
        format!("{place}; the firmware decides, and `nvidia-smi topo -p2p r` shows its answer");
    (DriverAnswer::Conditional, reason, RULES)
}
