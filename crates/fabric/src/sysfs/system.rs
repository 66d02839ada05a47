//! Known facts of the machine as a whole: kernel, CPU, IOMMU.

use std::path::Path;

use super::tree::Tree;
use super::{configuration, nvidia_fs};
use crate::{Cpu, IommuMode, Kernel, Module};

/// Modules that bear on peer-to-peer: those that lend or use memory, and those that change drives.
pub(crate) const MODULES: [&str; 18] = [
    "amdgpu",
    "habanalabs",
    "ib_core",
    "mlx5_core",
    "mlx5_ib",
    "nouveau",
    "nvidia",
    "nvidia_fs",
    "nvidia_peermem",
    "nvidia_uvm",
    "nvme",
    "nvme_core",
    "nvmet",
    "vfio_pci",
    "vmd",
    "xclmgmt",
    "xe",
    "xocl",
];

/// Beginnings of kernel parameters that bear on devices; others may name disks and hosts.
pub(crate) const PARAMETERS: [&str; 11] = [
    "amd_iommu=",
    "arm-smmu",
    "intel_iommu=",
    "iommu=",
    "iommu.",
    "nvme.",
    "nvme_core.",
    "pci=",
    "pcie_",
    "swiotlb=",
    "vfio",
];

/// Returns whether a kernel parameter bears on devices.
pub(crate) fn bears_on_devices(parameter: &str) -> bool {
    PARAMETERS.iter().any(|start| parameter.starts_with(start))
}

/// Reads release, configuration, parameters and modules of the kernel.
pub(super) fn kernel(tree: &Tree, some_function_has_p2pmem: bool) -> Kernel {
    let release = tree.word(Path::new("proc/sys/kernel/osrelease"));
    let parameters = tree.text(Path::new("proc/cmdline")).ok().map(|text| {
        let words = text.split_whitespace().filter(|word| bears_on_devices(word));
        words.map(str::to_owned).collect()
    });
    let module = Path::new("sys/module");
    let text = configuration::read(tree, release.as_deref());
    let option = |name| configuration::option(text.as_deref()?, name);
    Kernel {
        has_p2pdma: some_function_has_p2pmem
            .then_some(true)
            .or_else(|| configuration::has_p2pdma(text.as_deref()?)),
        has_amd_p2p: option(configuration::AMD_P2P),
        has_move_notify: option(configuration::MOVE_NOTIFY),
        release,
        parameters,
        use_cmb_sqes: tree.flag(&module.join("nvme/parameters/use_cmb_sqes")),
        nvme_multipath: tree.flag(&module.join("nvme_core/parameters/multipath")),
        nvidia_fs_nvme: nvidia_fs::has_nvme(tree),
        modules: modules(tree),
        seen_modules: Vec::new(),
    }
}

/// The loaded ones of [`MODULES`], built-in ones included where they have parameters.
fn modules(tree: &Tree) -> Option<Vec<Module>> {
    let folder = Path::new("sys/module");
    if !tree.is_directory(folder) {
        return None;
    }
    let loaded = MODULES.iter().filter(|name| tree.is_directory(&folder.join(name)));
    let module = |name: &&str| {
        let at = folder.join(name);
        tree.watch_folder(&at);
        Module { name: (*name).to_owned(), version: tree.word(&at.join("version")) }
    };
    tree.watch_folder(folder);
    Some(loaded.map(module).collect())
}

/// Maker and model that the machine states.
pub(super) fn product(tree: &Tree) -> Option<String> {
    let word = |name: &str| {
        tree.word(&Path::new("sys/devices/virtual/dmi/id").join(name))
            .filter(|word| !word.starts_with("To Be Filled") && word != "Default string")
    };
    match (word("sys_vendor"), word("product_name")) {
        (Some(vendor), Some(name)) if name.starts_with(&vendor) => Some(name),
        (Some(vendor), Some(name)) => Some(format!("{vendor} {name}")),
        (vendor, name) => vendor.or(name),
    }
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
        model_number: value("model").and_then(|model| model.parse().ok()),
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
