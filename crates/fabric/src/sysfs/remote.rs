//! Controllers of NVMe over Fabrics: drives that other machines serve.
//!
//! Their model and serial number are those that the other machine claims, and are not read.

use std::path::{Path, PathBuf};

use super::nvme::{self, NvmeName};
use super::stacked::Numbers;
use super::tree::Tree;
use crate::{NetworkLocation, NvmeController, RemoteDrive};

/// The place where the kernel keeps the controllers of every transport (`nvmf_device` in
/// drivers/nvme/host/fabrics.c).
pub(super) const CONTROLLERS: &str = "sys/devices/virtual/nvme-fabrics/ctl";
/// Transport of a drive of this machine.
const LOCAL: &str = "pcie";
/// Kind of a controller that only lists others (`cntrltype`, Linux 5.17 and later).
const DISCOVERY: &str = "discovery";
/// NQN of such a controller (NVM Express Base Specification 2.0, section 4.5).
pub(crate) const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The connected drives, in order of name; adds the numbers of their block devices.
pub(super) fn drives(tree: &Tree, numbers: &mut Numbers) -> Vec<RemoteDrive> {
    let folder = Path::new(CONTROLLERS);
    let mut names = tree.directories(folder);
    names.retain(|name| NvmeName::parse(name) == Some(NvmeName::Controller));
    // `nvme10` comes after `nvme9`.
    names.sort_by_key(|name| (name.len(), name.clone()));
    let mut drives = Vec::new();
    for name in names {
        let at = folder.join(&name);
        let Some(drive) = drive(tree, &at, name, numbers) else { continue };
        let is_discovery = tree.word(&at.join("cntrltype")).as_deref() == Some(DISCOVERY);
        if !is_discovery && drive.location.subsystem.as_deref() != Some(DISCOVERY_NQN) {
            drives.push(drive);
        }
    }
    drives
}

/// The controller at `at`; `None` for a drive of this machine.
fn drive(tree: &Tree, at: &Path, name: String, numbers: &mut Numbers) -> Option<RemoteDrive> {
    Some(RemoteDrive {
        name,
        location: location(tree, at)?,
        state: tree.word(&at.join("state")),
        namespaces: nvme::namespaces(tree, at, numbers),
    })
}

/// Folder of the NVMe controller `name`; `None` for another name.
fn controller(tree: &Tree, name: &str) -> Option<PathBuf> {
    NvmeName::parse(name).filter(|&name| name == NvmeName::Controller)?;
    let class = Path::new("sys/class/nvme").join(name);
    Some(tree.link(&class).ok().flatten().unwrap_or(class))
}

/// Location of the controller at `at`; `None` for a drive of this machine.
fn location(tree: &Tree, at: &Path) -> Option<NetworkLocation> {
    let transport = tree.word(&at.join("transport")).filter(|transport| transport != LOCAL)?;
    let address = tree.text(&at.join("address")).unwrap_or_default();
    let part = |name: &str| part(&address, name).map(str::to_owned);
    Some(NetworkLocation {
        transport,
        host: part("traddr"),
        port: part("trsvcid"),
        interface: part("host_iface"),
        subsystem: tree.word(&at.join("subsysnqn")),
    })
}

/// One value of a file `address` (`nvmf_get_address` in drivers/nvme/host/fabrics.c, Linux 7.2).
pub(crate) fn part<'a>(address: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = address.split(',').filter_map(|part| part.trim().split_once('='));
    parts.find(|(found, _)| *found == name).map(|(_, value)| value).filter(|it| !it.is_empty())
}

impl NetworkLocation {
    /// Reads the location of the NVMe controller `name` below `root`; `None` for a drive of this
    /// machine, and where there is no such controller.
    pub fn read(root: &Path, name: &str) -> Option<Self> {
        let tree = Tree::new(root);
        location(&tree, &controller(&tree, name)?)
    }
}

impl RemoteDrive {
    /// Reads the NVMe controller `name` below `root`; `None` for a drive of this machine, and where there
    /// is no such controller.
    pub fn read(root: &Path, name: &str) -> Option<Self> {
        let tree = Tree::new(root);
        let at = controller(&tree, name)?;
        drive(&tree, &at, name.to_owned(), &mut Numbers::default())
    }

    /// Returns true for a drive whose connection is up.
    pub fn is_live(&self) -> bool {
        self.state.as_deref() == Some(NvmeController::LIVE)
    }

    /// Name of the disk of a namespace: with multipath that of the head.
    pub fn disk(&self, namespace: u32) -> Option<&str> {
        let mut namespaces = self.namespaces.iter();
        namespaces.find(|one| one.nsid == Some(namespace))?.name.as_deref()
    }
}
