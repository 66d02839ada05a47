//! NVIDIA's kernel driver in `/proc/driver/nvidia`: which modules are loaded, and with what parameters.

use std::collections::BTreeMap;
use std::path::Path;

use super::tree::Tree;
use crate::NvidiaDriver;

/// First line: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build ...`.
pub(crate) const VERSION: &str = "proc/driver/nvidia/version";
/// Lines `Name: value`, one a module parameter (`nv_procfs_read_params` of the open kernel modules).
pub(crate) const PARAMETERS: &str = "proc/driver/nvidia/params";

/// Start of the line of `version` that names the driver.
pub(crate) const DRIVER_LINE: &str = "NVRM version:";
/// Longest value of a module parameter that is a text (`param_set_charp` in kernel/params.c).
const LONGEST_VALUE: usize = 1024;

/// Parameters that bear on peer traffic, by their names in `params`.
pub(crate) const KEPT: [&str; 8] = [
    "CoherentGPUMemoryMode",
    "DmaRemapPeerMmio",
    "EnablePCIERelaxedOrderingMode",
    "EnableResizableBar",
    "GrdmaPciTopoCheckOverride",
    "NvLinkDisable",
    "RegistryDwords",
    "RegistryDwordsPerDevice",
];

/// The loaded driver; `None` where it does not describe itself.
pub(super) fn driver(tree: &Tree) -> Option<NvidiaDriver> {
    let version = tree.text(Path::new(VERSION)).ok();
    let parameters = tree.text(Path::new(PARAMETERS)).ok();
    if version.is_none() && parameters.is_none() {
        return None;
    }
    Some(described(&version.unwrap_or_default(), &parameters.unwrap_or_default()))
}

/// The driver that these texts of `version` and `params` describe.
pub(crate) fn described(version: &str, parameters: &str) -> NvidiaDriver {
    let line = version.lines().find(|line| line.starts_with(DRIVER_LINE)).unwrap_or_default();
    NvidiaDriver {
        is_open: is_open(line),
        version: number(line).map(str::to_owned),
        parameters: kept_parameters(parameters),
    }
}

/// The line of `version` for a driver, without who built it and when.
pub(crate) fn version_line(driver: &NvidiaDriver) -> String {
    let modules = match driver.is_open {
        Some(true) => " NVIDIA UNIX Open Kernel Module",
        Some(false) => " NVIDIA UNIX Kernel Module",
        None => "",
    };
    let version = driver.version.as_deref().map(|version| format!("  {version}"));
    format!("{DRIVER_LINE}{modules}{}", version.unwrap_or_default())
}

/// Returns true for a line of the open kernel modules, and false for the proprietary ones.
fn is_open(line: &str) -> Option<bool> {
    if line.contains("Open Kernel Module") {
        return Some(true);
    }
    line.contains("Kernel Module").then_some(false)
}

/// The version in a driver's line: the first word of numbers and dots.
fn number(line: &str) -> Option<&str> {
    let is_number =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    line.split_whitespace().find(is_number)
}

/// The parameters of [`KEPT`], texts without their quotes.
fn kept_parameters(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
        .filter(|(name, value)| KEPT.contains(name) && value.len() <= LONGEST_VALUE)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// A line of `params`, which has quotes around texts only.
pub(crate) fn parameter_line(name: &str, value: &str) -> String {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { format!("{name}: {value}\n") } else { format!("{name}: \"{value}\"\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_lines_tell_open_from_proprietary() {
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  331.62  Wed Mar 19 2014";
        let arm = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  TempVersion  Release";
        let seen =
            [open, closed, arm, "NVRM version: x", ""].map(|line| (is_open(line), number(line)));
        let expected = [
            (Some(true), Some("570.133.20")),
            (Some(false), Some("331.62")),
            (Some(true), None),
            (None, None),
            (None, None),
        ];
        assert_eq!(seen, expected);
        let text = format!("{open}\nGCC version:  gcc version 13.3.0 (Ubuntu 13.3.0)\n");
        let driver = described(&text, "");
        let line = version_line(&driver);
        assert_eq!(line, "NVRM version: NVIDIA UNIX Open Kernel Module  570.133.20");
        assert_eq!(described(&line, ""), driver);
        assert_eq!(described("GCC version:  13.3.0", ""), NvidiaDriver::default());
    }

    #[test]
    fn parameters_of_the_list_are_kept() {
        let long = "x".repeat(LONGEST_VALUE + 1);
        let text = format!(
            "DeviceFileMode: 438\nEnableResizableBar: 0\nRegistryDwords: \"ForceP2P=0x11\"\n\
             RmMsg: \"\"\nRegistryDwordsPerDevice: \"{long}\"\nno colon\n"
        );
        let kept = kept_parameters(&text);
        let expected = [("EnableResizableBar", "0"), ("RegistryDwords", "ForceP2P=0x11")];
        assert!(kept.iter().map(|(a, b)| (a.as_str(), b.as_str())).eq(expected), "{kept:?}");
        assert_eq!(parameter_line("NvLinkDisable", "0"), "NvLinkDisable: 0\n");
        assert_eq!(parameter_line("RegistryDwords", ""), "RegistryDwords: \"\"\n");
    }
}
