//! Captures keep the files that discovery needs, and nothing that identifies a machine; fixtures
//! are current.

use std::path::{Path, PathBuf};

use peerlane_fabric::capture::{self, CaptureRule};
use peerlane_fabric::{Fabric, Origin, Snapshot, TreeEntry};

use crate::handmade::{self, folder};

fn described(fabric: Fabric) -> Fabric {
    Fabric { origin: Origin::Description, ..fabric }
}

/// The archives of the fixtures, in order of name.
fn fixtures() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.join("tree.tar.zst"))
        .collect();
    found.sort();
    found
}

#[test]
fn hand_made_trees_match_their_topology() {
    let is_update = std::env::var_os("PEERLANE_UPDATE_FIXTURES").is_some();
    for machine in handmade::all() {
        let at = folder().join(&machine.name).join("tree.tar.zst");
        let content = peerlane_testing::sysfs_tree(&machine).unwrap();
        if is_update {
            std::fs::write(&at, capture::pack(&content).unwrap()).unwrap();
        }
        let archive = std::fs::File::open(&at).unwrap();
        assert!(capture::unpack(archive).unwrap() == content, "{}", at.display());
    }
}

#[test]
fn written_tree_discovers_same_machine() {
    let captured = fixtures().into_iter().map(|path| Fabric::discover(&path).unwrap());
    for machine in handmade::all().into_iter().chain(captured) {
        let content = peerlane_testing::sysfs_tree(&machine).unwrap();
        let found = Fabric::discover_snapshot(Path::new("made"), content).unwrap();
        assert_eq!(found.origin, Origin::Tree("made".into()));
        pretty(&described(found), &described(machine));
    }
}

/// Compares texts first, since a difference of lines can be read.
fn pretty(found: &Fabric, expected: &Fabric) {
    let (one, other) = (found.to_toml(), expected.to_toml());
    for (number, (one, other)) in one.lines().zip(other.lines()).enumerate() {
        assert_eq!(one, other, "{} line {number}", expected.name);
    }
    assert_eq!(found, expected);
}

#[test]
fn every_fixture_survives_a_machine_file() {
    for path in fixtures() {
        let fabric = described(Fabric::discover(&path).unwrap());
        assert_eq!(Fabric::from_toml(&fabric.to_toml()).unwrap(), fabric, "{}", path.display());
    }
}

#[test]
fn capture_discovers_machine_without_names() {
    for path in fixtures() {
        let captured = capture::take(&path).unwrap();
        let archive = capture::pack(&captured.content).unwrap();
        assert_eq!(capture::unpack(archive.as_slice()).unwrap(), captured.content);
        let found = Fabric::discover_snapshot(&path, captured.content).unwrap();
        let mut expected = Fabric::discover(&path).unwrap();
        expected.name = "machine".to_owned();
        let mut serials = Vec::new();
        for nvme in expected.functions.iter_mut().filter_map(|one| one.nvme.as_mut()) {
            if let Some(serial) = &mut nvme.serial {
                let known = serials.iter().position(|known| known == serial).unwrap_or_else(|| {
                    serials.push(serial.clone());
                    serials.len() - 1
                });
                *serial = format!("serial-{}", known + 1);
            }
        }
        pretty(&found, &expected);
    }
}

#[test]
fn discovery_reads_only_listed_paths() {
    for path in fixtures().into_iter().chain([PathBuf::from("/")]) {
        assert_eq!(capture::unlisted(&path).unwrap(), Vec::<PathBuf>::new(), "{}", path.display());
    }
}

#[test]
fn listed_items_are_read_or_exempt() {
    // Of kernels and machines that no fixture has.
    const ELSEWHERE: [&str; 45] = [
        "proc/config.gz",
        "usr/lib/modules/*/config",
        "CONTROLLER/hwmon/hwmon*/temp1_*",
        "FUNCTION/resource*_resize",
        "FUNCTION/msi_irqs",
        "FUNCTION/uio",
        "FUNCTION/vfio-dev",
        "FUNCTION/physfn",
        "etc/alternatives/cufile.json",
        "usr/local/cuda*/gds/cufile.json",
        "proc/driver/nvidia/gpus/*/information",
        "proc/driver/nvidia/capabilities/gpu*/mig",
        "proc/driver/nvidia/capabilities/gpu*/mig/gi*",
        "proc/driver/nvidia-fs/modules",
        "sys/module/nvidia_fs/refcnt",
        "run",
        "run/udev",
        "FUNCTION/virtio*/net/*",
        "RDMA",
        "RDMA/parent",
        "RDMA/ports",
        "RDMA/ports/*/state",
        "RDMA/ports/*/phys_state",
        "RDMA/ports/*/link_layer",
        "RDMA/ports/*/gids",
        "RDMA/ports/*/gids/*",
        "RDMA/ports/*/gid_attrs/types/*",
        "RDMA/ports/*/gid_attrs/ndevs/*",
        "sys/class/net",
        "REMOTE",
        "REMOTE/transport",
        "REMOTE/address",
        "REMOTE/subsysnqn",
        "REMOTE/cntrltype",
        "REMOTE/state",
        "run/secrets/kubernetes.io",
        "var/run/secrets/kubernetes.io",
        "run/.containerenv",
        ".dockerenv",
        "run/systemd/container",
        "sys/hypervisor/type",
        "sys/hypervisor/properties/features",
        "sys/class/misc/tdx_guest",
        "sys/class/misc/sev-guest",
        "sys/devices/system/cpu/sev/vmpl",
    ];
    let read: std::collections::BTreeSet<&str> =
        fixtures().iter().flat_map(|path| capture::items_read(path).unwrap()).collect();
    for item in capture::ITEMS {
        let is_read = read.contains(item.path);
        assert_ne!(is_read, ELSEWHERE.contains(&item.path), "{} is read: {is_read}", item.path);
        assert!(!item.purpose.is_empty() && !item.kept.describe().is_empty());
    }
    assert!(capture::ITEMS.iter().any(|item| item.kept == CaptureRule::Serial));
}

#[test]
fn mounts_of_this_machine_are_known() {
    let fabric = Fabric::discover(Path::new("/")).unwrap();
    assert!(fabric.mounts.is_some(), "/proc/self/mountinfo is there for everybody");
}

#[test]
fn captures_hold_no_identifiers() {
    let mut machine = handmade::machine("two-sockets");
    machine.kernel.release = Some("7.2.13-SECRET-generic".to_owned());
    let named = ["iommu=pt", "nvme_core.hostnqn=nqn.SECRET"].map(str::to_owned);
    machine.kernel.parameters = Some(named.to_vec());
    let mut content = peerlane_testing::sysfs_tree(&machine).unwrap();
    let drive = "sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0";
    for (path, text) in [
        ("proc/1/environ", "SECRET-1"),
        ("etc/hostname", "SECRET-2"),
        (&format!("{drive}/nvme/nvme0/nvme0n1/wwid"), "SECRET-3"),
        (&format!("{drive}/nvme/nvme0/address"), "SECRET-4"),
        ("sys/devices/virtual/block/dm-0/dm/name", "SECRET-5"),
        ("sys/devices/virtual/dmi/id/product_serial", "SECRET-6"),
        ("sys/module/nvme/version", "1.0-SECRET"),
        ("sys/devices/pci0000:30/0000:30:02.0/0000:32:00.0/net/enSECRET1/address", "x"),
        ("sys/devices/pci0000:30/0000:30:02.0/0000:32:00.0/infiniband/mlx5_SECRET/x", "x"),
        ("sys/devices/pci0000:30/0000:30:02.0/0000:32:00.0/net/SECRET-7/address", "SECRET-8"),
    ] {
        content.text(path, text).unwrap();
    }
    let kept = capture::take_snapshot(Path::new("two-sockets"), content).unwrap();
    assert!(kept.replaced.contains(&("host name", 1)), "{:?}", kept.replaced);
    assert!(kept.replaced.contains(&("serial number", 8)), "{:?}", kept.replaced);
    for (path, entry) in kept.content.iter() {
        let text = match entry {
            TreeEntry::File { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            TreeEntry::Link(target) => target.display().to_string(),
            TreeEntry::Folder(_) => String::new(),
        };
        for secret in ["SECRET", "S4711", "two-sockets"] {
            assert!(!text.contains(secret), "{}: {text}", path.display());
            assert!(!path.display().to_string().contains(secret), "{}", path.display());
        }
    }
}

#[test]
fn foreign_archives_are_refused() {
    let archive = |make: &dyn Fn(&mut tar::Builder<Vec<u8>>)| {
        let mut builder = tar::Builder::new(Vec::new());
        make(&mut builder);
        builder.into_inner().unwrap()
    };
    let file = |name: &str, kind: tar::EntryType, size: u64| {
        let name = name.to_owned();
        archive(&move |builder| {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_mode(0o644);
            header.set_size(size);
            header.set_cksum();
            builder.append(&header, std::io::repeat(0).take(size)).unwrap();
        })
    };
    use std::io::Read as _;
    for (bytes, expected) in [
        (b"no archive at all".to_vec(), "neither a tar archive"),
        (file("a", tar::EntryType::Regular, 700)[..600].to_vec(), "the archive is damaged"),
        (vec![0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3], "cannot uncompress the archive"),
        (file("../outside", tar::EntryType::Regular, 1), "leads out of the tree"),
        (file("/etc/passwd", tar::EntryType::Regular, 1), "leads out of the tree"),
        (file("a", tar::EntryType::Link, 0), "a is a hard link to"),
        (file("proc/cmdline", tar::EntryType::Block, 0), "`proc/cmdline` is a block device"),
        (
            file("proc/cmdline", tar::EntryType::Regular, 5 << 20),
            "has 5242880 bytes, which is more",
        ),
        (file("././@LongLink", tar::EntryType::GNULongName, 5000), "has 5000 bytes, which is more"),
        (file("a", tar::EntryType::XHeader, 10), "a record of the pax format is cut off"),
        (file("a", tar::EntryType::XHeader, 20_000), "has 20000 bytes, which is more"),
    ] {
        let error = capture::unpack(bytes.as_slice()).expect_err(expected);
        let source = std::error::Error::source(&error);
        let said = format!("{error}: {}", source.map(ToString::to_string).unwrap_or_default());
        assert!(said.contains(expected), "{said}");
    }
    assert!(capture::unpack(&[][..]).is_ok_and(|content| content == Snapshot::default()));
}

#[test]
fn long_names_and_links_survive_archives() {
    let mut content = Snapshot::default();
    let long: PathBuf = std::iter::repeat_n("folder", 40).collect();
    content.text(long.join("file"), "text").unwrap();
    for target in [long.as_path(), Path::new("short")] {
        let link = TreeEntry::Link(target.to_owned());
        let name = format!("link-{}", target.as_os_str().len());
        content.insert(Path::new(&name), link.clone()).unwrap();
        content.insert(&long.join(&name), link).unwrap();
    }
    let archive = capture::pack(&content).unwrap();
    assert_eq!(capture::unpack(archive.as_slice()).unwrap(), content);
}

#[test]
fn tree_growth_stops_at_bounds() {
    let mut content = Snapshot::default();
    let zeroes = || TreeEntry::File { bytes: vec![0; 4 << 20], mode: 0o444 };
    for number in 0..64 {
        content.insert(Path::new(&format!("zero-{number}")), zeroes()).unwrap();
    }
    let error = content.insert(Path::new("zero-64"), zeroes()).expect_err("more than 256 MiB");
    assert_eq!(error.to_string(), "there are more than 256 MiB in files");
    let mut content = Snapshot::default();
    content.text("file", "").unwrap();
    let deep: PathBuf = std::iter::repeat_n("a", 301).collect();
    for (path, expected) in [
        (deep.as_path(), "more than 300 folders deep"),
        (Path::new("file"), "something else"),
        (Path::new("file/a"), "something else"),
        (Path::new("../a"), "leads out"),
    ] {
        let error = content.text(path, "").expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn quiet_discovery_reads_no_temperatures() {
    let archive = folder().join("two-sockets/tree.tar.zst");
    let loud = Fabric::discover(&archive).expect("a machine");
    let mut quiet = Fabric::discover_quietly(&archive).expect("a machine");
    let mut warm = 0;
    for (one, other) in loud.functions.iter().zip(&mut quiet.functions) {
        let (Some(one), Some(other)) = (&one.nvme, &mut other.nvme) else { continue };
        assert_eq!(other.temperature, None);
        other.temperature = one.temperature;
        warm += usize::from(one.temperature.is_some());
    }
    assert!(warm > 0, "the fixture has a drive with a thermometer");
    assert_eq!(quiet, loud, "all else is the same");
}
