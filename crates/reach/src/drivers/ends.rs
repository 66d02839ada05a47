//! Both ends of a direction: their drivers, memory and kernel, as far as described.

use peerlane_fabric::{DriverBinding, Fabric, Function, FunctionId, FunctionKind, IommuMode, gpu};

use super::{DriverAnswer, DriverRule};
use crate::{MapType, PeerMemory, Reach};

const VENDOR_XILINX: u16 = 0x10ee;

/// Memory that peers could use, by the driver that decides over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriverMemory {
    /// Of an NVIDIA GPU.
    Nvidia,
    /// Of an AMD GPU.
    Amd,
    /// Of an Intel GPU.
    Intel,
    /// A controller memory buffer of a drive.
    Drive,
    /// Of a Xilinx card.
    Xilinx,
    /// Of a device without a known rule.
    Other,
}

impl DriverMemory {
    /// The memory of a function; `None` where it has none that peers could use.
    pub(super) fn new(fabric: &Fabric, id: FunctionId) -> Option<Self> {
        if PeerMemory::new(fabric, id) == PeerMemory::Absent {
            return None;
        }
        let function = fabric.function(id);
        Some(match (function.kind, function.vendor) {
            (FunctionKind::Gpu, Some(gpu::VENDOR_NVIDIA)) => Self::Nvidia,
            (FunctionKind::Gpu, Some(gpu::VENDOR_AMD)) => Self::Amd,
            (FunctionKind::Gpu, Some(gpu::VENDOR_INTEL)) => Self::Intel,
            (FunctionKind::Fpga, Some(VENDOR_XILINX)) => Self::Xilinx,
            (FunctionKind::Nvme, _) => Self::Drive,
            _ => Self::Other,
        })
    }
}

/// One direction: an initiator that reads or writes memory of a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriverEnds<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) provider: FunctionId,
    pub(super) initiator: FunctionId,
    /// The kernel's decision, whether or not the driver asks for it.
    pub(super) decision: &'a Reach,
}

impl<'a> DriverEnds<'a> {
    pub(super) fn new(
        fabric: &'a Fabric,
        (provider, initiator): (FunctionId, FunctionId),
        decision: &'a Reach,
    ) -> Self {
        Self { fabric, provider, initiator, decision }
    }

    pub(super) fn provider(&self) -> &'a Function {
        self.fabric.function(self.provider)
    }

    pub(super) fn initiator(&self) -> &'a Function {
        self.fabric.function(self.initiator)
    }

    /// A person's word for an end; the name of any other function.
    pub(super) fn word(&self, function: &Function) -> String {
        let is_it = |id: &FunctionId| std::ptr::eq(self.fabric.function(*id), function);
        let end = [self.provider, self.initiator].into_iter().find(is_it);
        end.map_or_else(|| function.name.clone(), |id| self.fabric.device_word(id))
    }

    /// Both ends.
    pub(super) fn both(&self) -> [&'a Function; 2] {
        [self.provider(), self.initiator()]
    }

    pub(super) fn memory(&self) -> Option<DriverMemory> {
        DriverMemory::new(self.fabric, self.provider)
    }

    /// Returns whether the ends are two devices, and no bridge among them.
    pub(super) fn is_of_two_devices(&self) -> bool {
        self.provider != self.initiator && self.both().iter().all(|end| !end.kind.is_bridge())
    }

    /// The name of an end that does not answer.
    pub(super) fn silent(&self) -> Option<String> {
        self.both().into_iter().find(|end| end.is_silent).map(|end| self.word(end))
    }

    /// The name of an end without a bound driver.
    pub(super) fn unbound(&self) -> Option<String> {
        let is_unbound = |end: &&Function| end.driver == DriverBinding::Unbound;
        self.both().into_iter().find(is_unbound).map(|end| self.word(end))
    }

    pub(super) fn is_owner_held_by_vfio(&self) -> bool {
        is_held_by_vfio(self.provider())
    }

    pub(super) fn is_initiator_held_by_vfio(&self) -> bool {
        is_held_by_vfio(self.initiator())
    }

    /// Returns whether the driver of a function is this one, or is not shown.
    pub(super) fn may_be(function: &Function, driver: &str) -> bool {
        function.driver == DriverBinding::Unknown || function.driver.is_named(driver)
    }

    /// Returns whether the running kernel is at least of this version; `None` where its version is unknown.
    pub(super) fn is_kernel_at_least(&self, major: u32, minor: u32) -> Option<bool> {
        self.fabric.kernel.version().map(|version| version >= (major, minor))
    }

    /// Returns an error with the verdict where dma-bufs are pinned on import, or may be.
    ///
    /// Without move notices the kernel pins a buffer for every importer (`dma_buf_map_attachment`, Linux before 7.1), and
    /// amdgpu and xe pin only in host memory then.
    pub(super) fn notifies_moves(&self) -> Result<(), (DriverAnswer, String)> {
        const OPTION: &str = "CONFIG_DMABUF_MOVE_NOTIFY";
        match self.fabric.kernel.notifies_moves() {
            Some(true) => Ok(()),
            Some(false) => {
                let reason = format!(
                    "before Linux 7.1 and without {OPTION} the exporter moves every imported buffer to host memory \
                     without an error"
                );
                Err((DriverAnswer::Refused, reason))
            }
            None => {
                let reason = format!(
                    "before Linux 7.1 and without {OPTION} the exporter moves every imported buffer to host memory \
                     without an error; kernel or option is unknown: \
                     `uname -r; zgrep MOVE_NOTIFY /proc/config.gz /boot/config-$(uname -r)`"
                );
                Err((DriverAnswer::Conditional, reason))
            }
        }
    }

    /// Returns whether a kernel module is loaded; `None` where modules are not shown.
    pub(super) fn is_loaded(&self, module: &str) -> Option<bool> {
        self.fabric.kernel.has_module(module)
    }

    /// Returns whether NVIDIA's open kernel modules are loaded, and not its proprietary ones; `None` where
    /// that is unknown.
    pub(super) fn has_open_nvidia(&self) -> Option<bool> {
        self.fabric.nvidia.as_ref()?.is_open
    }

    /// A parameter of NVIDIA's driver.
    pub(super) fn nvidia_parameter(&self, name: &str) -> Option<&'a str> {
        self.fabric.nvidia.as_ref()?.parameters.get(name).map(String::as_str)
    }

    /// Returns whether an IOMMU translates the initiator's addresses; `None` where that is unknown.
    pub(super) fn translates(&self) -> Option<bool> {
        match (self.initiator().iommu_type.as_deref(), self.fabric.iommu) {
            (Some("DMA" | "DMA-FQ"), _) | (None, IommuMode::Translating) => Some(true),
            (Some("identity"), _) | (None, IommuMode::Off | IommuMode::Passthrough) => Some(false),
            (Some(_), _) | (None, IommuMode::Unknown) => None,
        }
    }

    pub(super) fn is_translated(&self) -> bool {
        self.translates() == Some(true)
    }

    /// Returns whether both ends lie below one switch, or one port.
    pub(super) fn is_below_one_switch(&self) -> bool {
        let above: Vec<FunctionId> = self.fabric.upward(self.provider).skip(1).collect();
        self.fabric.upward(self.initiator).skip(1).any(|port| above.contains(&port))
    }

    /// Returns whether the kernel permits the route, in words for a rule that asks it.
    pub(super) fn in_words(&self) -> &'static str {
        match self.decision.map {
            MapType::BusAddress | MapType::ThroughHostBridge => "the kernel permits this pair",
            MapType::NotSupported => "the kernel refuses this pair",
            MapType::Conditional | MapType::Unknown => {
                "the kernel's decision for this pair is not fully determined"
            }
        }
    }

    /// The rule of a driver that nothing public describes further.
    pub(super) fn not_known(&self) -> DriverRule {
        let driver = self.provider().driver.name().unwrap_or("unknown");
        let [owner, initiator] = [self.provider(), self.initiator()].map(|end| self.word(end));
        let reason = match self.provider().vendor {
            None => format!(
                "the maker of {owner} is unknown (not in this input), and its driver decides whether it lends its \
                 memory to {initiator}"
            ),
            Some(_) => format!(
                "nothing public says whether the driver of {owner} lends its memory to {initiator}"
            ),
        };
        DriverRule::new(driver, "any", None, (DriverAnswer::NotKnown, reason), "none found")
    }

    /// Takes certainty from rules where it is not shown which driver is bound.
    pub(super) fn qualify(&self, rules: &mut [DriverRule]) {
        let is_hidden = |end: &&Function| end.driver == DriverBinding::Unknown;
        let is_positive =
            |answer| matches!(answer, DriverAnswer::Possible | DriverAnswer::Expected);
        let Some(hidden) = self.both().into_iter().find(is_hidden) else { return };
        for rule in rules.iter_mut().filter(|rule| is_positive(rule.answer)) {
            rule.answer = DriverAnswer::Conditional;
            rule.reason +=
                &format!("; which driver is bound to {} is not shown", self.word(hidden));
        }
    }
}

/// Returns whether a driver that gives devices to programs and virtual machines is bound: `vfio-pci` and those
/// made from it, `nvgrace-gpu-vfio-pci`.
pub(crate) fn is_held_by_vfio(function: &Function) -> bool {
    function.driver.name().is_some_and(|driver| driver.contains("vfio"))
}
