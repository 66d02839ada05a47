//! Machines with and without an NVMe target, and with configfs in several places.

use super::*;
use crate::UnknownReason;

const RELEASE: &str = "7.3.4";

#[track_caller]
fn reason(machine: &FakeMachine) -> UnknownReason {
    match machine.read() {
        NvmeTarget::Unknown(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn expect_sign(machine: &FakeMachine, sign: &str) {
    let reason = reason(machine);
    assert_eq!(reason.hint(), Some("mount -t configfs configfs /sys/kernel/config"));
    assert!(reason.to_string().contains("configfs is not mounted"), "{reason}");
    match reason {
        UnknownReason::NotMounted { sign: found } => assert_eq!(found, machine.full(sign)),
        other => panic!("{other:?}"),
    }
}

fn mount(machine: &FakeMachine, lines: &[&str]) {
    machine.write("proc/self/mountinfo", lines.join("\n"));
}

#[test]
fn kernel_without_target_exports_nothing() {
    let machine = FakeMachine::new();
    assert!(matches!(machine.read(), NvmeTarget::Absent));
    machine.folder("sys/kernel/config");
    assert!(matches!(machine.read(), NvmeTarget::Absent));
}

#[test]
fn root_without_sysfs_is_unknown() {
    let empty = tempfile::tempdir().expect("a folder");
    match read(empty.path()) {
        NvmeTarget::Unknown(reason @ UnknownReason::NoSysfs { .. }) => {
            assert_eq!(reason.hint(), Some("mount -t sysfs sysfs /sys"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn module_without_configfs_is_unknown() {
    let machine = FakeMachine::new();
    machine.folder("sys/kernel/config");
    machine.folder("sys/module/nvmet");
    expect_sign(&machine, "sys/module/nvmet");
}

#[test]
fn transport_without_configfs_is_unknown() {
    let machine = FakeMachine::new();
    machine.folder("sys/module/nvmet_tcp");
    expect_sign(&machine, "sys/module/nvmet_tcp");
}

#[test]
fn built_in_target_without_configfs_is_unknown() {
    for folder in ["lib/modules", "usr/lib/modules"] {
        let machine = FakeMachine::new();
        let list = format!("{folder}/{RELEASE}/modules.builtin");
        machine.write("proc/sys/kernel/osrelease", format!("{RELEASE}\n"));
        machine.write(&list, "kernel/drivers/nvme/host/nvme.ko\n");
        assert!(matches!(machine.read(), NvmeTarget::Absent));
        machine
            .write(&list, "kernel/fs/configfs/configfs.ko\nkernel/drivers/nvme/target/nvmet.ko\n");
        expect_sign(&machine, &list);
    }
}

#[test]
fn hostile_kernel_release_is_ignored() {
    let machine = FakeMachine::new();
    machine.write("usr/modules.builtin", "kernel/drivers/nvme/target/nvmet.ko\n");
    for release in ["../..", "/", "", "a/b", ".."] {
        machine.write("proc/sys/kernel/osrelease", release);
        assert!(matches!(machine.read(), NvmeTarget::Absent), "{release}");
    }
}

#[test]
fn mounted_configfs_without_folder_means_absent() {
    let machine = FakeMachine::new();
    machine.folder("sys/kernel/config/target");
    // A transport that is built in shows a target, and the mount is better evidence.
    machine.folder("sys/module/nvmet_tcp");
    mount(&machine, &["30 20 0:29 / /sys/kernel/config rw - configfs configfs rw"]);
    assert!(matches!(machine.read(), NvmeTarget::Absent));
}

#[test]
fn module_without_its_folder_is_unknown() {
    let machine = FakeMachine::new();
    machine.folder("sys/kernel/config");
    machine.folder("sys/module/nvmet");
    mount(&machine, &["30 20 0:29 / /sys/kernel/config rw - configfs configfs rw"]);
    match reason(&machine) {
        UnknownReason::NotRegistered { folder } => assert_eq!(folder, machine.full(NVMET)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn configfs_elsewhere_is_found() {
    let machine = FakeMachine::with_target_at("mnt/my config/nvmet");
    machine.add_namespace("lab", "1", "/dev/nvme0n1", "1");
    let lines = [
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
        "30 22 0:29 / /mnt/my\\040config rw,relatime shared:5 - configfs none rw",
    ];
    mount(&machine, &lines);
    assert_eq!(machine.only_export().subsystem, "lab");
}

#[test]
fn process_folder_is_found_by_its_link() {
    let machine = FakeMachine::with_target_at("mnt/nvmet");
    machine.add_namespace("lab", "1", "/dev/nvme0n1", "1");
    machine.write("proc/42/mountinfo", "30 22 0:29 / /mnt rw - configfs none rw\n");
    symlink("42", machine.full("proc/self")).expect("a link");
    assert_eq!(machine.only_export().subsystem, "lab");
}

#[test]
fn bind_mount_of_target_is_found() {
    let machine = FakeMachine::with_target_at("exports");
    machine.add_namespace("lab", "1", "/dev/nvme0n1", "1");
    mount(&machine, &["30 22 0:29 /nvmet /exports rw - configfs none rw"]);
    assert_eq!(machine.only_export().subsystem, "lab");
}

#[test]
fn covered_or_outside_mount_is_not_read() {
    let machine = FakeMachine::with_target_at("mnt/nvmet");
    machine.folder("sys/module/nvmet");
    let configfs = "30 22 0:29 / /mnt rw - configfs none rw";
    mount(&machine, &[configfs, "31 22 0:30 / /mnt rw - tmpfs none rw"]);
    assert!(matches!(reason(&machine), UnknownReason::NotMounted { .. }));
    mount(&machine, &["30 22 0:29 / /mnt/../../mnt rw - configfs none rw"]);
    assert!(matches!(reason(&machine), UnknownReason::Unreadable(_)));
}

#[test]
fn file_in_place_of_target_is_unknown() {
    let machine = FakeMachine::new();
    machine.write(NVMET, "");
    assert!(matches!(reason(&machine), UnknownReason::Unreadable(_)));
}

#[test]
fn file_in_place_of_subsystems_is_unknown() {
    let machine = FakeMachine::new();
    machine.write(format!("{NVMET}/subsystems"), "");
    let reason = reason(&machine);
    assert!(matches!(reason, UnknownReason::Unreadable(_)));
    let source = std::error::Error::source(&reason).expect("a source");
    let path = machine.full(format!("{NVMET}/subsystems"));
    assert_eq!(source.to_string(), format!("cannot read {}", path.display()));
}
