//! ACS control registers as kernel parameters leave them.

mod boot;
mod control;
mod devices;
mod honoured;
mod in_words;
mod list;
mod write;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

pub(super) use boot::AcsBoot;
pub use honoured::Honoured;
pub use write::{AcsParameterError, acs_parameter, acs_setpci};

use super::setting::BootSetting;
use super::{SettingEffect, command_line};
use crate::{Acs, Fabric, Function, FunctionId};
use list::EntryMatch;

/// A kernel parameter that sets ACS control registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcsParameter {
    /// `pci=config_acs=BITS@DEVICE;...` sets any bits.
    ConfigAcs,
    /// `pci=disable_acs_redir=DEVICE;...` clears the redirect bits.
    DisableAcsRedir,
}

impl AcsParameter {
    /// Both, the newer one first.
    const ALL: [Self; 2] = [Self::ConfigAcs, Self::DisableAcsRedir];

    /// The option within `pci=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigAcs => "config_acs",
            Self::DisableAcsRedir => "disable_acs_redir",
        }
    }

    /// The value in an option of `pci=`, if the option is this one.
    fn value(self, option: &str) -> Option<&str> {
        option.strip_prefix(self.name())?.strip_prefix('=')
    }

    /// The value in force: the last one, whatever stood before (`pci_setup` in drivers/pci/pci.c keeps
    /// one pointer).
    fn in_force(self, parameters: &[String]) -> Option<&str> {
        let options = parameters.iter().flat_map(|text| command_line::pci_options(text));
        options.filter_map(|option| self.value(option)).last()
    }
}

/// Registers before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RegisterChange {
    before: Acs,
    after: Acs,
}

/// Effects of the parameters in force.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Values in force after the change, with their effects.
    values: Vec<(AcsParameter, String, SettingEffect)>,
}

impl Effects {
    /// The effect of a setting; `None` where it is not a parameter of ACS.
    pub(super) fn effect(&self, setting: &BootSetting) -> Option<SettingEffect> {
        let BootSetting::Pci(option) = setting else { return None };
        let (parameter, value) =
            AcsParameter::ALL.iter().find_map(|one| Some((*one, one.value(option)?)))?;
        let in_force = self.values.iter().find(|(known, ..)| *known == parameter);
        Some(match in_force {
            Some((_, last, effect)) if last == value => effect.clone(),
            _ => SettingEffect::NoChange(format!(
                "a later pci={}= takes its place: the kernel reads the last one only",
                parameter.name()
            )),
        })
    }
}

/// Changes every register as the parameters of `after` do.
pub(super) fn apply(before: &AcsBoot, after: &AcsBoot, fabric: &mut Fabric) -> Effects {
    let change = |(id, function): (FunctionId, &Function)| {
        let after = control::predict(before, after, fabric, id);
        (id, RegisterChange { before: function.acs, after })
    };
    let changes: Vec<(FunctionId, RegisterChange)> = fabric.iter().map(change).collect();
    let value = |parameter: AcsParameter| {
        let value = after.in_force(parameter)?;
        let earlier = before.in_force(parameter).filter(|earlier| *earlier != value);
        let effect = InForce { parameter, value, earlier }.effect(&changes, after, fabric);
        Some((parameter, value.to_owned(), effect))
    };
    let values = AcsParameter::ALL.into_iter().filter_map(value).collect();
    for (id, change) in changes {
        fabric.functions[id.0].acs = change.after;
    }
    Effects { values }
}

/// A parameter in force, and the value that it takes the place of.
#[derive(Debug, Clone, Copy)]
struct InForce<'a> {
    parameter: AcsParameter,
    value: &'a str,
    earlier: Option<&'a str>,
}

impl InForce<'_> {
    fn effect(
        self,
        changes: &[(FunctionId, RegisterChange)],
        after: &AcsBoot,
        fabric: &Fabric,
    ) -> SettingEffect {
        let honoured = self.parameter.honoured_by(&fabric.kernel);
        if let Honoured::No(reason) = honoured {
            return SettingEffect::NotHonoured(reason);
        }
        let names = |list: &str, id| list::find(self.parameter, list, fabric, id) != EntryMatch::No;
        let meant: Vec<FunctionId> =
            changes.iter().map(|(id, _)| *id).filter(|&id| names(self.value, id)).collect();
        let is_its_own =
            |id| names(self.value, id) || self.earlier.is_some_and(|list| names(list, id));
        let changed: Vec<(FunctionId, RegisterChange)> = changes
            .iter()
            .filter(|(id, change)| change.before != change.after && is_its_own(*id))
            .copied()
            .collect();
        let words = if changed.is_empty() {
            in_words::unchanged(self.parameter, &meant, after, fabric)
        } else {
            in_words::changed(&changed, fabric)
        };
        let words = words + &self.reservations(honoured);
        if changed.is_empty() {
            SettingEffect::NoChange(words)
        } else {
            SettingEffect::Changed(words)
        }
    }

    /// Doubts about the value and the kernel.
    fn reservations(self, honoured: Honoured) -> String {
        let mut words = String::new();
        if let Some(fault) = list::fault(self.parameter, self.value) {
            words.push_str(&format!("; the kernel stops reading at `{fault}`"));
        }
        if let Honoured::NotKnown(reason) = honoured {
            words.push_str(&format!("; all this if the kernel honours the parameter: {reason}"));
        }
        words
    }
}
