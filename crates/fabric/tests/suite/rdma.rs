//! RDMA devices: read, captured, written.

use std::path::Path;

use peerlane_fabric::{Fabric, FunctionId, Snapshot, TreeEntry, capture};

use crate::synthetic::{ENDPOINT, PORT, ROOT_PORT, Sysfs, config, one_drive};

const NIC: &str = "sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0";
const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

/// A software device as `rdma_rxe` of Linux 7.2.13 shows it, its network interface in another namespace,
/// and one on a PCI function, whose link is down and whose name a person chose.
fn devices() -> Sysfs {
    let tree = one_drive();
    tree.function("sys/devices/pci0000:00/0000:00:02.0", PORT, &config(ROOT_PORT, None))
        .function(NIC, ["0x15b3", "0x1017", "0x020000"], &config(ENDPOINT, None))
        .folder("sys/class/net/lo");
    let port = |at: &str, netdev: &str, states: [&str; 2]| {
        tree.files(
            &format!("{at}/ports/1"),
            &[
                ("state", states[0]),
                ("phys_state", states[1]),
                ("link_layer", "Ethernet"),
                ("gids/0", "fe80:0000:0000:0000:5054:00ff:fe00:0001"),
                ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
                ("gids/2", EMPTY),
                ("gid_attrs/types/0", "RoCE v2"),
                ("gid_attrs/types/1", "RoCE v2"),
                ("gid_attrs/ndevs/0", netdev),
                ("node_guid", "5054:00ff:fe00:0001"),
            ],
        );
    };
    let software = "sys/devices/virtual/infiniband/rxe0";
    port(software, "eth0", ["4: ACTIVE", "5: LinkUp"]);
    tree.file(&format!("{software}/parent"), "eth0\n");
    port(&format!("{NIC}/infiniband/SECRETib"), "lo", ["1: DOWN", "3: Disabled"]);
    tree
}

#[test]
fn devices_have_ports_with_state_and_addresses() {
    let fabric = devices().discover();
    let [hardware, software] = &fabric.rdma_devices[..] else {
        panic!("{:?}", fabric.rdma_devices)
    };
    assert_eq!((software.name.as_str(), software.function), ("rxe0", None));
    let port = &software.ports[0];
    assert_eq!((port.number, port.state.as_deref(), port.is_down()), (1, Some("ACTIVE"), false));
    assert_eq!(port.physical_state.as_deref(), Some("LinkUp"));
    assert_eq!((port.netdev.as_deref(), port.netdev_is_here), (Some("eth0"), Some(false)));
    let gids: Vec<&str> = port.gids.iter().map(|gid| gid.address.as_str()).collect();
    assert_eq!(gids, ["fe80::5054:ff:fe00:1", "::ffff:10.0.0.1"]);
    assert_eq!((port.gids[1].index, port.gids[1].kind.as_deref()), (1, Some("RoCE v2")));
    assert_eq!(hardware.function, fabric.find("0000:02:00.0"));
    assert!(hardware.ports[0].is_down());
    assert_eq!(hardware.ports[0].netdev_is_here, Some(true));
}

#[test]
fn device_is_found_by_address() {
    let mut fabric = devices().discover();
    let name = |fabric: &Fabric, address: &str| {
        let found = fabric.rdma_port_at(address.parse().expect("an address"));
        found.map(|(device, _)| (device.name.clone(), device.function))
    };
    let hardware = Some(("SECRETib".to_owned(), fabric.find("0000:02:00.0")));
    assert_eq!(name(&fabric, "10.0.0.1"), hardware);
    assert_eq!(name(&fabric, "fe80::5054:ff:fe00:1"), hardware);
    assert_eq!(name(&fabric, "10.0.0.2"), None);
    fabric.rdma_devices.remove(0);
    assert_eq!(name(&fabric, "10.0.0.1"), Some(("rxe0".to_owned(), None)));
}

#[test]
fn captures_hide_rdma_names_and_addresses() {
    let tree = devices();
    let kept = capture::take(tree.root()).expect("a capture");
    for (path, entry) in kept.content.iter() {
        let text = match entry {
            TreeEntry::File { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        for secret in ["SECRET", "0a00:0001", "5054"] {
            assert!(!text.contains(secret), "{}: {text}", path.display());
            assert!(!path.display().to_string().contains(secret), "{}", path.display());
        }
    }
    let found = Fabric::discover_snapshot(Path::new("kept"), kept.content).expect("a machine");
    let [hardware, software] = &found.rdma_devices[..] else { panic!("{:?}", found.rdma_devices) };
    assert_eq!((hardware.name.as_str(), software.name.as_str()), ("rdma1", "rxe0"));
    let one = |at: usize, port: usize| found.rdma_devices[at].ports[0].gids[port].address.clone();
    assert_eq!(one(0, 1), one(1, 1), "equal addresses stay equal");
    assert!(one(0, 0).starts_with("address-"), "{}", one(0, 0));
    assert_eq!(capture::unlisted(tree.root()).expect("a list"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn rdma_devices_survive_a_snapshot() {
    let mut fabric = devices().discover();
    for port in fabric.rdma_devices.iter_mut().flat_map(|device| &mut device.ports) {
        // A snapshot has no list of interfaces.
        port.netdev_is_here = None;
    }
    let content: Snapshot = peerlane_testing::sysfs_tree(&fabric).expect("a tree");
    let found = Fabric::discover_snapshot(Path::new("made"), content).expect("a machine");
    assert_eq!(found.rdma_devices, fabric.rdma_devices);
    assert!(found.rdma_devices[0].function.is_some_and(|FunctionId(at)| at > 0));
}
