//! Signs of layers between a system and the hardware: a hypervisor, a container, encrypted memory.
//!
//! All but the processor's flags and the name of the hypervisor are looked at for presence only.

use std::collections::BTreeSet;
use std::path::Path;

use super::tree::Tree;
use crate::Environment;

/// Type of hypervisor that the kernel names by itself; only Xen's guests have it
/// (drivers/xen/sys-hypervisor.c, Linux 7.2).
pub(super) const TYPE: &str = "sys/hypervisor/type";
/// Features of Xen; bit 11 is set in the domain that owns the hardware (`XENFEAT_dom0`).
const FEATURES: &str = "sys/hypervisor/properties/features";
const XENFEAT_DOM0: u32 = 1 << 11;
/// Name of a hypervisor that is known only by the processor's flag.
pub(super) const UNNAMED: &str = "unknown";

/// Beginnings of the makers and models that virtual machines state, and the names of their
/// hypervisors.
const PRODUCTS: [(&str, &str); 19] = [
    ("Alibaba Cloud ECS", "KVM"),
    ("Amazon EC2", "Amazon EC2"),
    ("Apple Inc. Apple Virtualization", "Apple Virtualization"),
    ("Bochs", "Bochs"),
    ("Cloud Hypervisor", "Cloud Hypervisor"),
    ("DigitalOcean Droplet", "KVM"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("KVM", "KVM"),
    ("KubeVirt", "KubeVirt"),
    ("Microsoft Corporation Virtual Machine", "Microsoft Hyper-V"),
    ("Nutanix AHV", "Nutanix AHV"),
    ("OpenStack", "OpenStack"),
    ("Parallels", "Parallels"),
    ("QEMU", "QEMU"),
    ("Red Hat KVM", "KVM"),
    ("VMware", "VMware"),
    ("Virtual Machine", "Microsoft Hyper-V"),
    ("Xen", "Xen"),
    ("innotek GmbH", "VirtualBox"),
];

/// End of the models of Amazon EC2 that are whole machines (`m5.metal`, `c7i.metal-24xl`).
const BARE_METAL: &str = ".metal";

/// Files and folders that container runtimes put into a container, and their names, the most telling first.
pub(super) const CONTAINERS: [(&str, &str); 5] = [
    ("run/secrets/kubernetes.io", "kubernetes"),
    ("var/run/secrets/kubernetes.io", "kubernetes"),
    ("run/.containerenv", "podman"),
    (".dockerenv", "docker"),
    ("run/systemd/container", "systemd"),
];

/// Files of guests whose memory is encrypted: devices for reports on it (drivers/virt/coco), and the level of an
/// SEV-SNP guest (arch/x86/coco/sev/core.c, Linux 6.11 and later).
pub(super) const GUARDS: [(&str, &str); 3] = [
    ("sys/class/misc/tdx_guest", "TDX"),
    ("sys/class/misc/sev-guest", "SEV-SNP"),
    ("sys/devices/system/cpu/sev/vmpl", "SEV-SNP"),
];

/// The folder without which the absence of the next one says nothing.
pub(crate) const RUN: &str = "run";
/// The database of udev, which cuFile needs to find drives.
pub(crate) const UDEV: &str = "run/udev";

/// Flags of the processor that tell of a hypervisor, and of one that cannot read the guest's memory.
pub(crate) const FLAGS: [&str; 2] = ["hypervisor", "tdx_guest"];

/// Reads all signs; `product` is the maker and model that the machine states.
pub(super) fn read(tree: &Tree, product: Option<&str>, is_this_machine: bool) -> Environment {
    let processor = tree.text(Path::new("proc/cpuinfo")).unwrap_or_default();
    let flags = flags(&processor);
    let has_tdx = flags.as_ref().is_some_and(|flags| flags.contains("tdx_guest"));
    let guard = GUARDS.iter().find(|(path, _)| tree.is_there(Path::new(path)));
    Environment {
        hypervisor: hypervisor(tree, product, flags.map(|flags| flags.contains("hypervisor"))),
        container: container(tree),
        confidential: guard.map(|(_, name)| *name).or(has_tdx.then_some("TDX")).map(str::to_owned),
        has_udev: has_udev(tree, is_this_machine),
    }
}

/// Flags of the first processor, as far as they tell of a hypervisor; `None` where none are shown, as on all
/// but x86.
pub(crate) fn flags(processor: &str) -> Option<BTreeSet<&'static str>> {
    let mut lines = processor.lines().filter_map(|line| line.split_once(':'));
    let (_, words) = lines.find(|(key, _)| key.trim() == "flags")?;
    let is_set = |flag: &&str| words.split_whitespace().any(|word| word == *flag);
    Some(FLAGS.into_iter().filter(is_set).collect())
}

/// The hypervisor: the processor's flag decides where there is one, else the names of the machine.
fn hypervisor(tree: &Tree, product: Option<&str>, has_flag: Option<bool>) -> Option<String> {
    let named = tree.word(Path::new(TYPE)).map(|word| match word.as_str() {
        "xen" => "Xen".to_owned(),
        _ => word,
    });
    let features = tree.text(Path::new(FEATURES)).ok();
    let features = features.and_then(|text| u32::from_str_radix(text.trim(), 16).ok());
    let owns_hardware = features.is_some_and(|features| features & XENFEAT_DOM0 != 0);
    if owns_hardware || has_flag == Some(false) {
        return None;
    }
    let named = named.or_else(|| by_product(product?).map(str::to_owned));
    named.or_else(|| (has_flag == Some(true)).then(|| UNNAMED.to_owned()))
}

/// The hypervisor of a virtual machine that calls itself so; `None` for whole machines.
pub(super) fn by_product(product: &str) -> Option<&'static str> {
    let is_whole = product.starts_with("Amazon EC2") && product.contains(BARE_METAL);
    let found = PRODUCTS.iter().find(|(front, _)| product.starts_with(front));
    found.filter(|_| !is_whole).map(|(_, name)| *name)
}

/// Returns whether the database of udev is there; `None` for a tree without [`RUN`].
fn has_udev(tree: &Tree, is_this_machine: bool) -> Option<bool> {
    let is_folder = |path: &str| {
        let path = Path::new(path);
        let is_folder = tree.is_directory(path);
        if is_folder {
            tree.watch_folder(path);
        }
        is_folder
    };
    let shows_absence = is_folder(RUN) || is_this_machine;
    let is_there = is_folder(UDEV);
    (is_there || shows_absence).then_some(is_there)
}

fn container(tree: &Tree) -> Option<String> {
    let is_there = |(path, _): &&(&str, &str)| {
        let path = Path::new(path);
        let is_folder = tree.is_directory(path);
        if is_folder {
            tree.watch_folder(path);
        }
        is_folder || tree.is_there(path)
    };
    CONTAINERS.iter().find(is_there).map(|(_, name)| (*name).to_owned())
}
