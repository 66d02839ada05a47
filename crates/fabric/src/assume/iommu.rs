//! Parameters of the IOMMU, which decide its mode after a boot.
//!
//! No mode avoids ACS: the kernel sets it as soon as it finds an IOMMU (`pci_request_acs` in
//! drivers/iommu/intel/dmar.c and drivers/iommu/amd/init.c, Linux 7.2).

use peerlane_units::Bytes;

use super::SettingEffect::{Changed, NoChange, NotHonoured};
use super::setting::BootSetting;
use super::{SettingEffect, command_line};
use crate::{Fabric, IommuMode, QueueLimits};

/// Largest request of a drive behind an IOMMU that translates (`iommu_dma_opt_mapping_size` in
/// drivers/iommu/dma-iommu.c).
const TRANSLATED_REQUEST: Bytes = Bytes(128 << 10);

/// A request that a parameter makes of the IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModeRequest {
    Off,
    On,
    Passthrough,
    Translation,
}

/// A kernel parameter that decides the mode.
struct ModeParameter {
    name: &'static str,
    /// The only maker of CPUs whose IOMMU it sets; `None` for all makers.
    vendor: Option<&'static str>,
    /// Set when kernels for Arm read it.
    is_read_on_arm: bool,
    read: fn(Option<&str>) -> Option<ModeRequest>,
}

/// `iommu=` is read on x86 alone (arch/x86/kernel/pci-dma.c), `iommu.passthrough=` everywhere
/// (drivers/iommu/iommu.c), the others by the driver of their maker.
const MODE_PARAMETERS: [ModeParameter; 4] = [
    ModeParameter { name: "iommu", vendor: None, is_read_on_arm: false, read: read_x86 },
    ModeParameter {
        name: "iommu.passthrough",
        vendor: None,
        is_read_on_arm: true,
        read: read_passthrough,
    },
    ModeParameter {
        name: "intel_iommu",
        vendor: Some("GenuineIntel"),
        is_read_on_arm: false,
        read: read_switch,
    },
    ModeParameter {
        name: "amd_iommu",
        vendor: Some("AuthenticAMD"),
        is_read_on_arm: false,
        read: read_switch,
    },
];

/// Changes the mode and the facts that follow from it.
pub(super) fn apply(setting: &BootSetting, fabric: &mut Fabric) -> Option<SettingEffect> {
    let BootSetting::Kernel { name, value } = setting else { return None };
    let parameter = MODE_PARAMETERS
        .iter()
        .find(|parameter| command_line::is_same_name(parameter.name, name))?;
    let request = (parameter.read)(value.as_deref());
    if let Some(effect) = parameter.refusal(fabric) {
        return Some(effect);
    }
    Some(match (request, fabric.iommu) {
        (None, _) => NoChange("it does not change how addresses are translated".to_owned()),
        (Some(ModeRequest::Off), IommuMode::Off) => NoChange("no IOMMU is in use".to_owned()),
        (Some(ModeRequest::Off), _) => switch_off(fabric, parameter),
        (Some(_), IommuMode::Unknown) => {
            NoChange("it is unknown whether an IOMMU is in use now".to_owned())
        }
        (Some(ModeRequest::On), IommuMode::Off) => switch_on(fabric),
        (Some(ModeRequest::On), _) => NoChange("an IOMMU is in use".to_owned()),
        (Some(ModeRequest::Passthrough | ModeRequest::Translation), IommuMode::Off) => {
            NoChange("no IOMMU is in use".to_owned())
        }
        (Some(ModeRequest::Passthrough), IommuMode::Passthrough) => {
            NoChange("addresses pass through already".to_owned())
        }
        (Some(ModeRequest::Passthrough), IommuMode::Translating) => pass_through(fabric),
        (Some(ModeRequest::Translation), IommuMode::Translating) => {
            NoChange("addresses are translated already".to_owned())
        }
        (Some(ModeRequest::Translation), IommuMode::Passthrough) => translate(fabric),
    })
}

impl ModeParameter {
    /// The reason why the kernel of this machine does not read the parameter.
    fn refusal(&self, fabric: &Fabric) -> Option<SettingEffect> {
        let vendor = fabric.cpu.vendor.as_deref();
        if fabric.cpu.is_arm() && !self.is_read_on_arm {
            let hint = match self.name {
                "iommu" => ": there it is `iommu.passthrough=1`",
                _ => "",
            };
            return Some(NotHonoured(format!("kernels for Arm do not read {}={hint}", self.name)));
        }
        let maker = self.vendor.filter(|maker| Some(*maker) != vendor)?;
        let this = vendor.map_or("unknown".to_owned(), |vendor| format!("of {vendor}"));
        Some(NoChange(format!("it is for CPUs of {maker}, and this one is {this}")))
    }
}

/// The last request of `iommu=` (`iommu_setup`).
fn read_x86(value: Option<&str>) -> Option<ModeRequest> {
    let request = |word: &str| match word {
        "off" => Some(ModeRequest::Off),
        "pt" => Some(ModeRequest::Passthrough),
        "nopt" => Some(ModeRequest::Translation),
        _ => None,
    };
    let words: Vec<ModeRequest> = value?.split(',').filter_map(request).collect();
    // Whatever else is asked of an IOMMU that is off.
    if words.contains(&ModeRequest::Off) { Some(ModeRequest::Off) } else { words.last().copied() }
}

fn read_passthrough(value: Option<&str>) -> Option<ModeRequest> {
    match command_line::truth(Some(value?))? {
        true => Some(ModeRequest::Passthrough),
        false => Some(ModeRequest::Translation),
    }
}

/// The last of `on` and `off`.
fn read_switch(value: Option<&str>) -> Option<ModeRequest> {
    let request = |word: &str| match word {
        "on" => Some(ModeRequest::On),
        "off" => Some(ModeRequest::Off),
        _ => None,
    };
    value?.split(',').filter_map(request).next_back()
}

fn switch_off(fabric: &mut Fabric, parameter: &ModeParameter) -> SettingEffect {
    fabric.iommu = IommuMode::Off;
    for function in &mut fabric.functions {
        function.iommu_group = None;
        function.iommu_type = None;
    }
    lift_limits(fabric);
    let acs = match parameter.name {
        // `detect_ivrs` asks for ACS before the parameter is looked at.
        "amd_iommu" => "the kernel still sets ACS where the firmware describes an IOMMU",
        _ => "ACS stays as the firmware sets it, unless another parameter decides",
    };
    Changed(format!("no IOMMU is in use; {acs}"))
}

fn switch_on(fabric: &mut Fabric) -> SettingEffect {
    fabric.iommu = IommuMode::Unknown;
    Changed(
        "an IOMMU that the firmware describes is switched on, and ACS with it; whether there is one, \
         and whether it translates, is unknown"
            .to_owned(),
    )
}

fn pass_through(fabric: &mut Fabric) -> SettingEffect {
    fabric.iommu = IommuMode::Passthrough;
    for function in &mut fabric.functions {
        if function.iommu_type.is_some() {
            function.iommu_type = Some("identity".to_owned());
        }
    }
    lift_limits(fabric);
    Changed("addresses pass through the IOMMU; ACS stays as it is".to_owned())
}

fn translate(fabric: &mut Fabric) -> SettingEffect {
    fabric.iommu = IommuMode::Translating;
    for function in &mut fabric.functions {
        // Whether unmaps wait (`DMA`) or are flushed later (`DMA-FQ`) is another parameter's matter.
        if function.iommu_type.is_some() {
            function.iommu_type = Some("DMA".to_owned());
        }
    }
    for limits in limits(fabric) {
        for most in [&mut limits.max_request, &mut limits.max_hw_request] {
            *most = Some(most.map_or(TRANSLATED_REQUEST, |most| most.min(TRANSLATED_REQUEST)));
        }
    }
    Changed("the IOMMU translates addresses; ACS stays as it is".to_owned())
}

/// Forgets limits of requests that may be those of translation.
fn lift_limits(fabric: &mut Fabric) {
    for limits in limits(fabric) {
        if limits.max_hw_request.is_some_and(|most| most <= TRANSLATED_REQUEST) {
            let QueueLimits { logical_block, physical_block, .. } = *limits;
            *limits = QueueLimits { logical_block, physical_block, ..QueueLimits::default() };
        } else if limits.max_request.is_some_and(|most| most <= TRANSLATED_REQUEST) {
            limits.max_request = None;
        }
    }
}

fn limits(fabric: &mut Fabric) -> impl Iterator<Item = &mut QueueLimits> {
    let drives = fabric.functions.iter_mut().filter_map(|function| function.nvme.as_mut());
    drives.flat_map(|drive| &mut drive.namespaces).map(|namespace| &mut namespace.limits)
}
