//! Peer access between two GPUs, in the driver's order of checks (`p2pGetCapsStatus`,
//! `_kp2pCapsGetStatusOverPcie`).

mod answers;
mod overrides;
mod patched;

use peerlane_fabric::gpu::{ConsumerLine, Generation};
use peerlane_fabric::{Function, FunctionId, FunctionKind, Parent, gpu, pci_names};

use super::switches::CommonSwitch;
use super::{DRIVER, bar1, chip};
use crate::drivers::ends::DriverEnds;
use crate::drivers::{DriverAnswer, DriverRule, GpuLinkState, gpu_link};

const RULES: &str =
    "open-gpu-kernel-modules 595.45.04, src/nvidia/src/kernel/platform/p2p/p2p_caps.c";
const SWITCHES: &str = "open-gpu-kernel-modules 595.45.04, p2p_caps.c, pcie_switch_ref.h";
const VIRTUAL: &str = "open-gpu-kernel-modules 595.45.04, kern_gpu_ga100.c, gpuCheckIsP2PAllocated";
const IOMMU: &str = "NVIDIA, CUDA C++ Programming Guide 12, IOMMU on Linux";
const GEFORCE: &str = "aikitoria/open-gpu-kernel-modules #3 (RTX 3090), tinygrad/open-gpu-kernel-modules \
                       #21 (RTX 4090, driver 550) and #29 (RTX 5090)";

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
    let (answer, reason, source) = answers::stated(ends)
        .or_else(|| divided(ends))
        .or_else(|| by_nvlink(ends))
        .or_else(|| nvswitch(ends))
        .or_else(|| overrides::forced(ends))
        .or_else(|| virtual_gpu(ends))
        .or_else(|| overrides::in_guest(ends))
        .or_else(|| io_hubs(ends))
        .or_else(|| chips(ends))
        .or_else(|| patched::by_keys(ends))
        .or_else(|| consumer(ends))
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

/// A machine with NVSwitch: GPUs with NVLinks reach each other by these, or not at all.
fn nvswitch(ends: &DriverEnds<'_>) -> Verdict {
    let is_switch = |one: &Function| {
        // The kind is asked first: a name is looked up for every function of the machine.
        let may_be = one.vendor == Some(gpu::VENDOR_NVIDIA) && one.kind != FunctionKind::Gpu;
        let name = one.device.filter(|_| may_be);
        let name = name.and_then(|device| pci_names::device(gpu::VENDOR_NVIDIA, device));
        name.is_some_and(|name| name.contains("NVSwitch"))
    };
    let is_here = |(id, one): (FunctionId, &Function)| {
        is_switch(one) && ends.fabric.are_in_one_machine(id, ends.provider)
    };
    if !ends.fabric.iter().any(is_here) {
        return None;
    }
    let links = ends.fabric.nvlinks.as_deref();
    let has_links = |id: FunctionId| {
        links.is_some_and(|links| links.iter().any(|link| link.gpus.0 == id || link.gpus.1 == id))
    };
    let (answer, state) = if has_links(ends.provider) || has_links(ends.initiator) {
        (DriverAnswer::Refused, "these two have none to each other")
    } else {
        (DriverAnswer::Conditional, "whether these two do is unknown: `nvidia-smi topo -p2p n`")
    };
    let reason = format!(
        "on a machine with NVSwitch GPUs with NVLinks are peers by these alone and never over PCIe; {state}"
    );
    Some((answer, reason, RULES))
}

/// Returns whether the stock driver keeps a card from peer access over PCIe: GeForce from Ampere on.
fn is_kept_geforce(gpu: &Function) -> bool {
    ConsumerLine::from_function(gpu) == Some(ConsumerLine::GeForce)
        && Generation::from_function(gpu).is_some_and(|found| found >= Generation::Ampere)
}

/// GeForce from Ampere on has no peer access over PCIe.
fn consumer(ends: &DriverEnds<'_>) -> Verdict {
    let end = ends.both().into_iter().find(|end| is_kept_geforce(end))?;
    let has_connectors =
        |one: &&Function| one.device.is_some_and(|id| WITH_CONNECTORS.contains(&id));
    let is_seen = ends.fabric.nvlinks.is_some();
    if !is_seen && ends.both().iter().all(has_connectors) {
        let reason = "the driver disables peer access over PCIe on GeForce cards; these have it by an \
                      NVLink bridge only: `nvidia-smi topo -m` shows one";
        return Some((DriverAnswer::Conditional, reason.to_owned(), GEFORCE));
    }
    let small = bar1::small_window(ends);
    let small = small.map(|small| format!(" and need all of the memory in BAR1: {small}"));
    let reason = format!(
        "NVIDIA's driver disables peer access over PCIe on GeForce cards ({}); patched drivers exist{}",
        ends.word(end),
        small.unwrap_or_default()
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

/// The firmware of the GPU knows chipsets, by their host bridge; without it the driver says nothing.
fn by_firmware(ends: &DriverEnds<'_>) -> (DriverAnswer, String, &'static str) {
    let way = bar1::way(ends).map(|way| format!("; {way}")).unwrap_or_default();
    let are_known = ends.both().into_iter().all(|end| chip(end).is_some());
    let switch = CommonSwitch::new(ends);
    if are_known && matches!(switch, CommonSwitch::Listed) {
        let reason = format!(
            "both are below one switch of the driver's list; expected unless the firmware refuses \
             (check: `nvidia-smi topo -p2p r`){way}"
        );
        return (DriverAnswer::Expected, reason, SWITCHES);
    }
    let (place, source) = place(ends, switch);
    let reason = format!(
        "{place}; the firmware decides, and `nvidia-smi topo -p2p r` shows its answer{way}"
    );
    (DriverAnswer::Conditional, reason, source)
}

/// The fact that decides for the firmware, and its source.
fn place(ends: &DriverEnds<'_>, switch: CommonSwitch<'_>) -> (String, &'static str) {
    if ends.both().iter().all(|end| gpu::has_c2c(end)) {
        let place = "both are on superchips, where the driver tries C2C, then NVLink, then PCIe";
        return (place.to_owned(), RULES);
    }
    let chipset = match answers::host_bridge(ends.fabric) {
        Some(numbers) => format!("the chipset counts (host bridge 00:00.0, {numbers})"),
        None => "the chipset counts".to_owned(),
    };
    match switch {
        CommonSwitch::Listed => {
            ("both are below one switch of the driver's list".to_owned(), SWITCHES)
        }
        CommonSwitch::NotListed(switch) => {
            let name = pci_names::look_up(switch).unwrap_or_else(|| switch.name.clone());
            let place =
                format!("the switch above both ({name}) is not on the driver's list, so {chipset}");
            (place, SWITCHES)
        }
        CommonSwitch::Unknown(switch) => {
            let place = format!(
                "whether the switch above both ({}) is on the driver's list is unknown, and otherwise {chipset}",
                switch.name
            );
            (place, SWITCHES)
        }
        CommonSwitch::Hidden => {
            let place = format!(
                "whether a switch of the driver's list is above both is unknown (bridges are not in this \
                 input), and otherwise {chipset}"
            );
            (place, SWITCHES)
        }
        CommonSwitch::Absent => (format!("they share no switch, so {chipset}"), RULES),
    }
}
