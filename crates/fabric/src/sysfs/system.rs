//! What is known of the machine as a whole: kernel, CPU, IOMMU.

use std::path::Path;

use super::tree::Tree;
use crate::{Cpu, IommuMode, Kernel};

/// Reads release and configuration of the kernel.
///
/// `/proc/config.gz` is not read: where only that exists, whether peer-to-peer is built in stays
/// unknown unless some function offers peer-to-peer memory.
pub(super) fn kernel(tree: &Tree, some_function_has_p2pmem: bool) -> Kernel {
    let release = tree.word(Path::new("proc/sys/kernel/osrelease"));
    let has_p2pdma = some_function_has_p2pmem.then_some(true).or_else(|| {
        let release = release.as_deref().filter(|release| !release.contains('/'))?;
        [format!("boot/config-{release}"), format!("usr/lib/modules/{release}/config")]
            .iter()
            .find_map(|path| tree.text(Path::new(path)).ok())
            .map(|config| config.lines().any(|line| line == "CONFIG_PCI_P2PDMA=y"))
    });
    Kernel { release, has_p2pdma }
}

/// Reads the first processor of `/proc/cpuinfo`.
///
/// Arm has no `vendor_id`; its implementer stands for it, since the kernel's decision needs to know
/// only that the vendor is not AMD.
pub(super) fn cpu(tree: &Tree) -> Cpu {
    let text = tree.text(Path::new("proc/cpuinfo")).unwrap_or_default();
    let value = |key: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| found.trim() == key)
            .map(|(_, value)| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    let implementer = || Some(format!("CPU implementer {}", value("CPU implementer")?));
    Cpu {
        vendor: value("vendor_id").or_else(implementer),
        family: value("cpu family").and_then(|family| family.parse().ok()),
        model: value("model name"),
    }
}

/// Reads how addresses are translated, from the types of the IOMMU groups.
///
/// One translating group makes the machine a translating one. A captured tree without the
/// directory says nothing; a running kernel without it has no IOMMU support.
pub(super) fn iommu(tree: &Tree, is_this_machine: bool) -> IommuMode {
    let groups = Path::new("sys/kernel/iommu_groups");
    let names = match tree.names(groups) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_this_machine => {
            return IommuMode::Off;
        }
        Err(_) => return IommuMode::Unknown,
    };
    let is_group = |name: &&String| name.bytes().all(|b| b.is_ascii_digit());
    let types: Vec<Option<String>> = names
        .iter()
        .filter(is_group)
        .map(|name| tree.word(&groups.join(name).join("type")))
        .collect();
    if types.is_empty() {
        return IommuMode::Off;
    }
    let types: Vec<Option<&str>> = types.iter().map(Option::as_deref).collect();
    if types.iter().any(|found| matches!(found, Some("DMA" | "DMA-FQ"))) {
        IommuMode::Translating
    } else if types.iter().all(|found| *found == Some("identity")) {
        IommuMode::Passthrough
    } else {
        IommuMode::Unknown
    }
}
