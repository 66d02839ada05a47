//! Lines of `/proc/driver/nvidia/version` and `/proc/driver/nvidia/params` in the same text.

use super::clean::CleanLine;
use crate::sysfs::nvidia;
use crate::{Fabric, NvidiaDriver};

/// Returns whether a trimmed line is one of them.
pub(super) fn is_line(line: &str) -> bool {
    line.starts_with(nvidia::DRIVER_LINE)
        || line.split_once(':').is_some_and(|(name, _)| nvidia::KEPT.contains(&name.trim()))
}

/// Adds the driver that they describe.
pub(super) fn apply(lines: &[CleanLine<'_>], fabric: &mut Fabric) {
    if lines.is_empty() {
        return;
    }
    let text: String = lines.iter().map(|line| format!("{}\n", line.text.trim())).collect();
    let found = nvidia::described(&text, &text);
    let driver = fabric.nvidia.get_or_insert_with(NvidiaDriver::default);
    driver.is_open = driver.is_open.or(found.is_open);
    driver.version = driver.version.take().or(found.version);
    driver.parameters.extend(found.parameters);
}

#[cfg(test)]
mod tests {
    const GPU: &str = "0000:01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n\n";

    #[test]
    fn pasted_driver_settings_are_read() {
        let text = format!(
            "{GPU}$ cat /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX Open Kernel Module for x86_64  \
             595.45.04  Release Build  (x@y)\n$ grep -i registrydwords /proc/driver/nvidia/params\n\
             RegistryDwords: \"RMForceStaticBar1=1;PeerMappingOverride=1\"\nRegistryDwordsPerDevice: \"\"\n"
        );
        let driver = super::super::read(&text).expect("a machine").nvidia.expect("a driver");
        assert_eq!((driver.is_open, driver.version.as_deref()), (Some(true), Some("595.45.04")));
        assert_eq!(driver.registry_key("PeerMappingOverride"), Some("1"));
    }

    #[test]
    fn text_without_settings_has_no_driver() {
        assert_eq!(super::super::read(GPU).expect("a machine").nvidia, None);
    }
}
