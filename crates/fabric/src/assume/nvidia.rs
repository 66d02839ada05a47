//! Options of the module `nvidia`.

use super::SettingEffect;
use super::SettingEffect::{Changed, NoChange};
use super::setting::BootSetting;
use crate::Fabric;

/// Prefix of the module's options, which `/proc/driver/nvidia/params` leaves out.
const PREFIX: &str = "NVreg_";

/// Changes a parameter of NVIDIA's driver; a text stands without quotes there.
pub(super) fn apply(setting: &BootSetting, fabric: &mut Fabric) -> Option<SettingEffect> {
    let option = setting.option_of("nvidia")?;
    let name = option.name.strip_prefix(PREFIX)?;
    let value = option.value.clone().unwrap_or_default();
    let driver = fabric.nvidia.get_or_insert_default();
    let before = driver.parameters.insert(name.to_owned(), value.clone());
    if before.as_deref() == Some(value.as_str()) {
        return Some(NoChange("it is set so already".to_owned()));
    }
    Some(Changed(match before.filter(|before| !before.is_empty()) {
        Some(before) => format!("the driver reads {value} instead of {before}"),
        None => format!("the driver reads {value}"),
    }))
}
