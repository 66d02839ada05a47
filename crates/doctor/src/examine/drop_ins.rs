//! Settings of the plan as files of the boot configuration, and scripts that install and remove them.

use std::fmt::Write as _;

use peerlane_fabric::{CufileConfiguration, CufileValue};
use peerlane_results::{DoctorRecord, PlanStep, Setting};

use super::boot_loader;

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
/// if the plan has no step that a command does.
pub fn drop_ins(record: &DoctorRecord) -> Vec<DropIn> {
    let has_command = |step: &PlanStep| !step.command.is_empty() || !step.settings.is_empty();
    if !record.steps.iter().any(has_command) {
        return Vec::new();
    }
    let settings: Vec<&Setting> = record.steps.iter().flat_map(|step| &step.settings).collect();
    let commands: Vec<&PlanStep> =
        record.steps.iter().filter(|step| step.settings.is_empty()).collect();
    let mut files = setting_files(&settings);
    if files.is_empty() {
        let head = "#!/bin/sh\n# The plan has no settings to install.\n";
        return vec![script(INSTALL, head.to_owned() + &step_comments(&commands))];
    }
    let install = INSTALL_SCRIPT.replace(RECOGNISE_MARK, &boot_loader::shell_function());
    files.push(script(INSTALL, install + &step_comments(&commands)));
    files.push(script(UNDO, UNDO_SCRIPT.to_owned()));
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
/// an unquoted `;` ends the command there. Quotes are taken off by GRUB, and by the kernel if
/// another boot loader leaves them (`next_arg()` in lib/cmdline.c).
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

/// `install.sh` without the parts that depend on the boot loader and on the plan.
const INSTALL_SCRIPT: &str = include_str!("install.sh");
const RECOGNISE_MARK: &str = "#@recognise@";

const UNDO_SCRIPT: &str = "\
#!/bin/sh
# Takes back what install.sh added, by its journal. Run it as root. POSIX sh.
exec sh \"$(dirname -- \"$0\")/install.sh\" --undo
";

/// Steps without a setting, for the end of a script.
fn step_comments(steps: &[&PlanStep]) -> String {
    let mut text = String::new();
    if !steps.is_empty() {
        text += "\n# Steps without a drop-in; read them, and run those that you want:\n";
    }
    for step in steps {
        let _ = writeln!(text, "# {}. {}", step.order, step.what.replace('\n', " "));
        for line in step.command.lines() {
            let _ = writeln!(text, "#   {line}");
        }
    }
    text
}

/// The way to see after the restart that the settings of a plan are in force; empty without any.
pub fn after_restart(record: &DoctorRecord) -> String {
    let settings = || record.steps.iter().flat_map(|step| &step.settings);
    if settings().next().is_none() {
        return String::new();
    }
    let mut text = String::from(
        "\nafter install.sh and the restart:\n  \
         `./install.sh --check` in this folder ends with 0 where the settings are in force; else it ends \
         with 1 and names those that are not\n",
    );
    let parameters: Vec<&str> = settings()
        .filter_map(|setting| match setting {
            Setting::KernelParameter(parameter) => Some(parameter.as_str()),
            _ => None,
        })
        .collect();
    if !parameters.is_empty() {
        let _ = writeln!(text, "  by hand: `cat /proc/cmdline` shows {}", parameters.join(" "));
    }
    text
}
