//! Peer access that is granted or taken before the driver looks at hardware: `ForceP2P`, and a guest's clique.

use peerlane_fabric::{Fabric, gpu};

use super::Verdict;
use crate::drivers::ends::DriverEnds;
use crate::drivers::nvidia::storage::dword;
use crate::drivers::{DriverAnswer, emulated_chipset};

const FORCED: &str =
    "open-gpu-kernel-modules 595.45.04, p2p_caps.c, _kp2pCapsCheckStatusOverridesForPcie";
const CLIQUES: &str = "open-gpu-kernel-modules 595.45.04, hypervisor.c, hypervisorPcieP2pDetection; \
                       NVIDIA/nccl #2335";

/// Registry key with two bits each for reads and writes over PCIe: 0 off, 1 on; any other value
/// keeps the default, "not supported" (`NV_REG_STR_CL_FORCE_P2P`).
pub(super) const FORCE: &str = "ForceP2P";
const ON: u32 = 1;

/// The settings of reads and writes in [`FORCE`]; `None` where it is not set.
pub(super) fn setting(fabric: &Fabric) -> Option<(u32, u32)> {
    let value = dword(fabric.nvidia.as_ref()?, FORCE)?;
    Some((value & 3, value >> 4 & 3))
}

/// The answer of the registry key, which the driver takes before any other over PCIe.
pub(super) fn forced(ends: &DriverEnds<'_>) -> Verdict {
    let (reads, writes) = setting(ends.fabric)?;
    let (answer, reason) = match (reads == ON, writes == ON) {
        (true, true) => {
            let reason = format!(
                "the registry key {FORCE} makes the driver say yes on every chipset and GPU, which is no proof \
                 that data arrives: compare data after a copy"
            );
            (DriverAnswer::Conditional, reason)
        }
        (false, false) => {
            let reason = format!(
                "the driver's registry key {FORCE} disables peer access over PCIe; without the key the \
                 chipset decides"
            );
            // NVLink does not depend on it.
            let is_seen = ends.fabric.nvlinks.is_some();
            (if is_seen { DriverAnswer::Refused } else { DriverAnswer::Conditional }, reason)
        }
        (does_read, _) => {
            let one = if does_read { "reads" } else { "writes" };
            let reason = format!(
                "the registry key {FORCE} makes the driver allow {one} alone, which is no proof that data \
                 arrives: compare data after a copy"
            );
            (DriverAnswer::Conditional, reason)
        }
    };
    Some((answer, reason, FORCED))
}

/// The answer in a virtual machine: by clique, else by the guest's chipset.
pub(super) fn in_guest(ends: &DriverEnds<'_>) -> Verdict {
    let chipset = emulated_chipset(ends.fabric);
    if ends.fabric.environment.hypervisor.is_none() && chipset.is_none() {
        return None;
    }
    let danger = if ends.both().into_iter().any(super::is_kept_geforce) {
        "GeForce cards of one clique were seen to reach a private copy or to hang"
    } else {
        "that is the host's word and no proof"
    };
    let otherwise = match chipset {
        Some(name) => format!(
            "without a clique it says CNS, since the guest's host bridge ({name}) is not on the \
             firmware's list"
        ),
        None => "without a clique the firmware decides by the guest's chipset".to_owned(),
    };
    let reason = format!(
        "in a virtual machine the driver says yes to GPUs that the hypervisor gave one clique \
         (x-nv-gpudirect-clique): {danger}, so compare data after a copy; {otherwise} \
         (`nvidia-smi topo -p2p r`)"
    );
    Some((DriverAnswer::Conditional, reason, CLIQUES))
}

/// Returns whether a GPU may have been given to a virtual machine that this text is of.
pub(super) fn is_in_guest(ends: &DriverEnds<'_>) -> bool {
    let is_nvidia = ends.both().iter().all(|end| end.vendor == Some(gpu::VENDOR_NVIDIA));
    let environment = &ends.fabric.environment;
    is_nvidia && (environment.hypervisor.is_some() || emulated_chipset(ends.fabric).is_some())
}
