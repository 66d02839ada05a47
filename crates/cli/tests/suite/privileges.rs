//! Messages for people who are not root, and the rule that gives a group access.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::lab;
use crate::program::Exited;
use peerlane_testing::{Scratch, skip};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/60-peerlane.rules");

/// User and group `nobody`, by the number that Linux takes for unknown ones.
const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// Runs a copy of the program in a folder as a user who is not root.
fn peerlane(folder: &Path, words: &[&str]) -> Output {
    let program = folder.join("peerlane");
    let mut command = Command::new(&program);
    command.args(words).current_dir(folder);
    if rustix::process::getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().expect("the program starts")
}

fn plan(folder: &Path, source: &str, target: &str) -> Output {
    peerlane(folder, &["plan", source, target, "--json"])
}

/// Reasons and hints of the refusals in a plan.
fn refusals(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let plan: serde_json::Value = lab::schema::read(&output.stdout);
    plan["jobs"][0]["targets"][0]["plan"]["refusals"].to_string()
}

#[test]
fn missing_permissions_are_named_first() {
    let folder = Scratch::new();
    set_mode(folder.path(), 0o755);
    peerlane_testing::copy_program(env!("CARGO_BIN_EXE_peerlane").as_ref(), folder.path());
    for (name, mode) in [("secret", 0o000), ("open", 0o644)] {
        folder.write(name, [7; 4096]);
        set_mode(&folder.at(name), mode);
    }
    let made = ["haystack", "make", "--seed", "3", "--images", "1", "-o", "hay", "-q"];
    let mut haystack = Command::new(env!("CARGO_BIN_EXE_peerlane"));
    haystack.args(made).current_dir(folder.path());
    assert!(haystack.status().expect("the program starts").success());
    fs::rename(folder.at("hay/picture.png"), folder.at("picture.png")).expect("a picture");
    for (name, mode) in [("closed", 0o555), ("free", 0o777), ("shut", 0o000)] {
        folder.folder(name);
        set_mode(&folder.at(name), mode);
    }
    let source = refusals(&plan(folder.path(), "secret", "free/copy"));
    assert!(source.contains("cannot read"), "{source}");
    assert!(source.contains("secret: Permission denied"), "{source}");
    let target = refusals(&plan(folder.path(), "open", "closed/copy"));
    assert!(target.contains("cannot make files in"), "{target}");
    let compared = peerlane(folder.path(), &["verify", "open", "secret"]);
    let said = String::from_utf8_lossy(&compared.stderr);
    assert_eq!(compared.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot compare open with secret\ncaused by: cannot open"), "{said}");
    assert!(said.contains("hint: docs/privileges.md"), "{said}");
    for (words, says, hint) in [
        ("copy secret free/copy", "secret: Permission denied", "ls -l "),
        ("copy open closed/copy", "closed: Permission denied", "`namei -l "),
        ("copy shut/in free/copy", "caused by: Permission denied", "`namei -l shut/in` shows"),
        ("copy open shut/copy", "caused by: Permission denied", "`namei -l shut/copy` shows"),
        ("copy --batch secret", "cannot read the jobs file secret", "`namei -l secret` shows"),
        ("sim secret open", "cannot read machine secret", "`namei -l secret` shows"),
        ("sim shut/m.toml open", "cannot read machine shut/m.toml", "`namei -l shut/m.toml`"),
        ("sim shut open", "cannot read the machine below shut", "`namei -l shut/sys/devices`"),
        ("sim pair secret", "cannot read the workload secret", "`namei -l secret` shows"),
        (
            "sim tree:4 random:2 --parameters secret",
            "cannot read the parameters secret",
            "`namei -l secret` shows",
        ),
        (
            "sim tree:4 random:2 -o closed/run.json",
            "cannot write closed/run.json",
            "`ls -ld closed`",
        ),
        ("scan secret open", "cannot read picture secret", "`namei -l secret` shows"),
        ("scan picture.png secret", "cannot search secret", "`namei -l secret` shows"),
        ("report secret -o free/page.html", "cannot read record secret", "`namei -l secret` shows"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let output = peerlane(folder.path(), &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(says) && said.contains("Permission denied"), "{words:?}: {said}");
        let (_, told) = said.split_once("hint: ").unwrap_or_default();
        assert!(told.contains(hint), "{words:?}: {said}");
    }
    plan(folder.path(), "open", "free/copy").exited(0);
}

/// Complaints of `udevadm verify` about a file of rules; `None`, with the reason in the skip log,
/// if there is no such command.
fn against(rules: &Path) -> Option<String> {
    let program = std::env::var_os("PEERLANE_UDEVADM").unwrap_or("udevadm".into());
    // Groups are those of the machine that the rules are for.
    let words = ["verify", "--no-summary", "--resolve-names=never"];
    match Command::new(program).args(words).arg(rules).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("udevadm", "no udevadm here");
            None
        }
        Err(error) => panic!("{error}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // systemd before 254 has no such command.
            if said.contains("Unknown command") {
                skip("udevadm", "this udevadm has no `verify`");
                return None;
            }
            assert_eq!(output.status.success(), said.is_empty(), "{}: {said}", output.status);
            Some(said)
        }
    }
}

/// Left to `./test full`, which installs the command.
mod full {
    use super::*;

    #[test]
    fn udev_accepts_rule_and_examples() {
        let Some(said) = against(Path::new(RULES)) else { return };
        assert_eq!(said, "");
        let folder = Scratch::new();
        let rules = folder.at("60-peerlane.rules");
        let text = fs::read_to_string(RULES).expect("the rules");
        let examples = text.replace("\n#ACTION", "\nACTION");
        assert_ne!(examples, text, "there are examples");
        fs::write(&rules, &examples).expect("room");
        assert_eq!(against(&rules).as_deref(), Some(""));
        fs::write(&rules, examples.replace("TEST==", "TSET==")).expect("room");
        assert!(against(&rules).is_some_and(|said| said.contains("TSET")), "a mistake is found");
    }
}
