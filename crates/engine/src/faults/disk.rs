//! What a loss of power leaves of small files: texts that were flushed, and names whose directory was.
//!
//! Names change in order, as on ext4, XFS and btrfs: a loss of power takes the last changes, however many. A text that
//! was not flushed is there whole, in part, as zeroes, or not at all.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

use crate::random::Random;

/// One folder.
#[derive(Debug, Default)]
pub(super) struct Disk {
    stable: BTreeMap<OsString, u64>,
    changes: Vec<Change>,
    texts: BTreeMap<u64, Text>,
}

#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    is_stable: bool,
}

#[derive(Debug)]
enum Change {
    Created(OsString, u64),
    Renamed(OsString, OsString),
    Removed(OsString),
}

impl Change {
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

fn inode(file: &File) -> u64 {
    file.metadata().map(|facts| facts.ino()).unwrap_or_default()
}

impl Disk {
    /// Adds a file that was there before, flushed.
    pub(super) fn placed(&mut self, name: &OsStr, file: &File, text: &[u8]) {
        self.stable.insert(name.to_owned(), inode(file));
        self.texts.insert(inode(file), Text { bytes: text.to_vec(), is_stable: true });
    }

    /// The text that a new file has now.
    pub(super) fn text(&self, name: &OsStr) -> Option<&[u8]> {
        let mut names = self.stable.clone();
        self.changes.iter().for_each(|change| change.apply(&mut names));
        self.texts.get(names.get(name)?).map(|text| text.bytes.as_slice())
    }

    pub(super) fn created(&mut self, name: &OsStr, file: &File) {
        self.changes.push(Change::Created(name.to_owned(), inode(file)));
        self.texts.insert(inode(file), Text::default());
    }

    pub(super) fn wrote(&mut self, file: &File, text: &[u8]) {
        self.texts.insert(inode(file), Text { bytes: text.to_vec(), is_stable: false });
    }

    pub(super) fn renamed(&mut self, from: &OsStr, to: &OsStr) {
        self.changes.push(Change::Renamed(from.to_owned(), to.to_owned()));
    }

    pub(super) fn removed(&mut self, name: &OsStr) {
        self.changes.push(Change::Removed(name.to_owned()));
    }

    /// A file, or the folder, is flushed.
    pub(super) fn synced(&mut self, file: &File) {
        match self.texts.get_mut(&inode(file)) {
            Some(text) => text.is_stable = true,
            None => {
                self.changes.drain(..).for_each(|change| change.apply(&mut self.stable));
            }
        }
    }

    /// The texts under these names after a loss of power.
    pub(super) fn after_loss(
        &self,
        names: &[OsString],
        random: &mut Random,
    ) -> Vec<Option<Vec<u8>>> {
        let mut found = self.stable.clone();
        let kept = usize::try_from(random.below(self.changes.len() as u64 + 1)).unwrap_or(0);
        self.changes[..kept].iter().for_each(|change| change.apply(&mut found));
        let text = |name| Some(self.texts.get(found.get(name)?)?.after_loss(random));
        names.iter().map(text).collect()
    }
}

impl Text {
    fn after_loss(&self, random: &mut Random) -> Vec<u8> {
        if self.is_stable {
            return self.bytes.clone();
        }
        let part = usize::try_from(random.below(self.bytes.len() as u64 + 1)).unwrap_or(0);
        match random.below(4) {
            0 => Vec::new(),
            1 => vec![0; self.bytes.len()],
            2 => self.bytes[..part].to_vec(),
            _ => self.bytes.clone(),
        }
    }
}
