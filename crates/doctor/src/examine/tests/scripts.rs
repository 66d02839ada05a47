//! `install.sh` and `undo.sh` in trees with the files of a distribution and stubs of its programs.

mod tree;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::super::boot_loader::recognised;
use super::*;
use tree::{Tree, said};

const QUOTED: &str = "pci=\"disable_acs_redir=pci:10b5:8747;pci:8086:e2f0\"";
const PARAMETERS: [&str; 2] =
    ["pci=disable_acs_redir=pci:10b5:8747;pci:8086:e2f0", "nvme_core.multipath=N"];
const COMMAND_LINE: &str = "root=ZFS=rpool/ROOT/pve-1 boot=zfs\n";
const DEFAULTS: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"";
const ENTRY: &str = "title Arch\nlinux /vmlinuz-linux\noptions\troot=/dev/sda2 rw\n";
/// As a loader tells its name.
const LOADER_INFO: &str =
    "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

fn parameters() -> Vec<Setting> {
    PARAMETERS.iter().map(|one| Setting::KernelParameter((*one).to_owned())).collect()
}

fn plan(settings: Vec<Setting>) -> DoctorRecord {
    let mut record = examined(&[REDIRECTS]);
    record.steps.truncate(1);
    record.steps[0].settings = settings;
    record
}

struct Case {
    loader: &'static str,
    files: &'static [(&'static str, &'static str)],
    programs: &'static [&'static str],
    /// Files that get the parameters.
    changed: &'static [&'static str],
    calls: &'static [&'static str],
    /// Its evidence needs no program.
    is_seen_by_peerlane: bool,
}

const OS: &str = "etc/os-release";
const CASES: [Case; 13] = [
    Case {
        loader: "GRUB of Debian and Ubuntu",
        files: &[(OS, "ID=ubuntu\nID_LIKE=debian\n"), ("etc/default/grub", DEFAULTS)],
        programs: &["update-grub", "grub-mkconfig", "proxmox-boot-tool"],
        changed: &["etc/default/grub.d/peerlane.cfg"],
        calls: &["update-grub"],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "GRUB of Debian and Ubuntu",
        files: &[(OS, "ID=debian\n"), ("etc/default/grub.d/kdump.cfg", "GRUB_X=1\n")],
        programs: &["update-grub", "grub-mkconfig", "grubby"],
        changed: &["etc/default/grub.d/peerlane.cfg"],
        calls: &["update-grub"],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "Proxmox VE with proxmox-boot-tool",
        files: &[
            (OS, "ID=debian\n"),
            ("etc/kernel/cmdline", COMMAND_LINE),
            ("etc/kernel/proxmox-boot-uuids", "AAAA-BBBB\n"),
            ("etc/default/grub", DEFAULTS),
        ],
        programs: &[
            "proxmox-boot-tool",
            "update-grub",
            "grub-mkconfig",
            "bootctl",
            "kernel-install",
        ],
        changed: &["etc/kernel/cmdline", "etc/default/grub.d/peerlane.cfg"],
        calls: &["proxmox-boot-tool refresh"],
        is_seen_by_peerlane: true,
    },
    // Started by GRUB: with Secure Boot, or by a BIOS.
    Case {
        loader: "Proxmox VE with proxmox-boot-tool",
        files: &[("etc/kernel/proxmox-boot-uuids", "AAAA-BBBB\n"), ("etc/default/grub", DEFAULTS)],
        programs: &["proxmox-boot-tool", "update-grub", "grub-mkconfig"],
        changed: &["etc/default/grub.d/peerlane.cfg"],
        calls: &["proxmox-boot-tool refresh"],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "grubby (Fedora, RHEL)",
        files: &[(OS, "ID=\"rhel\"\nID_LIKE=\"fedora\"\n"), ("entries", "ro quiet\nro\n")],
        programs: &["grubby", "grub2-mkconfig"],
        changed: &["entries"],
        calls: &[],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "GRUB of SUSE",
        files: &[
            (OS, "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n"),
            ("etc/default/grub", DEFAULTS),
            ("etc/sysconfig/bootloader", "LOADER_TYPE=\"grub2-efi\"\n# or systemd-boot\n"),
        ],
        programs: &["grub2-mkconfig", "update-bootloader", "grubby", "sdbootutil"],
        changed: &["etc/default/grub"],
        calls: &["grub2-mkconfig -o /boot/grub2/grub.cfg"],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "entries of sdbootutil (SUSE)",
        files: &[
            (OS, "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n"),
            ("etc/kernel/cmdline", COMMAND_LINE),
            ("etc/sysconfig/bootloader", "LOADER_TYPE=\"grub2-bls\"\n"),
        ],
        programs: &["grub2-mkconfig", "sdbootutil", "kernel-install"],
        changed: &["etc/kernel/cmdline"],
        calls: &["sdbootutil update-all-entries"],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "GRUB of Arch and others",
        files: &[(OS, "ID=manjaro\nID_LIKE=arch\n"), ("etc/default/grub", DEFAULTS)],
        programs: &["grub-mkconfig", "update-grub", "kernel-install"],
        changed: &["etc/default/grub"],
        calls: &["grub-mkconfig -o /boot/grub/grub.cfg"],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "systemd-boot with entries as text",
        files: &[
            (OS, "ID=arch\n"),
            ("etc/default/grub", DEFAULTS),
            ("etc/kernel/cmdline", COMMAND_LINE),
            ("boot/loader/entries/arch.conf", ENTRY),
            ("boot/loader/entries/lts.conf", ENTRY),
            (LOADER_INFO, "\u{6}\0\0\0s\0y\0s\0t\0e\0m\0d\0-\0b\0o\0o\0t\0"),
        ],
        programs: &["grub-mkconfig", "kernel-install"],
        changed: &[
            "boot/loader/entries/arch.conf",
            "boot/loader/entries/lts.conf",
            "etc/kernel/cmdline",
        ],
        calls: &[],
        is_seen_by_peerlane: true,
    },
    Case {
        loader: "kernel images of mkinitcpio",
        files: &[
            (OS, "ID=arch\n"),
            ("etc/kernel/cmdline", "root=/dev/sda2 rw"),
            ("etc/mkinitcpio.d/linux.preset", "#x_uki=\ndefault_uki=\"/efi/EFI/Linux/arch.efi\"\n"),
        ],
        programs: &["bootctl", "mkinitcpio", "kernel-install"],
        changed: &["etc/kernel/cmdline"],
        calls: &["mkinitcpio -P"],
        is_seen_by_peerlane: false,
    },
    Case {
        loader: "systemd-boot with kernel-install",
        files: &[(OS, "ID=fedora\n"), ("etc/kernel/cmdline", COMMAND_LINE)],
        programs: &["bootctl", "kernel-install", "update-grub", "grubby"],
        changed: &["etc/kernel/cmdline"],
        calls: &["kernel-install add-all"],
        is_seen_by_peerlane: false,
    },
    Case {
        loader: "systemd-boot with kernel-install",
        files: &[
            (OS, "ID=debian\n"),
            ("etc/kernel/cmdline", "# ours\n\nroot=/dev/sda2 rw"),
            ("boot/vmlinuz-6.12.1-amd64", ""),
            ("boot/vmlinuz-gone", ""),
            ("lib/modules/6.12.1-amd64/modules.dep", ""),
        ],
        programs: &["bootctl", "kernel-install", "update-grub"],
        changed: &["etc/kernel/cmdline"],
        calls: &["kernel-install add 6.12.1-amd64 ROOT/boot/vmlinuz-6.12.1-amd64"],
        is_seen_by_peerlane: false,
    },
    // GRUB started the machine: systemd-boot is left over.
    Case {
        loader: "GRUB of Debian and Ubuntu",
        files: &[("etc/kernel/cmdline", COMMAND_LINE), (LOADER_INFO, "\u{6}\0\0\0G\0R\0U\0B\0")],
        programs: &["bootctl", "kernel-install", "update-grub"],
        changed: &["etc/default/grub.d/peerlane.cfg"],
        calls: &["update-grub"],
        is_seen_by_peerlane: true,
    },
];

#[test]
fn each_boot_loader_is_changed_once_and_restored() {
    let _turn = crate::testing::Turn::take();
    for (case, shell) in CASES.iter().zip(["dash", "bash"].into_iter().cycle()) {
        let mut tree = Tree::new(case.files, case.programs, &plan(parameters()));
        if tree.folder.path().join("bin").join(shell).exists() {
            tree.shell = shell;
        }
        installs_and_undoes(&tree, case);
    }
}

fn installs_and_undoes(tree: &Tree, case: &Case) {
    let name = case.loader;
    let before = tree.files();
    let said = tree.succeed("install.sh");
    assert!(said.starts_with(&format!("boot loader: {name}\n")), "{name}: {said}");
    assert!(said.contains("install.sh --check"), "{name}: {said}");
    let expected = |calls: &[&str]| -> Vec<String> {
        calls.iter().map(|call| call.replace("ROOT", &tree.root().display().to_string())).collect()
    };
    assert_eq!(tree.calls(), expected(case.calls), "{name}");
    let after = tree.files();
    let is_changed = |path: &&PathBuf| path.is_file() && before.get(*path) != after.get(*path);
    let changed: Vec<PathBuf> = after.keys().filter(is_changed).cloned().collect();
    let mut files: Vec<PathBuf> = case.changed.iter().map(|path| tree.root().join(path)).collect();
    files.sort();
    assert_eq!(changed, files, "{name}");
    for file in case.changed {
        let plain = tree.read(file).replace('\\', "");
        assert!(plain.contains(QUOTED) && plain.contains(PARAMETERS[1]), "{name}: {plain}");
    }
    tree.succeed("install.sh");
    assert_eq!(tree.files(), after, "{name}: a second run");
    tree.calls();
    tree.succeed("undo.sh");
    assert_eq!(tree.files(), before, "{name}");
    assert_eq!(tree.calls(), expected(case.calls), "{name}: undone");
    assert!(tree.succeed("undo.sh").contains("nothing to undo"), "{name}");
    let seen = recognised(&tree.root(), &|program| case.programs.contains(&program));
    assert_eq!(seen == Some(name), case.is_seen_by_peerlane, "{name}: {seen:?}");
}

#[test]
fn other_boot_loaders_are_named_and_left_alone() {
    let _turn = crate::testing::Turn::take();
    let grub = ["update-grub", "grub-mkconfig", "update-initramfs"];
    for (files, programs, words) in [
        (&[("etc/NIXOS", "")][..], &grub[..], ["NixOS", "boot.kernelParams"]),
        (&[("run/ostree-booted", "")], &["grubby"], ["rpm-ostree", "--append-if-missing"]),
        (
            &[("boot/firmware/cmdline.txt", "root=/dev/mmcblk0p2\n")],
            &grub,
            ["Raspberry Pi", "cmdline.txt"],
        ),
        (&[("etc/kernel/cmdline", COMMAND_LINE)], &["kernel-install"], ["unknown", "firmware"]),
        (&[], &["bootctl", "kernel-install"], ["systemd-boot", "/etc/kernel/cmdline"]),
        (&[], &["bootctl", "sdboot-manage"], ["CachyOS", "LINUX_OPTIONS"]),
        (&[], &["bootctl", "kernelstub"], ["Pop!_OS", "--add-options"]),
        (&[("boot/extlinux/extlinux.conf", "")], &[], ["U-Boot", "APPEND"]),
    ] {
        let mut settings = parameters();
        settings.push(Setting::Module("nvidia-peermem".to_owned()));
        let tree = Tree::new(files, programs, &plan(settings));
        let before = tree.files();
        let said = tree.fail("install.sh");
        for word in words.into_iter().chain(["changed nothing", QUOTED]) {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert_eq!(tree.files(), before, "{said}");
        assert!(tree.calls().is_empty() && !tree.fix().join("installed").exists());
    }
}

const PROXMOX: [(&str, &str); 2] =
    [("etc/kernel/cmdline", COMMAND_LINE), ("etc/kernel/proxmox-boot-uuids", "AAAA-BBBB\n")];

#[test]
fn failed_step_takes_everything_back() {
    let _turn = crate::testing::Turn::take();
    for failing in ["proxmox-boot-tool", "update-initramfs"] {
        let programs = ["proxmox-boot-tool", "update-initramfs", "update-grub"];
        let mut settings = parameters();
        settings.push(Setting::ModuleOptions("nvidia NVreg_X=1".to_owned()));
        let tree = Tree::new(&PROXMOX, &programs, &plan(settings));
        tree.write(&format!("fail-{failing}"), "");
        let before = tree.files();
        let said = tree.fail("install.sh");
        assert!(
            said.contains(&format!("error: `{failing}")) && said.contains("taking back"),
            "{said}"
        );
        assert_eq!(tree.files(), before, "{said}");
        assert!(
            tree.fail("undo.sh").contains("run undo.sh again"),
            "its commands are still to run"
        );
        fs::remove_file(tree.root().join(format!("fail-{failing}"))).expect("removed");
        tree.succeed("undo.sh");
        assert!(tree.calls().last().is_some_and(|call| call.starts_with(failing)));
        assert!(!tree.fix().join("installed").exists());
    }
}

#[test]
fn missing_command_line_of_proxmox_stops() {
    let _turn = crate::testing::Turn::take();
    let efi = ("sys/firmware/efi/fw_platform_size", "64\n");
    let tree = Tree::new(&[PROXMOX[1], efi], &["proxmox-boot-tool"], &plan(parameters()));
    let before = tree.files();
    let said = tree.fail("install.sh");
    assert!(said.contains("there is no /etc/kernel/cmdline"), "{said}");
    assert_eq!((tree.files(), tree.calls()), (before, vec![]));
}

#[test]
fn differing_file_stops_before_any_change() {
    let _turn = crate::testing::Turn::take();
    let other = [("etc/default/grub.d/peerlane.cfg", "GRUB_CMDLINE_LINUX=x\n")];
    let tree = Tree::new(&other, &["update-grub"], &plan(parameters()));
    let before = tree.files();
    assert!(tree.fail("install.sh").contains("is there and differs"));
    assert_eq!((tree.files(), tree.calls()), (before, vec![]));
}

#[test]
fn undo_keeps_what_others_wrote() {
    let _turn = crate::testing::Turn::take();
    let has_one = ("etc/kernel/cmdline", "nvme_core.multipath=N root=/dev/sda2");
    let tree = Tree::new(&[has_one, PROXMOX[1]], &["proxmox-boot-tool"], &plan(parameters()));
    tree.succeed("install.sh");
    let text = tree.read("etc/kernel/cmdline");
    assert_eq!(text, format!("{} {QUOTED}\n", has_one.1));
    tree.write("etc/kernel/cmdline", &format!("quiet {text}").replace("sda2", "sdb2"));
    tree.succeed("undo.sh");
    assert_eq!(tree.read("etc/kernel/cmdline"), "quiet nvme_core.multipath=N root=/dev/sdb2\n");

    let longer = ("etc/kernel/cmdline", "x.nvme_core.multipath=N nvme_core.multipath=No");
    let tree = Tree::new(&[longer, PROXMOX[1]], &["proxmox-boot-tool"], &plan(parameters()));
    tree.succeed("install.sh");
    let text = format!("{} {QUOTED} {}\n", longer.1, PARAMETERS[1]);
    assert_eq!(tree.read("etc/kernel/cmdline"), text, "whole words are compared");

    let tree =
        Tree::new(&[("etc/default/grub", DEFAULTS)], &["grub2-mkconfig"], &plan(parameters()));
    tree.succeed("install.sh");
    let added = tree.read("etc/default/grub");
    tree.write("etc/default/grub", &format!("GRUB_TIMEOUT=1\n{added}GRUB_LATER=1\n"));
    tree.succeed("undo.sh");
    assert_eq!(
        tree.read("etc/default/grub"),
        format!("GRUB_TIMEOUT=1\n{DEFAULTS}\nGRUB_LATER=1\n")
    );
}

#[test]
fn grubby_keeps_other_options_of_pci() {
    let _turn = crate::testing::Turn::take();
    let entries = [("entries", "ro pci=noaer,realloc pcie_aspm=off\nro\n")];
    let tree = Tree::new(&entries, &["grubby"], &plan(parameters()));
    tree.succeed("install.sh");
    let merged = QUOTED.replace("pci=\"", "pci=\"noaer,realloc,");
    for line in tree.read("entries").lines() {
        assert!(line.contains(&merged) && line.contains(PARAMETERS[1]), "{line}");
    }
    assert!(tree.read("entries").contains("pcie_aspm=off"));
    tree.succeed("undo.sh");
    let restored = "ro pcie_aspm=off pci=noaer,realloc\nro pci=noaer,realloc\n";
    assert_eq!(tree.read("entries"), restored);

    let entries = [("entries", "ro nvme_core.multipath=N\n")];
    let tree = Tree::new(&entries, &["grubby"], &plan(parameters()));
    tree.succeed("install.sh");
    tree.succeed("undo.sh");
    assert_eq!(tree.read("entries"), entries[0].1, "it was there before");

    let entries = [("entries", "ro nvme_core.multipath=Y\n")];
    let tree = Tree::new(&entries, &["grubby"], &plan(parameters()));
    assert!(tree.fail("install.sh").contains("the boot entries have nvme_core.multipath=Y"));
    assert_eq!(tree.read("entries"), entries[0].1);
}

#[test]
fn check_names_settings_not_in_force() {
    let _turn = crate::testing::Turn::take();
    let mut settings = parameters();
    settings.push(Setting::ModuleOptions("nvidia NVreg_Registry=\"a=1;b=2\"".to_owned()));
    settings.push(Setting::ModuleOptions("nvme use_cmb_sqes=0".to_owned()));
    settings.push(Setting::Module("nvidia-peermem".to_owned()));
    let rule = "KERNEL==\"nvme0n1\", ATTR{queue/max_sectors_kb}=\"512\"";
    settings.push(Setting::UdevRule(rule.to_owned()));
    let in_force = [
        (
            "proc/cmdline",
            "pci=noaer,disable_acs_redir=pci:10b5:8747;pci:8086:e2f0 nvme_core.multipath=N\n",
        ),
        ("proc/driver/nvidia/params", "Registry: \"a=1;b=2\"\n"),
        ("sys/module/nvme/parameters/use_cmb_sqes", "N\n"),
        ("sys/module/nvidia_peermem/refcnt", "0\n"),
        ("sys/class/block/nvme0n1/queue/max_sectors_kb", "512\n"),
    ];
    let tree = Tree::new(&in_force, &[], &plan(settings));
    assert!(tree.succeed("install.sh --check").contains("in force: all settings"));
    for (path, content, words) in [
        ("proc/cmdline", format!("{QUOTED} -- {}\n", PARAMETERS[1]), PARAMETERS[1]),
        (
            "proc/cmdline",
            format!("{QUOTED} {} nvme_core.multipath=Y\n", PARAMETERS[1]),
            PARAMETERS[1],
        ),
        (
            "proc/cmdline",
            format!("{} {QUOTED} pci=disable_acs_redir=x\n", PARAMETERS[1]),
            PARAMETERS[0],
        ),
        ("proc/driver/nvidia/params", String::new(), "NVreg_Registry"),
        ("sys/module/nvme/parameters/use_cmb_sqes", "Y\n".to_owned(), "use_cmb_sqes"),
        ("sys/class/block/nvme0n1/queue/max_sectors_kb", "128\n".to_owned(), "max_sectors_kb"),
    ] {
        let kept = tree.read(path);
        tree.write(path, &content);
        let said = tree.fail("install.sh --check");
        assert!(said.starts_with("not in force: ") && said.contains(words), "{said}");
        assert_eq!(said.lines().count(), 2, "one setting, and a hint: {said}");
        tree.write(path, &kept);
    }
    fs::remove_dir_all(tree.root().join("sys/module/nvidia_peermem")).expect("removed");
    assert!(tree.fail("install.sh --check").contains("module nvidia-peermem is not loaded"));
}

#[test]
fn scripts_need_root_and_pass_shellcheck() {
    let _turn = crate::testing::Turn::take();
    let tree = Tree::new(&[], &["update-grub"], &plan(parameters()));
    // A user who is not root.
    let stub = "rm id && printf '#!/bin/sh\\necho 1000\\n' >id && chmod +x id";
    let status =
        Command::new("sh").args(["-c", stub]).current_dir(tree.folder.path().join("bin")).status();
    assert!(status.expect("a shell").success());
    for script in ["install.sh", "undo.sh"] {
        let output = tree.command(script).env_remove("PEERLANE_ROOT").output().expect("a shell");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).starts_with(&format!("error: {script} needs root")), "{output:?}");
    }
    let check = Command::new("shellcheck")
        .arg(tree.fix().join("install.sh"))
        .arg(tree.fix().join("undo.sh"))
        .output();
    match check {
        Ok(output) => assert!(output.status.success(), "{}", said(&output)),
        Err(error) => crate::testing::skip("shellcheck", &error.to_string()),
    }
}
