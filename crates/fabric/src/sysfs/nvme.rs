//! NVMe controllers and their namespaces.
//!
//! With native multipath a controller has hidden path devices (`nvme0c1n1`), and the block device a
//! user opens is the head (`nvme0n1`) below the subsystem.

use std::path::{Path, PathBuf};

use super::disk;
use super::stacked::Numbers;
use super::tree::Tree;
use crate::{CmbRegisters, Namespace, NvmeController, Temperature};

/// The kernel's folder of NVMe subsystems.
const SUBSYSTEMS: &str = "sys/devices/virtual/nvme-subsystem";

/// Numbers in the name of an NVMe device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NvmeName {
    /// `nvme0`
    Controller,
    /// `nvme0n1`
    Namespace,
    /// `nvme0c1n1`: the path through one controller to a namespace of a subsystem.
    Path { subsystem: u32, namespace: u32 },
}

impl NvmeName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("nvme")?;
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| text.parse::<u32>().ok()).flatten()
        };
        let Some((front, namespace)) = rest.split_once('n') else {
            return number(rest).map(|_| Self::Controller);
        };
        let namespace = number(namespace)?;
        match front.split_once('c') {
            None => number(front).map(|_| Self::Namespace),
            Some((subsystem, controller)) => {
                number(controller)?;
                Some(Self::Path { subsystem: number(subsystem)?, namespace })
            }
        }
    }
}

/// The NVMe controller of the function at `function`, when a driver is bound; adds the numbers of its
/// block devices.
pub(super) fn controller(
    tree: &Tree,
    function: &Path,
    numbers: &mut Numbers,
) -> Option<NvmeController> {
    let name = tree
        .directories(&function.join("nvme"))
        .into_iter()
        .find(|name| NvmeName::parse(name) == Some(NvmeName::Controller))?;
    let at = function.join("nvme").join(&name);
    let namespaces = namespaces(tree, &at, numbers);
    Some(NvmeController {
        name: Some(name),
        serial: tree.word(&at.join("serial")),
        model: tree.word(&at.join("model")),
        firmware: tree.word(&at.join("firmware_rev")),
        state: tree.word(&at.join("state")),
        cmb: tree.text(&at.join("cmb")).ok().and_then(|text| cmb(&text)),
        temperature: temperature(tree, &at),
        namespaces,
    })
}

/// The namespaces of the controller at `at`; adds the numbers of its block devices.
pub(super) fn namespaces(tree: &Tree, at: &Path, numbers: &mut Numbers) -> Vec<Namespace> {
    let disks: Vec<PathBuf> =
        tree.directories(at).iter().filter_map(|name| block_device(tree, at, name)).collect();
    let mut namespaces: Vec<_> = disks.iter().filter_map(|at| disk::namespace(tree, at)).collect();
    namespaces.sort_by_key(|namespace| namespace.nsid);
    for disk in &disks {
        disk::numbers(tree, disk, numbers);
    }
    namespaces
}

/// The two registers as `cmb_show` in drivers/nvme/host/pci.c prints them: `cmbloc : 0x00000000`, and
/// without the first zero in kernels that are older.
fn cmb(text: &str) -> Option<CmbRegisters> {
    let register = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        let digits = line.split_once(':')?.1.trim().trim_start_matches('0').strip_prefix('x')?;
        u32::from_str_radix(digits, 16).ok()
    };
    Some(CmbRegisters { location: register("cmbloc")?, size: register("cmbsz")? })
}

/// The composite temperature, which is the first sensor; each look is a command to the drive
/// (`drivers/nvme/host/hwmon.c`).
fn temperature(tree: &Tree, controller: &Path) -> Option<Temperature> {
    if tree.leaves_drives_alone() {
        return None;
    }
    // Until Linux 5.15 or so the folder was one deeper.
    let folders = [controller.to_owned(), controller.join("hwmon")];
    let at = folders.iter().find_map(|folder| {
        let is_sensor = |name: &String| name.strip_prefix("hwmon").is_some_and(|n| !n.is_empty());
        Some(folder.join(tree.directories(folder).into_iter().find(is_sensor)?))
    })?;
    let degrees = |name: &str| tree.number(&at.join(name));
    Some(Temperature {
        current: degrees("temp1_input")?,
        warning: degrees("temp1_max"),
        critical: degrees("temp1_crit"),
    })
}

/// The block device a user opens for the entry `name` of a controller.
fn block_device(tree: &Tree, controller: &Path, name: &str) -> Option<PathBuf> {
    match NvmeName::parse(name)? {
        NvmeName::Controller => None,
        NvmeName::Namespace => Some(controller.join(name)),
        NvmeName::Path { subsystem, namespace } => {
            let head = Path::new(SUBSYSTEMS)
                .join(format!("nvme-subsys{subsystem}"))
                .join(format!("nvme{subsystem}n{namespace}"));
            tree.is_directory(&head).then_some(head)
        }
    }
}

/// Returns whether the block device at `disk` is a multipath head.
pub(super) fn is_multipath_head(disk: &Path) -> bool {
    disk.starts_with(SUBSYSTEMS)
}

/// The controllers of the subsystem of a multipath head.
pub(super) fn controllers_of_head(tree: &Tree, head: &Path) -> Vec<PathBuf> {
    let Some(subsystem) = head.parent() else { return Vec::new() };
    tree.names(subsystem)
        .unwrap_or_default()
        .iter()
        .filter(|name| NvmeName::parse(name) == Some(NvmeName::Controller))
        .filter_map(|name| tree.link(&subsystem.join(name)).ok()?)
        .collect()
}

#[cfg(test)]
mod tests {
    use peerlane_units::Bytes;

    use super::*;

    #[test]
    fn cmb_registers_have_two_forms() {
        let expected = CmbRegisters { location: 2, size: 0x4_0219 };
        assert_eq!(cmb("cmbloc : 0x00000002\ncmbsz  : 0x00040219\n"), Some(expected));
        assert_eq!(cmb("cmbloc : x00000002\ncmbsz  : x00040219\n"), Some(expected));
        assert_eq!(cmb("cmbloc : 0x00000002\n"), None);
        assert_eq!((expected.bar(), expected.size()), (2, Bytes::mib(64)));
        assert_eq!(expected.offset(), Bytes(0));
        assert!(expected.takes_read_data() && expected.takes_write_data());
        assert!(expected.takes_submission_queues());
    }

    #[test]
    fn names_are_told_apart() {
        for (name, expected) in [
            ("nvme0", Some(NvmeName::Controller)),
            ("nvme12n3", Some(NvmeName::Namespace)),
            ("nvme1c0n2", Some(NvmeName::Path { subsystem: 1, namespace: 2 })),
            ("nvme", None),
            ("nvme0n1p1", None),
            ("nvme0n", None),
            ("nvmec0n1", None),
            ("nvme+1", None),
            ("ng0n1", None),
        ] {
            assert_eq!(NvmeName::parse(name), expected, "{name}");
        }
    }
}
