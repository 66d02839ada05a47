//! Small files under a loss of power: it leaves flushed texts, and names whose directory was
//! flushed.
//!
//! Names of one directory change in order, as on ext4, XFS and btrfs: a loss of power takes the last changes, however
//! many. Nothing is promised between two directories. A text that
//! was not flushed is there whole, in part, as zeroes, or not at all; if it replaced one that was,
//! this or the new one is there, perhaps with the length of the other.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::io::random::Random;

/// A folder and one in it; files are known by their inodes, names are paths from the outer one.
#[derive(Debug, Default)]
pub(super) struct Disk {
    stable: BTreeMap<OsString, u64>,
    changes: Vec<DiskChange>,
    texts: BTreeMap<u64, DiskText>,
}

#[derive(Debug, Default)]
struct DiskText {
    bytes: Vec<u8>,
    /// Text that was flushed last.
    stable: Option<Vec<u8>>,
}

impl DiskText {
    fn lose_power(&mut self, random: &mut Random) {
        let mut part =
            |length: usize| usize::try_from(random.below(length as u64 + 1)).unwrap_or(0);
        match &self.stable {
            Some(stable) => match part(2) {
                0 => self.bytes.clone_from(stable),
                1 => self.bytes.resize(stable.len(), 0),
                _ => {}
            },
            None => match part(3) {
                0 => self.bytes.clear(),
                1 => self.bytes.fill(0),
                2 => self.bytes.truncate(part(self.bytes.len())),
                _ => {}
            },
        }
        self.stable = Some(self.bytes.clone());
    }
}

#[derive(Debug)]
enum DiskChange {
    Created(OsString, u64),
    Renamed(OsString, OsString),
    Removed(OsString),
}

impl DiskChange {
    fn directory(&self) -> Option<&Path> {
        let (Self::Created(name, _) | Self::Renamed(name, _) | Self::Removed(name)) = self;
        Path::new(name).parent()
    }

    fn apply(&self, names: &mut BTreeMap<OsString, u64>) {
        match self {
            Self::Created(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Renamed(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            Self::Removed(name) => {
                names.remove(name);
            }
        }
    }
}

impl Disk {
    /// Puts a file there, flushed.
    pub(super) fn put(&mut self, name: &OsStr, inode: u64, text: &[u8]) {
        self.named(name, inode);
        self.synced_all_names();
        self.set_text(inode, text);
    }

    /// The text of a file is known, and flushed.
    pub(super) fn set_text(&mut self, inode: u64, text: &[u8]) {
        self.texts.insert(inode, DiskText { bytes: text.to_vec(), stable: Some(text.to_vec()) });
    }

    /// The text of a file.
    pub(super) fn text(&self, inode: u64) -> Option<&[u8]> {
        self.texts.get(&inode).map(|text| text.bytes.as_slice())
    }

    /// A name that a file has now.
    pub(super) fn name_of(&self, inode: u64) -> Option<OsString> {
        let mut names = self.stable.clone();
        self.changes.iter().for_each(|change| change.apply(&mut names));
        names.into_iter().find(|(_, of)| *of == inode).map(|(name, _)| name)
    }

    /// Forgets the text of a file, which is not known here from now on.
    pub(super) fn forget_text(&mut self, inode: u64) {
        self.texts.remove(&inode);
    }

    /// A file has a name, which may be a further one.
    pub(super) fn named(&mut self, name: &OsStr, inode: u64) {
        self.changes.push(DiskChange::Created(name.to_owned(), inode));
    }

    pub(super) fn wrote(&mut self, inode: u64, text: &[u8]) {
        self.texts.entry(inode).or_default().bytes = text.to_vec();
    }

    pub(super) fn renamed(&mut self, from: &OsStr, to: &OsStr) {
        self.changes.push(DiskChange::Renamed(from.to_owned(), to.to_owned()));
    }

    pub(super) fn removed(&mut self, name: &OsStr) {
        self.changes.push(DiskChange::Removed(name.to_owned()));
    }

    pub(super) fn synced(&mut self, inode: u64) {
        if let Some(text) = self.texts.get_mut(&inode) {
            text.stable = Some(text.bytes.clone());
        }
    }

    /// A directory is flushed: the outer one has an empty path.
    pub(super) fn synced_names(&mut self, directory: &Path) {
        let is_in = |change: &DiskChange| change.directory() == Some(directory);
        let (flushed, left): (Vec<_>, Vec<_>) = self.changes.drain(..).partition(is_in);
        flushed.iter().for_each(|change| change.apply(&mut self.stable));
        self.changes = left;
    }

    /// Both are flushed.
    pub(super) fn synced_all_names(&mut self) {
        self.changes.drain(..).for_each(|change| change.apply(&mut self.stable));
    }

    /// The file that has a name whatever a loss of power takes.
    pub(super) fn stable_inode(&self, name: &OsStr) -> Option<u64> {
        self.stable.get(name).copied()
    }

    /// The text under a name whatever a loss of power takes.
    pub(super) fn stable_text(&self, name: &OsStr) -> Option<&[u8]> {
        let text = self.texts.get(self.stable.get(name)?)?;
        text.stable.as_deref().filter(|stable| *stable == text.bytes)
    }

    /// Loses unflushed changes, in part. Returns the names that are left.
    pub(super) fn lose_power(&mut self, random: &mut Random) -> &BTreeMap<OsString, u64> {
        let directories: BTreeSet<_> =
            self.changes.iter().filter_map(|one| Some(one.directory()?.to_owned())).collect();
        for directory in directories {
            let is_in = |one: &DiskChange| one.directory() == Some(&directory);
            let count = self.changes.iter().filter(|one| is_in(one)).count() as u64;
            let mut kept = random.below(count + 1);
            self.changes
                .retain(|one| !is_in(one) || kept.checked_sub(1).map(|left| kept = left).is_some());
        }
        self.synced_all_names();
        self.texts.values_mut().for_each(|text| text.lose_power(random));
        &self.stable
    }
}
