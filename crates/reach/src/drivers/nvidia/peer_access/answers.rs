//! The driver's own answers in the text of `nvidia-smi topo -p2p`, and their explanations.

use peerlane_fabric::{
    Acs, Fabric, Function, FunctionId, PeerAccess, PeerCapability, gpu, pci_names,
};

use super::{Verdict, is_kept_geforce, overrides, patched};
use crate::drivers::ends::DriverEnds;
use crate::drivers::nvidia::switches::CommonSwitch;
use crate::drivers::{DriverAnswer, GpuLinkState, emulated_chipset, gpu_link};

const DENIED: &str = "NVIDIA/nccl #2335; nvidia-smi documentation, topo -p2p";
const ANSWERS: &str = "NVIDIA, nvidia-smi documentation, topo -p2p; nvmlDeviceGetP2PStatus";

/// The driver's own answer, if the text shows it.
pub(super) fn stated(ends: &DriverEnds<'_>) -> Verdict {
    use PeerCapability::{Pcie, Read, Unstated, Write};
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
    match answers.iter().find(|answer| answer.status != "OK") {
        Some(refused) => Some(refusal(ends, refused)),
        None => Some(consent(ends, command(first.capability))),
    }
}

/// A yes, which says that the driver will try.
fn consent(ends: &DriverEnds<'_>, command: &str) -> (DriverAnswer, String, &'static str) {
    let is_linked =
        gpu_link(ends.fabric, ends.provider, ends.initiator).is_some_and(GpuLinkState::is_linked);
    let is_unlocked = !is_linked && ends.both().into_iter().any(is_kept_geforce);
    if is_unlocked && !overrides::is_in_guest(ends) {
        let (answer, reason, source) = patched::granted(ends);
        return (answer, format!("the driver says yes ({command}: OK); {reason}"), source);
    }
    let is_given =
        !is_linked && (overrides::setting(ends.fabric).is_some() || overrides::is_in_guest(ends));
    let given = match (is_unlocked, is_given) {
        (true, _) => {
            ", and GeForce cards of one clique were seen to reach a private copy or to hang \
             (NVIDIA/nccl #2335)"
        }
        (false, true) => ", given by a registry key or a clique and not by hardware",
        (false, false) => "",
    };
    let risk = if is_linked || is_given { None } else { risk(ends) };
    let answer =
        if is_given || risk.is_some() { DriverAnswer::Conditional } else { DriverAnswer::Possible };
    let reason = format!(
        "the driver allows it ({command}: OK{given}), which is its word and no proof: compare data \
         after a copy{}",
        risk.map(|risk| format!("; {risk}")).unwrap_or_default()
    );
    (answer, reason, if is_unlocked { DENIED } else { ANSWERS })
}

/// The fact that may keep data from arriving although the driver says yes: the first collective of
/// NCCL was seen to hang with redirecting root ports (NVIDIA/nccl #1999 and #2079).
fn risk(ends: &DriverEnds<'_>) -> Option<String> {
    if ends.is_translated() {
        return Some("the IOMMU translates, and data may be lost: boot with iommu=pt".to_owned());
    }
    let port = redirecting(ends)?;
    ends.translates().is_none().then(|| {
        format!(
            "{} redirects (ACS), so data may be lost if the IOMMU translates, which is unknown: \
             `cat /sys/kernel/iommu_groups/*/type`",
            port.name
        )
    })
}

/// A port above an end that sends requests of peers up, root ports included.
fn redirecting<'a>(ends: &DriverEnds<'a>) -> Option<&'a Function> {
    /// ACS request and completion redirect (PCIe 6.0 section 7.7.11.3).
    const REDIRECT: u16 = 0x0c;
    let is_redirecting = |port: &&Function| {
        port.kind.is_bridge()
            && matches!(port.acs, Acs::Present { control } if control & REDIRECT != 0)
    };
    let above = |id| ends.fabric.upward(id).map(|id| ends.fabric.function(id)).find(is_redirecting);
    above(ends.provider).or_else(|| above(ends.initiator))
}

fn refusal(ends: &DriverEnds<'_>, refused: &PeerAccess) -> (DriverAnswer, String, &'static str) {
    let why = match refused.status.as_str() {
        "CNS" => format!("chipset not supported: {}", chipset(ends)),
        "GNS" if ends.both().into_iter().any(is_kept_geforce) => {
            "GPU not supported, as on GeForce cards".to_owned()
        }
        "GNS" => "GPU not supported".to_owned(),
        "TNS" => "topology not supported: two I/O hubs".to_owned(),
        "DR" => format!("disabled by the registry key {}", overrides::FORCE),
        _ => "not supported: two chips, MIG, or NVSwitch without NVLink".to_owned(),
    };
    let reason = format!(
        "the driver refuses it ({}: {}, {why})",
        command(refused.capability),
        refused.status
    );
    (DriverAnswer::Refused, reason, ANSWERS)
}

/// The reason why the firmware does not know a chipset, as far as the input shows it.
fn chipset(ends: &DriverEnds<'_>) -> String {
    if let Some(name) = emulated_chipset(ends.fabric) {
        return format!(
            "the guest's host bridge is {name}, and no registry key changes that (noonghunna/club-3090 #885)"
        );
    }
    let bridge = match host_bridge(ends.fabric) {
        Some(numbers) => format!("host bridge 00:00.0 ({numbers}) is not on the firmware's list"),
        None => "host bridge 00:00.0 is not on the firmware's list".to_owned(),
    };
    match CommonSwitch::new(ends) {
        CommonSwitch::NotListed(switch) => format!(
            "{bridge}, and the switch above both ({}) is not on the driver's",
            pci_names::look_up(switch).unwrap_or_else(|| switch.name.clone())
        ),
        _ => bridge,
    }
}

/// Numbers of the function at 00:00.0, which identifies a chipset to the firmware.
pub(super) fn host_bridge(fabric: &Fabric) -> Option<String> {
    let is_first = |id: &FunctionId| {
        let address = fabric.function(*id).address;
        address.is_some_and(|at| (at.domain(), at.bus(), at.devfn()) == (0, 0, 0))
    };
    let (id, _) = fabric.iter().find(|(id, _)| is_first(id))?;
    let function = fabric.function(id);
    let numbers = format!("{:04x}:{:04x}", function.vendor?, function.device?);
    (function.vendor != Some(gpu::VENDOR_NVIDIA) || !function.kind.is_bridge()).then_some(numbers)
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
