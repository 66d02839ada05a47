//! Kinds of block devices. The kind decides whether a queue takes peer-to-peer pages, and gives the
//! device its name in messages.
//!
//! The kernel shows in no file whether a queue takes such pages (`BLK_FEAT_PCI_P2PDMA`), so the kinds
//! that never set it are known by name here. An unknown kind is not refused: the probe before a
//! copy decides.

use std::collections::BTreeSet;

use peerlane_fabric::{BlockDevice, NetworkLocation, NvmeController};
use peerlane_results::NetworkFacts;

use crate::io::system::System;

/// Kind of a block device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Layer {
    /// An NVMe namespace, with its location if the controller is remote.
    Nvme { network: Option<NetworkFacts> },
    /// A device-mapper device, with its name and its maker.
    DeviceMapper { name: Option<String>, maker: Option<String> },
    /// A loop device, with its backing file or device.
    Loop { shows: Option<String> },
    /// An md array.
    Md { level: String, members: Vec<BlockDevice> },
    /// Any other.
    Other(&'static str),
}

impl Layer {
    /// Looks at the disk that `device` is, or is a partition of.
    pub(super) fn from_device(system: &System, device: &BlockDevice) -> Self {
        let disk = device.partition.as_ref().map_or(&device.name, |partition| &partition.disk);
        let line = |file: &str| system.line(&format!("sys/class/block/{disk}/{file}"));
        if disk.starts_with("nvme") {
            let network = match &device.controller {
                Some(controller) => network(system, controller),
                None => network_of_head(system, disk),
            };
            return Self::Nvme { network };
        }
        if disk.starts_with("dm-") {
            return Self::DeviceMapper { name: line("dm/name"), maker: maker(line("dm/uuid")) };
        }
        if disk.starts_with("loop") {
            return Self::Loop { shows: line("loop/backing_file") };
        }
        if let Some(level) = line("md/level").or_else(|| disk.starts_with("md").then(String::new)) {
            return Self::Md { level, members: members(system, disk) };
        }
        Self::Other(other(disk))
    }

    /// Location in the network, for a remote namespace.
    pub(crate) fn network(&self) -> Option<&NetworkFacts> {
        match self {
            Self::Nvme { network } => network.as_ref(),
            _ => None,
        }
    }

    /// The device in words, to follow "NAME is ".
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Nvme { network: Some(network) } => {
                let NetworkFacts { transport, address, subsystem } = network;
                let known: Vec<&str> =
                    [subsystem, address].into_iter().flatten().map(String::as_str).collect();
                match known.join(" at ") {
                    known if known.is_empty() => format!("an NVMe namespace over {transport}"),
                    known => format!("an NVMe namespace over {transport} ({known})"),
                }
            }
            Self::Nvme { network: None } => "an NVMe namespace".to_owned(),
            Self::DeviceMapper { name, maker } => {
                let known: Vec<&str> =
                    [name, maker].into_iter().flatten().map(String::as_str).collect();
                match known.join(", ") {
                    known if known.is_empty() => "a device-mapper device".to_owned(),
                    known => format!("a device-mapper device ({known})"),
                }
            }
            Self::Loop { shows: None } => "a loop device".to_owned(),
            Self::Loop { shows: Some(file) } => format!("a loop device on {file}"),
            Self::Md { level, .. } if level.is_empty() => "an md array".to_owned(),
            Self::Md { level, .. } => format!("an md array ({level})"),
            Self::Other(what) => (*what).to_owned(),
        }
    }
}

/// Names the maker of a device-mapper device by the prefix that each puts before its identifier. An
/// ioctl tells target types only to root, and is not used here.
fn maker(uuid: Option<String>) -> Option<String> {
    let uuid = uuid?;
    let (prefix, rest) = uuid.split_once('-')?;
    let maker = match prefix {
        "LVM" => "LVM",
        "mpath" => "multipath",
        "CRYPT" => return Some(format!("crypt, {}", rest.split('-').next().unwrap_or_default())),
        prefix if prefix.starts_with("part") => "kpartx",
        prefix => prefix,
    };
    (!maker.is_empty()).then(|| maker.to_owned())
}

fn members(system: &System, disk: &str) -> Vec<BlockDevice> {
    let below = system.lower(disk);
    let numbers = below.iter().filter_map(|name| system.number(name));
    numbers
        .filter_map(|(major, minor)| BlockDevice::read(system.root(), major, minor).ok())
        .collect()
}

fn other(name: &str) -> &'static str {
    const KINDS: &[(&str, &str)] = &[
        ("vd", "a virtio disk"),
        ("xvd", "a Xen disk"),
        ("sd", "a SCSI or SATA disk"),
        ("sr", "an optical drive"),
        ("nbd", "a network block device"),
        ("rbd", "a network block device"),
        ("ublk", "a user-space block device"),
        ("nullb", "a null block device"),
        ("zram", "compressed memory"),
        ("ram", "a RAM disk"),
        ("pmem", "persistent memory"),
        ("mmcblk", "a memory card"),
        ("bcache", "a bcache device"),
    ];
    let known = KINDS.iter().find(|(prefix, _)| name.starts_with(prefix));
    known.map_or("not an NVMe drive", |&(_, what)| what)
}

/// Location of a multipath head with several controllers: that of the live ones, if all are remote.
fn network_of_head(system: &System, head: &str) -> Option<NetworkFacts> {
    let (instance, _) = head.strip_prefix("nvme")?.split_once('n')?;
    let mut controllers: Vec<String> = system
        .names(&format!("sys/class/nvme-subsystem/nvme-subsys{instance}"))
        .into_iter()
        .collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    controllers.retain(|name| name.strip_prefix("nvme").is_some_and(is_number));
    let is_live = |name: &String| {
        system.line(&format!("sys/class/nvme/{name}/state")).as_deref()
            == Some(NvmeController::LIVE)
    };
    if controllers.iter().any(is_live) {
        controllers.retain(is_live);
    }
    let found: Option<Vec<NetworkFacts>> =
        controllers.iter().map(|name| network(system, name)).collect();
    let (first, others) = found.as_ref()?.split_first()?;
    let joined = |part: fn(&NetworkFacts) -> Option<&str>| {
        let mut parts = BTreeSet::from_iter(part(first));
        parts.extend(others.iter().filter_map(part));
        let parts = Vec::from_iter(parts).join(", ");
        (!parts.is_empty()).then_some(parts)
    };
    Some(NetworkFacts {
        transport: joined(|facts| Some(&facts.transport))?,
        address: joined(|facts| facts.address.as_deref()),
        subsystem: first.subsystem.clone(),
    })
}

/// Reads the location of a remote controller.
fn network(system: &System, controller: &str) -> Option<NetworkFacts> {
    NetworkLocation::read(system.root(), controller).map(network_facts)
}

/// Returns a location as records have it.
pub fn network_facts(location: NetworkLocation) -> NetworkFacts {
    let address = location.address();
    let NetworkLocation { transport, subsystem, .. } = location;
    NetworkFacts { transport, address, subsystem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::guard::tests::{DeviceTree, block_device};

    #[test]
    fn disk_kind_follows_name_and_sysfs() {
        let mut tree = DeviceTree::new();
        for name in ["nvme0n1", "nvme1n1", "dm-0", "loop3", "home"] {
            tree.device(name);
        }
        tree.write("sys/class/nvme/nvme1/transport", "tcp\n");
        tree.write("sys/class/block/dm-0/dm/name", "vg-home\n");
        tree.write("sys/class/block/dm-0/dm/uuid", "CRYPT-LUKS2-0d0f-home\n");
        tree.write("sys/class/block/loop3/loop/backing_file", "/images/a.img\n");
        tree.write("sys/class/block/home/md/level", "raid1\n");
        let described = |name: &str, controller: Option<&str>| {
            let controller = controller.map(str::to_owned);
            let device = BlockDevice { controller, ..block_device(name) };
            Layer::from_device(&tree.system(), &device).describe()
        };
        assert_eq!(described("nvme0n1", Some("nvme0")), "an NVMe namespace");
        assert_eq!(described("nvme1n1", Some("nvme1")), "an NVMe namespace over tcp");
        tree.write(
            "sys/class/nvme/nvme1/address",
            "traddr=fd00::1,trsvcid=4420,host_traddr=fd00::2\n",
        );
        tree.write("sys/class/nvme/nvme1/subsysnqn", "nqn.lab\n");
        assert_eq!(
            described("nvme1n1", Some("nvme1")),
            "an NVMe namespace over tcp (nqn.lab at [fd00::1]:4420)"
        );
        assert_eq!(described("dm-0", None), "a device-mapper device (vg-home, crypt, LUKS2)");
        assert_eq!(described("loop3", None), "a loop device on /images/a.img");
        assert_eq!(described("home", None), "an md array (raid1)");
        assert_eq!(described("md127", None), "an md array");
        assert_eq!(described("vda", None), "a virtio disk");
        assert_eq!(described("strange", None), "not an NVMe drive");
    }

    #[test]
    fn head_with_two_paths_has_live_address() {
        let tree = DeviceTree::new();
        let controller = |name: &str, transport: &str, address: &str, state: &str| {
            for (file, text) in [
                ("transport", transport),
                ("address", &format!("traddr={address},trsvcid=4420")),
                ("subsysnqn", "lab"),
                ("state", state),
            ] {
                tree.write(&format!("sys/class/nvme/{name}/{file}"), text);
            }
            tree.write(&format!("sys/class/nvme-subsystem/nvme-subsys3/{name}/x"), "");
        };
        let found = || {
            let head = BlockDevice { is_multipath_head: true, ..block_device("nvme3n1") };
            let layer = Layer::from_device(&tree.system(), &head);
            layer.network().map(|network| (network.transport.clone(), network.address.clone()))
        };
        assert_eq!(found(), None);
        controller("nvme3", "tcp", "10.0.0.1", "deleting");
        controller("nvme4", "tcp", "10.0.0.2", "live");
        assert_eq!(found(), Some(("tcp".to_owned(), Some("10.0.0.2:4420".to_owned()))));
        controller("nvme5", "rdma", "10.0.0.1", "live");
        let both = "10.0.0.1:4420, 10.0.0.2:4420".to_owned();
        assert_eq!(found(), Some(("rdma, tcp".to_owned(), Some(both))));
        controller("nvme6", "pcie", "", "live");
        assert_eq!(found(), None);
    }
}
