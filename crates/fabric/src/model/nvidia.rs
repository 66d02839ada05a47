//! NVIDIA's kernel driver, as it describes itself in `/proc/driver/nvidia`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// NVIDIA's loaded kernel driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NvidiaDriver {
    /// `true` for the open kernel modules, `false` for the proprietary ones; `None` where its version
    /// does not say.
    #[serde(rename = "open")]
    pub is_open: Option<bool>,
    /// Version, `570.133.20`.
    pub version: Option<String>,
    /// Module parameters that bear on peer traffic, by their names without `NVreg_`; texts without
    /// quotes. Older drivers do not have all of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

impl NvidiaDriver {
    /// Major version; `None` where it is unknown.
    pub fn major_version(&self) -> Option<u32> {
        self.version.as_deref()?.split('.').next()?.parse().ok()
    }

    /// Returns the value of a key in the parameter `RegistryDwords`, which holds for every GPU;
    /// `None` where the key is not set.
    ///
    /// The driver ignores case and spaces, skips entries without exactly one `=`, and takes the last
    /// of several (`rm_parse_option_string` and `registry.c` of the open kernel modules 595.45.04).
    pub fn registry_key(&self, name: &str) -> Option<&str> {
        let entries = self.parameters.get("RegistryDwords")?.split(';');
        let pairs = entries.filter_map(|entry| entry.split_once('='));
        let mut pairs = pairs.map(|(key, value)| (key.trim(), value.trim()));
        let is_it = |(key, value): &(&str, &str)| {
            key.eq_ignore_ascii_case(name) && !value.is_empty() && !value.contains('=')
        };
        pairs.rfind(is_it).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_lookup_matches_driver() {
        let driver = |text: &str| NvidiaDriver {
            version: Some("570.133.20".to_owned()),
            parameters: [("RegistryDwords".to_owned(), text.to_owned())].into(),
            ..NvidiaDriver::default()
        };
        let set = driver("RMForceStaticBar1=1; ForceP2P = 0x11;bad=1=2;empty=;forcep2p=0;");
        assert_eq!(set.registry_key("RmForceStaticBar1"), Some("1"));
        assert_eq!(set.registry_key("ForceP2P"), Some("0"));
        for absent in ["bad", "empty", "RmForceDisableIomapWC", ""] {
            assert_eq!(set.registry_key(absent), None, "{absent}");
        }
        assert_eq!(driver("").registry_key("ForceP2P"), None);
        assert_eq!(NvidiaDriver::default().registry_key("ForceP2P"), None);
        assert_eq!(
            (set.major_version(), NvidiaDriver::default().major_version()),
            (Some(570), None)
        );
    }
}
