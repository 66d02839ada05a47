//! The lines of `gdscheck -p` for which a fabric has a place.

use super::clean::CleanLine;
use crate::{Fabric, IommuMode, Module};

/// Returns whether a trimmed line is one of its lines that are used.
pub(super) fn is_line(line: &str) -> bool {
    ["GDS release version:", "nvidia_fs version:", "IOMMU:"].iter().any(|key| line.starts_with(key))
        || (line.starts_with("GPU index ") && line.contains("IOMMU State:"))
}

/// Adds the module and the state of the IOMMU.
pub(super) fn apply(lines: &[CleanLine<'_>], fabric: &mut Fabric) {
    for line in lines.iter().map(|line| line.text.trim()) {
        if let Some(rest) = line.strip_prefix("nvidia_fs version:") {
            let module = rest.split("libcufile version:").next().unwrap_or(rest);
            let version = module.trim().split(' ').next().filter(|version| is_version(version));
            if let Some(version) = version {
                let module =
                    Module { name: "nvidia_fs".to_owned(), version: Some(version.to_owned()) };
                fabric.kernel.seen_modules.push(module);
            }
        } else if line.strip_prefix("IOMMU:").is_some_and(|state| state.trim() == "disabled")
            && fabric.iommu == IommuMode::Unknown
        {
            fabric.iommu = IommuMode::Off;
        }
    }
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}
