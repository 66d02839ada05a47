//! Trees as other tools make them: texts with zeros behind them, links left out or followed.

use std::path::Path;

use peerlane_fabric::{Acs, DriverBinding, Fabric, FunctionKind, capture};
use peerlane_units::Bytes;

use crate::synthetic::{
    DOWNSTREAM_PORT, ENDPOINT, NVME, ONE_NAMESPACE, PORT, Sysfs, config, one_drive,
};

const PORT_AT: &str = "sys/devices/pci0000:00/0000:00:01.0";
const DRIVE_AT: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
const OTHER_AT: &str = "sys/devices/pci0000:00/0000:00:02.0";

/// Every file with zeros behind it, up to the size that sysfs states.
fn pad(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            pad(&path);
        } else if path.is_file() && !path.is_symlink() {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.resize(bytes.len().max(4096), 0);
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

fn of_no_tree(fabric: Fabric) -> Fabric {
    Fabric { origin: peerlane_fabric::Origin::Description, ..fabric }
}

#[test]
fn zeros_behind_texts_change_nothing() {
    let tree = one_drive();
    tree.files(DRIVE_AT, &[("numa_node", "1"), ("current_link_speed", "8.0 GT/s PCIe")])
        .file(
            &format!("{DRIVE_AT}/resource"),
            "0x00000000f0000000 0x00000000f0003fff 0x0000000000140204\n",
        )
        .files("proc/sys/kernel", &[("osrelease", "7.2.13"), ("hostname", "box")])
        .files("proc", &[("cpuinfo", "vendor_id\t: AuthenticAMD\ncpu family\t: 25\n")])
        .files(ONE_NAMESPACE, &[("dev", "259:0")]);
    let before = of_no_tree(tree.discover());
    let kept = capture::take(tree.root()).unwrap().content;
    pad(tree.root());
    assert_eq!(of_no_tree(tree.discover()), before);
    assert_eq!(before.functions[1].nvme.as_ref().unwrap().namespaces[0].size, Bytes::mib(64));
    let padded =
        Fabric::discover_snapshot(Path::new("kept"), capture::take(tree.root()).unwrap().content);
    let plain = Fabric::discover_snapshot(Path::new("kept"), kept);
    assert_eq!(padded.unwrap(), plain.unwrap(), "and its capture is the same");
}

#[test]
fn zeros_behind_header_hide_acs() {
    let tree = Sysfs::new();
    tree.function(PORT_AT, PORT, &config(DOWNSTREAM_PORT, Some(0x1d))[..64]);
    pad(tree.root());
    assert_eq!(tree.discover().functions[0].acs, Acs::Unknown);
}

#[test]
fn tree_without_links_knows_no_driver() {
    let tree = one_drive();
    tree.function(OTHER_AT, NVME, &config(ENDPOINT, None));
    for function in tree.discover().functions {
        assert_eq!(function.driver, DriverBinding::Unknown, "{}", function.name);
    }
}

#[test]
fn controller_without_link_hides_driver() {
    let tree = one_drive();
    tree.link(&format!("{PORT_AT}/driver"), "../../../bus/pci_express/drivers/pcieport").function(
        OTHER_AT,
        NVME,
        &config(ENDPOINT, None),
    );
    let drivers: Vec<_> = tree.discover().functions.into_iter().map(|one| one.driver).collect();
    let port = DriverBinding::Bound("pcieport".to_owned());
    assert_eq!(drivers, [port, DriverBinding::Unknown, DriverBinding::Unbound]);
}

#[test]
fn driver_traces_leave_it_unknown() {
    for trace in ["net/eth0", "drm/card0", "infiniband/mlx5_0", "msi_irqs", "uio/uio0", "driver"] {
        let tree = Sysfs::new();
        tree.function(PORT_AT, PORT, &config(DOWNSTREAM_PORT, None))
            .link(&format!("{PORT_AT}/driver"), "/sys/bus/pci/drivers/pcieport")
            .function(OTHER_AT, NVME, &config(ENDPOINT, None))
            .folder(&format!("{OTHER_AT}/{trace}"));
        let found = tree.discover();
        assert_eq!(found.functions[0].driver.name(), Some("pcieport"), "an absolute link");
        assert_eq!(found.functions[1].driver, DriverBinding::Unknown, "{trace}");
        let kept = capture::take(tree.root()).unwrap().content;
        let again = Fabric::discover_snapshot(Path::new("kept"), kept).unwrap();
        assert_eq!(again.functions[1].driver, DriverBinding::Unknown, "{trace} of a capture");
    }
}

#[test]
fn event_names_driver_without_link() {
    for (event, expected) in [
        ("DRIVER=vfio-pci\nPCI_CLASS=10802\n", DriverBinding::Bound("vfio-pci".to_owned())),
        ("PCI_CLASS=10802\nPCI_ID=144D:A80A\n", DriverBinding::Unbound),
        ("", DriverBinding::Unknown),
    ] {
        let tree = Sysfs::new();
        tree.function(OTHER_AT, NVME, &config(ENDPOINT, None))
            .file(&format!("{OTHER_AT}/uevent"), format!("{event}PCI_SUBSYS_ID=SECRET:0\n"));
        if event.is_empty() {
            tree.file(&format!("{OTHER_AT}/uevent"), "");
        }
        assert_eq!(tree.discover().functions[0].driver, expected, "{event:?}");
        let kept = capture::take(tree.root()).unwrap().content;
        assert!(!format!("{kept:?}").contains("SECRET"));
        let again = Fabric::discover_snapshot(Path::new("kept"), kept).unwrap();
        assert_eq!(again.functions[0].driver, expected, "{event:?} of a capture");
    }
}

#[test]
fn driver_survives_a_machine_file() {
    for (keys, expected) in [
        ("driver = 'vfio-pci'\nbound = false", DriverBinding::Bound("vfio-pci".to_owned())),
        ("bound = false", DriverBinding::Unbound),
        ("driver = 'none'", DriverBinding::Unbound),
        ("driver = 'unknown'\nbound = false", DriverBinding::Unknown),
        ("", DriverBinding::Unknown),
    ] {
        let text = format!("name = 'm'\n[[function]]\nname = 'a'\nkind = 'nvme'\n{keys}\n");
        let fabric = Fabric::from_toml(&text).unwrap();
        assert_eq!(fabric.functions[0].driver, expected, "{keys}");
        assert_eq!(Fabric::from_toml(&fabric.to_toml()).unwrap(), fabric, "{keys}");
    }
}

#[test]
fn virtual_function_uses_its_files() {
    let mut bytes = config(ENDPOINT, Some(0x1d));
    bytes[..4].fill(0xff);
    let tree = Sysfs::new();
    tree.function(OTHER_AT, ["0x144d", "0xa824", "0x010802"], &bytes);
    let found = &tree.discover().functions[0];
    assert_eq!(
        (found.kind, found.vendor, found.device),
        (FunctionKind::Nvme, Some(0x144d), Some(0xa824))
    );
    assert_eq!(found.acs, Acs::Present { control: 0x1d });
}

/// A drive with these lines in its file `resource`, next to a drive whose windows have addresses.
fn windows(lines: &str, register: u32) -> Sysfs {
    let mut bytes = config(ENDPOINT, None);
    bytes[0x10..0x14].copy_from_slice(&register.to_le_bytes());
    let tree = Sysfs::new();
    tree.function(PORT_AT, NVME, &config(ENDPOINT, None))
        .file(
            &format!("{PORT_AT}/resource"),
            "0x00000000f0000000 0x00000000f0003fff 0x0000000000140204\n",
        )
        .function(OTHER_AT, NVME, &bytes)
        .file(&format!("{OTHER_AT}/resource"), lines);
    tree
}

#[test]
fn windows_without_address_space_are_told() {
    const ZERO: &str = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    let size = Some(Bytes::kib(16));
    for (lines, register, expected) in [
        ("0x0000000000000000 0x0000000000003fff 0x0000000020140204\n", 4, Some(size)),
        ("0x0000000000000000 0x0000000000003fff 0x0000000000140204\n", 4, Some(size)),
        ("0x0000000000000000 0x0000000000000000 0x0000000000140204\n", 4, Some(None)),
        (ZERO, 0x4, Some(None)),
        (ZERO, 0xfebf_0004, Some(None)),
        (ZERO, 0, None),
        (ZERO, 0x1, None),
        ("0x00000000f1000000 0x00000000f1003fff 0x0000000000140204\n", 4, None),
    ] {
        let tree = windows(lines, register);
        let kept = capture::take(tree.root()).unwrap().content;
        let kept = Fabric::discover_snapshot(Path::new("kept"), kept).unwrap();
        for fabric in [tree.discover(), kept] {
            let found: Vec<_> =
                fabric.functions[1].unassigned_bars.iter().map(|bar| bar.size).collect();
            assert_eq!(found, Vec::from_iter(expected), "{lines}{register:#x} {:?}", fabric.origin);
            assert!(fabric.functions[0].unassigned_bars.is_empty());
            assert_eq!(fabric.functions[0].bars.len(), 1);
            assert_eq!(Fabric::from_toml(&fabric.to_toml()).unwrap(), of_no_tree(fabric));
        }
    }
}
