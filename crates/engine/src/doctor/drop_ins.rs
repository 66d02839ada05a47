//! Settings of the plan as files of the boot configuration, and scripts that install and remove them.

use std::fmt::Write as _;

use peerlane_fabric::{CufileConfiguration, CufileValue};
use peerlane_results::{DoctorRecord, PlanStep, Setting};

/// Kernel parameters, for GRUB as Debian and Ubuntu configure it.
const GRUB: &str = "grub.d/peerlane.cfg";
/// Kernel parameters alone, for other boot loaders.
const COMMAND_LINE: &str = "cmdline.d/peerlane.conf";
const MODULE_OPTIONS: &str = "modprobe.d/peerlane.conf";
const MODULES: &str = "modules-load.d/peerlane.conf";
const UDEV: &str = "udev/60-peerlane-doctor.rules";
const CUFILE: &str = "cufile.d/peerlane.json";
const INSTALL: &str = "install.sh";
const UNDO: &str = "undo.sh";

/// A file to write, by its path below the folder of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIn {
    /// Path.
    pub path: &'static str,
    /// Content.
    pub content: String,
    /// It is a script.
    pub is_executable: bool,
}

/// The files for the plan of a record: drop-ins for settings, and scripts that install and undo them; empty
/// where the plan has no step that a command does.
pub fn drop_ins(record: &DoctorRecord) -> Vec<DropIn> {
    let settings: Vec<&Setting> = record.steps.iter().flat_map(|step| &step.settings).collect();
    let commands: Vec<&PlanStep> =
        record.steps.iter().filter(|step| step.settings.is_empty()).collect();
    let mut files = setting_files(&settings);
    if files.is_empty() && commands.is_empty() {
        return Vec::new();
    }
    let paths: Vec<&'static str> = files.iter().map(|file| file.path).collect();
    files.push(script(INSTALL, install_script(&paths, &settings, &commands)));
    files.push(script(UNDO, undo_script(&paths, &settings)));
    files
}

fn script(path: &'static str, content: String) -> DropIn {
    DropIn { path, content, is_executable: true }
}

fn setting_files(settings: &[&Setting]) -> Vec<DropIn> {
    let lines = |of: &dyn Fn(&Setting) -> Option<String>| {
        let mut all: Vec<String> = settings.iter().filter_map(|setting| of(setting)).collect();
        all.dedup();
        all
    };
    let parameters = lines(&|setting| match setting {
        Setting::KernelParameter(parameter) => Some(parameter.clone()),
        _ => None,
    });
    let options = lines(&|setting| match setting {
        Setting::ModuleOptions(options) => Some(format!("options {options}")),
        _ => None,
    });
    let modules = lines(&|setting| match setting {
        Setting::Module(module) => Some(module.clone()),
        _ => None,
    });
    let rules = lines(&|setting| match setting {
        Setting::UdevRule(rule) => Some(rule.clone()),
        _ => None,
    });
    let grub: Vec<String> = parameters.iter().map(|one| grub_line(one)).collect();
    let words: Vec<String> = parameters.iter().map(|one| quoted(one)).collect();
    let command_line = if words.is_empty() { Vec::new() } else { vec![words.join(" ")] };
    let all = [
        (GRUB, grub),
        (COMMAND_LINE, command_line),
        (MODULE_OPTIONS, options),
        (MODULES, modules),
        (UDEV, rules),
    ];
    let written = all.into_iter().filter(|(_, lines)| !lines.is_empty());
    let mut files: Vec<DropIn> = written
        .map(|(path, lines)| DropIn {
            path,
            content: format!("# Written by `peerlane doctor --write-fix`.\n{}\n", lines.join("\n")),
            is_executable: false,
        })
        .collect();
    files.extend(cufile_file(settings));
    files
}

/// Keys for `/etc/cufile.json`, in its form.
fn cufile_file(settings: &[&Setting]) -> Option<DropIn> {
    let mut keys = CufileConfiguration::default();
    for setting in settings {
        if let Setting::CufileKey(key, value) = setting {
            keys.settings.insert(key.clone(), CufileValue::Flag(*value));
        }
    }
    let content = format!("{}\n", peerlane_fabric::cufile::text(&keys));
    (!keys.settings.is_empty()).then_some(DropIn { path: CUFILE, content, is_executable: false })
}

/// A kernel parameter with a value that boot loaders would cut, in quotes.
///
/// GRUB's configuration is a script, in `grub.cfg` and in the entries of the Boot Loader Specification alike:
/// an unquoted `;` ends the command there. Quotes are taken off by GRUB, and by the kernel where another
/// boot loader leaves them (`next_arg()` in lib/cmdline.c).
pub(super) fn quoted(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, value)) if value.contains(';') => format!("{name}=\"{value}\""),
        _ => parameter.to_owned(),
    }
}

/// The line of a drop-in of GRUB that adds a kernel parameter to those that are there.
pub(super) fn grub_line(parameter: &str) -> String {
    let quoted = quoted(parameter).replace('"', "\\\"");
    format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {quoted}\"")
}

/// Places of drop-ins on a machine; the command line has none that all distributions share.
const TARGETS: [(&str, &str); 4] = [
    (GRUB, "/etc/default/grub.d/peerlane.cfg"),
    (MODULE_OPTIONS, "/etc/modprobe.d/peerlane.conf"),
    (MODULES, "/etc/modules-load.d/peerlane.conf"),
    (UDEV, "/etc/udev/rules.d/60-peerlane-doctor.rules"),
];

fn target(path: &str) -> Option<&'static str> {
    TARGETS.iter().find(|(one, _)| *one == path).map(|(_, target)| *target)
}

const SCRIPT_HEAD: &str = "#!/bin/sh\nset -eu\ncd \"$(dirname \"$0\")\"\n";

fn install_script(paths: &[&str], settings: &[&Setting], steps: &[&PlanStep]) -> String {
    let mut text = format!(
        "{SCRIPT_HEAD}# Installs the drop-ins beside it. Run it as root; undo.sh takes them away.\n"
    );
    let placed: Vec<(&str, &str)> =
        paths.iter().filter_map(|path| Some((*path, target(path)?))).collect();
    for (path, target) in &placed {
        let _ = writeln!(
            text,
            "if [ -e {target} ] && ! cmp -s {path} {target}; then\n    \
             echo \"{target} is there and differs: join the two by hand\" >&2\n    exit 1\nfi"
        );
    }
    for (path, target) in placed.iter().filter(|(path, _)| *path != GRUB) {
        let _ = writeln!(text, "install -D -m 644 {path} {target}");
    }
    if paths.contains(&MODULE_OPTIONS) {
        text += INITIAL_RAM_DISK;
    }
    if paths.contains(&GRUB) {
        text += &boot_loaders(
            "install -D -m 644 grub.d/peerlane.cfg /etc/default/grub.d/peerlane.cfg",
            settings,
            "--args",
            "add the words of cmdline.d/peerlane.conf to /etc/kernel/cmdline, then run kernel-install add-all",
        );
    }
    if paths.contains(&CUFILE) {
        text += "echo \"put the keys of cufile.d/peerlane.json into /etc/cufile.json, which is NVIDIA's\" >&2\n";
    }
    if !steps.is_empty() {
        text += "\n# Steps without a drop-in; read them, and run those that you want:\n";
        for step in steps {
            let _ = writeln!(text, "# {}. {}", step.order, step.what.replace('\n', " "));
            for line in step.command.lines() {
                let _ = writeln!(text, "#   {line}");
            }
        }
    }
    text
}

/// The initial RAM disk may hold options of modules.
const INITIAL_RAM_DISK: &str = "if command -v update-initramfs >/dev/null; then\n    update-initramfs -u\n\
     elif command -v dracut >/dev/null; then\n    dracut --force\nfi\n";

fn undo_script(paths: &[&str], settings: &[&Setting]) -> String {
    let mut text =
        format!("{SCRIPT_HEAD}# Takes away what install.sh installed. Run it as root.\n");
    for path in paths.iter().filter(|path| **path != GRUB) {
        let Some(target) = target(path) else { continue };
        text += &removal(path, target, "");
    }
    if paths.contains(&MODULE_OPTIONS) {
        text += INITIAL_RAM_DISK;
    }
    if paths.contains(&GRUB) {
        text += &boot_loaders(
            removal("grub.d/peerlane.cfg", "/etc/default/grub.d/peerlane.cfg", "    ").trim(),
            settings,
            "--remove-args",
            "take the words of cmdline.d/peerlane.conf out of /etc/kernel/cmdline, then run kernel-install add-all",
        );
    }
    if paths.contains(&CUFILE) {
        text += "echo \"take the keys of cufile.d/peerlane.json out of /etc/cufile.json\" >&2\n";
    }
    text
}

/// Removes a file that is as it was installed, and leaves any other.
fn removal(path: &str, target: &str, indent: &str) -> String {
    format!(
        "{indent}if cmp -s {path} {target}; then\n{indent}    rm {target}\n{indent}elif [ -e {target} ]; then\n\
         {indent}    echo \"{target} differs and was not removed\" >&2\n{indent}fi\n"
    )
}

/// The branches for boot loaders: GRUB of Debian and Ubuntu, grubby, and others, which it only names.
fn boot_loaders(grub: &str, settings: &[&Setting], grubby: &str, others: &str) -> String {
    let words: Vec<String> = settings
        .iter()
        .filter_map(|setting| match setting {
            Setting::KernelParameter(parameter) => Some(quoted(parameter)),
            _ => None,
        })
        .collect();
    format!(
        "if command -v update-grub >/dev/null; then   # Debian, Ubuntu\n    {grub}\n    update-grub\n\
         elif command -v grubby >/dev/null; then   # Fedora, RHEL\n    \
         grubby --update-kernel=ALL {grubby}='{}'\n\
         else   # systemd-boot and others\n    echo \"{others}\" >&2\n    exit 1\nfi\n",
        words.join(" ")
    )
}
