//! Drives of other machines: read, captured, written.

use std::path::Path;

use peerlane_fabric::{Fabric, NetworkLocation, Origin, Snapshot, TreeEntry, capture};
use peerlane_units::Bytes;

use crate::synthetic::{ENDPOINT, PORT, ROOT_PORT, Sysfs, config, one_drive};

const CONTROLLERS: &str = "sys/devices/virtual/nvme-fabrics/ctl";
const NIC: &str = "sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0";

/// A drive over TCP by a NIC with a name that a person chose, one over loop with a multipath head,
/// and a controller that only lists others.
fn connected() -> Sysfs {
    let tree = one_drive();
    tree.function("sys/devices/pci0000:00/0000:00:02.0", PORT, &config(ROOT_PORT, None))
        .function(NIC, ["0x15b3", "0x1017", "0x020000"], &config(ENDPOINT, None))
        .folder(&format!("{NIC}/net/SECRETif"))
        .files(
            &format!("{CONTROLLERS}/nvme5"),
            &[
                ("transport", "tcp"),
                (
                    "address",
                    "traddr=10.9.8.7,trsvcid=4420,host_traddr=10.9.8.6,host_iface=SECRETif",
                ),
                ("subsysnqn", "nqn.2014-08.SECRET:drive"),
                ("state", "connecting"),
                ("serial", "SECRET-1"),
                ("model", "SECRET-2"),
                ("hostnqn", "nqn.2014-08.SECRET:host"),
            ],
        )
        .disk(&format!("{CONTROLLERS}/nvme5/nvme5n1"))
        .files(&format!("{CONTROLLERS}/nvme5/nvme5n1"), &[("dev", "259:5")])
        .files(
            &format!("{CONTROLLERS}/nvme10"),
            &[("transport", "loop"), ("address", ""), ("subsysnqn", "lab"), ("state", "live")],
        )
        .folder(&format!("{CONTROLLERS}/nvme10/nvme1c10n1"))
        .disk("sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1")
        .files(
            &format!("{CONTROLLERS}/nvme6"),
            &[("transport", "tcp"), ("address", "traddr=10.9.8.7"), ("cntrltype", "discovery")],
        )
        .files(
            &format!("{CONTROLLERS}/nvme7"),
            &[("transport", "tcp"), ("subsysnqn", "nqn.2014-08.org.nvmexpress.discovery")],
        )
        .file("proc/self/mountinfo", "23 1 259:5 / /data rw - xfs /dev/nvme5n1 rw\n");
    tree
}

#[test]
fn connected_drives_are_listed_with_location() {
    let fabric = connected().discover();
    let names: Vec<&str> = fabric.remote_drives.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["nvme5", "nvme10"], "discovery controllers are no drives");
    let [far, near] = &fabric.remote_drives[..] else { unreachable!() };
    assert_eq!(far.location.transport, "tcp");
    assert_eq!(far.location.address().as_deref(), Some("10.9.8.7:4420"));
    assert_eq!(far.location.subsystem.as_deref(), Some("nqn.2014-08.SECRET:drive"));
    assert_eq!(far.state.as_deref(), Some("connecting"));
    assert_eq!(far.namespaces[0].name.as_deref(), Some("nvme5n1"));
    assert_eq!(far.namespaces[0].size, Bytes::mib(64));
    assert_eq!(fabric.mounts_of("nvme5n1").map(|one| one.point.as_str()).next(), Some("/data"));
    assert_eq!(near.location.address(), None);
    assert_eq!(near.namespaces[0].name.as_deref(), Some("nvme1n1"));
    assert!(near.namespaces[0].is_multipath_head);
    assert!(one_drive().discover().remote_drives.is_empty());
}

#[test]
fn named_interface_tells_the_nic() {
    let mut fabric = connected().discover();
    let nic = fabric.nic_of(&fabric.remote_drives[0]).map(|id| fabric.function(id).name.clone());
    assert_eq!(nic.as_deref(), Some("0000:02:00.0"));
    assert_eq!(fabric.nic_of(&fabric.remote_drives[1]), None);
    fabric.remote_drives[0].location.interface = Some("bond0".to_owned());
    assert_eq!(fabric.nic_of(&fabric.remote_drives[0]), None);
}

#[test]
fn captures_hide_network_addresses_and_names() {
    let tree = connected();
    let kept = capture::take(tree.root()).expect("a capture");
    for expected in [("network address", 1), ("NQN", 2), ("interface name", 1)] {
        assert!(kept.replaced.contains(&expected), "{:?}", kept.replaced);
    }
    for (path, entry) in kept.content.iter() {
        let text = match entry {
            TreeEntry::File { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        for secret in ["SECRET", "10.9.8", "lab"] {
            assert!(!text.contains(secret), "{}: {text}", path.display());
            assert!(!path.display().to_string().contains(secret), "{}", path.display());
        }
    }
    let found = Fabric::discover_snapshot(Path::new("kept"), kept.content).expect("a machine");
    assert_eq!(found.remote_drives.len(), 2, "a discovery controller is still none");
    let far = &found.remote_drives[0];
    assert_eq!(far.location.address().as_deref(), Some("address-1:4420"));
    assert!(far.location.subsystem.as_deref().is_some_and(|nqn| nqn.starts_with("nqn-")));
    assert!(found.nic_of(far).is_some(), "the NIC keeps its new name: {:?}", far.location);
    assert_eq!(capture::unlisted(tree.root()).expect("a list"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn connected_drives_survive_a_snapshot() {
    let fabric = connected().discover();
    let content: Snapshot = peerlane_testing::sysfs_tree(&fabric).expect("a tree");
    let found = Fabric::discover_snapshot(Path::new("made"), content).expect("a machine");
    assert_eq!(found.remote_drives, fabric.remote_drives);
}

#[test]
fn machine_file_leaves_connected_drives_out() {
    let fabric = connected().discover();
    let read = Fabric::from_toml(&fabric.to_toml()).expect("a machine file");
    let expected = Fabric { origin: Origin::Description, remote_drives: Vec::new(), ..fabric };
    assert_eq!(read, expected);
}

#[test]
fn location_follows_the_class_link() {
    let tree = connected();
    tree.link("sys/class/nvme/nvme5", "../../devices/virtual/nvme-fabrics/ctl/nvme5");
    let found = NetworkLocation::read(tree.root(), "nvme5").expect("a location");
    assert_eq!(found.interface.as_deref(), Some("SECRETif"));
    assert_eq!(NetworkLocation::read(tree.root(), "nvme0"), None);
    assert_eq!(NetworkLocation::read(tree.root(), "../nvme5"), None);
}
