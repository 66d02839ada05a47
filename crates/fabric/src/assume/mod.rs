//! A machine as it would be after a reboot with other kernel parameters and module options.
//!
//! A [`BootConfiguration`] is read from files that a person means to install, or from a kernel command
//! line. [`BootConfiguration::apply`] changes a fabric as the kernel would, and returns the effect
//! of each setting. Parameters are added behind those of the present boot: a file that removes a
//! parameter changes nothing here.

mod acs;
mod command_line;
mod error;
mod forms;
mod iommu;
mod loaded_modules;
mod nvidia;
mod nvme;
mod other;
mod read;
mod setting;
mod shell;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use acs::{AcsParameter, AcsParameterError, Honoured, acs_parameter, acs_setpci};
pub use error::BootConfigurationError;

use crate::sysfs::system::bears_on_devices;
use crate::{CufileValue, Fabric, Origin};
use setting::BootSetting;

/// Boot configuration taken as in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootConfiguration {
    /// Kernel parameters in order, without the quotes around them.
    pub parameters: Vec<String>,
    /// Module options in order.
    pub options: Vec<ModuleOption>,
    /// Modules that are loaded at boot, in order.
    pub modules: Vec<String>,
    /// Keys of `/etc/cufile.json`, by dotted names.
    pub cufile: BTreeMap<String, CufileValue>,
}

/// An option of a kernel module (`options MODULE NAME=VALUE` in `modprobe.d`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleOption {
    /// The module, as it was written.
    pub module: String,
    /// The option.
    pub name: String,
    /// Its value; `None` for a switch that has none.
    pub value: Option<String>,
}

/// A setting and its effect on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedSetting {
    /// The setting in one line: `pci=realloc`, `options nvme_core multipath=N`, `module nvidia_fs`.
    pub setting: String,
    /// Its effect.
    pub effect: SettingEffect,
}

/// Effect of a setting on a machine, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingEffect {
    /// The change.
    Changed(String),
    /// The reason why the machine stays as it is.
    NoChange(String),
    /// The reason why this kernel takes no notice, or cannot be relied upon to do so.
    NotHonoured(String),
}

/// An area of settings: changes the machine by one of its own, and passes over any other.
type Area = fn(&BootSetting, &mut Fabric) -> Option<SettingEffect>;

/// Every area but ACS, whose registers depend on all parameters at once; the first that knows a setting
/// has it.
const AREAS: [Area; 5] =
    [iommu::apply, nvme::apply, nvidia::apply, loaded_modules::apply, other::apply];

impl BootConfiguration {
    /// Changes a machine to the state that these settings would give it; it no longer is this
    /// machine.
    ///
    /// The firmware's ACS settings are taken to be as the present registers and parameters tell them;
    /// writes by `setpci` since the boot cannot be told from them.
    pub fn apply(&self, fabric: &mut Fabric) -> Vec<AppliedSetting> {
        fabric.origin = Origin::Assumed;
        let settings = BootSetting::all(self);
        let before = acs::AcsBoot::present(fabric);
        let effects: Vec<Option<SettingEffect>> =
            settings.iter().map(|setting| apply_one(setting, fabric)).collect();
        let after = before.clone().with(self, fabric);
        let acs = acs::apply(&before, &after, fabric);
        if let Some(parameters) = &mut fabric.kernel.parameters {
            let bearing = self.parameters.iter().filter(|parameter| bears_on_devices(parameter));
            parameters.extend(bearing.cloned());
        }
        let one = |(setting, effect): (&BootSetting, Option<SettingEffect>)| AppliedSetting {
            setting: setting.to_string(),
            effect: acs
                .effect(setting)
                .or(effect)
                .unwrap_or_else(|| SettingEffect::NoChange(NO_BEARING.to_owned())),
        };
        let mut applied: Vec<AppliedSetting> = settings.iter().zip(effects).map(one).collect();
        applied.extend(self.cufile.iter().map(|(key, value)| apply_cufile(fabric, key, value)));
        applied
    }
}

/// Reason of settings that no area knows.
const NO_BEARING: &str = "it is not known to bear on peer-to-peer routes";

fn apply_cufile(fabric: &mut Fabric, key: &str, value: &CufileValue) -> AppliedSetting {
    let settings = &mut fabric.cufile.get_or_insert_default().settings;
    let before = settings.insert(key.to_owned(), value.clone());
    let effect = match before {
        Some(before) if before == *value => {
            SettingEffect::NoChange("it is set so already".to_owned())
        }
        Some(before) => SettingEffect::Changed(format!("cuFile reads {value} instead of {before}")),
        None => SettingEffect::Changed(format!("cuFile reads {value}")),
    };
    AppliedSetting { setting: format!("{key} of /etc/cufile.json"), effect }
}

fn apply_one(setting: &BootSetting, fabric: &mut Fabric) -> Option<SettingEffect> {
    AREAS.iter().find_map(|area| area(setting, fabric))
}
