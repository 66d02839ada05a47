//! Modules that are loaded at boot (modules-load.d(5)).

use super::SettingEffect::{Changed, NoChange};
use super::setting::BootSetting;
use super::{SettingEffect, command_line};
use crate::sysfs::system::MODULES;
use crate::{Fabric, Module};

/// Adds a module to those that are loaded.
pub(super) fn apply(setting: &BootSetting, fabric: &mut Fabric) -> Option<SettingEffect> {
    let BootSetting::Load(name) = setting else { return None };
    let known = MODULES.into_iter().find(|known| command_line::is_same_name(known, name));
    let Some(name) = known else {
        return Some(NoChange("the module is not known to bear on peer-to-peer routes".to_owned()));
    };
    if fabric.kernel.has_module(name) == Some(true) {
        return Some(NoChange("it is loaded already".to_owned()));
    }
    let module = Module { name: name.to_owned(), version: None };
    let kernel = &mut fabric.kernel;
    kernel.modules.as_mut().unwrap_or(&mut kernel.seen_modules).push(module);
    Some(Changed(format!("{name} is loaded, if it is installed")))
}
