//! The part of a boot that decides ACS: parameters, and whether the kernel switches ACS on by itself.

use super::list::{self, DecidedBits, EntryMatch};
use super::{AcsParameter, Honoured};
use crate::assume::BootConfiguration;
use crate::assume::command_line::{self, NamedValue};
use crate::{Fabric, FunctionId, IommuMode};

/// The part of a boot that decides ACS.
#[derive(Debug, Clone)]
pub(in crate::assume) struct AcsBoot {
    /// Kernel parameters in order, as far as they are known.
    parameters: Vec<String>,
    /// Set when these are all the parameters that bear on devices.
    is_whole: bool,
    /// Set when the kernel sets ACS by itself. It does so when it finds an IOMMU, whatever its mode
    /// (`pci_request_acs`); `None` where it is unknown.
    pub(super) switches_on: Option<bool>,
}

/// The decision of the parameters on a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcsDecision {
    /// None: the kernel's own setting stays.
    None,
    /// Bits on top of the firmware's.
    OverFirmware(DecidedBits),
    /// Bits on top of the kernel's own (`disable_acs_redir` before Linux 6.11).
    OverKernel(DecidedBits),
    /// It is unknown.
    NotKnown,
}

impl AcsBoot {
    /// The present boot.
    pub(in crate::assume) fn present(fabric: &Fabric) -> Self {
        let known = fabric.kernel.parameters.as_ref();
        let texts = known.into_iter().flatten();
        let parameters: Vec<String> =
            texts.flat_map(|text| command_line::parameters(text)).collect();
        let switches_on = switches_on(&parameters, fabric, None);
        Self { parameters, is_whole: known.is_some(), switches_on }
    }

    /// The same boot with more parameters, on a machine whose IOMMU is as they leave it.
    pub(in crate::assume) fn with(
        mut self,
        configuration: &BootConfiguration,
        fabric: &Fabric,
    ) -> Self {
        self.parameters.extend(configuration.parameters.iter().cloned());
        self.switches_on = switches_on(&self.parameters, fabric, self.switches_on);
        self
    }

    /// The value of a parameter that is in force.
    pub(super) fn in_force(&self, parameter: AcsParameter) -> Option<&str> {
        parameter.in_force(&self.parameters)
    }

    /// The decision on a function. `config_acs` is read last and so wins (`pci_enable_acs`).
    pub(super) fn decision(&self, fabric: &Fabric, id: FunctionId) -> AcsDecision {
        if !self.is_whole {
            return AcsDecision::NotKnown;
        }
        self.known_decision(fabric, id)
    }

    /// As [`Self::decision`], by the parameters that are known.
    pub(super) fn known_decision(&self, fabric: &Fabric, id: FunctionId) -> AcsDecision {
        for parameter in AcsParameter::ALL {
            let Some(list) = self.in_force(parameter) else { continue };
            let found = list::find(parameter, list, fabric, id);
            let is_read = parameter.honoured_by(&fabric.kernel);
            let takes_firmware_bits = AcsParameter::takes_firmware_bits(&fabric.kernel);
            match (found, is_read) {
                (EntryMatch::No, _) => {}
                // A kernel that has the parameter and gets it wrong.
                (_, Honoured::No(_)) if takes_firmware_bits => return AcsDecision::NotKnown,
                (_, Honoured::No(_)) => {}
                (EntryMatch::NotKnown, _) => return AcsDecision::NotKnown,
                (EntryMatch::Yes(bits), _) if takes_firmware_bits => {
                    return AcsDecision::OverFirmware(bits);
                }
                (EntryMatch::Yes(bits), _) => return AcsDecision::OverKernel(bits),
            }
        }
        AcsDecision::None
    }
}

/// Returns whether the kernel sets ACS by itself; `before` is the answer for the boot before.
fn switches_on(parameters: &[String], fabric: &Fabric, before: Option<bool>) -> Option<bool> {
    match fabric.iommu {
        IommuMode::Passthrough | IommuMode::Translating => Some(true),
        IommuMode::Unknown => None,
        // AMD's driver asks for ACS as soon as the firmware describes an IOMMU, and reads `amd_iommu=off`
        // afterwards (`detect_ivrs` and `state_next` in drivers/iommu/amd/init.c); only `iommu=off` comes
        // first (`amd_iommu_detect`).
        IommuMode::Off
            if has_value(parameters, "amd_iommu", "off")
                && !has_value(parameters, "iommu", "off")
                && fabric.cpu.vendor.as_deref() == Some("AuthenticAMD") =>
        {
            before.filter(|is_on| *is_on)
        }
        IommuMode::Off => Some(false),
    }
}

fn has_value(parameters: &[String], name: &str, value: &str) -> bool {
    parameters.iter().map(|text| NamedValue::new(text)).any(|parameter| {
        command_line::is_same_name(parameter.name, name)
            && parameter.value.is_some_and(|list| list.split(',').any(|one| one == value))
    })
}
