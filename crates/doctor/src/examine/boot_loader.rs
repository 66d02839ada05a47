//! Boot loaders: their signs on a machine, the file with the kernel parameters, and the command
//! that carries a change to the next start.
//!
//! One table serves the commands on the terminal and `install.sh`. Evidence is looked for in the order of
//! the table: several loaders can be installed, and one program of theirs in `PATH` proves nothing.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;

use super::drop_ins::{grub_line, quoted};
use Sign::{
    BootEntries, Distribution, File, Mention, NoFile, NoProgram, NotDistribution, Program,
    Succeeds, SystemdBoot,
};

/// A sign that a boot loader is the one in use.
#[derive(Debug, Clone, Copy)]
enum Sign {
    /// A program in `PATH`.
    Program(&'static str),
    /// No such program.
    NoProgram(&'static str),
    /// A file or folder.
    File(&'static str),
    /// No such file.
    NoFile(&'static str),
    /// A line other than a comment, in a file or in a folder of files, with a text.
    Mention(&'static str, &'static str),
    /// `ID` or a word of `ID_LIKE` in `/etc/os-release`.
    Distribution(&'static str),
    /// Neither of them.
    NotDistribution(&'static str),
    /// A command that changes nothing ends with 0.
    Succeeds(&'static str),
    /// systemd-boot started the machine, or is installed where no loader told its name.
    SystemdBoot,
    /// Entries of the Boot Loader Specification as text.
    BootEntries,
}

/// The way to add kernel parameters; the name of a function of `install.sh` behind `add_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A drop-in of GRUB, which only Debian's `grub-mkconfig` reads.
    GrubDropIn,
    /// Lines at the end of `/etc/default/grub`.
    GrubDefaults,
    /// Words in `/etc/kernel/cmdline`.
    CommandLine,
    /// Words in every boot entry.
    Entries,
    /// grubby, which changes entries by itself.
    Grubby,
}

/// A boot loader as a distribution sets it up.
#[derive(Debug)]
struct BootLoader {
    name: &'static str,
    /// Groups of signs; all signs of one group are evidence.
    evidence: &'static [&'static [Sign]],
    /// Empty if `install.sh` only gives instructions.
    changes: &'static [Change],
    /// The command that puts a change in force at the next start; without changes, the
    /// instructions.
    refresh: &'static str,
    /// Label in a list for machines that are not at hand; empty for rare ones.
    label: &'static str,
}

/// The table. Sources: the Proxmox VE guide (Host Bootloader) and `proxmox-boot-tool help`; systemd-boot(7),
/// kernel-install(8), bootctl(1); SUSE's guide (GRUB 2) and `sdbootutil --help`; grubby(8); Debian's patch of
/// `grub-mkconfig` for `/etc/default/grub.d`; `rpm-ostree kargs --help`; the manuals of NixOS and kernelstub.
const BOOT_LOADERS: [BootLoader; 16] = [
    BootLoader {
        name: "NixOS",
        evidence: &[&[File("/etc/NIXOS")]],
        changes: &[],
        refresh: "add these to boot.kernelParams of the configuration, then run sudo nixos-rebuild boot",
        label: "",
    },
    BootLoader {
        name: "rpm-ostree (CoreOS, Silverblue, bootc)",
        evidence: &[&[File("/run/ostree-booted")]],
        changes: &[],
        refresh: "run sudo rpm-ostree kargs --append-if-missing=PARAMETER with each of these",
        label: "",
    },
    // The tool makes entries of systemd-boot from one file, and GRUB's from the other: by what each ESP has.
    BootLoader {
        name: "Proxmox VE with proxmox-boot-tool",
        evidence: &[
            &[Program("proxmox-boot-tool"), File("/etc/kernel/proxmox-boot-uuids")],
            &[Succeeds("proxmox-boot-tool status --quiet"), File("/etc/kernel/cmdline")],
        ],
        changes: &[Change::CommandLine, Change::GrubDropIn],
        refresh: "proxmox-boot-tool refresh",
        label: "Proxmox VE with systemd-boot",
    },
    BootLoader {
        name: "unknown (firmware of a Raspberry Pi)",
        evidence: &[
            &[File("/boot/firmware/cmdline.txt")],
            &[File("/boot/cmdline.txt"), File("/boot/config.txt")],
        ],
        changes: &[],
        refresh: "add these to the line in /boot/firmware/cmdline.txt (or /boot/cmdline.txt)",
        label: "",
    },
    BootLoader {
        name: "sdboot-manage (CachyOS)",
        evidence: &[&[Program("sdboot-manage"), SystemdBoot]],
        changes: &[],
        refresh: "add these to LINUX_OPTIONS in /etc/sdboot-manage.conf, then run sudo sdboot-manage gen",
        label: "",
    },
    BootLoader {
        name: "kernelstub (Pop!_OS)",
        evidence: &[&[Program("kernelstub"), SystemdBoot]],
        changes: &[],
        refresh: "run sudo kernelstub --add-options PARAMETERS with these",
        label: "",
    },
    BootLoader {
        name: "entries of sdbootutil (SUSE)",
        evidence: &[
            &[Program("sdbootutil"), Mention("/etc/sysconfig/bootloader", "grub2-bls")],
            &[Program("sdbootutil"), Mention("/etc/sysconfig/bootloader", "systemd-boot")],
        ],
        changes: &[Change::CommandLine],
        refresh: "sdbootutil update-all-entries",
        label: "",
    },
    BootLoader {
        name: "kernel images of mkinitcpio",
        evidence: &[&[
            SystemdBoot,
            File("/etc/kernel/cmdline"),
            Mention("/etc/mkinitcpio.d", "_uki="),
        ]],
        changes: &[Change::CommandLine],
        refresh: "mkinitcpio -P",
        label: "",
    },
    // Arch has kernel-install, and its kernels do not use it.
    BootLoader {
        name: "systemd-boot with entries as text",
        evidence: &[
            &[SystemdBoot, NoFile("/etc/kernel/cmdline"), BootEntries],
            &[SystemdBoot, Distribution("arch"), BootEntries],
        ],
        changes: &[Change::Entries],
        refresh: "",
        label: "",
    },
    BootLoader {
        name: "systemd-boot with kernel-install",
        evidence: &[&[SystemdBoot, Program("kernel-install"), File("/etc/kernel/cmdline")]],
        changes: &[Change::CommandLine],
        refresh: "kernel-install add-all",
        label: "systemd-boot",
    },
    BootLoader {
        name: "systemd-boot without a command line that can be changed",
        evidence: &[&[SystemdBoot]],
        changes: &[],
        refresh: "write /etc/kernel/cmdline with what /proc/cmdline has and these, and make the images again",
        label: "",
    },
    BootLoader {
        name: "GRUB of Arch and others",
        evidence: &[
            &[Program("grub-mkconfig"), Distribution("arch")],
            &[Program("grub-mkconfig"), Distribution("gentoo")],
            &[Program("grub-mkconfig"), Distribution("void")],
            &[Program("grub-mkconfig"), NoProgram("update-grub")],
        ],
        changes: &[Change::GrubDefaults],
        refresh: "grub-mkconfig -o /boot/grub/grub.cfg",
        label: "Arch",
    },
    BootLoader {
        name: "GRUB of SUSE",
        evidence: &[
            &[Program("grub2-mkconfig"), Distribution("suse")],
            &[Program("grub2-mkconfig"), NoProgram("grubby")],
        ],
        changes: &[Change::GrubDefaults],
        refresh: "grub2-mkconfig -o /boot/grub2/grub.cfg",
        label: "SUSE",
    },
    BootLoader {
        name: "grubby (Fedora, RHEL)",
        evidence: &[&[Program("grubby"), NotDistribution("debian")]],
        changes: &[Change::Grubby],
        refresh: "",
        label: "Fedora, RHEL; options of an earlier pci= go into this one",
    },
    BootLoader {
        name: "GRUB of Debian and Ubuntu",
        evidence: &[&[Program("update-grub")]],
        changes: &[Change::GrubDropIn],
        refresh: "update-grub",
        label: "Debian, Ubuntu",
    },
    BootLoader {
        name: "unknown (U-Boot)",
        evidence: &[&[File("/boot/extlinux/extlinux.conf")]],
        changes: &[],
        refresh: "add these to the line APPEND in /boot/extlinux/extlinux.conf",
        label: "",
    },
];

/// Advice for a machine without evidence of a loader.
const UNKNOWN: &str =
    "add these to the kernel command line, where the boot loader or firmware has it";

/// The commands that add a kernel parameter for good: that of this machine, else one of each family.
pub(super) fn commands(fabric: &Fabric, parameter: &str) -> Vec<String> {
    let here = || Machine { root: Path::new("/"), programs: &is_in_path }.boot_loader();
    if let Some(loader) = fabric.is_this_machine().then(here).flatten() {
        return vec![loader.command(parameter, loader.changes, loader.name)];
    }
    // The rare ones come first in the table.
    let families = BOOT_LOADERS.iter().rev().filter(|loader| !loader.label.is_empty());
    families.map(|one| one.command(parameter, &one.changes[..1], one.label)).collect()
}

impl BootLoader {
    /// The shell command that makes some of the changes.
    fn command(&self, parameter: &str, changes: &[Change], label: &str) -> String {
        let mut parts: Vec<String> =
            changes.iter().map(|change| change.command(parameter)).collect();
        match changes {
            [] => return format!("# {label}: {}: {}", self.refresh, quoted(parameter)),
            _ if self.refresh.is_empty() => {}
            _ => parts.push(format!("sudo {}", self.refresh)),
        }
        format!("{}   # {label}", parts.join(" && "))
    }
}

impl Change {
    fn command(self, parameter: &str) -> String {
        let word = quoted(parameter);
        match self {
            Self::GrubDropIn => appended(parameter, "/etc/default/grub.d/peerlane.cfg"),
            Self::GrubDefaults => appended(parameter, "/etc/default/grub"),
            Self::CommandLine => format!("sudo sed -i '1s|$| {word}|' /etc/kernel/cmdline"),
            Self::Entries => {
                format!("sudo sed -i '/^options/s|$| {word}|' /boot/loader/entries/*.conf")
            }
            Self::Grubby => format!("sudo grubby --update-kernel=ALL --args='{word}'"),
        }
    }

    /// The name of its function in `install.sh` behind `add_`.
    fn function(self) -> &'static str {
        match self {
            Self::GrubDropIn => "to_grub_drop_in",
            Self::GrubDefaults => "to_grub_defaults",
            Self::CommandLine => "to_command_line",
            Self::Entries => "to_entries",
            Self::Grubby => "by_grubby",
        }
    }
}

fn appended(parameter: &str, file: &str) -> String {
    format!("echo '{}' | sudo tee -a {file}", grub_line(parameter))
}

/// The function of `install.sh` that recognises the boot loader.
pub(super) fn shell_function() -> String {
    let mut text = String::from("recognise() {\n");
    for (at, loader) in BOOT_LOADERS.iter().enumerate() {
        let groups: Vec<String> = loader.evidence.iter().map(|group| shell_group(group)).collect();
        let word = if at == 0 { "if" } else { "elif" };
        let evidence = match &groups[..] {
            [one] => one.clone(),
            all => all
                .iter()
                .map(|one| format!("{{ {one}; }}"))
                .collect::<Vec<_>>()
                .join(" ||\n        "),
        };
        let _ = writeln!(text, "    {word} {evidence}; then");
        text += &assignments(loader.name, loader.changes, loader.refresh);
    }
    text += "    else\n";
    text += &assignments("unknown", &[], UNKNOWN);
    text + "    fi\n}"
}

fn assignments(name: &str, changes: &[Change], refresh: &str) -> String {
    let functions: Vec<&str> = changes.iter().map(|change| change.function()).collect();
    let functions = functions.join(" ");
    format!("        loader='{name}' change='{functions}'\n        refresh='{refresh}'\n")
}

fn shell_group(group: &[Sign]) -> String {
    group.iter().map(|sign| sign.shell_test()).collect::<Vec<_>>().join(" && ")
}

impl Sign {
    fn shell_test(self) -> String {
        match self {
            Program(name) => format!("has {name}"),
            NoProgram(name) => format!("! has {name}"),
            File(path) => format!("exists {path}"),
            NoFile(path) => format!("! exists {path}"),
            Mention(path, text) => format!("mentions {path} {text}"),
            Distribution(id) => format!("distribution {id}"),
            NotDistribution(id) => format!("! distribution {id}"),
            Succeeds(command) => format!("succeeds {command}"),
            SystemdBoot => "systemd_boot".to_owned(),
            BootEntries => "have_entries".to_owned(),
        }
    }
}

/// The variable with the name of the loader (Boot Loader Interface of systemd).
const LOADER_INFO: &str =
    "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
const ENTRY_FOLDERS: [&str; 3] =
    ["/efi/loader/entries", "/boot/loader/entries", "/boot/efi/loader/entries"];
/// Folders of programs of the administrator, which `PATH` of others may leave out.
const ADMIN_PROGRAMS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ADMIN_PROGRAMS.map(PathBuf::from));
    folders.into_iter().any(|folder| folder.join(program).is_file())
}

/// Returns whether a line other than a comment has a text, in a file or in a file of a folder.
fn mentions(path: &Path, text: &str) -> bool {
    if let Ok(files) = fs::read_dir(path) {
        return files.flatten().any(|file| mentions(&file.path(), text));
    }
    let content = fs::read_to_string(path).unwrap_or_default();
    content.lines().any(|line| line.split('#').next().is_some_and(|start| start.contains(text)))
}

/// The name of the boot loader below a root folder, by evidence that needs no program to run.
#[cfg(test)]
pub(super) fn recognised(root: &Path, programs: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    Machine { root, programs }.boot_loader().map(|loader| loader.name)
}

/// A machine whose evidence is read.
struct Machine<'a> {
    root: &'a Path,
    programs: &'a dyn Fn(&str) -> bool,
}

impl Machine<'_> {
    fn boot_loader(&self) -> Option<&'static BootLoader> {
        let has_all = |group: &&[Sign]| group.iter().all(|&sign| self.shows(sign));
        BOOT_LOADERS.iter().find(|loader| loader.evidence.iter().any(has_all))
    }

    /// Starts no program: a sign that needs one is not seen.
    fn shows(&self, sign: Sign) -> bool {
        match sign {
            Program(name) => (self.programs)(name),
            NoProgram(name) => !(self.programs)(name),
            File(path) => self.path(path).exists(),
            NoFile(path) => !self.path(path).exists(),
            Mention(path, text) => mentions(&self.path(path), text),
            Distribution(id) => self.is_distribution(id),
            NotDistribution(id) => !self.is_distribution(id),
            Succeeds(_) => false,
            SystemdBoot => fs::read(self.path(LOADER_INFO)).is_ok_and(|bytes| {
                let text: Vec<u8> = bytes.into_iter().filter(|&byte| byte != 0).collect();
                String::from_utf8_lossy(&text).contains("systemd-boot")
            }),
            BootEntries => ENTRY_FOLDERS.iter().any(|folder| {
                let mut files = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
                files.any(|file| file.path().extension().is_some_and(|end| end == "conf"))
            }),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn is_distribution(&self, id: &str) -> bool {
        let text = fs::read_to_string(self.path("/etc/os-release")).unwrap_or_default();
        let values = text
            .lines()
            .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")));
        values.flat_map(|value| value.trim_matches(['"', '\'']).split(' ')).any(|word| word == id)
    }
}
