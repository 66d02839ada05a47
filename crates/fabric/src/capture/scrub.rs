//! Removes from a capture all that identifies the machine, its owner, or the place of its memory.
//!
//! Equal values stay equal: two controllers of one drive keep one serial number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::list::{CaptureRule, Item};
use super::{device_names, words};
use crate::sysfs::config_space;
use crate::sysfs::configuration;
use crate::sysfs::cufile;
use crate::sysfs::environment;
use crate::sysfs::functions::is_host_bridge;
use crate::sysfs::nvidia;
use crate::sysfs::nvidia_fs;
use crate::sysfs::rdma;
use crate::sysfs::remote;
use crate::sysfs::resources::minor_number;
use crate::sysfs::tree::plain_text;
use crate::sysfs::windows::{self, IORESOURCE_MEM, IORESOURCE_UNSET, ResourceLine};
use crate::{CufileValue, TreeEntry};

/// Beginning of a made-up serial number; its own number follows.
pub(super) const SERIAL: &str = "serial-";
/// Beginning of a made-up NQN; its own number follows.
pub(super) const SUBSYSTEM: &str = "nqn-";
/// Places that most machines have, which say nothing of this one.
const WELL_KNOWN: [&str; 14] = [
    "/",
    "/boot",
    "/boot/efi",
    "/data",
    "/efi",
    "/home",
    "/mnt",
    "/opt",
    "/root",
    "/scratch",
    "/srv",
    "/tmp",
    "/usr",
    "/var",
];

/// Values replaced so far.
#[derive(Debug, Default)]
pub(super) struct ScrubState {
    serials: HashMap<String, usize>,
    /// Addresses and subsystems of other machines.
    addresses: HashMap<String, usize>,
    subsystems: HashMap<String, usize>,
    places: HashMap<String, usize>,
    /// By the word that stands for them.
    interfaces: BTreeMap<&'static str, HashMap<String, usize>>,
    host_names: usize,
    /// Numbers of the drives' block devices, and their names.
    numbers: BTreeSet<String>,
    names: BTreeSet<String>,
    release: Option<String>,
    shows_addresses: bool,
}

impl ScrubState {
    pub(super) fn new(seen: &BTreeMap<PathBuf, TreeEntry>) -> Self {
        let mut scrub = Self::default();
        for (path, entry) in seen {
            let TreeEntry::File { bytes, .. } = entry else { continue };
            if path.file_name() == Some(OsStr::new("dev")) {
                scrub.numbers.insert(plain_text(bytes).into_owned());
                let device = path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
                scrub.names.extend(device.map(str::to_owned));
            }
            if path.file_name() == Some(OsStr::new("resource")) {
                scrub.shows_addresses |= shows_addresses(&plain_text(bytes));
            }
            if path == Path::new("proc/sys/kernel/osrelease") {
                scrub.release = Some(words::release(&plain_text(bytes)));
            }
        }
        scrub
    }

    /// Kinds of replaced values, with the number of each.
    pub(super) fn replaced(&self) -> Vec<(&'static str, usize)> {
        [
            ("host name", self.host_names),
            ("serial number", self.serials.len()),
            ("network address", self.addresses.len()),
            ("NQN", self.subsystems.len()),
            ("mount path", self.places.len()),
            ("interface name", self.interfaces.values().map(HashMap::len).sum()),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }

    /// Path and entry in their kept form; `None` for those left out.
    pub(super) fn entry(
        &mut self,
        item: &Item,
        path: &Path,
        entry: &TreeEntry,
    ) -> Option<(PathBuf, TreeEntry)> {
        let mut path = from_bridge(path);
        if item.kept != CaptureRule::NamedFolder {
            path = self.below_rdma(&path);
        }
        let (bytes, mode) = match (entry, item.kept) {
            (TreeEntry::Folder(_), CaptureRule::NamedFolder) => {
                let name = path.file_name()?.to_str()?.to_owned();
                let class = path.parent()?.file_name()?.to_str()?.to_owned();
                path.set_file_name(self.interface(&class, &name));
                return Some((path, entry.clone()));
            }
            (TreeEntry::Folder(_), _) => return Some((path, entry.clone())),
            (TreeEntry::Link(target), CaptureRule::LinkName) => {
                return Some((path, TreeEntry::Link(PathBuf::from(target.file_name()?))));
            }
            (TreeEntry::Link(target), CaptureRule::Cufile) => {
                let elsewhere = TreeEntry::Link(PathBuf::from("elsewhere"));
                let is_followed = cufile::followed(&path, target).is_some();
                return (!is_followed).then(|| (PathBuf::from(cufile::CONFIGURATION), elsewhere));
            }
            (TreeEntry::Link(target), CaptureRule::LibraryVersion) => {
                let name = target.file_name().and_then(OsStr::to_str).unwrap_or_default();
                let is_version = crate::cufile::version(name).is_some();
                let file = TreeEntry::File { bytes: Vec::new(), mode: 0o444 };
                return Some((path, if is_version { TreeEntry::Link(name.into()) } else { file }));
            }
            (TreeEntry::Link(_), _) => return None,
            (TreeEntry::File { bytes, mode }, _) => (bytes, *mode),
        };
        let text = &*plain_text(bytes);
        let line = |text: &str| format!("{text}\n").into_bytes();
        let bytes = match item.kept {
            CaptureRule::Folder | CaptureRule::NamedFolder | CaptureRule::LinkName => return None,
            CaptureRule::Whole => bytes.clone(),
            CaptureRule::Permissions | CaptureRule::Presence | CaptureRule::LibraryVersion => {
                Vec::new()
            }
            CaptureRule::Cufile => {
                path = PathBuf::from(cufile::CONFIGURATION);
                line(&self.cufile(text))
            }
            CaptureRule::Serial => line(&self.serial(text)),
            CaptureRule::Interface => line(&self.interface("net", text)),
            CaptureRule::Gid if !rdma::is_address(text) => return None,
            CaptureRule::Gid => {
                line(&format!("{}{}", rdma::REPLACED_ADDRESS, numbered(&mut self.addresses, text)))
            }
            CaptureRule::NetworkAddress => line(&self.network_address(text)),
            CaptureRule::Subsystem => line(&self.subsystem(text)),
            CaptureRule::HostName => {
                self.host_names += 1;
                line("machine")
            }
            CaptureRule::Processor => line(&processor(text)),
            CaptureRule::Parameters => line(&words::parameters(text)),
            CaptureRule::Release => line(&words::release(text)),
            CaptureRule::Version => line(&words::version(text)),
            CaptureRule::Configuration => {
                let is_packed = path.extension() == Some(OsStr::new("gz"));
                path = Path::new("boot").join(format!("config-{}", self.release.as_ref()?));
                if is_packed {
                    line(&configuration::kept(&configuration::gunzip(bytes)?))
                } else {
                    line(&configuration::kept(text))
                }
            }
            CaptureRule::Mounts => {
                path = PathBuf::from(item.path);
                self.mounts(text)
            }
            CaptureRule::Registers => config_space::without_addresses(bytes),
            CaptureRule::Windows => line(&windows(text, self.shows_addresses)),
            CaptureRule::Event => line(&event(text)),
            CaptureRule::MinorNumber => {
                let kept = text.lines().find(|line| minor_number(line).is_some());
                line(kept.unwrap_or_default())
            }
            CaptureRule::NvidiaVersion => line(&nvidia::version_line(&nvidia::described(text, ""))),
            CaptureRule::NvidiaParameters => words::nvidia_parameters(text).into_bytes(),
            CaptureRule::NvidiaFsModules => nvidia_fs::kept(text).into_bytes(),
            CaptureRule::Prefix => {
                line(&format!("{}-", text.split('-').next().unwrap_or_default()))
            }
        };
        Some((path, TreeEntry::File { bytes, mode }))
    }

    fn serial(&mut self, serial: &str) -> String {
        if serial.is_empty() {
            return String::new();
        }
        format!("{SERIAL}{}", numbered(&mut self.serials, serial))
    }

    /// Address, port and interface of a connection; this machine's own address is left out.
    fn network_address(&mut self, text: &str) -> String {
        let mut parts = Vec::new();
        if let Some(host) = remote::part(text, "traddr") {
            parts.push(format!("traddr=address-{}", numbered(&mut self.addresses, host)));
        }
        let port = remote::part(text, "trsvcid").and_then(|port| port.parse::<u16>().ok());
        parts.extend(port.map(|port| format!("trsvcid={port}")));
        let interface = remote::part(text, "host_iface").map(|name| self.interface("net", name));
        parts.extend(interface.map(|name| format!("host_iface={name}")));
        parts.join(",")
    }

    fn subsystem(&mut self, subsystem: &str) -> String {
        if subsystem.is_empty() || subsystem == remote::DISCOVERY_NQN {
            return subsystem.to_owned();
        }
        format!("{SUBSYSTEM}{}", numbered(&mut self.subsystems, subsystem))
    }

    /// The path with the name of an RDMA device above it as captures have it.
    fn below_rdma(&mut self, path: &Path) -> PathBuf {
        let mut is_device = false;
        let mut kept = PathBuf::new();
        for part in path.iter().filter_map(OsStr::to_str) {
            let name = is_device.then(|| self.interface("infiniband", part));
            kept.push(name.as_deref().unwrap_or(part));
            is_device = part == "infiniband";
        }
        kept
    }

    fn interface(&mut self, class: &str, name: &str) -> String {
        if device_names::is_of_the_kernel(name) {
            return name.to_owned();
        }
        let word = match class {
            "net" => "net",
            "infiniband" => "rdma",
            _ => "node",
        };
        format!("{word}{}", numbered(self.interfaces.entry(word).or_default(), name))
    }

    /// Lines of `/proc/self/mountinfo` for the devices at hand, with nothing else in them.
    fn mounts(&mut self, text: &str) -> Vec<u8> {
        let mut kept = String::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (Some(number), Some(point), Some(options)) =
                (words.get(2), words.get(4), words.get(5))
            else {
                continue;
            };
            let Some(dash) = words.iter().position(|word| *word == "-") else { continue };
            let (Some(file_system), Some(source)) = (words.get(dash + 1), words.get(dash + 2))
            else {
                continue;
            };
            let device = source.rsplit('/').next().filter(|name| self.names.contains(*name));
            if device.is_none() && !self.numbers.contains(*number) {
                continue;
            }
            let point = self.place(point);
            let access = if options.split(',').any(|word| word == "ro") { "ro" } else { "rw" };
            let device = device.map_or("none".to_owned(), |name| format!("/dev/{name}"));
            kept += &format!("0 0 {number} / {point} {access} - {file_system} {device} {access}\n");
        }
        kept.into_bytes()
    }

    /// The settings of cuFile that are known words, numbers, or names of things in this capture.
    fn cufile(&mut self, text: &str) -> String {
        let mut found = crate::cufile::read(text);
        for (key, value) in &mut found.settings {
            match value {
                CufileValue::Flag(_) | CufileValue::Number(_) => {}
                CufileValue::Text(text) if words::is_of_cufile(text) => {}
                CufileValue::Text(text) => "replaced".clone_into(text),
                CufileValue::List(list) => {
                    for entry in list {
                        *entry = match key.as_str() {
                            "denylist.mounts" => self.place(entry),
                            "denylist.devices" => self.device(entry),
                            _ if words::is_of_cufile(entry) => continue,
                            _ => "replaced".to_owned(),
                        };
                    }
                }
            }
        }
        crate::cufile::text(&found)
    }

    /// A block device by its path, which is the kernel's where the device is in this capture.
    fn device(&self, path: &str) -> String {
        let name = path.rsplit('/').next().filter(|name| self.names.contains(*name));
        format!("/dev/{}", name.unwrap_or("replaced"))
    }

    fn place(&mut self, point: &str) -> String {
        if WELL_KNOWN.contains(&point) {
            return point.to_owned();
        }
        format!("/mount-{}", numbered(&mut self.places, point))
    }
}

/// The number of a text, the same for the same, from 1 in the order of first use.
fn numbered(known: &mut HashMap<String, usize>, text: &str) -> usize {
    let next = known.len() + 1;
    *known.entry(text.to_owned()).or_insert(next)
}

/// Drops the folders above a host bridge: their names identify the virtual machine.
fn from_bridge(path: &Path) -> PathBuf {
    let names: Vec<&OsStr> = path.iter().collect();
    let is_bridge = |name: &&OsStr| name.to_str().is_some_and(is_host_bridge);
    match names.iter().position(is_bridge) {
        Some(bridge) => ["sys", "devices"]
            .iter()
            .map(OsStr::new)
            .chain(names[bridge..].iter().copied())
            .collect(),
        None => path.to_owned(),
    }
}

fn processor(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or_default();
    let is_kept = |line: &&str| {
        let key = line.split(':').next().unwrap_or_default().trim();
        matches!(key, "vendor_id" | "cpu family" | "model" | "model name" | "CPU implementer")
    };
    let mut kept: Vec<&str> = first.lines().filter(is_kept).collect();
    let flags = environment::flags(first);
    let flags = flags.map(|flags| {
        flags.into_iter().fold("flags\t\t:".to_owned(), |line, flag| format!("{line} {flag}"))
    });
    kept.extend(flags.as_deref());
    kept.join("\n")
}

fn event(text: &str) -> String {
    let is_kept = |line: &&str| {
        let key = line.split('=').next().unwrap_or_default();
        matches!(key, "DRIVER" | "PCI_CLASS" | "PCI_ID")
    };
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// Lines `start end flags` whose addresses tell no more than their number of bits; a window that is not there stays
/// so. One without address space is marked where other windows show that they have some.
fn windows(text: &str, shows_addresses: bool) -> String {
    let line = |line: &str| match ResourceLine::parse(line) {
        Some(mut line) => {
            let is_memory = line.flags & IORESOURCE_MEM != 0;
            let is_unset = shows_addresses && is_memory && line.start == 0;
            line.flags |= if is_unset { IORESOURCE_UNSET } else { 0 };
            let bits = line.address_bits().filter(|_| is_memory);
            let (start, end) = match line.size() {
                Some(size) => windows::place(size, bits),
                None => (0, 0),
            };
            format!("0x{start:016x} 0x{end:016x} 0x{:016x}", line.flags)
        }
        None => String::new(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns whether a file `resource` has a window at an address other than 0.
fn shows_addresses(text: &str) -> bool {
    let mut windows = text.lines().filter_map(ResourceLine::parse);
    windows.any(|line| line.flags & IORESOURCE_MEM != 0 && line.shows_address())
}
