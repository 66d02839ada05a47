//! Known facts of the machine as a whole: kernel, CPU, IOMMU.

use std::path::Path;

use super::nvidia_fs;
use super::tree::Tree;
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
    Kernel {
        has_p2pdma: some_function_has_p2pmem
            .then_some(true)
            .or_else(|| has_p2pdma(tree, release.as_deref())),
        release,
        parameters,
        use_cmb_sqes: tree.flag(&module.join("nvme/parameters/use_cmb_sqes")),
        nvme_multipath: tree.flag(&module.join("nvme_core/parameters/multipath")),
        nvidia_fs_nvme: nvidia_fs::has_nvme(tree),
        modules: modules(tree),
        seen_modules: Vec::new(),
    }
}

/// Returns whether the kernel of the machine at a root is built with `CONFIG_PCI_P2PDMA`; `None` where its configuration
/// cannot be read.
pub fn kernel_has_p2pdma(root: &Path) -> Option<bool> {
    let tree = Tree::new(root);
    has_p2pdma(&tree, tree.word(Path::new("proc/sys/kernel/osrelease")).as_deref())
}

/// Returns whether the configuration has `CONFIG_PCI_P2PDMA`; `None` where none can be read.
fn has_p2pdma(tree: &Tree, release: Option<&str>) -> Option<bool> {
    let release = release.filter(|release| !release.contains('/'));
    let files = release.map(|release| {
        [format!("boot/config-{release}"), format!("usr/lib/modules/{release}/config")]
    });
    let config = files
        .iter()
        .flatten()
        .find_map(|path| tree.text(Path::new(path)).ok())
        .or_else(|| gunzip(&tree.bytes(Path::new("proc/config.gz")).ok()?))?;
    Some(config.lines().any(|line| line == "CONFIG_PCI_P2PDMA=y"))
}

/// The text in a gzip file that has no optional fields (RFC 1952), as `/proc/config.gz` has none.
pub(crate) fn gunzip(bytes: &[u8]) -> Option<String> {
    const HEADER: usize = 10;
    const TRAILER: usize = 8;
    const LONGEST_TEXT: usize = 4 << 20;
    let [0x1f, 0x8b, 8, 0, ..] = bytes else { return None };
    let deflated = bytes.get(HEADER..bytes.len().checked_sub(TRAILER)?)?;
    let text = miniz_oxide::inflate::decompress_to_vec_with_limit(deflated, LONGEST_TEXT).ok()?;
    String::from_utf8(text).ok()
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
