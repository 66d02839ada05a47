//! Devices and files that this machine exports to NVMe hosts.
//!
//! The kernel's NVMe target takes no exclusive claim, so an exclusive open does not show an export:
//! hosts may have its file system mounted while it is written under them here.

use std::collections::BTreeSet;
use std::fs;

use peerlane_nvmet::{Export, ExportKind, NvmeTarget, StorageIdentity};
use peerlane_results::{Refusal, Warning};

use super::{refuse, refuse_unless_forced};
use crate::endpoints::{Endpoint, PathNode};
use crate::io::system::System;

/// Storage behind an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Exported {
    /// A block device, by name.
    Device(String),
    /// All namespaces of a controller, by its name.
    Controller(String),
    /// A file, by device number of its file system and inode.
    File { device: (u32, u32), inode: u64 },
}

impl System {
    /// Exports that may serve hosts, each with its storage if that is known.
    fn exports(&self) -> Vec<(&Export, Option<Exported>)> {
        let NvmeTarget::Configured(exports) = self.nvme_target() else { return Vec::new() };
        let serving = exports.all.iter().filter(|export| export.can_serve());
        serving.map(|export| (export, self.exported(export))).collect()
    }

    /// Returns the storage behind an export. Below a root that is not `/` the name of its path
    /// decides.
    pub(super) fn exported(&self, export: &Export) -> Option<Exported> {
        match export.identify() {
            Ok(StorageIdentity::BlockDevice { major, minor }) => {
                self.name_of((major, minor)).map(Exported::Device)
            }
            Ok(StorageIdentity::CharacterDevice { major, minor }) => {
                let link = self.root().join(format!("sys/dev/char/{major}:{minor}"));
                let place = fs::read_link(link).ok()?;
                place.file_name()?.to_str().map(|name| Exported::Controller(name.to_owned()))
            }
            Ok(StorageIdentity::File { device, inode }) => Some(Exported::File { device, inode }),
            Err(_) => {
                let path = export.device_path.as_deref()?;
                let name = path.strip_prefix("/dev").ok()?.to_str()?.to_owned();
                Some(match export.kind {
                    ExportKind::Passthru => Exported::Controller(name),
                    ExportKind::Namespace(_) => Exported::Device(name),
                })
            }
        }
    }

    /// The export of this machine that a disk shows as a host of its own.
    pub(super) fn shown_export(&self, disk: &str) -> Option<&Export> {
        let NvmeTarget::Configured(exports) = self.nvme_target() else { return None };
        let at = |name: &str| self.line(&format!("sys/class/block/{disk}/{name}"));
        let nsid = at("nsid")?.parse().ok()?;
        exports.shown_by(&at("device/subsysnqn")?, nsid, at("wwid").as_deref())
    }

    /// The controllers that serve a disk: its own, or those of its subsystem.
    pub(super) fn controllers_of(&self, disk: &str) -> BTreeSet<String> {
        let Ok(device) = self.root().join(format!("sys/class/block/{disk}/device")).canonicalize()
        else {
            return BTreeSet::new();
        };
        let is_controller = |name: &str| {
            name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let own = device.file_name().and_then(|name| name.to_str());
        match own.filter(|name| is_controller(name)) {
            Some(own) => BTreeSet::from([own.to_owned()]),
            None => fs::read_dir(&device)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| is_controller(name))
                .collect(),
        }
    }
}

/// Refuses a target that hosts of this machine's NVMe target can write to.
pub(super) fn check_target(system: &System, target: &Endpoint) -> Vec<Refusal> {
    let path = &target.facts.path;
    let Some(reach) = ExportReach::from_endpoint(system, target) else { return Vec::new() };
    let mut refusals: Vec<Refusal> = reach
        .exports(system)
        .map(|export| {
            let reason = format!("{path} is exported to NVMe hosts: {}", in_words(export));
            refuse(reason, Some(how_to_end(export)))
        })
        .collect();
    refusals.extend(unknown(system, path));
    refusals
}

/// Warns of a source that hosts can write to while it is read.
pub(super) fn check_source(system: &System, source: &Endpoint) -> Vec<Warning> {
    let Some(reach) = ExportReach::from_endpoint(system, source) else { return Vec::new() };
    let by = |export: &Export| format!("NVMe hosts of this machine: {}", in_words(export));
    let warning = |export: &Export| Warning::SourceInUse { by: by(export), carries_system: false };
    reach.exports(system).map(warning).collect()
}

/// Names of an end's bytes that an export may serve them under.
struct ExportReach {
    /// Block devices above and below it.
    names: BTreeSet<String>,
    controllers: BTreeSet<String>,
    file: Option<((u32, u32), u64)>,
}

impl ExportReach {
    fn from_endpoint(system: &System, end: &Endpoint) -> Option<Self> {
        let live = end.live.as_ref()?;
        if let PathNode::File { device, inode } = live.node {
            let file = Some((device, inode));
            return Some(Self { names: BTreeSet::new(), controllers: BTreeSet::new(), file });
        }
        let device = live.device.as_ref().filter(|_| live.node == PathNode::Block)?;
        let mut names = system.up(&device.name);
        names.extend(system.ground(&device.name));
        names.extend(device.partitions.iter().map(|part| part.name.clone()));
        names.extend(system.shared_with(device));
        let controllers = names.iter().flat_map(|name| system.controllers_of(name)).collect();
        Some(Self { names, controllers, file: None })
    }

    fn exports<'a>(&'a self, system: &'a System) -> impl Iterator<Item = &'a Export> + 'a {
        let is_reached = |exported: &Exported| match exported {
            Exported::Device(name) => self.names.contains(name),
            Exported::Controller(name) => self.controllers.contains(name),
            Exported::File { device, inode } => self.file == Some((*device, *inode)),
        };
        let all = system.exports().into_iter();
        all.filter(move |(_, exported)| exported.as_ref().is_some_and(is_reached))
            .map(|(export, _)| export)
    }
}

/// Refuses a target while its exports are unknown.
fn unknown(system: &System, path: &str) -> Option<Refusal> {
    let (why, hint) = match system.nvme_target() {
        NvmeTarget::Absent | NvmeTarget::Unknown(peerlane_nvmet::UnknownReason::NoSysfs { .. }) => {
            return None;
        }
        NvmeTarget::Unknown(reason) => (reason.to_string(), reason.hint()),
        NvmeTarget::Configured(exports) => {
            let gap = exports.gaps.first()?;
            (gap.to_string(), None)
        }
    };
    let reason = format!("cannot tell whether {path} is exported to NVMe hosts: {why}");
    let hint = hint.map_or_else(
        || "`--force` does not look".to_owned(),
        |hint| format!("`{hint}` shows exports; `--force` does not look"),
    );
    Some(refuse_unless_forced(reason, hint))
}

fn in_words(export: &Export) -> String {
    let what = match &export.kind {
        ExportKind::Namespace(namespace) => format!("namespace {} of ", namespace.nsid),
        ExportKind::Passthru => "its controller as ".to_owned(),
    };
    let ports: Vec<String> = export.ports.iter().map(ToString::to_string).collect();
    let ports = if ports.is_empty() { "no port".to_owned() } else { ports.join(", ") };
    format!("{what}{} ({ports})", export.subsystem)
}

fn how_to_end(export: &Export) -> String {
    let folder = match &export.kind {
        ExportKind::Namespace(namespace) => format!("namespaces/{}", namespace.nsid),
        ExportKind::Passthru => "passthru".to_owned(),
    };
    format!("echo 0 > /sys/kernel/config/nvmet/subsystems/{}/{folder}/enable", export.subsystem)
}
