//! Content of exports and ports, and gaps for malformed content.

use std::os::unix::ffi::OsStrExt;

use proptest::prelude::*;

use super::*;
use crate::{IdentifyError, ReadError, StorageIdentity, identify};

#[test]
fn block_namespace_over_tcp_is_listed() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("nqn.2026-11.org.example:a", "1", "/dev/nvme0n1", "1");
    let port = machine.add_port("1", ["tcp", "10.0.0.1", "4420"]);
    machine.link(&port, "nqn.2026-11.org.example:a", "nqn.2026-11.org.example:a");
    let export = machine.only_export();
    assert_eq!(export.subsystem, "nqn.2026-11.org.example:a");
    assert_eq!(export.device_path.as_deref(), Some(Path::new("/dev/nvme0n1")));
    assert_eq!((export.is_enabled, export.can_serve()), (Some(true), true));
    let expected = ExportedNamespace {
        nsid: 1,
        uuid: Some(UUID.into()),
        nguid: None,
        has_reservations: false,
    };
    assert_eq!(namespace(&export), &expected);
    assert_eq!(export.ports.len(), 1);
    assert_eq!(
        (export.ports[0].number, export.ports[0].to_string()),
        (1, "tcp 10.0.0.1:4420".into())
    );
}

#[test]
fn disabled_namespace_is_listed_as_disabled() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("lab", "1", "/dev/nvme0n1", "0");
    let export = machine.only_export();
    assert_eq!((export.is_enabled, export.can_serve()), (Some(false), false));
    assert!(export.ports.is_empty());
}

#[test]
fn optional_attributes_are_read() {
    let machine = FakeMachine::with_target();
    let folder = machine.add_namespace("lab", "1", "(null)", "0");
    machine.write(folder.join("device_nguid"), format!("{UUID}\n"));
    machine.write(folder.join("resv_enable"), "1\n");
    let export = machine.only_export();
    assert_eq!(namespace(&export).nguid.as_deref(), Some(UUID));
    assert!(namespace(&export).has_reservations);
    assert_eq!(export.device_path, None);
    for name in ["resv_enable", "device_uuid", "device_nguid"] {
        fs::remove_file(machine.full(folder.join(name))).expect("a file");
    }
    let without = ExportedNamespace { nsid: 1, uuid: None, nguid: None, has_reservations: false };
    assert_eq!(namespace(&machine.only_export()), &without);
}

#[test]
fn passthru_controller_is_listed() {
    let machine = FakeMachine::with_target();
    let folder = machine.add_subsystem("lab");
    assert!(machine.exports().all.is_empty());
    machine.write(folder.join("passthru/device_path"), "/dev/nvme0\n");
    assert_eq!(machine.only_export().is_enabled, Some(false));
    machine.write(folder.join("passthru/enable"), "1\n");
    let export = machine.only_export();
    assert_eq!(export.kind, ExportKind::Passthru);
    assert_eq!(export.is_enabled, Some(true));
    assert_eq!(export.device_path.as_deref(), Some(Path::new("/dev/nvme0")));
}

#[test]
fn kernel_without_passthru_has_no_gap() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("lab", "1", "/dev/nvme0n1", "1");
    fs::remove_dir_all(machine.full(machine.subsystem("lab").join("passthru"))).expect("a folder");
    machine.only_export();
}

#[test]
fn namespaces_are_sorted_by_number() {
    let machine = FakeMachine::with_target();
    for name in ["10", "9", "0x0b"] {
        machine.add_namespace("lab", name, &format!("/dev/{name}"), "1");
    }
    machine.add_namespace("a", "1", "/dev/a", "1");
    let exports = machine.exports();
    assert!(exports.gaps.is_empty());
    let listed: Vec<_> =
        exports.all.iter().map(|e| (e.subsystem.as_str(), namespace(e).nsid)).collect();
    assert_eq!(listed, [("a", 1), ("lab", 9), ("lab", 10), ("lab", 11)]);
}

#[test]
fn discovery_subsystem_has_no_exports() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("nqn.2014-08.org.nvmexpress.discovery", "1", "/dev/nvme0n1", "1");
    assert!(machine.exports().all.is_empty());
}

#[test]
fn links_of_ports_lead_to_subsystems() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("a", "1", "/dev/nvme0n1", "1");
    machine.add_namespace("b", "1", "/dev/nvme1n1", "1");
    for (name, transport) in [("2", "tcp"), ("10", "loop"), ("0x1", "rdma")] {
        let port = machine.add_port(name, [transport, "", ""]);
        // The link may have any name.
        machine.link(&port, "b", "a");
    }
    let exports = machine.exports();
    let ports: Vec<_> = exports.all[0].ports.iter().map(|port| port.number).collect();
    assert_eq!(ports, [1, 2, 10]);
    assert!(exports.all[1].ports.is_empty());
    assert_eq!(exports.all[0].ports[2].to_string(), "loop");
}

#[test]
fn ipv6_port_prints_brackets() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("lab", "1", "/dev/nvme0n1", "1");
    let printed = [
        (["tcp", "fd00::1", "4420"], "tcp [fd00::1]:4420"),
        (["rdma", "fe80::1%eth0", "4420"], "rdma [fe80::1%eth0]:4420"),
        (["fc", "nn-0x10:pn-0x20", ""], "fc nn-0x10:pn-0x20"),
        (["", "", ""], "unknown transport"),
    ];
    for (number, (attributes, _)) in printed.into_iter().enumerate() {
        let port = machine.add_port(&number.to_string(), attributes);
        machine.link(&port, "lab", "lab");
    }
    let found: Vec<String> = machine.only_export().ports.iter().map(ToString::to_string).collect();
    assert_eq!(found, printed.map(|(_, text)| text));
}

#[test]
fn unreadable_switch_counts_as_serving() {
    for place in ["a folder", "a pipe", "a link", "text"] {
        let machine = FakeMachine::with_target();
        let switch = machine.add_namespace("lab", "1", "/dev/nvme0n1", "0").join("enable");
        let full = machine.full(&switch);
        fs::remove_file(&full).expect("a file");
        match place {
            "a folder" => machine.folder(&switch),
            "a pipe" => {
                let mode = rustix::fs::Mode::RUSR;
                rustix::fs::mkfifoat(rustix::fs::CWD, &full, mode).expect("a pipe");
            }
            "a link" => symlink("resv_enable", &full).expect("a link"),
            _ => machine.write(&switch, "yes\n"),
        }
        let exports = machine.exports();
        assert_eq!(exports.all[0].is_enabled, None, "{place}");
        assert!(exports.all[0].can_serve());
        assert_eq!(exports.gaps.len(), 1, "{place}: {:?}", exports.gaps);
        let message = exports.gaps[0].to_string();
        assert!(message.starts_with(&format!("cannot read {}", full.display())), "{message}");
    }
}

#[test]
fn long_attribute_becomes_gap() {
    let machine = FakeMachine::with_target();
    let folder = machine.add_namespace("lab", "1", "", "1");
    let longest = format!("/{}\n", "a".repeat(4094));
    machine.write(folder.join("device_path"), &longest);
    assert_eq!(machine.only_export().device_path, Some(longest.trim_end().into()));
    machine.write(folder.join("device_path"), "a".repeat(10 << 20));
    let exports = machine.exports();
    assert_eq!((&exports.all[0].device_path, exports.all[0].is_enabled), (&None, Some(true)));
    assert!(matches!(exports.gaps[..], [ReadError::TooLarge { limit: 4096, .. }]));
}

#[test]
fn overfull_folder_is_not_listed() {
    let machine = FakeMachine::with_target();
    machine.add_subsystem("lab");
    for number in 0..=crate::root::MAX_FOLDER_ENTRIES {
        machine.write(machine.nvmet.join("ports").join(number.to_string()), "");
    }
    let exports = machine.exports();
    assert!(matches!(exports.gaps[..], [ReadError::TooManyEntries { .. }]), "{:?}", exports.gaps);
}

#[test]
fn names_without_utf8_still_match_ports() {
    let machine = FakeMachine::with_target();
    let [first, second] = [b"lab\xff", b"lab\xfe"].map(|name| OsStr::from_bytes(name));
    machine.add_subsystem(second);
    let folder = machine.add_subsystem(first);
    machine.write(folder.join("passthru/device_path"), b"/dev/\xff\n");
    let port = machine.add_port("1", ["loop", "", ""]);
    machine.link(&port, "link", first);
    let export = machine.only_export();
    assert_eq!(export.subsystem, "lab\u{fffd}");
    assert_eq!(export.device_path, Some(Path::new(OsStr::from_bytes(b"/dev/\xff")).into()));
    assert_eq!(export.ports.len(), 1);
}

#[test]
fn names_that_are_no_numbers_become_gaps() {
    let machine = FakeMachine::with_target();
    for name in ["0", "4294967295", "x", "-1"] {
        machine.add_namespace("lab", name, "/dev/nvme0n1", "1");
    }
    machine.add_port("65536", ["loop", "", ""]);
    let exports = machine.exports();
    assert!(exports.all.is_empty());
    assert_eq!(exports.gaps.len(), 5);
    assert!(exports.gaps[0].to_string().ends_with("not a port number"));
}

#[test]
fn linked_folders_are_not_followed() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("lab", "1", "/dev/nvme0n1", "1");
    symlink("lab", machine.full(machine.subsystem("other"))).expect("a link");
    let exports = machine.exports();
    assert_eq!(exports.all.len(), 1);
    assert!(!exports.gaps.is_empty());
}

#[test]
fn local_disk_shows_its_export() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("lab", "1", "/dev/a", "1");
    machine.add_namespace("lab", "2", "/dev/b", "0");
    // The same number twice, of which a kernel that allows it enables one.
    machine.add_namespace("lab", "02", "/dev/c", "1");
    let folder = machine.add_subsystem("whole");
    machine.write(folder.join("passthru/enable"), "1\n");
    machine.write(folder.join("passthru/device_path"), "/dev/nvme0\n");
    let exports = machine.exports();
    let shown = |nqn, nsid, wwid| {
        let path = exports.shown_by(nqn, nsid, wwid)?.device_path.as_deref();
        path.and_then(Path::to_str)
    };
    let wwid = format!("uuid.{}", UUID.to_uppercase());
    assert_eq!(shown("lab", 1, None), Some("/dev/a"));
    assert_eq!(shown("lab", 1, Some(&wwid)), Some("/dev/a"));
    assert_eq!(shown("lab", 1, Some("eui.0025385b71b01234")), Some("/dev/a"));
    assert_eq!(shown("lab", 2, None), Some("/dev/c"));
    assert_eq!(shown("whole", 7, Some("eui.0025385b71b01234")), Some("/dev/nvme0"));
    let other = "uuid.00000000-9abc-4def-8123-456789abcdef";
    assert_eq!(shown("lab", 1, Some(other)), None);
    assert_eq!(shown("lab", 3, None), None);
    assert_eq!(shown("LAB", 1, None), None);
    assert_eq!(shown("nqn.2014-08.org.nvmexpress.discovery", 1, None), None);
}

#[test]
fn file_behind_link_is_identified() {
    let machine = FakeMachine::with_target();
    machine.write("store.img", "content");
    symlink("store.img", machine.full("link.img")).expect("a link");
    let [file, link] = ["store.img", "link.img"].map(|name| identify(&machine.full(name)));
    let file = file.expect("a file");
    assert!(matches!(file, StorageIdentity::File { inode, .. } if inode > 0));
    assert_eq!(link.expect("a file"), file);
    let null = identify(Path::new("/dev/null")).expect("a device");
    assert_eq!(null, StorageIdentity::CharacterDevice { major: 1, minor: 3 });
    let folder = identify(machine.folder.path());
    assert!(matches!(folder, Err(IdentifyError::NotStorage { .. })));
    let absent = identify(&machine.full("absent"));
    assert!(matches!(absent, Err(IdentifyError::Io { .. })));
    assert!(matches!(identify(Path::new("a\0b")), Err(IdentifyError::Relative { .. })));
    assert!(matches!(identify(Path::new("/a\0b")), Err(IdentifyError::Io { .. })));
}

#[test]
fn file_backed_namespace_is_identified() {
    let machine = FakeMachine::with_target();
    machine.write("store.img", "content");
    let store = machine.full("store.img");
    machine.add_namespace("lab", "1", store.to_str().expect("a path"), "1");
    let export = Export { is_on_this_machine: true, ..machine.only_export() };
    assert_eq!(export.device_path.as_deref(), Some(store.as_path()));
    let identity = export.identify().expect("a file");
    assert_eq!(identity, identify(&store).expect("a file"));
    assert!(matches!(identity, StorageIdentity::File { .. }));
}

#[test]
fn paths_of_other_machines_are_not_identified() {
    let machine = FakeMachine::with_target();
    machine.add_namespace("lab", "1", "/dev/null", "1");
    let export = machine.only_export();
    assert!(matches!(export.identify(), Err(IdentifyError::OtherMachine { .. })));
    let here = Export { is_on_this_machine: true, ..export };
    assert!(here.identify().is_ok());
    let unset = Export { device_path: None, ..here };
    assert!(matches!(unset.identify(), Err(IdentifyError::NoPath)));
}

proptest! {
    // Each case makes a tree of files.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_attributes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        attribute in prop::sample::select(vec![
            "namespaces/1/enable", "namespaces/1/device_uuid", "namespaces/1/device_nguid",
            "namespaces/1/device_path", "passthru/enable", "passthru/device_path",
        ]),
    ) {
        let machine = FakeMachine::with_target();
        machine.add_namespace("lab", "1", "/dev/null", "1");
        machine.write(machine.subsystem("lab").join(attribute), bytes);
        for export in machine.exports().all {
            let _ = export.identify();
        }
    }
}
