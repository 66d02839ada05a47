//! Block devices made of others, and mounts.
//!
//! Names that a person gave, such as those of volumes, are not read: kernel names do.

use std::collections::HashMap;
use std::path::Path;

use super::disk;
use super::tree::Tree;
use crate::{Mount, StackedDevice};

/// The kernel's folder of block devices without hardware.
const VIRTUAL: &str = "sys/devices/virtual/block";

/// Major and minor number of a block device, as its file `dev` has it: `259:3`.
pub(super) type Numbers = HashMap<String, String>;

/// A device made of others, and its number.
#[derive(Debug)]
pub(super) struct NumberedStack {
    pub(super) device: StackedDevice,
    number: Option<String>,
    /// Its partitions, with their numbers.
    partitions: Numbers,
}

/// Device mapper and md devices, in order of name.
pub(super) fn devices(tree: &Tree) -> Vec<NumberedStack> {
    let virtual_devices = Path::new(VIRTUAL);
    tree.directories(virtual_devices)
        .into_iter()
        .filter(|name| name.starts_with("dm-") || name.starts_with("md"))
        .map(|name| {
            let at = virtual_devices.join(&name);
            let uuid = tree.word(&at.join("dm/uuid"));
            let prefix = uuid.as_deref().and_then(|uuid| uuid.split('-').next());
            let kind = prefix
                .filter(|prefix| prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
                .map(str::to_lowercase)
                .or_else(|| tree.word(&at.join("md/level")));
            let mut partitions = Numbers::new();
            disk::numbers(tree, &at, &mut partitions);
            partitions.remove(&name);
            NumberedStack {
                number: tree.word(&at.join("dev")),
                partitions,
                device: StackedDevice {
                    kind: kind.filter(|kind| !kind.is_empty()),
                    below: below(tree, &at.join("slaves")),
                    name,
                },
            }
        })
        .collect()
}

/// Names of the devices in a folder of links.
fn below(tree: &Tree, slaves: &Path) -> Vec<String> {
    let mut names = tree.names(slaves).unwrap_or_default();
    names.retain(|name| tree.link(&slaves.join(name)).is_ok());
    names
}

/// Mounts of the devices of `numbers`, and of stacked devices.
///
/// File systems of several devices, btrfs among them, have numbers of their own; there the name in
/// the column of the source counts.
pub(super) fn mounts(
    tree: &Tree,
    numbers: &Numbers,
    stacked: &[NumberedStack],
) -> Option<Vec<Mount>> {
    let text = tree.text(&tree.own_process().join("mountinfo")).ok()?;
    let mut names: HashMap<&str, &str> =
        numbers.iter().map(|(name, number)| (number.as_str(), name.as_str())).collect();
    for found in stacked {
        names.extend(found.number.as_deref().map(|number| (number, found.device.name.as_str())));
        names
            .extend(found.partitions.iter().map(|(name, number)| (number.as_str(), name.as_str())));
    }
    let by_name = |source: &str| {
        let name = source.rsplit('/').next()?;
        names.values().find(|known| **known == name).copied()
    };
    let mut mounts = Vec::new();
    for line in text.lines() {
        let Some(row) = MountinfoRow::parse(line) else { continue };
        let Some(device) = names.get(row.number).copied().or_else(|| by_name(row.source)) else {
            continue;
        };
        mounts.push(Mount {
            device: device.to_owned(),
            point: row.point,
            file_system: row.file_system.to_owned(),
            is_read_only: row.is_read_only,
        });
    }
    Some(mounts)
}

/// A line of `/proc/self/mountinfo` (Linux, Documentation/filesystems/proc.rst section 3.5).
struct MountinfoRow<'a> {
    number: &'a str,
    point: String,
    is_read_only: bool,
    file_system: &'a str,
    source: &'a str,
}

impl<'a> MountinfoRow<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(2);
        let number = front.next()?;
        let point = unescape(front.nth(1)?);
        let options = front.next()?;
        let mut back = back.split(' ');
        Some(Self {
            number,
            point,
            is_read_only: options.split(',').any(|option| option == "ro"),
            file_system: back.next()?,
            source: back.next()?,
        })
    }
}

/// Space, tab, line feed and backslash are written as octal numbers.
fn unescape(text: &str) -> String {
    let mut plain = text.to_owned();
    for (escaped, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
    {
        plain = plain.replace(escaped, character);
    }
    plain
}
