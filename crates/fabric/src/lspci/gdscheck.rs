//! The lines of `gdscheck -p` that a fabric keeps.

use super::clean::CleanLine;
use crate::{Fabric, IommuMode, Module};

/// Returns whether a trimmed line is one of its lines that are used.
pub(super) fn is_line(line: &str) -> bool {
    ["GDS release version:", "nvidia_fs version:", "IOMMU:"].iter().any(|key| line.starts_with(key))
        || nvme(line).is_some()
        || (line.starts_with("GPU index ") && line.contains("IOMMU State:"))
}

/// Adds the module, its registered drivers, and the state of the IOMMU.
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
        } else if let Some(has_nvme) = nvme(line) {
            fabric.kernel.nvidia_fs_nvme = Some(has_nvme);
        } else if line.strip_prefix("IOMMU:").is_some_and(|state| state.trim() == "disabled")
            && fabric.iommu == IommuMode::Unknown
        {
            fabric.iommu = IommuMode::Off;
        }
    }
}

/// Returns whether `NVMe : VALUE` says that nvidia-fs serves drives. Up to GDS 1.15 the value is `Supported` or
/// `Unsupported`, and a list of modes after that: `nvfs, compat`.
fn nvme(line: &str) -> Option<bool> {
    const MODES: [&str; 4] = ["c2c", "compat", "nvfs", "p2pdma"];
    let (key, value) = line.split_once(':')?;
    let mut modes = value.split(',').map(str::trim);
    match (key.trim(), value.trim()) {
        ("NVMe", "Supported") => Some(true),
        ("NVMe", "Unsupported") => Some(false),
        ("NVMe", _) if modes.clone().all(|mode| MODES.contains(&mode)) => {
            Some(modes.any(|mode| mode == "nvfs"))
        }
        _ => None,
    }
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_drives_are_told_in_both_forms() {
        for (line, expected) in [
            ("NVMe               : Supported", Some(true)),
            ("NVMe               : Unsupported", Some(false)),
            ("NVMe               : nvfs, compat", Some(true)),
            ("NVMe               : p2pdma, compat", Some(false)),
            ("NVMe               : better than ever", None),
            ("NVMe               :", None),
            ("NVMe P2PDMA        : Supported", None),
            ("NVMeOF             : Supported", None),
        ] {
            assert_eq!((nvme(line), is_line(line)), (expected, expected.is_some()), "{line}");
        }
    }
}
