//! The host's side of two devices that are passed to one virtual machine.

use peerlane_fabric::gpu::ConsumerLine;
use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, IommuMode, gpu};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DriverAnswer;
use super::ends::{DriverEnds, is_held_by_vfio};
use crate::{MapType, decide};

/// The host's verdict on two devices as peers in a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestVerdict {
    /// The answer; [`DriverAnswer::Conditional`] while something is still to be done.
    pub verdict: DriverAnswer,
    /// The reasons, one sentence each, the deciding one first.
    pub reasons: Vec<String>,
    /// Things to do or find out, one request each.
    pub needs: Vec<String>,
}

/// Returns the host's verdict over `initiator` reading or writing memory of `provider` in one guest.
pub fn guest(fabric: &Fabric, provider: FunctionId, initiator: FunctionId) -> GuestVerdict {
    let decision = decide(fabric, provider, initiator);
    let ends = DriverEnds::new(fabric, (provider, initiator), &decision);
    if let Some(reason) = refusal(&ends) {
        return GuestVerdict {
            verdict: DriverAnswer::Refused,
            reasons: vec![reason],
            needs: Vec::new(),
        };
    }
    if let Some(name) = &fabric.environment.hypervisor {
        let reason = format!("this is a virtual machine itself ({name}); its host decides");
        let needs = vec!["run this on the host".to_owned()];
        return GuestVerdict { verdict: DriverAnswer::NotKnown, reasons: vec![reason], needs };
    }
    let mut found = GuestFindings::default();
    found.kernel(&ends);
    found.drivers(&ends);
    found.groups(&ends);
    found.way(&ends);
    found.hypervisors(&ends);
    let verdict = match (found.is_open, found.needs.is_empty()) {
        (true, _) => DriverAnswer::NotKnown,
        (false, true) => DriverAnswer::Possible,
        (false, false) => DriverAnswer::Conditional,
    };
    GuestVerdict { verdict, reasons: found.reasons, needs: found.needs }
}

/// Facts that rule it out.
fn refusal(ends: &DriverEnds<'_>) -> Option<String> {
    if !ends.is_of_two_devices() {
        return Some("a guest is given two devices, and no bridges".to_owned());
    }
    if ends.memory().is_none() {
        return Some(format!("{} has no memory that peers could use", ends.word(ends.provider())));
    }
    (ends.fabric.iommu == IommuMode::Off).then(|| {
        "no IOMMU is in use, without which vfio passes no device to a guest: enable VT-d or AMD-Vi \
         (intel_iommu=on)"
            .to_owned()
    })
}

#[derive(Debug, Default)]
struct GuestFindings {
    reasons: Vec<String>,
    needs: Vec<String>,
    /// A missing fact leaves the verdict open.
    is_open: bool,
}

impl GuestFindings {
    fn kernel(&mut self, ends: &DriverEnds<'_>) {
        match ends.is_kernel_at_least(6, 19) {
            Some(true) => self.reasons.push(
                "the kernel is 6.19 or later: vfio-pci exports windows as dma-bufs, and iommufd maps \
                 them for the other device (IOMMU_IOAS_MAP_FILE; cloud-hypervisor #8895)"
                    .to_owned(),
            ),
            Some(false) => {
                self.reasons.push(
                    "the kernel is older than 6.19: iommufd maps no windows of devices, so only \
                     hypervisors with the older container of vfio have peers (VFIO_IOMMU_MAP_DMA; \
                     cloud-hypervisor #6175)"
                        .to_owned(),
                );
                self.needs.push("take Linux 6.19 or later, or a hypervisor without iommufd".to_owned());
            }
            None => {
                self.is_open = true;
                self.needs.push("find the version of the host's kernel: `uname -r`".to_owned());
            }
        }
    }

    fn drivers(&mut self, ends: &DriverEnds<'_>) {
        for end in ends.both() {
            if is_held_by_vfio(end) {
                self.reasons.push(format!("{} is held by vfio", ends.word(end)));
            } else {
                let address = end.address.map_or(end.name.clone(), |address| address.to_string());
                self.needs.push(format!(
                    "bind {} to vfio-pci: `sudo driverctl set-override {address} vfio-pci`",
                    ends.word(end)
                ));
            }
        }
    }

    fn groups(&mut self, ends: &DriverEnds<'_>) {
        let [provider, initiator] = ends.both();
        let (Some(one), Some(two)) = (provider.iommu_group, initiator.iommu_group) else {
            self.is_open = true;
            self.needs.push(
                "find the IOMMU groups of both: `readlink /sys/bus/pci/devices/ADDRESS/iommu_group`"
                    .to_owned(),
            );
            return;
        };
        if one == two {
            self.reasons.push(format!(
                "both are in IOMMU group {one}, so they can be passed only together, to one guest"
            ));
        } else {
            self.reasons.push(format!("they are in IOMMU groups of their own, {one} and {two}"));
        }
        let mut groups = vec![one];
        groups.extend((one != two).then_some(two));
        for group in groups {
            let is_left = |other: &&Function| {
                other.iommu_group == Some(group)
                    && !other.kind.is_bridge()
                    && other.name != provider.name
                    && other.name != initiator.name
                    && !is_held_by_vfio(other)
                    && other.driver.name().is_some()
            };
            let others: Vec<&str> =
                ends.fabric.functions.iter().filter(is_left).map(|one| one.name.as_str()).collect();
            if !others.is_empty() {
                self.needs.push(format!(
                    "take {} from their drivers, since they share IOMMU group {group}",
                    others.join(", ")
                ));
            }
        }
    }

    fn way(&mut self, ends: &DriverEnds<'_>) {
        let decision = ends.decision;
        let names: Vec<&str> =
            decision.redirecting.iter().map(|&id| ends.fabric.function(id).name.as_str()).collect();
        let root = "through the root complex, where the IOMMU translates them; vfio asks for no \
                    route, so prove that data arrives";
        self.reasons.push(match decision.map {
            _ if !ends.is_below_one_switch() => format!("they share no switch, so packets go {root}"),
            _ if !names.is_empty() => {
                format!("{} redirect (ACS), so packets go {root}", names.join(", "))
            }
            MapType::Unknown | MapType::Conditional => {
                "whether ports redirect packets is unknown: `sudo lspci -vvv` shows ACSCtl".to_owned()
            }
            _ => "no port redirects (ACS), so the switch may turn packets before the IOMMU sees them: \
                  the guest's addresses must lie outside the switch's windows"
                .to_owned(),
        });
        if decision.map == MapType::NotSupported {
            self.reasons.push(
                "the kernel would refuse this pair for its own drivers, since this root complex is not \
                 known to forward peers"
                    .to_owned(),
            );
        }
    }

    fn hypervisors(&mut self, ends: &DriverEnds<'_>) {
        self.reasons.push(
            "QEMU maps the windows and only warns where it cannot; cloud-hypervisor 54 needs the change \
             of #8895, or iommufd=off; openvmm maps them since #3936"
                .to_owned(),
        );
        let is_nvidia = |end: &&Function| {
            end.kind == FunctionKind::Gpu && end.vendor == Some(gpu::VENDOR_NVIDIA)
        };
        if ends.both().iter().all(is_nvidia) {
            let is_geforce =
                |end: &&Function| ConsumerLine::from_function(end) == Some(ConsumerLine::GeForce);
            let seen = if ends.both().iter().any(is_geforce) {
                ", and GeForce cards with one were seen to reach a private copy or to hang \
                 (NVIDIA/nccl #2335)"
            } else {
                ""
            };
            self.needs.push(format!(
                "give both GPUs one clique, or the guest's driver sees no peers: \
                 `x-nv-gpudirect-clique=0` on each vfio-pci of QEMU, `x_nv_gpudirect_clique=0` on each \
                 --device of cloud-hypervisor; it makes the driver say yes and is no proof{seen}: compare \
                 data after a copy in the guest"
            ));
        }
    }
}
