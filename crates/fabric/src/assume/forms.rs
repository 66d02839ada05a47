//! Lines of a boot configuration, by their form.
//!
//! | Form | Read from |
//! | --- | --- |
//! | kernel parameters | `/proc/cmdline`, `kernel/cmdline`, `cmdline.d` |
//! | `GRUB_CMDLINE_LINUX="..."` | `grub.d`, `/etc/default/grub` |
//! | `options root=... ro` | entries of systemd-boot and of GRUB on Fedora |
//! | `options MODULE NAME=VALUE` | `modprobe.d` |
//! | `NAME`, `module NAME` | `modules-load.d`, anywhere |

use std::path::Path;

use super::command_line::{self, NamedValue};
use super::{BootConfiguration, BootConfigurationError, ModuleOption, shell};

/// Words of boot entries that the boot loader replaces (`blscfg` of GRUB on Fedora).
const STAND_INS: [&str; 2] = ["$kernelopts", "$tuned_params"];

/// Longest part of a line in an error.
const QUOTED: usize = 60;

/// Parameters without a value that stand at the start of a boot entry's options or on a line by themselves.
const FLAGS: [&str; 10] =
    ["debug", "nomodeset", "nokaslr", "quiet", "rhgb", "ro", "rw", "single", "splash", "nosplash"];

/// First words of lines that bear neither parameters nor options: modprobe.d(5), and boot entries of the
/// Boot Loader Specification.
const PASSED_OVER: [&str; 19] = [
    "alias",
    "architecture",
    "blacklist",
    "devicetree",
    "efi",
    "grub_arg",
    "grub_class",
    "grub_users",
    "id",
    "initrd",
    "install",
    "linux",
    "machine-id",
    "remove",
    "softdep",
    "sort-key",
    "title",
    "version",
    "weakdep",
];

/// The fault of a line, and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineFault {
    /// The fault.
    pub(super) reason: String,
    /// The text to write instead.
    pub(super) hint: Option<String>,
}

impl LineFault {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Reads a text; `path` names it in errors, and says by its folder whether it lists modules.
pub(super) fn read(path: &Path, text: &str) -> Result<BootConfiguration, BootConfigurationError> {
    let folder = path.parent().and_then(Path::file_name);
    let lists_modules = folder.is_some_and(|name| name == "modules-load.d");
    let mut configuration = BootConfiguration::default();
    for (line, content) in lines(text) {
        let result = check_characters(&content).and_then(|()| match lists_modules {
            true => configuration.read_module(&content),
            false => configuration.read_line(&content),
        });
        if let Err(LineFault { reason, hint }) = result {
            let path = path.to_owned();
            return Err(BootConfigurationError::NotUnderstood { path, line, reason, hint });
        }
    }
    Ok(configuration)
}

/// Lines with their numbers, those that end in a backslash joined to the next; comments are left out.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let (number, start) = open.take().unwrap_or((index + 1, String::new()));
        if start.is_empty() && line.trim_start().starts_with('#') {
            continue;
        }
        let joined = start + line.trim_end();
        match joined.strip_suffix('\\') {
            Some(part) => open = Some((number, part.to_owned())),
            None => found.push((number, joined)),
        }
    }
    found.extend(open);
    found.retain(|(_, line)| !line.trim().is_empty());
    found
}

fn check_characters(line: &str) -> Result<(), LineFault> {
    let is_odd = |one: &char| one.is_control() && *one != '\t';
    match line.chars().find(is_odd) {
        Some(odd) => {
            Err(LineFault::new(format!("it has the control character {:#04x}", u32::from(odd))))
        }
        None => Ok(()),
    }
}

impl BootConfiguration {
    fn read_line(&mut self, line: &str) -> Result<(), LineFault> {
        let line = line.trim();
        if let Some((name, value)) = grub_assignment(line) {
            return self.read_grub(name, value);
        }
        let (first, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        match first {
            "module" => self.read_module(rest),
            "options" => self.read_options(rest.trim()),
            // A line of `grub.cfg` has parameters behind the image.
            "linux" if rest.trim().contains([' ', '\t']) => {
                let words = shell::grub_words(rest)?;
                self.parameters.extend(words.into_iter().skip(1));
                Ok(())
            }
            first if PASSED_OVER.contains(&first) => Ok(()),
            _ => self.read_parameters(line),
        }
    }

    /// One module, with a comment behind it at most (modules-load.d(5)).
    fn read_module(&mut self, line: &str) -> Result<(), LineFault> {
        let name = line.split(['#', ';']).next().unwrap_or_default().trim();
        if name.is_empty() && !line.trim().is_empty() {
            return Ok(());
        }
        if !is_name(name) {
            return Err(LineFault::new(format!("{} is not the name of a module", quoted(name))));
        }
        self.modules.push(name.to_owned());
        Ok(())
    }

    /// Variables of GRUB other than the command lines of Linux bear on nothing here.
    fn read_grub(&mut self, name: &str, value: &str) -> Result<(), LineFault> {
        if ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"].contains(&name) {
            self.parameters.extend(shell::grub_words(&shell::value(value)?)?);
        }
        Ok(())
    }

    /// The options of a module, or those of a boot entry: a boot entry begins with an assignment or a
    /// flag of the kernel, modprobe's line with a module.
    fn read_options(&mut self, rest: &str) -> Result<(), LineFault> {
        let (module, values) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        if module.contains('=') || FLAGS.contains(&module) || STAND_INS.contains(&module) {
            let is_own = |word: &&str| !STAND_INS.contains(word);
            let own: Vec<&str> = rest.split(' ').filter(is_own).collect();
            return self.read_parameters(&own.join(" "));
        }
        let usage = || {
            LineFault::new("it names no option of a module")
                .hint("write `options MODULE NAME=VALUE`")
        };
        if !is_name(module) || values.trim().is_empty() {
            return Err(usage());
        }
        for word in command_line::parameters(values) {
            let NamedValue { name, value } = NamedValue::new(&word);
            if !is_name(name) {
                return Err(usage());
            }
            let (module, name) = (module.to_owned(), name.to_owned());
            self.options.push(ModuleOption { module, name, value: value.map(str::to_owned) });
        }
        Ok(())
    }

    /// Words of a kernel command line; one of them at least has to be known for one.
    fn read_parameters(&mut self, line: &str) -> Result<(), LineFault> {
        let words = command_line::parameters(line);
        let is_known = |word: &String| word.contains('=') || FLAGS.contains(&word.as_str());
        if !words.iter().any(is_known) {
            return Err(LineFault::new(format!("{} is of no known form", quoted(line))));
        }
        if let Some(odd) = words.iter().find(|word| !is_name(NamedValue::new(word).name)) {
            return Err(LineFault::new(format!("{} is not a kernel parameter", quoted(odd))));
        }
        self.parameters.extend(words);
        Ok(())
    }
}

/// Name and value of an assignment to a variable of GRUB.
fn grub_assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_variable = |one: char| one.is_ascii_uppercase() || one.is_ascii_digit() || one == '_';
    (name.starts_with("GRUB_") && name.chars().all(is_variable)).then_some((name, value))
}

/// Returns whether a word can name a parameter or a module.
fn is_name(word: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || "_-.:".contains(one);
    !word.is_empty()
        && word.starts_with(|one: char| one.is_ascii_alphanumeric() || one == '_')
        && word.chars().all(is_part)
}

/// A part of a line as errors show it.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(QUOTED).collect();
    let cut = if shown.len() < text.len() { "..." } else { "" };
    format!("`{}{cut}`", shown.escape_debug())
}
