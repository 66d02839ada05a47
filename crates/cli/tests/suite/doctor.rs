//! `peerlane doctor` as people and monitoring type it: the plan written, assumed and checked.

use crate::program;
use crate::program::{Exited, repository};
use crate::schema;
use peerlane_testing::Scratch;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const CAPTURE: &str = "fixtures/sysfs/eight-gpus/tree.tar.zst";
const TEXT: &str = "fixtures/lspci/eight-gpus.txt";

fn doctor(words: &str) -> Output {
    let words: Vec<&str> = std::iter::once("doctor").chain(words.split_whitespace()).collect();
    program::peerlane(&repository(), &words)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn record(words: &str) -> Value {
    let output = doctor(&format!("{words} --json"));
    let record = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    schema::check(&record);
    record
}

fn kinds(record: &Value) -> Vec<&str> {
    let findings = record["findings"].as_array().expect("findings");
    findings.iter().map(|one| one["kind"].as_str().expect("a kind")).collect()
}

fn steps_with<'a>(record: &'a Value, word: &str) -> Vec<&'a Value> {
    let steps = record["steps"].as_array().expect("steps");
    steps
        .iter()
        .filter(|step| step["command"].as_str().is_some_and(|text| text.contains(word)))
        .collect()
}

#[test]
fn assumed_plan_leaves_nothing_to_fix() {
    for machine in [CAPTURE, TEXT] {
        let folder = Scratch::new();
        let fix = folder.at("fix");

        doctor(&format!("--machine {machine} --write-fix {}", fix.display())).exited(1);
        let before = record(&format!("--machine {machine}"));
        assert!(kinds(&before).contains(&"acs-redirect"), "{machine}: {before}");
        assert_eq!(steps_with(&before, "acs").len(), 1, "{machine}: one step for all switches");
        let after = record(&format!("--machine {machine} --assume {}", fix.display()));
        assert!(kinds(&after).is_empty(), "{machine}: {after:#}");
        assert_eq!(after["steps"], Value::Array(Vec::new()), "{machine}");
        assert!(after["assumed"].as_array().is_some_and(|all| !all.is_empty()), "{after}");
    }
}

#[test]
fn headline_has_worst_finding_and_uses() {
    for machine in [CAPTURE, TEXT] {
        let text = stdout(&doctor(&format!("--machine {machine}")));
        let mut lines = text.lines();
        assert!(lines.next().is_some_and(|first| first.ends_with(", 1 reboot")), "{text}");
        let headline = lines.next().expect("what works");
        for word in ["GPU to GPU", "storage to GPU", "network to GPU", "drive to drive"] {
            assert!(headline.contains(word), "{headline}");
        }
    }
}

#[test]
fn text_of_small_machines_stays_short() {
    for (machine, most) in [("laptop", 3), ("cloud-vm", 3), ("donard", 40)] {
        let text = stdout(&doctor(&format!("--machine fixtures/sysfs/{machine}/tree.tar.zst")));
        assert!(text.lines().count() <= most, "{text}");
        assert!(!text.contains("there is no NVMe drive"), "{text}");
    }
}

#[test]
fn written_files_can_be_undone() {
    let folder = Scratch::new();
    let fix = folder.at("fix");
    fs::create_dir(&fix).expect("a folder");
    fs::write(fix.join("mine"), "kept").expect("room");
    doctor(&format!("--machine {CAPTURE} --write-fix {}", fix.display())).exited(2);
    assert_eq!(fs::read_dir(&fix).expect("the folder").count(), 1);
    fs::remove_dir_all(&fix).expect("removed");
    doctor(&format!("--machine {CAPTURE} --write-fix {}", fix.display()));
    let plan = fs::read_to_string(fix.join("plan.txt")).expect("the plan");
    for words in
        ["`./install.sh --check`", "`cat /proc/cmdline` shows iommu=pt nvme_core.multipath=N pci="]
    {
        assert!(plan.contains(words), "{plan}");
    }
    let root = folder.at("root");
    assert!(run_script(&fix, "install.sh", &root).status.success());
    let grub = fs::read_to_string(root.join("etc/default/grub.d/peerlane.cfg")).expect("a drop-in");
    assert!(grub.contains("iommu=pt") && grub.contains("acs"), "{grub}");
    assert!(root.join("etc/modprobe.d/peerlane.conf").exists());
    let after = record(&format!("--machine {CAPTURE} --assume {}", fix.display()));
    assert!(kinds(&after).is_empty(), "copies and journal are no settings: {after:#}");
    assert!(run_script(&fix, "undo.sh", &root).status.success());
    assert!(!root.join("etc/default/grub.d/peerlane.cfg").exists());
    assert!(!root.join("etc/modprobe.d/peerlane.conf").exists());
}

#[test]
fn scripts_leave_files_that_differ() {
    let folder = Scratch::new();
    let (fix, root) = (folder.at("fix"), folder.at("root"));
    doctor(&format!("--machine {CAPTURE} --write-fix {}", fix.display()));
    let other = root.join("etc/modprobe.d/peerlane.conf");
    fs::create_dir_all(other.parent().expect("a folder")).expect("a folder");
    fs::write(&other, "options nvidia NVreg_EnableMSI=1\n").expect("room");
    run_script(&fix, "install.sh", &root).exited(1);
    assert!(!root.join("etc/default/grub.d/peerlane.cfg").exists(), "nothing is half installed");
    run_script(&fix, "undo.sh", &root);
    assert_eq!(fs::read_to_string(&other).expect("kept"), "options nvidia NVreg_EnableMSI=1\n");
}

/// Runs a written script on a root folder of Debian that GRUB started, with programs that do nothing.
fn run_script(fix: &Path, script: &str, root: &Path) -> Output {
    let variables = root.join("sys/firmware/efi/efivars");
    fs::create_dir_all(&variables).expect("a root");
    fs::create_dir_all(root.join("etc")).expect("a root");
    fs::write(root.join("etc/os-release"), "ID=debian\n").expect("room");
    let loader = variables.join("LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f");
    fs::write(loader, "G\0R\0U\0B\0").expect("room");
    let programs = root.join("bin");
    fs::create_dir_all(&programs).expect("a root");
    for name in ["update-grub", "update-initramfs"] {
        fs::write(programs.join(name), "#!/bin/sh\nexit 0\n").expect("room");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(programs.join(name), mode).expect("a mode");
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("a path"));
    let mut shell = Command::new("sh");
    shell.arg(fix.join(script)).env("PATH", path).env("PEERLANE_ROOT", root);
    shell.output().expect("a shell")
}

#[test]
fn check_has_the_statuses_of_monitoring() {
    for (words, status, word) in [
        ("--machine pair --check", 0, "OK"),
        ("--machine pair --check --expect drive-drive", 0, "OK"),
        ("--machine pair --check --expect storage-gpu", 2, "CRITICAL"),
        ("--machine acs --check --expect drive-drive", 2, "CRITICAL"),
        ("--machine acs --check", 1, "WARNING"),
        ("--machine acs --expect drive-drive", 2, "CRITICAL"),
        (
            "--machine fixtures/sysfs/two-sockets/tree.tar.zst --check --expect drive-drive",
            1,
            "WARNING",
        ),
        ("--machine fixtures/nccl/h100.xml --check --expect gpu-gpu", 0, "OK"),
        ("--machine fixtures/lspci/switch-direct.txt --check --expect gpu-gpu", 3, "UNKNOWN"),
        ("--machine fixtures/lspci/switch-unprivileged.txt --check", 3, "UNKNOWN"),
        ("--machine crates/cli/tests/field/tree-only.txt --check", 3, "UNKNOWN"),
        ("--machine crates/cli/tests/field/tree-only.txt --check --expect gpu-gpu", 3, "UNKNOWN"),
        ("--machine fixtures/sysfs/laptop/tree.tar.zst --check", 0, "OK"),
        ("--machine pair --check --quiet", 0, "OK"),
        ("--machine pair --check=yes", 3, "UNKNOWN"),
        ("--machine no/such/machine --check", 3, "UNKNOWN"),
        ("--check --expect nothing", 3, "UNKNOWN"),
        ("--check --no-such-option", 3, "UNKNOWN"),
    ] {
        let output = doctor(words);
        let line = stdout(&output);
        assert_eq!(output.status.code(), Some(status), "{words}: {line}");
        assert!(line.starts_with(&format!("PEERLANE {word} - ")), "{words}: {line}");
        assert_eq!(line.lines().count(), 1, "{words}: {line}");
        let data = line.split(" | ").nth(1).unwrap_or_default();
        for one in data.split_whitespace() {
            let (label, values) = one.split_once('=').expect("a label and values");
            assert!(!label.contains('\'') && values.split(';').count() == 5, "{one}");
        }
    }
    assert_eq!(doctor("--no-such-option").status.code(), Some(2), "without --check");
    let line = stdout(&doctor(&format!("--check --machine {CAPTURE}")));
    assert!(line.contains("[iommu-translates, multipath-head, "), "codes of findings: {line}");
    assert!(line.len() < 2048, "kubelet keeps no more of a log: {line}");
    assert!(!stdout(&doctor("--machine pair --check")).contains('['), "no finding, no code");
}

#[test]
fn two_devices_without_files_are_examined() {
    let text = stdout(&doctor(&format!("gpu:0 mlx5_0 --machine {CAPTURE}")));
    assert!(text.starts_with("gpu:0 -> mlx5_0: unknown: "), "{text}");
    assert!(text.contains("fixes (one reboot):"), "{text}");
    let record = record(&format!("gpu:0 gpu:1 --machine {CAPTURE}"));
    assert_eq!(record["uses"].as_array().map(Vec::len), Some(1), "{record}");
    assert_eq!(record["uses"][0]["use"], "gpu-gpu");
    doctor(&format!("0000:18:00.0 0000:1a:00.0 --machine {CAPTURE}")).exited(1);
    for ends in ["gpu:0 mlx5_9", "0000:17:00.0 gpu:0"] {
        let output = doctor(&format!("{ends} --machine {CAPTURE}"));
        assert_eq!(output.status.code(), Some(2), "{ends}: {output:?}");
    }
}

#[test]
fn wrong_boot_configurations_are_refused() {
    let folder = Scratch::new();
    let file = folder.at("wrong.conf");
    fs::write(&file, "GRUB_CMDLINE_LINUX=\"open\n").expect("room");
    for path in [file, folder.at("missing")] {
        let output = doctor(&format!("--machine pair --assume {}", path.display()));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("hint:"), "{said}");
    }
}

#[test]
fn plan_without_commands_writes_nothing() {
    let folder = Scratch::new();
    let output = crate::program::typed(folder.path(), "doctor --machine acs --write-fix fix");
    let said = crate::program::said(&output);
    assert!(said.contains("fix was not written: no step has a command"), "{said}");
    assert!(!folder.at("fix").exists());
}
