//! A root folder with stubs of programs, and the files of a plan.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use peerlane_results::DoctorRecord;

use crate::examine::drop_ins;

/// Programs that the scripts may use besides those of a boot loader.
const TOOLS: [&str; 22] = [
    "awk", "bash", "cat", "chmod", "cmp", "cp", "dash", "dirname", "grep", "head", "id", "mkdir",
    "mv", "paste", "readlink", "rm", "rmdir", "sed", "sh", "sort", "tr", "env",
];
/// Notes its call. Fails if the tree has a file for that, or if the real one would.
const STUB: &str = r#"#!/bin/sh
name=${0##*/}
echo "$name${*:+ $*}" >>"$PEERLANE_ROOT/calls"
if [ "$name $1" = "proxmox-boot-tool status" ]; then
    [ ! -e "$PEERLANE_ROOT/sys/firmware/efi" ] || echo "AAAA-BBBB is configured with: uefi (versions: 6.8)"
    [ -e "$PEERLANE_ROOT/etc/kernel/proxmox-boot-uuids" ]
else
    [ ! -e "$PEERLANE_ROOT/fail-$name" ]
fi
"#;
/// Replaces and removes arguments of entries by their names, as grubby does.
const GRUBBY: &str = r#"#!/bin/sh
entries=$PEERLANE_ROOT/entries
name_of() { for word in $1; do printf '%s ' "${word%%=*}"; done; }
without() {
    while read -r line; do
        kept=
        for word in $line; do case " $(name_of "$1")" in *" ${word%%=*} "*) ;; *) kept="$kept $word" ;; esac; done
        echo "${kept# }${2:+ $2}"
    done <"$entries" >"$entries.new"
    mv "$entries.new" "$entries"
}
case "$1 ${2:-}" in
"--info=ALL ") sed 's/.*/args="&"/' "$entries" ;;
"--update-kernel=ALL --args="*) without "${2#--args=}" "${2#--args=}" ;;
"--update-kernel=ALL --remove-args="*) without "${2#--remove-args=}" ;;
*) exit 1 ;;
esac
"#;

/// A folder of a plan and a root folder of a machine.
pub(super) struct Tree {
    pub(super) folder: tempfile::TempDir,
    pub(super) shell: &'static str,
}

impl Tree {
    /// A tree with files, stubs of programs, and the files of a plan.
    pub(super) fn new(files: &[(&str, &str)], programs: &[&str], record: &DoctorRecord) -> Self {
        let tree = Self { folder: tempfile::tempdir().expect("a folder"), shell: "sh" };
        for (path, content) in files {
            tree.write(path, content);
        }
        for file in drop_ins(record) {
            let path = tree.fix().join(file.path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, file.content).expect("room");
        }
        // A shell writes the programs: no process of another test can have them open.
        let script = "mkdir bin && cd bin && printf %s \"$STUB\" >.stub && printf %s \"$GRUBBY\" >.grubby &&
            chmod +x .stub .grubby && for name in $TOOLS; do
                ! at=$(command -v $name) || ln -s \"$at\" $name; done &&
            for name in $STUBS; do case $name in grubby) ln -sf .grubby grubby ;; *) ln -sf .stub $name ;; esac; done";
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).current_dir(tree.folder.path());
        shell.env("STUB", STUB).env("GRUBBY", GRUBBY);
        shell.env("TOOLS", TOOLS.join(" ")).env("STUBS", programs.join(" "));
        assert!(shell.status().expect("a shell").success());
        tree
    }

    pub(super) fn fix(&self) -> PathBuf {
        self.folder.path().join("fix")
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(super) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("room");
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_default()
    }

    pub(super) fn command(&self, script: &str) -> Command {
        let mut command = Command::new(self.shell);
        let mut words = script.split(' ');
        command.arg(self.fix().join(words.next().expect("a script"))).args(words);
        command.env("PEERLANE_ROOT", self.root()).env("PATH", self.folder.path().join("bin"));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, script: &str) -> Output {
        fs::create_dir_all(self.root()).expect("a folder");
        self.command(script).output().expect("a shell")
    }

    /// Runs a script that has to succeed. Returns its output.
    pub(super) fn succeed(&self, script: &str) -> String {
        let output = self.run(script);
        let said = said(&output);
        assert!(output.status.success(), "{script}: {said}");
        said
    }

    /// Runs a script that has to end with 1. Returns its output.
    pub(super) fn fail(&self, script: &str) -> String {
        let output = self.run(script);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{script}: {said}");
        said
    }

    /// Every file of the machine but the list of calls.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        collect(&self.root(), &mut files);
        files.retain(|path, _| !path.ends_with("calls"));
        files
    }

    /// The calls of stubs that change something, since the last time.
    pub(super) fn calls(&self) -> Vec<String> {
        let text = self.read("calls");
        let _ = fs::remove_file(self.root().join("calls"));
        let calls =
            text.lines().filter(|call| !call.contains("status") && !call.contains("is-installed"));
        calls.map(str::to_owned).collect()
    }
}

pub(super) fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Files with their content, and folders with none.
fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.insert(path.clone(), String::new());
            collect(&path, files);
        } else {
            let content = fs::read(&path).unwrap_or_default();
            files.insert(path, String::from_utf8_lossy(&content).into_owned());
        }
    }
}
